"""Drive a simulated kubelet in another process: the same verbs as `SimKubelet`.

Rule 1: each call has a connection of its own, so calls may run side by side,
and one that is cancelled leaves nothing behind.
Rule 2: what the kubelet raises there is raised here, as the same class.
"""

import asyncio
from pathlib import Path
from typing import Any

from gpushare_plugin.sim.control_socket import ask
from gpushare_plugin.sim.json_values import decode
from gpushare_plugin.sim.kubelet import failures
from gpushare_plugin.sim.kubelet.failures import WaitExpiredError
from gpushare_plugin.sim.kubelet.faults import Faults
from gpushare_plugin.sim.kubelet.pods import ContainerStatus, Phase, PodSpec, PodStatus
from gpushare_plugin.sim.kubelet.states import KubeletState

_CONNECT_RETRY_SECONDS = 0.02


class KubeletControl:
    """A client of one control socket; needs no closing."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def ready(self, *, timeout_seconds: float = 5.0) -> None:
        """Wait until the kubelet's process serves the control socket."""
        try:
            async with asyncio.timeout(timeout_seconds):
                # No event comes from a process that is not up yet.
                while not await self._answers():  # noqa: ASYNC110
                    await asyncio.sleep(_CONNECT_RETRY_SECONDS)
        except TimeoutError:
            text = f"nobody serves the control socket {self._path}"
            raise WaitExpiredError(text) from None

    # -------------------------------------------------------------------- life verbs

    async def start(self, *, wipe_delay_seconds: float = 0.0) -> None:
        """As `SimKubelet.start`."""
        await self._ask("start", wipe_delay_seconds=wipe_delay_seconds)

    async def stop(self) -> None:
        """As `SimKubelet.stop`; the process and its control socket stay."""
        await self._ask("stop")

    async def restart(self, *, gap_seconds: float = 0.0, wipe_delay_seconds: float = 0.0) -> None:
        """As `SimKubelet.restart`."""
        await self._ask("restart", gap_seconds=gap_seconds, wipe_delay_seconds=wipe_delay_seconds)

    async def reboot(self, *, gap_seconds: float = 0.0) -> None:
        """As `SimKubelet.reboot`."""
        await self._ask("reboot", gap_seconds=gap_seconds)

    # --------------------------------------------------------------------- pod verbs

    async def admit(self, pod: PodSpec) -> PodStatus:
        """As `SimKubelet.admit`."""
        return _pod(await self._ask("admit", pod=pod))

    async def delete_pod(self, uid: str) -> None:
        """As `SimKubelet.delete_pod`."""
        await self._ask("delete_pod", uid=uid)

    async def finish_pod(self, uid: str, phase: Phase) -> PodStatus:
        """As `SimKubelet.finish_pod`."""
        return _pod(await self._ask("finish_pod", uid=uid, phase=phase))

    async def restart_container(self, uid: str, container: str) -> ContainerStatus:
        """As `SimKubelet.restart_container`."""
        result = await self._ask("restart_container", uid=uid, container=container)
        status: ContainerStatus = decode(ContainerStatus, result)
        return status

    # ------------------------------------------------------------------- fault verbs

    async def set_faults(self, faults: Faults) -> None:
        """As `SimKubelet.set_faults`."""
        await self._ask("set_faults", faults=faults)

    async def drop_stream(self, resource: str) -> None:
        """As `SimKubelet.drop_stream`."""
        await self._ask("drop_stream", resource=resource)

    # ------------------------------------------------------------------------ looking

    async def state(self) -> KubeletState:
        """As `SimKubelet.state`."""
        return _state(await self._ask("state"))

    async def newer_state(self, than: int, *, timeout_seconds: float = 5.0) -> KubeletState:
        """As `SimKubelet.newer_state`."""
        return _state(await self._ask("newer_state", than=than, timeout_seconds=timeout_seconds))

    async def registered(
        self, resource: str, *, count: int = 1, timeout_seconds: float = 5.0
    ) -> None:
        """As `SimKubelet.registered`."""
        await self._ask(
            "registered", resource=resource, count=count, timeout_seconds=timeout_seconds
        )

    async def allocatable(
        self, resource: str, *, equals: int, timeout_seconds: float = 5.0
    ) -> None:
        """As `SimKubelet.allocatable`."""
        await self._ask(
            "allocatable", resource=resource, equals=equals, timeout_seconds=timeout_seconds
        )

    async def capacity(self, resource: str, *, equals: int, timeout_seconds: float = 5.0) -> None:
        """As `SimKubelet.capacity`."""
        await self._ask(
            "capacity", resource=resource, equals=equals, timeout_seconds=timeout_seconds
        )

    async def pod_in_phase(
        self, uid: str, phase: Phase, *, timeout_seconds: float = 5.0
    ) -> PodStatus:
        """As `SimKubelet.pod_in_phase`."""
        answer = await self._ask(
            "pod_in_phase", uid=uid, phase=phase, timeout_seconds=timeout_seconds
        )
        return _pod(answer)

    # --------------------------------------------------------------------------- wire

    async def _answers(self) -> bool:
        try:
            await self.state()
        except (FileNotFoundError, ConnectionError):
            return False
        return True

    async def _ask(self, verb: str, **parameters: Any) -> Any:
        return await ask(self._path, verb, failures=failures, **parameters)


def _pod(value: Any) -> PodStatus:
    status: PodStatus = decode(PodStatus, value)
    return status


def _state(value: Any) -> KubeletState:
    state: KubeletState = decode(KubeletState, value)
    return state
