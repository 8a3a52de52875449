"""Events on pods that fit nowhere: one each, in a sentence, not too often; in virtual time."""

import asyncio
from dataclasses import dataclass, field

from gpushare_plugin.core.pods import Pod
from gpushare_plugin.errors import ApiRefused
from gpushare_plugin.extender.cluster import Cluster
from gpushare_plugin.extender.unplaced import Unplaced
from gpushare_plugin.extender.waiting import WaitingPods
from gpushare_plugin.ports.cluster import Occurrence
from tests.extender.clusters import Asked, names, node, pod, tell, told
from tests.histories.virtual_time import run
from tests.node.event_log import EventLog


@dataclass
class Events:
    """Takes events."""

    written: list[Occurrence] = field(default_factory=list)
    refused: bool = False

    async def record(self, occurrence: Occurrence) -> None:
        if self.refused:
            raise ApiRefused("create events: forbidden")
        self.written.append(occurrence)

    @property
    def texts(self) -> list[str]:
        return [each.message for each in self.written]


class Scene:
    """A cluster, and who is asked about all of its nodes."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.asked = Asked.of(cluster)
        loop = asyncio.get_running_loop()
        self.waiting = WaitingPods(cluster, clock=loop.time)
        self.events = Events()
        self.unplaced = Unplaced(
            self.waiting, cluster, self.asked.fits, self.events, clock=loop.time
        )
        self.task = asyncio.create_task(self.unplaced.run())

    async def filter(self, asking: Pod) -> None:
        tell(self.cluster, asking)
        asked = names(*self.cluster.node_names)
        self.waiting.asked(asking, self.asked.filtering.filter(asking, asked))
        await asyncio.sleep(2.0)


def three_nodes() -> Cluster:
    return told(
        node("gpu-a", 15, 15),
        node("gpu-b", 15),
        node("gpu-c", 15, ready=False),
        node("cpu"),
        pod("one", 12, on="gpu-a", card="0"),
        pod("two", 11, on="gpu-a", card="1"),
        pod("three", 10, on="gpu-b"),
    )


def told_of(asking: Pod, cluster: Cluster) -> list[str]:
    """What is told of a pod that was refused once."""

    async def main() -> list[str]:
        scene = Scene(cluster)
        await scene.filter(asking)
        scene.task.cancel()
        return scene.events.texts

    return run(main())


def test_the_sentence_says_what_one_card_has_and_what_is_free_in_all() -> None:
    [text] = told_of(pod("big", 8), three_nodes())

    assert text == (
        "8 GiB fit no card: largest free card has 5 (gpu-b); 12 GiB free in all on 2 nodes;"
        " 1 node left out: it is not ready: what its cards hold is not known"
    )


def test_a_pod_that_asks_for_more_than_an_amount_is_told_of_the_nearest_node() -> None:
    asking = pod("two-cards", 8, annotations={"gpushare.io/gpu-count": "2"})

    [text] = told_of(asking, told(node("gpu-a", 15, 15), pod("one", 12, on="gpu-a", card="0")))

    assert text.startswith("4 GiB on each of 2 cards fit no node: gpu-a: 1 of 2 cards asked have")
    assert text.endswith("; 18 GiB free in all on 1 node")


def test_a_pod_that_asks_for_what_no_node_could_give_is_told_which_annotation() -> None:
    [text] = told_of(pod("odd", 8, annotations={"gpushare.io/policy": "best"}), three_nodes())

    assert "annotation gpushare.io/policy: found 'best'" in text.replace('"', "'")


def test_where_no_node_shares_a_card_that_is_said() -> None:
    assert told_of(pod("big", 8), told(node("cpu"))) == [
        "8 units fit no card: no node that kube-scheduler asked about shares a card now"
    ]


def test_the_event_is_a_warning_on_the_pod_itself() -> None:
    async def main() -> None:
        scene = Scene(three_nodes())
        await scene.filter(pod("big", 8))
        [event] = scene.events.written
        subject = event.subject
        assert (event.reason, event.warning) == ("GpuNotPlaced", True)
        assert (subject.kind, subject.namespace, subject.name, subject.uid) == (
            "Pod",
            "default",
            "big",
            "uid-big",
        )
        scene.task.cancel()

    run(main())


def test_it_is_told_again_only_with_another_text_and_at_most_once_a_minute() -> None:
    async def main() -> None:
        scene = Scene(three_nodes())
        for _ in range(20):
            await scene.filter(pod("big", 8))
        assert len(scene.events.written) == 1
        tell(scene.cluster, pod("four", 1, on="gpu-b"))
        await scene.filter(pod("big", 8))
        assert len(scene.events.written) == 1
        await asyncio.sleep(60.0)
        await scene.filter(pod("big", 8))
        await asyncio.sleep(120.0)
        await scene.filter(pod("big", 8))
        assert len(scene.events.written) == 2
        assert "largest free card has 4" in scene.events.texts[1]
        scene.task.cancel()

    run(main())


def test_a_pod_that_fits_a_moment_later_is_told_nothing() -> None:
    async def main() -> None:
        scene = Scene(three_nodes())
        tell(scene.cluster, asking := pod("new", 8))
        asked = names("gpu-a", "gpu-b")
        scene.waiting.asked(asking, scene.asked.filtering.filter(asking, asked))
        tell(scene.cluster, node("gpu-b", 40))
        scene.waiting.asked(asking, scene.asked.filtering.filter(asking, asked))
        await asyncio.sleep(60.0)
        assert not scene.events.written
        scene.task.cancel()

    run(main())


def test_of_many_pods_each_is_told() -> None:
    async def main() -> None:
        scene = Scene(three_nodes())
        for number in range(100):
            asking = pod(f"p{number}", 8)
            tell(scene.cluster, asking)
            answer = scene.asked.filtering.filter(asking, names("gpu-a", "gpu-b"))
            scene.waiting.asked(asking, answer)
        await asyncio.sleep(30.0)
        assert len({each.subject.name for each in scene.events.written}) == 100
        assert len(scene.events.written) == 100
        scene.task.cancel()

    run(main())


def test_an_event_that_cannot_be_written_is_told_once_in_the_log(log: EventLog) -> None:
    async def main() -> None:
        scene = Scene(three_nodes())
        scene.events.refused = True
        for number in range(5):
            await scene.filter(pod(f"p{number}", 8))
        assert not scene.task.done()
        scene.task.cancel()

    run(main())
    assert len(log.of("event_failing")) == 1
