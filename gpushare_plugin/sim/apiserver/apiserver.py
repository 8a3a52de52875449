"""The simulated API server that tests, the demo and benchmarks drive.

Rule 1: everything that can be done to it from outside is one method here, and
the same verb on the control socket. Acting is awaited, looking is not.
Rule 2: what is done here is done by the cluster, not by a client: no rule of
access, no policy and no fault stands in its way, and no call is written down.
Rule 3: a resource is named by its plural, such as `pods`; the namespace of a
namespaced object is `default` where none is given.
"""

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from gpushare_plugin.sim.apiserver.access import Access
from gpushare_plugin.sim.apiserver.admission import AdmissionPolicy
from gpushare_plugin.sim.apiserver.door import Door
from gpushare_plugin.sim.apiserver.faults import Fault
from gpushare_plugin.sim.apiserver.interior import Interior
from gpushare_plugin.sim.apiserver.kinds import Json
from gpushare_plugin.sim.apiserver.listener import Listener
from gpushare_plugin.sim.apiserver.looking import Looking
from gpushare_plugin.sim.apiserver.settings import ApiServerSettings


class SimApiServer(Looking):
    """An API server as its clients meet it."""

    def __init__(self, settings: ApiServerSettings | None = None) -> None:
        interior = Interior.of(settings or ApiServerSettings())
        super().__init__(interior, Listener(Door(interior).handle, interior.settings))
        self._switching = asyncio.Lock()

    async def __aenter__(self) -> Self:
        await self.come_back()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.go_away()
        await self._interior.late_calls.end()
        self._interior.graces.end()
        self._listener.give_up()

    # -------------------------------------------------------------------- life verbs

    async def go_away(self) -> None:
        """Close the port and break every connection; objects, faults and journal stay."""
        async with self._switching:
            await self._listener.close()
            self._interior.journal.changed()

    async def come_back(self) -> None:
        """Listen again, on the same port."""
        async with self._switching:
            await self._listener.open()
            self._interior.journal.changed()

    async def compact(self) -> None:
        """Forget the history: watches and pages of earlier versions are answered with 410."""
        self._interior.store.compact()
        self._interior.journal.changed()

    # ------------------------------------------------------------------ object verbs

    async def create(self, resource: str, value: Mapping[str, Any]) -> Json:
        """Create an object, its status included, and its namespace if that is missing."""
        return self._interior.objects.create(resource, value)

    async def create_many(
        self, resource: str, template: Mapping[str, Any], count: int, *, first: int = 0
    ) -> None:
        """Create so many objects; `{n}` anywhere in the template is the object's number."""
        self._interior.objects.create_many(resource, template, count=count, first=first)

    async def replace(self, resource: str, value: Mapping[str, Any]) -> Json:
        """Put this in the place of the object of that name, status and all, of any version."""
        return self._interior.objects.replace(resource, value)

    async def patch(
        self, resource: str, name: str, change: Mapping[str, Any], *, namespace: str = ""
    ) -> Json:
        """Apply a merge patch to all of the object, status and all."""
        return self._interior.objects.patch(resource, name, change, namespace=namespace)

    async def delete(self, resource: str, name: str, *, namespace: str = "") -> None:
        """Remove an object at once, without any grace."""
        self._interior.objects.delete(resource, name, namespace=namespace)

    async def set_pod_phase(self, name: str, phase: str, *, namespace: str = "") -> Json:
        """Set a pod's phase."""
        change = {"status": {"phase": phase}}
        return self._interior.objects.patch("pods", name, change, namespace=namespace)

    async def terminate_pod(
        self, name: str, *, grace_seconds: int = 30, namespace: str = ""
    ) -> Json:
        """Tell a pod to end, as a delete with that grace does."""
        return self._interior.objects.terminate("pods", name, grace_seconds, namespace=namespace)

    async def finish_termination(self, name: str, *, namespace: str = "") -> None:
        """Let a terminating pod be gone, as its kubelet does when its containers have ended."""
        self._interior.objects.finish_termination("pods", name, namespace=namespace)

    # ------------------------------------------------------------------- fault verbs

    async def inject(self, fault: Fault) -> int:
        """Put a fault in force; return the number to lift it by."""
        number = self._interior.faults.inject(fault)
        self._interior.journal.changed()
        return number

    async def lift(self, fault: int) -> None:
        """End one fault; watches that are silent stay so."""
        self._interior.faults.lift(fault)
        self._interior.journal.changed()

    async def lift_all(self) -> None:
        """End all faults."""
        self._interior.faults.lift_all()
        self._interior.journal.changed()

    async def silence_watches(self, resource: str = "") -> int:
        """Make the open watches half-open: they say nothing any more, nor end; return how many."""
        chosen = [w for w in self._interior.watches.open if resource in {"", w.kind.resource}]
        for watch in chosen:
            watch.silent = True
            watch.wake.set()
        self._interior.journal.changed()
        return len(chosen)

    async def cut_watches(self, resource: str = "", *, cleanly: bool = False) -> int:
        """End the open watches, with or without a goodbye; return how many."""
        chosen = [w for w in self._interior.watches.open if resource in {"", w.kind.resource}]
        for watch in chosen:
            if cleanly:
                watch.over = True
                watch.wake.set()
            else:
                watch.cut()
        return len(chosen)

    # ------------------------------------------------------------------ access verbs

    async def set_access(self, access: Access | None) -> None:
        """Replace tokens and rules; None lets everyone do everything."""
        self._interior.gate.set(access)
        self._interior.journal.changed()

    def set_policies(self, policies: Sequence[AdmissionPolicy]) -> None:
        """Replace the admission policies; in process only."""
        self._interior.writing.policies = tuple(policies)
