"""What a simulated kubelet raises towards the test or demo that drives it.

SimKubeletError
├── KubeletStoppedError   the kubelet is not running, or stopped during the call
├── UnknownPodError       no pod or container of that name, or one that is there already
├── WaitExpiredError      what was waited for did not happen in time
└── ControlError          the control socket answered with something else

What a plugin does wrong is never raised: it is a pod's reason and message, a
gRPC status towards the plugin, or an entry in the state.
"""


class SimKubeletError(Exception):
    """Any of the errors above; never raised itself."""


class KubeletStoppedError(SimKubeletError):
    """The kubelet is not running, or was stopped while the call was on its way."""


class UnknownPodError(SimKubeletError):
    """There is no such pod or container; or, for admit, there already is."""


class WaitExpiredError(SimKubeletError):
    """What was waited for did not happen in time; the text says what happened instead."""


class ControlError(SimKubeletError):
    """The control socket reported an error that has no class here."""
