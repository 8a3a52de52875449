"""Publishing in the small: what comes between a write and its answer is not lost."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from gpushare_plugin.core.association import ListedPod
from gpushare_plugin.core.devices import CardTable
from gpushare_plugin.core.dialect import ALIYUN
from gpushare_plugin.core.health import CardHealth, State
from gpushare_plugin.core.node_record import HEALTH
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.core.sharing import SharingRule
from gpushare_plugin.core.units import UnitRule
from gpushare_plugin.errors import ApiConflict, ApiError, ApiRefused
from gpushare_plugin.metrics import NodeMetrics
from gpushare_plugin.node.admission import Admission
from gpushare_plugin.node.inventory import Inventory
from gpushare_plugin.node.node_publisher import NodePublisher, NodeRecordRule
from gpushare_plugin.node.pod_publisher import PodPublisher
from gpushare_plugin.node.specs import PodSpecs
from gpushare_plugin.ports.cluster import Node, StatusPatch
from tests.core.cards import cards
from tests.core.pods import listing, pod
from tests.node.waiting import eventually

ILL = CardHealth(state=State.UNHEALTHY, reason="XID 79")
LONG_SECONDS = 5.0


@dataclass
class Writer:
    """Applies each patch; does something first, where it was told to."""

    meanwhile: list[Callable[[], object]] = field(default_factory=list)
    errors: list[ApiError] = field(default_factory=list)
    written: list[Node] = field(default_factory=list)

    async def patch_node_status(self, name: str, patch: StatusPatch) -> Node:
        while self.meanwhile:
            self.meanwhile.pop(0)()
        if self.errors:
            raise self.errors.pop(0)
        await asyncio.sleep(0)
        kept = {key: value for key, value in patch.annotations.items() if value is not None}
        labels = {key: value for key, value in patch.labels.items() if value is not None}
        before = self.written[-1].annotations if self.written else {}
        node = Node(name=name, uid=patch.uid, annotations={**before, **kept}, labels=labels)
        self.written.append(node)
        return node

    async def patch_pod_status(self, namespace: str, name: str, patch: StatusPatch) -> Pod:
        raise AssertionError(f"no pod is written here: {namespace}/{name}, {patch}")


@dataclass
class Publishing:
    """A publisher at work."""

    inventory: Inventory
    publisher: NodePublisher

    def fall_ill(self) -> None:
        """Let the first card fall ill, and say so, as the daemon does."""
        self.inventory.set_health(self.inventory.cards[0], ILL)
        self.publisher.wake()


@asynccontextmanager
async def publishing(writer: Writer) -> AsyncIterator[Publishing]:
    inventory = Inventory(SharingRule(units=UnitRule(unit_mib=1024)), NodeMetrics())
    inventory.table = CardTable(cards(4, 4))
    rule = NodeRecordRule(names=ALIYUN, unit_mib=1024)
    publisher = NodePublisher(inventory, rule, NodeMetrics(), lambda: "none", tuple)
    task = asyncio.create_task(publisher.run(writer))
    try:
        yield Publishing(inventory, publisher)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_what_changes_while_a_write_is_on_its_way_is_not_taken_for_written() -> None:
    writer = Writer()
    async with publishing(writer) as at:
        fell_ill = asyncio.Event()
        writer.meanwhile += [at.fall_ill, fell_ill.set]
        at.publisher.put(Node(name="node", uid="1"))
        await fell_ill.wait()

        await at.publisher.written(timeout_seconds=LONG_SECONDS)
        written = writer.written[-1]

    assert "XID 79" in written.annotations[HEALTH]


async def test_a_write_that_meets_a_conflict_is_not_taken_for_written() -> None:
    writer = Writer(errors=[ApiConflict("not so")])
    async with publishing(writer) as at:
        at.publisher.put(Node(name="node", uid="1"))

        await at.publisher.written(timeout_seconds=LONG_SECONDS)

    assert len(writer.written) == 1


async def test_a_node_made_anew_while_a_write_is_on_its_way_is_written_too() -> None:
    writer = Writer()
    async with publishing(writer) as at:
        writer.meanwhile.append(lambda: at.publisher.put(Node(name="node", uid="2")))
        at.publisher.put(Node(name="node", uid="1"))

        await eventually(lambda: [each.uid for each in writer.written] == ["1", "2"])


def test_the_answer_to_a_write_brings_no_pod_back_that_has_gone() -> None:
    specs, before = PodSpecs(), pod(1)
    specs.put(before)
    specs.remove(before)

    specs.put_written(before, replace(before, annotations={"written": "1"}))

    assert list(specs.pods) == []


def test_the_answer_to_a_write_is_older_than_what_the_watch_told_meanwhile() -> None:
    specs, before = PodSpecs(), pod(1)
    specs.put(before)
    newer = replace(before, annotations={"changed": "since"})
    specs.put(newer)

    specs.put_written(before, replace(before, annotations={"written": "1"}))

    assert list(specs.pods) == [newer]


def test_the_answer_to_a_write_counts_where_nothing_else_was_told() -> None:
    specs, before = PodSpecs(), pod(1)
    written = replace(before, annotations={"written": "1"})
    specs.put(before)

    specs.put_written(before, written)

    assert list(specs.pods) == [written]


class Refuses:
    """A writer that takes nothing, and counts."""

    def __init__(self) -> None:
        self.calls = 0

    async def patch_pod_status(self, namespace: str, name: str, patch: StatusPatch) -> Pod:
        self.calls += 1
        raise ApiRefused(f"patch {namespace}/{name} {patch}: forbidden")

    async def patch_node_status(self, name: str, patch: StatusPatch) -> Node:
        raise AssertionError(f"no node is written here: {name}, {patch}")


async def test_a_pod_that_cannot_be_written_is_not_tried_at_each_change_of_another() -> None:
    specs, metrics, writer = PodSpecs(), NodeMetrics(), Refuses()
    inventory = Inventory(SharingRule(units=UnitRule(unit_mib=1024)), metrics)
    inventory.table = CardTable(cards(4, 4))
    admission = Admission(NoPods(), ALIYUN.memory_resource, metrics, lambda: 0.0, specs)
    admission.pods = (listing(c0=(inventory.cards[0].device_ids()[0],)),)
    admission.pods_come = 1
    specs.put(pod(1))
    publisher = PodPublisher(specs, admission, inventory, ALIYUN, metrics)
    task = asyncio.create_task(publisher.run(writer))

    for _ in range(20):
        publisher.wake()
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert writer.calls == 1


class NoPods:
    """A PodResources that lists nobody."""

    async def list_pods(self, *_: object, **__: object) -> Sequence[ListedPod]:
        return ()
