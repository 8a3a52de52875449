"""The seam for admission policies: who may turn which object into which.

Rule: a policy sees what a ValidatingAdmissionPolicy sees (the user, the
operation, the object before and after) and only says no, or nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from gpushare_plugin.sim.apiserver.access import User
from gpushare_plugin.sim.apiserver.kinds import Json
from gpushare_plugin.sim.apiserver.refusals import ApiRefusal, forbidden
from gpushare_plugin.sim.apiserver.targets import Target


class Operation(StrEnum):
    """What a write is."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    """Patches too."""
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRequest:
    """One write, before it is done."""

    user: User
    operation: Operation
    target: Target
    before: Json | None
    """None for a create."""
    after: Json | None
    """None for a delete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """Why a policy says no."""

    policy: str
    binding: str
    message: str


class AdmissionPolicy(Protocol):
    """One policy in force."""

    def denial(self, request: AdmissionRequest) -> Denial | None:
        """Return why the write is refused, or None; changes nothing."""
        ...


def check(policies: Sequence[AdmissionPolicy], request: AdmissionRequest) -> None:
    """Raise ApiRefusal for the first policy that denies, as the real server words it."""
    for policy in policies:
        if denial := policy.denial(request):
            text = (
                f"ValidatingAdmissionPolicy '{denial.policy}' with binding '{denial.binding}' "
                f"denied request: {denial.message}"
            )
            name = request.target.name
            refusal = forbidden(request.target.kind, name, text)
            raise ApiRefusal(422, str(refusal), details=refusal.details)
