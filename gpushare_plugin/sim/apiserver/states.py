"""What a simulated API server shows of itself: values for tests, the demo and benchmarks.

Rule: everything here can travel as JSON, so nothing but dataclasses, strings,
numbers, tuples and mappings by string.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpushare_plugin.sim.apiserver.access import Use
from gpushare_plugin.sim.apiserver.faults import Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """One HTTP request, written down when it comes and again when it is answered."""

    number: int
    """Counts from 1."""
    method: str
    path: str
    query: Mapping[str, str]
    content_type: str
    body_bytes: int
    body: str
    """Cut off where the settings say."""
    user_agent: str
    unix_seconds: float
    user: str = ""
    verb: str = ""
    """As RBAC has it: get, list, watch, create, update, patch, delete."""
    resource: str = ""
    """With its subresource, such as `pods/status`."""
    namespace: str = ""
    name: str = ""
    status: int = 0
    """0 while the call is not answered; a watch has its status from the start."""
    seconds: float = 0.0
    ended: bool = False
    """Ended with status 0: the client went away, or the connection was broken."""

    @property
    def json(self) -> Any:
        """The body's JSON."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchState:
    """One open watch."""

    number: int
    """The number of its call."""
    user: str
    resource: str
    namespace: str
    label_selector: str
    field_selector: str
    from_version: int
    position: int
    """The version up to which it has been sent everything."""
    events: int
    """How many were sent, bookmarks among them."""
    silent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServerState:
    """All of it but the objects and the calls, at one moment."""

    version: int
    """Grows with every change of an object, call, watch or fault."""
    address: str
    away: bool
    resource_version: int
    oldest_version: int
    """The oldest version that a watch can start from."""
    counts: Mapping[str, int]
    """How many objects there are of each resource."""
    calls: int
    """How many came in so far."""
    watches: tuple[WatchState, ...]
    """The open ones."""
    faults: Mapping[str, Fault]
    """By number."""
    uses: Mapping[str, tuple[Use, ...]]
    """What each user did and was allowed to."""
