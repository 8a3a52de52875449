"""What a simulated API server raises towards the test or demo that drives it.

SimApiServerError
├── UnknownObjectError   no object of that name, or no resource of that name
├── ObjectExistsError    an object of that name is there already
├── WaitExpiredError     what was waited for did not happen in time
└── ControlError         the control socket answered with something else

What a client of the API does wrong is never raised: it is an HTTP status towards
the client, and an entry in the journal of calls.
"""


class SimApiServerError(Exception):
    """Any of the errors above; never raised itself."""


class UnknownObjectError(SimApiServerError):
    """There is no such object, or no such resource."""


class ObjectExistsError(SimApiServerError):
    """An object of that name is there already."""


class WaitExpiredError(SimApiServerError):
    """What was waited for did not happen in time; the text says what happened instead."""


class ControlError(SimApiServerError):
    """The control socket reported an error that has no class here."""
