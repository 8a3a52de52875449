"""What a simulated scheduler raises towards the test or demo that drives it.

SimSchedulerError
├── ConfigurationError   a configuration or kubeconfig file that the real one would refuse
├── WaitExpiredError     what was waited for did not happen in time
└── ControlError         the control socket answered with something else

What an extender or an API server does wrong is never raised: it is a pod's event and
condition, or an entry in the state.
"""


class SimSchedulerError(Exception):
    """Any of the errors above; never raised itself."""


class ConfigurationError(SimSchedulerError):
    """A file does not say what it must; the text names the file and the field."""


class WaitExpiredError(SimSchedulerError):
    """What was waited for did not happen in time; the text says what happened instead."""


class ControlError(SimSchedulerError):
    """The control socket reported an error that has no class here."""
