"""The dialect of GaiaGPU's manager, in shared mode: its names, its unit, its extender's choice."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpushare_plugin.core.bookkeeping import choice_of
from gpushare_plugin.core.dialect import TENCENT as NAMES
from gpushare_plugin.core.pods import Container, ContainerKind, Pod
from gpushare_plugin.sim.kubelet import Phase
from tests.node.event_log import EventLog
from tests.node.nodes import FIRST, SECOND, node_in
from tests.node.plugin_client import ids, plugin_at
from tests.node.two_resources import TENCENT, Asked, Cluster, cluster_in
from tests.node.waiting import eventually

MEMORY, CORES = TENCENT
UNITS = 60
"""Of 256 MiB, on each of two cards with 15 GiB."""
DIALECT = {"dialect": "tencent"}
BOTH = DIALECT | {"core_resource": "on"}


def asked(name: str, *, annotations: Mapping[str, str] | None = None, **units: int) -> Asked:
    """A pod of one container, `memory` units and `cores`."""
    wanted = (units.get("memory", 0), units.get("cores", 0))
    return Asked(
        name=name,
        containers={"main": wanted},
        resources=TENCENT,
        annotations=annotations or {},
    )


async def ready(cluster: Cluster, *, cores: bool = True) -> None:
    await cluster.node.kubelet.allocatable(MEMORY, equals=2 * UNITS)
    if cores:
        await cluster.node.kubelet.allocatable(CORES, equals=200)


# -------------------------------------------------------------------- names and the unit


async def test_memory_is_served_by_its_names_in_units_of_256_mib(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, **DIALECT) as node:
        await node.kubelet.allocatable(MEMORY, equals=2 * UNITS)

        [record] = node.kubelet.state().registrations

    assert record.resource == MEMORY
    assert re.fullmatch(r"vcuda-memory-[0-9a-f]{8}\.sock", record.endpoint)


async def test_a_unit_that_is_given_wins_over_the_dialects(short_path: Path, log: EventLog) -> None:
    async with node_in(short_path, log, memory_unit="GiB", **DIALECT) as node:
        await node.kubelet.allocatable(MEMORY, equals=30)

        assert node.kubelet.state().resources[MEMORY].capacity == 30


async def test_a_container_finds_its_card_and_no_variable_of_another_dialect(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, **BOTH) as node:
        await node.kubelet.allocatable(MEMORY, equals=2 * UNITS)
        await node.kubelet.allocatable(CORES, equals=200)

        status = await node.kubelet.admit(asked("a", memory=8, cores=20).for_the_kubelet())
        [socket] = node.plugin_dir.glob("vcuda-core-*.sock")

    assert dict(status.container("main").env) == {"NVIDIA_VISIBLE_DEVICES": FIRST}
    assert re.fullmatch(r"vcuda-core-[0-9a-f]{8}\.sock", socket.name)


# -------------------------------------------------------------------- the extender's choice


@pytest.mark.parametrize(("index", "card"), [("0", FIRST), ("1", SECOND)])
async def test_the_card_that_the_extender_chose_is_given_and_the_pod_marked_assigned(
    short_path: Path, log: EventLog, index: str, card: str
) -> None:
    annotations = {
        "tencent.com/gpu-assigned": "false",
        "tencent.com/predicate-time": "1",
        "tencent.com/predicate-gpu-idx-0": index,
    }
    async with cluster_in(short_path, log, **BOTH) as cluster:
        await ready(cluster)

        status = await cluster.run(asked("a", memory=8, cores=20, annotations=annotations))

        await eventually(lambda: _annotations(cluster)["tencent.com/gpu-assigned"] == "true")
        written = _annotations(cluster)

    assert status.container("main").env["NVIDIA_VISIBLE_DEVICES"] == card
    assert written["tencent.com/predicate-gpu-idx-0"] == index
    assert not [key for key in written if key.startswith("ALIYUN_COM")]


async def test_each_container_gets_the_card_that_was_chosen_for_it(
    short_path: Path, log: EventLog
) -> None:
    # By policy alone the first container would go to the first card.
    annotations = {"tencent.com/predicate-gpu-idx-0": "1", "tencent.com/predicate-gpu-idx-2": "0"}
    pod = Asked(
        name="a",
        containers={"one": (8, 20), "none": (0, 0), "two": (8, 20)},
        resources=TENCENT,
        annotations=annotations,
    )
    async with cluster_in(short_path, log, **BOTH) as cluster:
        await ready(cluster)

        status = await cluster.run(pod)

    cards = [status.container(name).env["NVIDIA_VISIBLE_DEVICES"] for name in ("one", "two")]
    assert cards == [SECOND, FIRST]


def test_the_choice_is_that_of_the_first_container_that_is_not_served_yet() -> None:
    annotations = {"tencent.com/predicate-gpu-idx-1": "1", "tencent.com/predicate-gpu-idx-2": "0"}
    pod = Pod(
        namespace="default",
        name="a",
        uid="a",
        containers=tuple(
            Container(name=name, kind=ContainerKind.MAIN, requests={})
            for name in ("zero", "one", "two")
        ),
        annotations=annotations,
    )

    cards = [
        choice.cards
        for served in ([], ["one"], ["one", "two"])
        if (choice := choice_of(pod, NAMES.annotations, served=served))
    ]

    assert cards == [(1,), (0,), (1, 0)]


# ------------------------------------------------------------------ the record of each container


IDX = "tencent.com/predicate-gpu-idx-{}"
MARK = {"gpushare.io/extender": "1"}


def of_two_containers(annotations: Mapping[str, str]) -> Asked:
    return Asked(
        name="a",
        containers={"one": (8, 20), "none": (0, 0), "two": (8, 20)},
        resources=TENCENT,
        annotations=annotations,
    )


async def published(cluster: Cluster) -> dict[str, str]:
    await eventually(lambda: _annotations(cluster).get("tencent.com/gpu-assigned") == "true")
    return _annotations(cluster)


async def test_the_index_that_our_extender_wrote_is_corrected_container_by_container(
    short_path: Path, log: EventLog
) -> None:
    # There is no card 7: the policy places the containers, and the record says where.
    wrong = {IDX.format(0): "7", IDX.format(2): "1"}
    async with cluster_in(short_path, log, **BOTH) as cluster:
        await ready(cluster)
        status = await cluster.run(of_two_containers(wrong | MARK))
        written = await published(cluster)

    cards = {FIRST: "0", SECOND: "1"}
    given = [cards[status.container(name).env["NVIDIA_VISIBLE_DEVICES"]] for name in ("one", "two")]
    assert given == ["0", "1"]
    assert [written[IDX.format(number)] for number in (0, 2)] == given
    assert IDX.format(1) not in written
    assert written["tencent.com/predicate-node"] == "node-a"


async def test_the_index_that_another_extender_wrote_is_left_as_it_is(
    short_path: Path, log: EventLog
) -> None:
    wrong = {IDX.format(0): "7", IDX.format(2): "1"}
    async with cluster_in(short_path, log, **BOTH) as cluster:
        await ready(cluster)
        await cluster.run(of_two_containers(wrong))
        written = await published(cluster)

    assert {key: written[key] for key in wrong} == wrong
    assert "tencent.com/predicate-node" not in written


async def test_a_pod_for_which_nobody_chose_has_its_cards_written(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log, **BOTH) as cluster:
        await ready(cluster)
        await cluster.run(of_two_containers({}))
        written = await published(cluster)

    assert [written[IDX.format(number)] for number in (0, 2)] == ["0", "0"]


# -------------------------------------------------------------------------- whole cards


@pytest.mark.parametrize("cores", [100, 200])
@pytest.mark.parametrize("memory", [0, 8])
async def test_whole_cards_are_refused_with_what_to_ask_for_instead(
    short_path: Path, log: EventLog, cores: int, memory: int
) -> None:
    async with cluster_in(short_path, log, **BOTH) as cluster:
        await ready(cluster)

        status = await cluster.run(asked("whole", memory=memory, cores=cores))

    assert status.phase is Phase.FAILED
    assert (
        f"pod default/whole, container main asks for {cores} {CORES}: from 100 on that means whole"
        f" cards, which are not supported yet; ask for at most 99, and for the {MEMORY} that the"
        " container needs"
    ) in status.message


async def test_whole_cards_are_refused_by_the_memory_alone_where_no_cores_are_served(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log, **DIALECT) as cluster:
        await ready(cluster, cores=False)

        refused = await cluster.run(asked("whole", memory=8, cores=100))
        served = await cluster.run(asked("part", memory=8, cores=99))

    assert (refused.phase, served.phase) == (Phase.FAILED, Phase.RUNNING)
    assert "whole cards, which are not supported yet" in refused.message


async def test_whole_cards_are_refused_by_their_number_where_the_pod_is_not_known(
    short_path: Path, log: EventLog
) -> None:
    async with node_in(short_path, log, **BOTH) as node:
        await node.kubelet.allocatable(CORES, equals=200)
        [socket] = node.plugin_dir.glob("vcuda-core-*.sock")

        async with plugin_at(socket) as plugin:
            _, text = await plugin.refusal(ids("core", *range(100)))
            answers = await plugin.allocate(ids("core", *range(99)))

    assert f"a container asks for 100 {CORES}: from 100 on that means whole cards" in text
    assert len(answers) == 1


async def test_100_cores_are_all_of_one_card_in_the_other_dialect(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log, core_resource="on") as cluster:
        await cluster.node.ready()
        await cluster.node.kubelet.allocatable("aliyun.com/gpu-core.percentage", equals=200)

        status = await cluster.run(Asked(name="all", containers={"main": (4, 100)}))

    assert status.phase is Phase.RUNNING


def _annotations(cluster: Cluster) -> dict[str, str]:
    return dict(cluster.api.get("pods", "a")["metadata"].get("annotations") or {})
