"""Drive a simulated API server in another process: the same verbs as `SimApiServer`.

Rule 1: each call has a connection of its own, so calls may run side by side,
and one that is cancelled leaves nothing behind.
Rule 2: what is raised there is raised here, as the same class.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpushare_plugin.sim.apiserver import failures
from gpushare_plugin.sim.apiserver.access import Access
from gpushare_plugin.sim.apiserver.failures import WaitExpiredError
from gpushare_plugin.sim.apiserver.faults import Fault
from gpushare_plugin.sim.apiserver.kinds import Json
from gpushare_plugin.sim.apiserver.states import ApiServerState, CallRecord
from gpushare_plugin.sim.control_socket import ask
from gpushare_plugin.sim.json_values import decode

_CONNECT_RETRY_SECONDS = 0.02


class ApiServerControl:
    """A client of one control socket; needs no closing."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def ready(self, *, timeout_seconds: float = 5.0) -> ApiServerState:
        """Wait until the server's process serves the control socket; its address is in the state.

        Raises WaitExpiredError if it does not in time.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                # No event comes from a process that is not up yet.
                while True:
                    with suppress(FileNotFoundError, ConnectionError):
                        return await self.state()
                    await asyncio.sleep(_CONNECT_RETRY_SECONDS)
        except TimeoutError:
            text = f"nobody serves the control socket {self._path}"
            raise WaitExpiredError(text) from None

    # -------------------------------------------------------------------- life verbs

    async def go_away(self) -> None:
        """As `SimApiServer.go_away`; the process and its control socket stay."""
        await self._ask("go_away")

    async def come_back(self) -> None:
        """As `SimApiServer.come_back`."""
        await self._ask("come_back")

    async def compact(self) -> None:
        """As `SimApiServer.compact`."""
        await self._ask("compact")

    # ------------------------------------------------------------------ object verbs

    async def create(self, resource: str, value: Mapping[str, Any]) -> Json:
        """As `SimApiServer.create`."""
        return _json(await self._ask("create", resource=resource, value=value))

    async def create_many(
        self, resource: str, template: Mapping[str, Any], count: int, *, first: int = 0
    ) -> None:
        """As `SimApiServer.create_many`."""
        await self._ask(
            "create_many", resource=resource, template=template, count=count, first=first
        )

    async def replace(self, resource: str, value: Mapping[str, Any]) -> Json:
        """As `SimApiServer.replace`."""
        return _json(await self._ask("replace", resource=resource, value=value))

    async def patch(
        self, resource: str, name: str, change: Mapping[str, Any], *, namespace: str = ""
    ) -> Json:
        """As `SimApiServer.patch`."""
        answer = await self._ask(
            "patch", resource=resource, name=name, change=change, namespace=namespace
        )
        return _json(answer)

    async def delete(self, resource: str, name: str, *, namespace: str = "") -> None:
        """As `SimApiServer.delete`."""
        await self._ask("delete", resource=resource, name=name, namespace=namespace)

    async def set_pod_phase(self, name: str, phase: str, *, namespace: str = "") -> Json:
        """As `SimApiServer.set_pod_phase`."""
        return _json(await self._ask("set_pod_phase", name=name, phase=phase, namespace=namespace))

    async def terminate_pod(
        self, name: str, *, grace_seconds: int = 30, namespace: str = ""
    ) -> Json:
        """As `SimApiServer.terminate_pod`."""
        answer = await self._ask(
            "terminate_pod", name=name, grace_seconds=grace_seconds, namespace=namespace
        )
        return _json(answer)

    async def finish_termination(self, name: str, *, namespace: str = "") -> None:
        """As `SimApiServer.finish_termination`."""
        await self._ask("finish_termination", name=name, namespace=namespace)

    # --------------------------------------------------------- fault and access verbs

    async def inject(self, fault: Fault) -> int:
        """As `SimApiServer.inject`."""
        return int(await self._ask("inject", fault=fault))

    async def lift(self, fault: int) -> None:
        """As `SimApiServer.lift`."""
        await self._ask("lift", fault=fault)

    async def lift_all(self) -> None:
        """As `SimApiServer.lift_all`."""
        await self._ask("lift_all")

    async def silence_watches(self, resource: str = "") -> int:
        """As `SimApiServer.silence_watches`."""
        return int(await self._ask("silence_watches", resource=resource))

    async def cut_watches(self, resource: str = "", *, cleanly: bool = False) -> int:
        """As `SimApiServer.cut_watches`."""
        return int(await self._ask("cut_watches", resource=resource, cleanly=cleanly))

    async def set_access(self, access: Access | None) -> None:
        """As `SimApiServer.set_access`."""
        await self._ask("set_access", access=access)

    # ------------------------------------------------------------------------ looking

    async def get(self, resource: str, name: str, *, namespace: str = "") -> Json:
        """As `SimApiServer.get`."""
        return _json(await self._ask("get", resource=resource, name=name, namespace=namespace))

    async def objects(self, resource: str, *, namespace: str = "") -> tuple[Json, ...]:
        """As `SimApiServer.objects`."""
        return tuple(await self._ask("objects", resource=resource, namespace=namespace))

    async def calls(self, *, after: int = 0) -> tuple[CallRecord, ...]:
        """As `SimApiServer.calls`."""
        return _records(await self._ask("calls", after=after))

    async def state(self) -> ApiServerState:
        """As `SimApiServer.state`."""
        return _state(await self._ask("state"))

    async def kubeconfig(self, *, token: str = "") -> str:
        """As `SimApiServer.kubeconfig`."""
        return str(await self._ask("kubeconfig", token=token))

    async def newer_state(self, than: int, *, timeout_seconds: float = 5.0) -> ApiServerState:
        """As `SimApiServer.newer_state`."""
        return _state(await self._ask("newer_state", than=than, timeout_seconds=timeout_seconds))

    async def gone(
        self, resource: str, name: str, *, namespace: str = "", timeout_seconds: float = 5.0
    ) -> None:
        """As `SimApiServer.gone`."""
        await self._ask(
            "gone",
            resource=resource,
            name=name,
            namespace=namespace,
            timeout_seconds=timeout_seconds,
        )

    async def watched(
        self, resource: str, *, count: int = 1, timeout_seconds: float = 5.0
    ) -> ApiServerState:
        """As `SimApiServer.watched`."""
        answer = await self._ask(
            "watched", resource=resource, count=count, timeout_seconds=timeout_seconds
        )
        return _state(answer)

    async def called(
        self,
        what: str,
        *,
        after: int = 0,
        count: int = 1,
        timeout_seconds: float = 5.0,
    ) -> tuple[CallRecord, ...]:
        """As `SimApiServer.called`."""
        limits = {"after": after, "count": count, "timeout_seconds": timeout_seconds}
        return _records(await self._ask("called", what=what, **limits))

    # --------------------------------------------------------------------------- wire

    async def _ask(self, verb: str, **parameters: Any) -> Any:
        return await ask(self._path, verb, failures=failures, **parameters)


def _json(value: Any) -> Json:
    answer: Json = value
    return answer


def _records(value: Any) -> tuple[CallRecord, ...]:
    records: tuple[CallRecord, ...] = decode(tuple[CallRecord, ...], value)
    return records


def _state(value: Any) -> ApiServerState:
    state: ApiServerState = decode(ApiServerState, value)
    return state
