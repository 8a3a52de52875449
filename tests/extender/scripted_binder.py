"""The API server as one bind sees it, told beforehand what to answer."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from gpushare_plugin.core.dialect import ALIYUN
from gpushare_plugin.core.placement import Policy
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.errors import ApiError, ApiUnavailable
from gpushare_plugin.extender.binding import BindCall, PodBinding
from gpushare_plugin.extender.cluster import Cluster
from gpushare_plugin.extender.fits import Fits
from gpushare_plugin.extender.verdicts import BindOutcome
from gpushare_plugin.ports.scheduling import Binding

Answer = ApiError | None
HANG = ApiUnavailable("no answer within the time")
AWAY = ApiUnavailable("the API server cannot now (503)")


@dataclass
class ScriptedBinder:
    """Answers with what was put in, in that order; without more, a Binding is carried out."""

    answers: deque[Answer] = field(default_factory=deque)
    """To Bindings; None carries it out."""
    pods: deque[Pod | ApiError] = field(default_factory=deque)
    """To reads; the last one is said again and again."""
    sent: list[Binding] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
    read_seconds: float = 0.001
    meanwhile: Callable[[], Awaitable[None]] | None = None
    """Happens while a Binding is under way."""

    async def bind(self, binding: Binding, *, timeout_seconds: float) -> None:
        self.sent.append(binding)
        await asyncio.sleep(0.001)
        if self.meanwhile is not None:
            await self.meanwhile()
        answer = self.answers.popleft() if self.answers else None
        if answer is HANG:
            await asyncio.sleep(timeout_seconds)
        if answer is not None:
            raise answer

    async def get_pod(self, namespace: str, name: str, *, timeout_seconds: float) -> Pod:
        self.read.append(f"{namespace}/{name}")
        await asyncio.sleep(self.read_seconds)
        found = self.pods[0] if len(self.pods) == 1 else self.pods.popleft()
        if found is HANG:
            await asyncio.sleep(timeout_seconds)
        if isinstance(found, ApiError):
            raise found
        return found


@dataclass
class Binds:
    """An extender's bind over such an API server."""

    cluster: Cluster
    binder: ScriptedBinder
    binding: PodBinding
    outcomes: list[BindOutcome]
    fits: Fits
    closed: list[str]
    """What the fence says: empty while it is open."""

    @classmethod
    def over(
        cls, cluster: Cluster, *answers: Answer, pods: tuple[Pod | ApiError, ...] = ()
    ) -> "Binds":
        binder = ScriptedBinder(deque(answers), deque(pods))
        outcomes: list[BindOutcome] = []
        closed: list[str] = []
        fits = Fits(cluster, ALIYUN, Policy.BINPACK)
        binding = PodBinding(
            cluster,
            fits,
            binder,
            ALIYUN,
            clock=asyncio.get_running_loop().time,
            now_ns=lambda: 1_700_000_000_000_000_001,
            counted=lambda outcome, _seconds: outcomes.append(outcome),
            fence=lambda _seconds: "".join(closed),
        )
        return cls(cluster, binder, binding, outcomes, fits, closed)

    async def bind(self, pod: Pod, node_name: str) -> str:
        return await self.binding.bind(call(pod, node_name))


def call(pod: Pod, node_name: str) -> BindCall:
    return BindCall(namespace=pod.namespace, name=pod.name, uid=pod.uid, node_name=node_name)
