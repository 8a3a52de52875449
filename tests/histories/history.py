"""One random history of a node: pods come and go, everything fails, and then it is quiet.

At every quiet moment the environment, PodResources, the annotations and the ledger must
tell the same; `checks` says how.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from random import Random

from gpushare_plugin.core.association import Known, PodName
from gpushare_plugin.core.bookkeeping import MARK
from gpushare_plugin.core.card_count import GPU_COUNT
from gpushare_plugin.core.devices import Card, CardTable
from gpushare_plugin.core.dialect import ALIYUN
from gpushare_plugin.core.placement import Policy
from gpushare_plugin.core.pods import Container, ContainerKind, Phase, Pod, counts, requested_units
from tests.core.cards import cards
from tests.histories.api_model import ApiModel, WriteFault
from tests.histories.daemon_model import RESOURCE, Daemon
from tests.histories.kubelet_model import KubeletModel

NAMES = "abcdef"
EXTENDERS = ("ours", "ours", "original", "around")
"""Who places a pod, drawn anew for each."""
FORGETFUL_EXTENDERS = ("original", "original", "around")
"""The same where cards come to be over-committed."""
INDEX = ALIYUN.annotations.card_index or ""
LAGS_SECONDS = (0.0, 0.0, 0.05, 0.3, 3.0)
SPEC_COMES_IN_TIME_SECONDS = 0.45
"""A watch that lags less than this is waited for."""
QUIET_SECONDS = 25.0
"""Longer than any back-off and slow tick of the daemon's."""
SHAPES: tuple[tuple[tuple[ContainerKind, int], ...], ...] = (
    ((ContainerKind.MAIN, 1),),
    ((ContainerKind.MAIN, 2),),
    ((ContainerKind.MAIN, 3),),
    ((ContainerKind.MAIN, 0),),
    ((ContainerKind.MAIN, 1), (ContainerKind.MAIN, 0), (ContainerKind.MAIN, 2)),
    ((ContainerKind.INIT, 3), (ContainerKind.MAIN, 1), (ContainerKind.MAIN, 2)),
    ((ContainerKind.INIT, 1), (ContainerKind.MAIN, 2)),
    ((ContainerKind.INIT, 2), (ContainerKind.MAIN, 0)),
    ((ContainerKind.SIDECAR, 1), (ContainerKind.INIT, 2), (ContainerKind.MAIN, 1)),
)
EVEN_SHAPES: tuple[tuple[tuple[ContainerKind, int], ...], ...] = (
    ((ContainerKind.MAIN, 2),),
    ((ContainerKind.MAIN, 2), (ContainerKind.MAIN, 4)),
)


@dataclass
class History:
    """A node, everybody around it, and what has happened so far."""

    draw: Random
    table: CardTable
    api: ApiModel
    kubelet: KubeletModel
    policy: Policy
    daemon: Daemon | None = None
    steps: list[str] = field(default_factory=list)
    overcommitted: set[str] = field(default_factory=set)
    """UIDs of pods that an event told to be over-committed."""
    chosen: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """By UID: the cards that our extender chose, where they must be the ones that the pod gets."""
    admitted: set[str] = field(default_factory=set)
    """UIDs of pods that came to the daemon in its present life."""
    made: int = 0
    extenders: tuple[str, ...] = EXTENDERS

    @classmethod
    def of_seed(cls, seed: int) -> "History":
        draw = Random(seed)  # noqa: S311  # disorder that repeats, not a secret
        table = CardTable(cards(*draw.choice(((4,), (4, 4), (3, 5), (4, 4, 4)))))
        ids = tuple(each for card in table.cards for each in card.device_ids())
        return cls(
            draw=draw,
            table=table,
            api=ApiModel(draw=draw),
            kubelet=KubeletModel(draw=draw, all_ids=ids, lists_ended_pods=draw.random() < 0.2),
            policy=draw.choice(list(Policy)),
            extenders=FORGETFUL_EXTENDERS if draw.random() < 0.1 else EXTENDERS,
        )

    # --------------------------------------------------------------------------- steps

    async def play(self, check: "Callable[[History], None]") -> None:
        """Play some steps; look whether all is as it should at each quiet moment."""
        await self._start()
        # A card is over-committed only once the node is full.
        most_steps = 9 if self.extenders is EXTENDERS else 25
        for _ in range(self.draw.randint(2, most_steps)):
            await self._step(self.draw.choices(STEPS, WEIGHTS)[0])
            if self.draw.random() < 0.15:
                await self._quiet(check)
        await self._quiet(check)
        await self._stop()

    async def _step(self, step: "Step") -> None:
        self.steps.append(step.__name__)
        await step(self)
        await asyncio.sleep(self.draw.choice((0.0, 0.01, 0.25, 1.0, 4.0)))

    async def _quiet(self, check: "Callable[[History], None]") -> None:
        self.steps.append("quiet")
        self.api.faults.clear()
        self.kubelet.list_failures = 0
        await asyncio.sleep(QUIET_SECONDS)
        check(self)

    async def _start(self) -> None:
        self.admitted.clear()
        self.daemon = Daemon.started(self.table, self.kubelet, self.api, self.policy)
        self.kubelet.daemon = self.daemon
        self.api.watch(self.daemon.told)
        await asyncio.sleep(self.draw.choice((0.0, 1.0)))

    async def _stop(self) -> None:
        assert self.daemon is not None
        self.api.unwatch()
        self._hear()
        await self.daemon.stop()

    async def come(self) -> None:
        """A pod is made, bound, and admitted."""
        name = self.draw.choice(NAMES)
        if not self._is_free(name):
            return
        self.made += 1
        pod = self._placed(self._pod(name))
        if pod is None:
            self.steps[-1] = "unschedulable"
            return
        lag = self.api.lag_seconds
        self.steps[-1] = f"come {pod.uid} {_shape(pod)} {dict(pod.annotations)} lag {lag}"
        self.api.put(pod)
        # The kubelet has a watch of its own, and it may be the slower one.
        await asyncio.sleep(self.draw.choice(self._kubelet_lags(name)))
        assert self.daemon is not None
        self.daemon.callers.clear()
        known = lag < SPEC_COMES_IN_TIME_SECONDS
        told = known and not self.kubelet.list_failures
        room = self._has_room(pod)
        runs = await self.kubelet.admit(pod)
        self.admitted.add(pod.uid)
        if known:
            self._judge_callers(pod)
        self._hear()
        now = self.api.pods[pod.uid]
        if not runs:
            self.steps.append("rejected")
            self.api.put(replace(now, phase=Phase.FAILED))
            assert not (room and told), "rejected though there is room"
            return
        self.api.put(replace(now, phase=Phase.RUNNING))
        if told and pod.uid not in self.overcommitted:
            self._judge_room(pod)
        if room and told:
            self.chosen[pod.uid] = tuple(int(n) for n in pod.annotations[INDEX].split(","))

    async def terminate(self) -> None:
        """A pod is told to end."""
        for pod in self._some_pod():
            self.api.put(replace(pod, terminating=True))

    async def end(self) -> None:
        """A pod ends by itself: the kubelet knows first."""
        for pod in self._some_pod():
            self.kubelet.end(pod.uid)
            self.api.put(replace(pod, phase=Phase.SUCCEEDED))

    async def go(self) -> None:
        """A pod is gone."""
        for pod in self._some_pod():
            self.kubelet.remove(pod.uid)
            self.api.remove(pod.uid)

    async def restart_daemon(self) -> None:
        await self._stop()
        await asyncio.sleep(self.draw.choice((0.0, 1.0)))
        await self._start()

    async def lag(self) -> None:
        self.api.lag_seconds = self.draw.choice(LAGS_SECONDS)
        self.steps[-1] = f"lag {self.api.lag_seconds}"

    async def fail_writes(self) -> None:
        self.api.faults += self.draw.choices(list(WriteFault), k=self.draw.randint(1, 4))

    async def fail_lists(self) -> None:
        self.kubelet.list_failures = self.draw.randint(1, 3)

    async def meddle(self) -> None:
        """Somebody takes the record off a pod."""
        for pod in self._some_pod():
            ours = ("gpushare.io/allocation", "scheduler.framework.gpushare.allocation")
            kept = {key: value for key, value in pod.annotations.items() if key not in ours}
            self.api.put(replace(pod, annotations=kept))

    # ------------------------------------------------------------------- pods and extenders

    def _kubelet_lags(self, name: str) -> tuple[float, ...]:
        """Return how much later than the API server the kubelet may take a pod of the name.

        A daemon that has started since does not know whose the devices of the name before are:
        listed alone for long enough, they are taken for the new pod's.
        """
        before = [each.pod.uid for each in self.kubelet.pods.values() if each.pod.name == name]
        told_apart = all(uid in self.admitted for uid in before)
        return (0.0, 0.02, 1.5) if told_apart else (0.0, 0.02)

    def _is_free(self, name: str) -> bool:
        """Say whether the name is free, or was made so by force."""
        old = self.api.named("default", name)
        if old is None:
            return True
        if self.api.lag_seconds >= SPEC_COMES_IN_TIME_SECONDS or self.draw.random() < 0.7:
            return False
        # The kubelet still ends the old pod while the new one of its name comes.
        self.api.remove(old.uid)
        later_seconds = self.draw.choice((0.01, 1.0, 5.0))
        asyncio.get_running_loop().call_later(later_seconds, self.kubelet.remove, old.uid)
        return True

    def _some_pod(self) -> list[Pod]:
        return self.draw.sample(list(self.api.pods.values()), 1) if self.api.pods else []

    def _pod(self, name: str) -> Pod:
        several = len(self.table.cards) > 1 and self.draw.random() < 0.15
        shape = self.draw.choice(EVEN_SHAPES if several else SHAPES)
        return Pod(
            namespace="default",
            name=name,
            uid=f"{name}{self.made}",
            containers=tuple(
                Container(name=f"c{number}", kind=kind, requests={RESOURCE: units} if units else {})
                for number, (kind, units) in enumerate(shape)
            ),
            node_name="node",
            annotations={GPU_COUNT: "2"} if several else {},
        )

    def _placed(self, pod: Pod) -> Pod | None:
        """Return the pod as an extender of some kind leaves it; None if that finds no place."""
        kind = self.draw.choice(self.extenders)
        if kind == "around" or not requested_units(pod, RESOURCE):
            return pod
        if kind == "original":
            # It forgets what others placed: any card will do, full ones too.
            card = self.draw.choice(self.table.cards)
            return replace(pod, annotations={**pod.annotations, INDEX: str(card.index)})
        count = int(pod.annotations.get(GPU_COUNT, "1"))
        each = requested_units(pod, RESOURCE) // count
        fitting = [card for card in self.table.cards if self._free(card) >= each]
        if len(fitting) < count:
            return None
        found = sorted(card.index for card in self.draw.sample(fitting, count))
        choice = {INDEX: ",".join(map(str, found)), MARK: "1"}
        return replace(pod, annotations={**pod.annotations, **choice})

    def _free(self, card: Card) -> int:
        free = self.kubelet.free()
        by_ids = sum(each in free for each in card.device_ids())
        # An over-committed card has less than the kubelet counts.
        return max(0, by_ids - self.kubelet.used_beyond_ids(card))

    def _has_room(self, pod: Pod) -> bool:
        """Say whether our extender chose the pod's cards, and they have room still."""
        if MARK not in pod.annotations:
            return False
        indices = pod.annotations[INDEX].split(",")
        each = requested_units(pod, RESOURCE) // len(indices)
        return all(self._free(self.table.cards[int(index)]) >= each for index in indices)

    # ------------------------------------------------------------------------- what is heard

    def _judge_callers(self, pod: Pod) -> None:
        assert self.daemon is not None
        wrong = {
            caller.pod
            for caller in self.daemon.callers
            if isinstance(caller, Known)
            and caller.pod != PodName(namespace=pod.namespace, name=pod.name)
        }
        assert not wrong, f"{pod} taken for {wrong}"

    def _judge_room(self, pod: Pod) -> None:
        """No pod comes silently to a card that has no room left for it."""
        if not self.kubelet.pods.keys() <= self.api.pods.keys():
            # Of one that was deleted by force, nobody tells any more on which card it is.
            return
        uuids = self.kubelet.seen_by(pod.uid)
        full = [
            card.index
            for card in self.table.cards
            if card.uuid in uuids and self.kubelet.seen_units(card.uuid) > card.units
        ]
        assert not full, f"{pod} came to cards {full}, which had no room for it"

    def _hear(self) -> None:
        assert self.daemon is not None
        self.overcommitted |= {
            each.subject.uid for each in self.daemon.heard.all if each.reason == "GpuOverCommitted"
        }

    def live(self) -> list[Pod]:
        """The pods that hold devices, as the cluster knows them."""
        return [
            pod
            for uid, pod in self.api.pods.items()
            if counts(pod) and uid in self.kubelet.pods and self.kubelet.pods[uid].devices
        ]


Step = Callable[[History], Awaitable[None]]

STEPS: list[Step] = [
    History.come,
    History.terminate,
    History.end,
    History.go,
    History.restart_daemon,
    History.lag,
    History.fail_writes,
    History.fail_lists,
    History.meddle,
]
WEIGHTS = [8, 0.5, 0.5, 2, 0.7, 0.8, 0.8, 0.4, 0.5]


def _shape(pod: Pod) -> list[str]:
    return [f"{each.kind.value} {each.requests.get(RESOURCE, 0)}" for each in pod.containers]
