"""Waiting pods for which room came are touched, seldom enough; in virtual time."""

import asyncio
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import ClassVar

from hypothesis import given
from hypothesis import strategies as st

from gpushare_plugin.core.asks import Ask
from gpushare_plugin.core.dialect import ALIYUN
from gpushare_plugin.core.placement import Policy
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.errors import ApiError, ApiNotFound, ApiUnavailable
from gpushare_plugin.extender.fits import Fits
from gpushare_plugin.extender.nudge import MOST_IN_A_ROUND, NUDGED, Nudging
from gpushare_plugin.extender.waiting import MOST_NAMES, MOST_PODS, WaitingPods
from gpushare_plugin.ports.cluster import Gone, StatusPatch, Upserted
from tests.extender.clusters import Asked, names, node, pod, tell, told, uuid
from tests.histories.virtual_time import run
from tests.node.event_log import EventLog


@dataclass
class Touched:
    """Takes touches."""

    at: list[tuple[float, str]] = field(default_factory=list)
    error: ApiError | None = None

    async def touch_pod(
        self, namespace: str, name: str, patch: StatusPatch, *, timeout_seconds: float
    ) -> Pod:
        assert timeout_seconds > 0
        assert namespace == "default"
        assert patch.annotations == {NUDGED: "now"}
        assert patch.uid == f"uid-{name}"
        self.at.append((asyncio.get_running_loop().time(), name))
        if self.error is not None:
            raise self.error
        return pod(name, 4)

    async def list_namespace_pods(
        self, namespace: str, *, label_selector: str, timeout_seconds: float
    ) -> tuple[Pod, ...]:
        raise NotImplementedError

    @property
    def names(self) -> list[str]:
        return [name for _, name in self.at]


class Scene:
    """Nodes a and b of one card of 8, and who is asked about both."""

    def __init__(self, fits: type[Fits] = Fits) -> None:
        self.cluster = told(
            node("a", 8), node("b", 8), pod("old-a", 8, on="a"), pod("old-b", 8, on="b")
        )
        self.asked = Asked.of(self.cluster)
        self.fits = fits(self.cluster, ALIYUN, Policy.BINPACK)
        self.loop = asyncio.get_running_loop()
        self.waiting = WaitingPods(self.cluster, clock=self.loop.time)
        self.touched = Touched()
        self.active = True
        self.counted: list[str] = []
        self.nudging = Nudging(
            self.waiting,
            self.cluster,
            self.fits,
            self.touched,
            is_active=self._is_active,
            clock=self.loop.time,
            now_text=lambda: "now",
            counted=self.counted.append,
        )
        self.task = asyncio.create_task(self.nudging.run())

    async def _is_active(self) -> bool:
        return self.active

    def filter(self, asking: Pod) -> bool:
        """Ask about both nodes; say whether it fits on any."""
        tell(self.cluster, asking)
        answer = self.asked.filtering.filter(asking, names("a", "b"))
        self.waiting.asked(asking, answer)
        return bool(answer.fitting)

    def end(self, name: str, on: str) -> None:
        """A pod is gone."""
        self.cluster.pod_changed(Gone(pod(name, 8, on=on)))

    def card_health(self, node_name: str, *, healthy: bool) -> None:
        health = {} if healthy else {uuid(node_name, 0): {"state": "unhealthy", "reason": "XID 79"}}
        self.cluster.node_changed(Upserted(node(node_name, 8, health=health)))

    def stop(self) -> None:
        self.task.cancel()


def test_b77_a_pod_that_waits_is_touched_once_a_card_is_healthy_again() -> None:
    """No cluster event tells kube-scheduler of it."""

    async def main() -> None:
        scene = Scene()
        scene.card_health("a", healthy=False)
        scene.end("old-a", "a")
        assert not scene.filter(pod("new", 4))
        await asyncio.sleep(60.0)
        assert not scene.touched.at
        begun = scene.loop.time()
        scene.card_health("a", healthy=True)
        await asyncio.sleep(5.0)
        assert scene.touched.names == ["new"]
        assert scene.touched.at[0][0] - begun <= 1.1
        assert scene.counted == ["touched"]
        scene.stop()

    run(main())


def test_b77_a_pod_that_waits_is_touched_once_another_one_is_gone() -> None:
    async def main() -> None:
        scene = Scene()
        scene.filter(pod("new", 4))
        await asyncio.sleep(30.0)
        scene.end("old-b", "b")
        await asyncio.sleep(5.0)
        assert scene.touched.names == ["new"]
        scene.stop()

    run(main())


def test_b77_a_pod_that_waits_is_touched_once_a_list_of_unhealthy_cards_is_emptied() -> None:
    async def main() -> None:
        scene = Scene()
        scene.cluster.unhealthy_changed("a", frozenset({0}))
        scene.end("old-a", "a")
        scene.filter(pod("new", 4))
        scene.cluster.unhealthy_changed("a", frozenset())
        await asyncio.sleep(5.0)
        assert scene.touched.names == ["new"]
        scene.stop()

    run(main())


def test_who_is_asked_about_again_meanwhile_is_not_touched() -> None:
    async def main() -> None:
        scene = Scene()
        scene.filter(pod("new", 4))
        await asyncio.sleep(30.0)
        scene.end("old-b", "b")
        await asyncio.sleep(0.4)
        assert scene.filter(pod("new", 4))
        await asyncio.sleep(60.0)
        assert not scene.touched.at
        scene.stop()

    run(main())


def test_no_room_for_it_is_no_reason_to_touch_it() -> None:
    async def main() -> None:
        scene = Scene()
        scene.filter(pod("new", 9))
        scene.end("old-b", "b")
        await asyncio.sleep(60.0)
        assert not scene.touched.at
        scene.stop()

    run(main())


def test_room_on_a_node_that_the_scheduler_did_not_ask_about_is_none() -> None:
    async def main() -> None:
        scene = Scene()
        scene.filter(pod("new", 4))
        tell(scene.cluster, node("tainted", 8))
        await asyncio.sleep(60.0)
        assert not scene.touched.at
        scene.stop()

    run(main())


def test_who_is_not_asked_about_after_a_touch_is_touched_ever_more_seldom() -> None:
    async def main() -> None:
        scene = Scene()
        scene.filter(pod("new", 4))
        scene.end("old-b", "b")
        await asyncio.sleep(3600.0)
        times = [at for at, _ in scene.touched.at]
        gaps = [later - earlier for earlier, later in pairwise(times)]
        assert 9.9 < gaps[0] < 12.0
        assert gaps == sorted(gaps)
        assert 290.0 < gaps[-1] < 302.0
        scene.stop()

    run(main())


def test_a_pod_that_is_bound_gone_or_on_its_way_out_is_forgotten() -> None:
    async def main() -> None:
        scene = Scene()
        for name in ("bound", "gone", "going"):
            scene.filter(pod(name, 4))
        tell(scene.cluster, pod("bound", 4, on="elsewhere"))
        scene.cluster.pod_changed(Gone(pod("gone", 4)))
        tell(scene.cluster, pod("going", 4, terminating=True))
        await asyncio.sleep(30.0)
        scene.end("old-b", "b")
        await asyncio.sleep(60.0)
        assert not scene.touched.at
        assert len(scene.waiting) == 0
        scene.stop()

    run(main())


def test_who_does_not_place_pods_touches_none_until_it_does() -> None:
    async def main() -> None:
        scene = Scene()
        scene.active = False
        scene.filter(pod("new", 4))
        scene.end("old-b", "b")
        await asyncio.sleep(60.0)
        assert not scene.touched.at
        scene.active = True
        await asyncio.sleep(10.0)
        assert scene.touched.names == ["new"]
        scene.stop()

    run(main())


def test_with_the_api_server_away_one_touch_is_tried_and_it_is_told_once(log: EventLog) -> None:
    async def main() -> None:
        scene = Scene()
        scene.touched.error = ApiUnavailable("patch pods/status: no answer")
        for name in ("one", "two", "three"):
            scene.filter(pod(name, 4))
        scene.end("old-b", "b")
        await asyncio.sleep(2.5)
        assert scene.touched.names == ["one"]
        await asyncio.sleep(20.0)
        scene.touched.error = ApiNotFound("patch pods/status: there is none")
        await asyncio.sleep(20.0)
        scene.stop()

    run(main())
    assert [line["error"] for line in log.of("nudge_failing")] == [
        "patch pods/status: no answer",
        "patch pods/status: there is none",
    ]


def test_the_more_important_ones_are_touched_first_and_not_too_many_at_once() -> None:
    async def main() -> None:
        scene = Scene()
        for number in range(MOST_IN_A_ROUND + 5):
            scene.filter(pod(f"p{number}", 4, priority=number))
        scene.end("old-b", "b")
        await asyncio.sleep(1.5)
        assert scene.touched.names == [f"p{n}" for n in range(MOST_IN_A_ROUND + 4, 4, -1)]
        await asyncio.sleep(1.5)
        assert len(scene.touched.at) == MOST_IN_A_ROUND + 5
        scene.stop()

    run(main())


class TurnsOfOthers(Fits):
    """Sees how many others had their turn before each pod that waits is looked at."""

    had = 0
    seen: ClassVar[list[int]] = []

    def ask_of(self, pod: Pod) -> Ask:
        asyncio.get_running_loop().call_soon(self._have)
        self.seen.append(self.had)
        return super().ask_of(pod)

    def _have(self) -> None:
        self.had += 1


def test_however_many_wait_others_have_their_turn_after_each() -> None:
    async def main() -> None:
        scene = Scene(TurnsOfOthers)
        for number in range(5):
            scene.filter(pod(f"p{number}", 9))
        scene.card_health("a", healthy=False)
        await asyncio.sleep(5.0)
        assert TurnsOfOthers.seen == [0, 1, 2, 3, 4]
        scene.stop()

    run(main())


def test_what_is_remembered_is_bounded() -> None:
    async def main() -> None:
        scene = Scene()
        for number in range(MOST_PODS + 10):
            scene.filter(pod(f"p{number}", 9))
        assert len(scene.waiting) == MOST_PODS
        scene.stop()

    run(main())


def test_what_is_remembered_of_long_answers_is_bounded_and_one_that_many_had_counts_once() -> None:
    async def main() -> None:
        scene = Scene()
        listed = names(*(f"n{number}" for number in range(MOST_NAMES // 10)))
        for number in range(15):
            wish = pod(f"p{number}", 9 + number)
            scene.waiting.asked(wish, scene.asked.filtering.filter(wish, listed))
        assert [each.pod.name for each in scene.waiting.current()] == [
            f"p{n}" for n in range(5, 15)
        ]
        same = scene.asked.filtering.filter(pod("same", 9), listed)
        for number in range(50):
            scene.waiting.asked(pod(f"same-{number}", 9), same)
        assert len(scene.waiting) == 9 + 50
        scene.stop()

    run(main())


async def history(seed: int) -> None:
    """Room comes and goes, the scheduler asks or not; no pod is touched twice in 10 s."""
    random = Random(seed)  # noqa: S311 - the same history each time
    scene = Scene()
    pods = [pod(f"p{number}", random.randint(1, 9)) for number in range(4)]
    for _ in range(60):
        match random.randrange(4):
            case 0:
                scene.filter(random.choice(pods))
            case 1:
                scene.card_health(random.choice("ab"), healthy=random.random() < 0.5)
            case 2:
                scene.end("old-a", "a")
            case _:
                tell(scene.cluster, pod("old-a", 8, on="a"))
        await asyncio.sleep(random.choice((0.0, 0.1, 1.0, 4.0, 11.0)))
    last: dict[str, float] = {}
    for at, name in scene.touched.at:
        assert at - last.get(name, float("-inf")) >= 10.0
        last[name] = at
    scene.stop()


@given(st.integers(0, 2**32))
def test_no_pod_is_touched_twice_in_ten_seconds(seed: int) -> None:
    run(history(seed))


def test_who_was_asked_about_a_moment_ago_is_left_to_the_scheduler_for_a_second() -> None:
    async def main() -> None:
        scene = Scene()
        scene.filter(pod("new", 4))
        await asyncio.sleep(30.0)
        scene.card_health("a", healthy=False)
        await asyncio.sleep(0.7)
        scene.filter(pod("new", 4))
        asked = scene.loop.time()
        scene.end("old-b", "b")
        await asyncio.sleep(5.0)
        assert [at - asked >= 1.0 for at, _ in scene.touched.at] == [True]
        scene.stop()

    run(main())
