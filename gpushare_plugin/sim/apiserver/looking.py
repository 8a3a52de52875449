"""Looking at a simulated API server, and waiting for what is to be seen.

Rule: what is returned is the caller's to keep; waiting never polls.
"""

import json
from collections.abc import Callable

from gpushare_plugin.sim.apiserver.failures import UnknownObjectError
from gpushare_plugin.sim.apiserver.interior import Interior
from gpushare_plugin.sim.apiserver.kinds import Json
from gpushare_plugin.sim.apiserver.listener import Listener
from gpushare_plugin.sim.apiserver.settings import ApiServerSettings
from gpushare_plugin.sim.apiserver.states import ApiServerState, CallRecord


class Looking:
    """The half of a server's verbs that change nothing."""

    def __init__(self, interior: Interior, listener: Listener) -> None:
        self._interior = interior
        self._listener = listener

    @property
    def settings(self) -> ApiServerSettings:
        """What it was made with."""
        return self._interior.settings

    @property
    def address(self) -> str:
        """The URL that clients begin with, such as http://127.0.0.1:40123."""
        return self._listener.address

    def get(self, resource: str, name: str, *, namespace: str = "") -> Json:
        """Return an object; raises UnknownObjectError."""
        return self._interior.objects.get(resource, name, namespace=namespace)

    def objects(self, resource: str, *, namespace: str = "") -> tuple[Json, ...]:
        """Return every object of a resource, or of one of its namespaces, sorted by name."""
        return self._interior.objects.all(resource, namespace=namespace)

    def calls(self, *, after: int = 0) -> tuple[CallRecord, ...]:
        """Return the calls with a number above `after`, oldest first."""
        return self._interior.journal.calls(after=after)

    def state(self) -> ApiServerState:
        """Return everything else there is to see, at this moment."""
        interior = self._interior
        return ApiServerState(
            version=interior.journal.version,
            address=self.address,
            away=not self._listener.is_open,
            resource_version=interior.store.version,
            oldest_version=interior.store.oldest,
            counts=interior.objects.counts(),
            calls=interior.journal.last_number,
            watches=tuple(watch.state() for watch in interior.watches.open),
            faults={str(number): fault for number, fault in interior.faults.current.items()},
            uses=interior.gate.uses,
        )

    def kubeconfig(self, *, token: str = "") -> str:
        """Return the text of a kubeconfig file for a client with that token."""
        cluster: Json = {"server": self.address}
        if self.settings.tls_certificate is not None:
            cluster["certificate-authority"] = str(self.settings.tls_certificate)
        context = {"cluster": "simulated", "user": "client", "namespace": "default"}
        value: Json = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "simulated", "cluster": cluster}],
            "users": [{"name": "client", "user": {"token": token} if token else {}}],
            "contexts": [{"name": "simulated", "context": context}],
            "current-context": "simulated",
        }
        # JSON is YAML.
        return json.dumps(value, indent=2)

    # ------------------------------------------------------------------------- waiting

    async def newer_state(self, than: int, *, timeout_seconds: float = 5.0) -> ApiServerState:
        """Return the state once its version is above `than`."""
        journal = self._interior.journal
        await self.until(
            lambda: journal.version > than,
            failure=lambda: f"nothing changed since version {than}",
            timeout_seconds=timeout_seconds,
        )
        return self.state()

    async def until(
        self,
        holds: Callable[[], bool],
        *,
        failure: Callable[[], str],
        timeout_seconds: float = 5.0,
    ) -> None:
        """Wait until `holds` does, asked again after every change; in process only."""
        await self._interior.journal.until(holds, failure=failure, timeout_seconds=timeout_seconds)

    async def until_object(
        self,
        resource: str,
        name: str,
        holds: Callable[[Json], bool],
        *,
        namespace: str = "",
        timeout_seconds: float = 5.0,
    ) -> Json:
        """Wait until an object is there and `holds` of it; return it. In process only."""
        await self.until(
            lambda: (found := self._find(resource, name, namespace)) is not None and holds(found),
            failure=lambda: (
                f"{resource} {name} never was as wanted: {self._find(resource, name, namespace)}"
            ),
            timeout_seconds=timeout_seconds,
        )
        return self.get(resource, name, namespace=namespace)

    async def gone(
        self, resource: str, name: str, *, namespace: str = "", timeout_seconds: float = 5.0
    ) -> None:
        """Wait until there is no such object."""
        await self.until(
            lambda: self._find(resource, name, namespace) is None,
            failure=lambda: f"{resource} {name} is still there",
            timeout_seconds=timeout_seconds,
        )

    async def watched(
        self, resource: str, *, count: int = 1, timeout_seconds: float = 5.0
    ) -> ApiServerState:
        """Wait until so many watches of a resource are open."""
        watches = self._interior.watches
        await self.until(
            lambda: sum(w.kind.resource == resource for w in watches.open) >= count,
            failure=lambda: f"no {count} watches of {resource}: {self.state().watches}",
            timeout_seconds=timeout_seconds,
        )
        return self.state()

    async def called(
        self,
        what: str,
        *,
        after: int = 0,
        count: int = 1,
        timeout_seconds: float = 5.0,
    ) -> tuple[CallRecord, ...]:
        """Wait until so many calls of that verb and resource were answered; return them.

        Args:
            what: such as `list pods` or `patch nodes/status`.
            after: the calls numbered above this.
            count: how many at least.
            timeout_seconds: then WaitExpiredError is raised.
        """

        def found() -> tuple[CallRecord, ...]:
            return tuple(
                call
                for call in self.calls(after=after)
                if f"{call.verb} {call.resource}" == what and (call.ended or call.status)
            )

        await self.until(
            lambda: len(found()) >= count,
            failure=lambda: f"{what} was answered {len(found())} times, not {count}",
            timeout_seconds=timeout_seconds,
        )
        return found()

    def _find(self, resource: str, name: str, namespace: str) -> Json | None:
        try:
            return self.get(resource, name, namespace=namespace)
        except UnknownObjectError:
            return None
