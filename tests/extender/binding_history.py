"""One random history of binds: two extenders, a scheduler, and an API server with faults.

At no moment may a card hold more than it has; when it is quiet, the ledger must be the
truth, nothing may be left assumed, and whatever fits must be bound.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from random import Random

from gpushare_plugin.core.dialect import ALIYUN
from gpushare_plugin.core.placement import Policy
from gpushare_plugin.core.pods import Phase, Pod
from gpushare_plugin.extender.binding import BUDGET_SECONDS, BindCall, PodBinding
from gpushare_plugin.extender.cluster import Cluster
from gpushare_plugin.extender.filtering import Filtering
from gpushare_plugin.extender.fits import Fits
from gpushare_plugin.extender.names import NameList
from gpushare_plugin.ports.cluster import Upserted
from tests.extender.binding_api import ApiModel, Connection, Fault, Watcher
from tests.extender.clusters import UNITS, free_units, node, pod

NAMES = "abcde"
CARDS: tuple[dict[str, tuple[int, ...]], ...] = (
    {"n1": (4,)},
    {"n1": (4, 4)},
    {"n1": (4,), "n2": (3, 5)},
    {"n1": (4, 4), "n2": (4, 4)},
    {"n1": (3, 3), "n2": (3,)},
)
LAGS_SECONDS = (0.0, 0.0, 0.05, 1.0, 8.0)
PAUSES_SECONDS = (0.0, 0.0, 0.001, 0.01, 0.3, 3.0, 12.0, 35.0)
QUIET_SECONDS = 150.0
"""Longer than any late request, and the questions about it after that."""
SEVERAL_CARDS = {"gpushare.io/gpu-count": "2"}


class Extender:
    """One process of ours: its ledger, its watch, its connection."""

    def __init__(self, api: ApiModel, policy: Policy) -> None:
        self.cluster = Cluster(ALIYUN)
        self.connection = Connection(api)
        self.watcher = Watcher(api, self.cluster.pod_changed)
        self.names = NameList(tuple(api.cards))
        fits = Fits(self.cluster, ALIYUN, policy)
        self.filtering = Filtering(self.cluster, fits)
        loop = asyncio.get_running_loop()
        self.binding = PodBinding(
            self.cluster,
            fits,
            self.connection,
            ALIYUN,
            clock=loop.time,
            now_ns=lambda: 1,
            counted=lambda _outcome, _seconds: None,
            fence=lambda _seconds: "",
        )
        for name, units in api.cards.items():
            self.cluster.node_changed(Upserted(node(name, *units)))
        api.watchers.append(self.watcher)
        self.watcher.relist()
        self._task = asyncio.create_task(self.binding.run())

    async def die(self, api: ApiModel, binds: list[asyncio.Task[str]]) -> None:
        """End in the middle of whatever is under way."""
        api.watchers.remove(self.watcher)
        self.watcher.breaks()
        flights = [each.task for each in self.binding._flights.values()]
        for task in (self._task, *binds, *flights):
            task.cancel()
        await asyncio.gather(self._task, *binds, *flights, return_exceptions=True)
        self.connection.close()
        assert not self.connection.failures, self.connection.failures[0]


@dataclass
class History:
    """What there is, and what has happened so far."""

    draw: Random
    api: ApiModel
    policy: Policy
    steps: list[str]
    binds: list[asyncio.Task[str]] = field(default_factory=list)
    made: int = 0
    serving: Extender | None = None
    standby: Extender | None = None
    tried: set[str] = field(default_factory=set)
    """UIDs of pods that a bind was asked for: they are tried again the more."""
    unhealthy: dict[str, frozenset[int]] = field(default_factory=dict)

    @classmethod
    def of_seed(cls, seed: int) -> "History":
        draw = Random(seed)  # noqa: S311  # disorder that repeats, not a secret
        api = ApiModel(draw=draw, cards=draw.choice(CARDS))
        return cls(draw=draw, api=api, policy=draw.choice(list(Policy)), steps=api.happened)

    # --------------------------------------------------------------------------- steps

    async def play(self) -> None:
        self.serving = Extender(self.api, self.policy)
        if self.draw.random() < 0.3:
            self.standby = Extender(self.api, self.policy)
        for _ in range(self.draw.randint(6, 16)):
            await self._step(self.draw.choices(STEPS, WEIGHTS)[0])
        await self._quiet()
        for each in (self.serving, self.standby):
            if each is not None:
                await each.die(self.api, [])

    async def _step(self, step: "Step") -> None:
        self.steps.append(step.__name__)
        await step(self)
        await asyncio.sleep(self.draw.choice(PAUSES_SECONDS))

    async def come(self) -> None:
        """A pod is made, of a name that may have been another's."""
        free = [each for each in NAMES if each not in {pod.name for pod in self._all()}]
        if free:
            self.made += 1
            several = self.draw.random() < 0.15
            made = pod(
                self.draw.choice(free),
                self.draw.choice((2, 4) if several else (1, 2, 3)),
                uid=f"u{self.made}",
                annotations=SEVERAL_CARDS if several else {},
            )
            self.api.put(made)

    async def schedule(self) -> None:
        """The scheduler tries a pod: filter, then bind, which it does not wait for."""
        assert self.serving is not None
        waiting = [each for each in self._all() if not each.node_name]
        if self.draw.random() < 0.5:
            waiting = [each for each in waiting if each.uid in self.tried] or waiting
        if not waiting:
            return
        for each in self.draw.choices(waiting, k=self.draw.choice((1, 1, 2, 3))):
            answer = self.serving.filtering.filter(each, self.serving.names)
            if answer.fitting:
                node_name = self.serving.names.names[self.draw.choice(answer.fitting)]
                self.binds.append(asyncio.create_task(self._bind(self.serving, each, node_name)))
                self.tried.add(each.uid)
                self.steps.append(f"bind {each.uid} {node_name}")

    async def terminate(self) -> None:
        for each in self._some():
            self.api.put(replace(each, terminating=True))

    async def end(self) -> None:
        for each in self._some():
            if each.node_name:
                self.api.put(replace(each, phase=Phase.SUCCEEDED))

    async def go(self) -> None:
        for each in self._some():
            self.api.remove(each.uid)

    async def lag(self) -> None:
        for each in self.api.watchers:
            each.lag_seconds = self.draw.choice(LAGS_SECONDS)

    async def break_watch(self) -> None:
        """A watch breaks, and is begun again with a list."""
        for each in self.api.watchers:
            each.breaks()
            await asyncio.sleep(self.draw.choice((0.0, 0.5, 10.0)))
            each.relist()

    async def fail(self) -> None:
        faults = [*Fault, Fault.LATE, Fault.BROKEN_LATE, Fault.BROKEN_LATE]
        self.api.faults += self.draw.choices(faults, k=self.draw.randint(1, 3))
        self.api.blind_gets = self.draw.choice((0, 0, 1, 3))

    async def sicken(self) -> None:
        """A card of a node becomes unhealthy, or all of them are well again."""
        name = self.draw.choice(list(self.api.cards))
        sick = self.draw.choice((frozenset(), frozenset({0}), frozenset({1})))
        self.unhealthy[name] = sick
        self._tell_health()

    async def restart(self) -> None:
        assert self.serving is not None
        await self.serving.die(self.api, self.binds)
        self.binds.clear()
        await asyncio.sleep(self.draw.choice((0.0, 1.0)))
        self.serving = Extender(self.api, self.policy)
        self._tell_health()

    async def hand_over(self) -> None:
        """The standby takes over from one that died: it lists anew before it serves."""
        if self.standby is not None and self.serving is not None:
            await self.serving.die(self.api, self.binds)
            self.binds.clear()
            self.standby.watcher.relist()
            self.serving, self.standby = self.standby, Extender(self.api, self.policy)
            self._tell_health()

    # ------------------------------------------------------------------------ what is so

    def _tell_health(self) -> None:
        for extender in filter(None, (self.serving, self.standby)):
            for name, sick in self.unhealthy.items():
                extender.cluster.unhealthy_changed(name, sick)

    async def _bind(self, extender: Extender, bound: Pod, node_name: str) -> str:
        begun_seconds = asyncio.get_running_loop().time()
        call = BindCall(
            namespace=bound.namespace, name=bound.name, uid=bound.uid, node_name=node_name
        )
        text = await extender.binding.bind(call)
        took_seconds = asyncio.get_running_loop().time() - begun_seconds
        assert took_seconds <= BUDGET_SECONDS + 0.01, f"a bind took {took_seconds} s"
        if not text:
            now = self.api.pods.get(bound.uid)
            assert now is None or now.node_name == node_name, f"{bound.uid} is not on {node_name}"
        return text

    async def _quiet(self) -> None:
        self.steps.append("quiet")
        self.api.faults.clear()
        self.api.blind_gets = 0
        self.unhealthy = dict.fromkeys(self.api.cards, frozenset())
        self._tell_health()
        for each in self.api.watchers:
            each.lag_seconds = 0.0
        await asyncio.sleep(QUIET_SECONDS)
        for task in self.binds:
            await task
        self._check()
        await self._bind_all()
        self._check()

    def _check(self) -> None:
        for extender in filter(None, (self.serving, self.standby)):
            assert not extender.connection.failures, extender.connection.failures[0]
            left = list(extender.cluster.assumptions)
            assert not left, f"left assumed: {left}"
            for node_name, units in self.api.cards.items():
                used = self.api.used(node_name)
                truth = tuple(each - held for each, held in zip(units, used, strict=True))
                found = free_units(extender.cluster, node_name)
                assert found == truth, f"{node_name}: the ledger says {found}, free is {truth}"

    async def _bind_all(self) -> None:
        """Whatever the truth has room for can be bound at once."""
        assert self.serving is not None
        for each in self._all():
            if each.node_name or each.terminating:
                continue
            several = each.annotations == SEVERAL_CARDS
            count = 2 if several else 1
            units = each.containers[0].requests[UNITS] // count
            fitting = [
                name
                for name, sizes in self.api.cards.items()
                if sum(
                    size - held >= units
                    for size, held in zip(sizes, self.api.used(name), strict=True)
                )
                >= count
            ]
            answer = self.serving.filtering.filter(each, self.serving.names)
            found = [self.serving.names.names[place] for place in answer.fitting]
            assert found == fitting, f"{each.uid} fits on {fitting}, filter says {answer}"
            if fitting:
                text = await self._bind(self.serving, each, fitting[0])
                assert not text, f"{each.uid} is not bound: {text}"
                await asyncio.sleep(0.1)

    def _all(self) -> list[Pod]:
        return list(self.api.pods.values())

    def _some(self) -> list[Pod]:
        return self.draw.sample(self._all(), 1) if self.api.pods else []


Step = Callable[[History], Awaitable[None]]

STEPS: list[Step] = [
    History.come,
    History.schedule,
    History.terminate,
    History.end,
    History.go,
    History.lag,
    History.break_watch,
    History.fail,
    History.sicken,
    History.restart,
    History.hand_over,
]
WEIGHTS = [8, 12, 0.6, 0.6, 1.2, 1, 0.6, 4, 1.5, 0.6, 0.6]
