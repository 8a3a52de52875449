"""The card that an extender chose is the card that the containers get, and it is published."""

import json
from pathlib import Path

import pytest

from gpushare_plugin.sim.kubelet import Phase
from tests.node.clusters import (
    ALLOCATION,
    INDEX,
    OURS,
    Cluster,
    cards_of,
    chosen,
    cluster_in,
)
from tests.node.event_log import EventLog
from tests.node.nodes import FIRST, FIRST_TAG, RESOURCE, SECOND, SECOND_TAG, metric

RUNNING = Phase.RUNNING


async def test_the_card_that_our_extender_chose_is_given_and_published(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log) as cluster:
        await cluster.ready()
        status = await cluster.run("a", 4, choice=chosen(1))
        annotations = await cluster.published("a", ALIYUN_COM_GPU_MEM_ASSIGNED="true")

    assert (status.phase, cards_of(status)) == (RUNNING, ["1"])
    assert status.containers[0].env["NVIDIA_VISIBLE_DEVICES"] == SECOND
    assert json.loads(annotations[ALLOCATION]) == {"c0": {SECOND: 4}}
    assert annotations["scheduler.framework.gpushare.allocation"] == '{"0":{"1":4}}'
    assert (
        annotations["ALIYUN_COM_GPU_MEM_ASSUME_TIME"] != chosen(1)["ALIYUN_COM_GPU_MEM_ASSUME_TIME"]
    )


async def test_b50_equal_pods_admitted_in_the_other_order_get_each_its_own_card(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log) as cluster:
        await cluster.ready()
        first = await cluster.bind("first", 6, choice=chosen(0))
        second = await cluster.bind("second", 6, choice=chosen(1))

        late = await cluster.admit(second)
        early = await cluster.admit(first)
        published = [await cluster.published(name) for name in ("first", "second")]

    assert [cards_of(early), cards_of(late)] == [["0"], ["1"]]
    assert [each[INDEX] for each in published] == ["0", "1"]
    assert [json.loads(each[ALLOCATION]) for each in published] == [
        {"c0": {FIRST: 6}},
        {"c0": {SECOND: 6}},
    ]


async def test_a_pod_that_is_deleted_before_its_admission_gets_the_card_that_was_chosen_for_it(
    short_path: Path, log: EventLog
) -> None:
    """Elsewhere it would take the place of another pod, for as long as it takes to end."""
    async with cluster_in(short_path, log) as cluster:
        await cluster.ready()
        ending = await cluster.bind("ending", 6, 5, choice=chosen(1))
        await cluster.api.terminate_pod("ending", grace_seconds=3600)
        # Its card is the one that the policy takes, and its admission shows how far the watch is.
        await cluster.run("watched", 1, choice=chosen(0))
        status = await cluster.node.kubelet.admit(ending)

    assert cards_of(status) == ["1", "1"]


async def test_b52_all_containers_of_a_pod_land_on_the_chosen_card(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log) as cluster:
        await cluster.ready()
        pod = await cluster.bind("several", 0, 1, 2, 0, 3, init=(0, 4), choice=chosen(1))
        status = await cluster.admit(pod)
        annotations = await cluster.published("several", ALIYUN_COM_GPU_MEM_ASSIGNED="true")

    assert cards_of(status) == ["", "1", "", "1", "1", "", "1"]
    assert {c.env["ALIYUN_COM_GPU_MEM_POD"] for c in status.containers if c.env} == {"6"}
    assert json.loads(annotations[ALLOCATION]) == {
        "c1": {SECOND: 1},
        "c2": {SECOND: 2},
        "c4": {SECOND: 3},
    }
    assert annotations["scheduler.framework.gpushare.allocation"] == (
        '{"1":{"1":1},"2":{"1":2},"4":{"1":3}}'
    )


async def test_a_pod_of_two_cards_has_each_container_spread_evenly_over_the_same_two(
    short_path: Path, log: EventLog
) -> None:
    wish = {"gpushare.io/gpu-count": "2"} | chosen("0,1")
    async with cluster_in(short_path, log, simulate="a100-pcie-x4") as cluster:
        await cluster.ready(units=320)
        status = await cluster.run("spread", 4, 6, choice=wish)
        allocation = await cluster.allocation("spread")

    assert (status.phase, cards_of(status)) == (RUNNING, ["0,1", "0,1"])
    assert [sorted(units.values()) for units in allocation.values()] == [[2, 2], [3, 3]]
    assert allocation["c0"].keys() == allocation["c1"].keys()


async def test_b53_a_pod_around_the_extender_is_placed_published_and_an_event_says_so(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log) as cluster:
        await cluster.ready()
        status = await cluster.run("around", 4)
        annotations = await cluster.published("around")
        event = await cluster.event("GpuPlacedByNode")

    assert cards_of(status) == [annotations[INDEX]]
    assert event["involvedObject"]["name"] == "around"
    assert "no extender chose a card" in event["message"]
    assert "schedulerName" in event["message"]


async def test_b53_where_an_extender_is_required_a_pod_around_it_is_refused(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log, require_extender="on") as cluster:
        await cluster.ready()
        around = await cluster.run("around", 4)
        placed = await cluster.run("placed", 4, choice=chosen(1))
        event = await cluster.event("GpuRefused")

    assert (around.phase, placed.phase) == (Phase.FAILED, RUNNING)
    assert "default/around" in around.message
    assert event["involvedObject"]["name"] == "around"


async def test_init_containers_devices_go_on_to_all_others_where_an_extender_is_required(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log, require_extender="on") as cluster:
        await cluster.ready()
        status = await cluster.admit(await cluster.bind("a", 2, 3, init=(5,), choice=chosen(1)))

    assert (status.phase, cards_of(status)) == (RUNNING, ["1", "1", "1"])


async def _fill(cluster: Cluster) -> None:
    """Leave 5 units of the first card and 5 of the second."""
    for index in (0, 1):
        status = await cluster.run(f"fills-{index}", 10, choice=chosen(index, ours=False))
        assert cards_of(status) == [str(index)]


async def test_a_pod_that_the_original_extender_put_on_a_full_card_is_over_committed(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log, status_address="127.0.0.1:0") as cluster:
        await cluster.ready()
        await _fill(cluster)
        status = await cluster.run("too-much", 8, choice=chosen(0, ours=False))
        annotations = await cluster.published("too-much")
        event = await cluster.event("GpuOverCommitted")
        _, page = await cluster.node.page("/metrics")
        spread = {device_id[:8] for device_id in status.containers[0].devices[RESOURCE]}

    assert spread == {FIRST_TAG, SECOND_TAG}
    assert (status.phase, cards_of(status)) == (RUNNING, ["0"])
    assert json.loads(annotations[ALLOCATION]) == {"c0": {FIRST: 8}}
    assert event["involvedObject"]["name"] == "too-much"
    assert event["type"] == "Warning"
    assert metric(page, "gpushare_overcommits_total") == 1
    # What it sees is what counts: environment, annotation and metrics tell of one card.
    assert metric(page, "gpushare_container_units", pod="too-much", uuid=FIRST) == 8
    assert metric(page, "gpushare_container_units", pod="too-much", uuid=SECOND) is None
    assert metric(page, "gpushare_card_allocated_units", index="0") == 18
    assert metric(page, "gpushare_card_allocated_units", index="1") == 10


async def test_what_an_over_committed_pod_uses_of_its_card_is_not_given_to_the_next_one(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log, simulate="a100-pcie-x4") as cluster:
        await cluster.ready(units=320)
        for index in range(4):
            await cluster.run(f"fills-{index}", 70, choice=chosen(index, ours=False))
        # 10 are left of each: it gets IDs of three cards, and sees the last.
        forced = await cluster.run("too-much", 25, choice=chosen(3, ours=False))
        await cluster.published("too-much")
        filler = cluster.api.get("pods", "fills-3")["metadata"]["uid"]
        await cluster.node.kubelet.delete_pod(filler)
        await cluster.api.delete("pods", "fills-3")
        # 70 of the last card's 80 are free by their IDs, and 55 in truth.
        refused = await cluster.run("around", 56)
        served = await cluster.run("fits", 55)

    assert cards_of(forced) == ["3"]
    assert refused.phase is Phase.FAILED
    assert "got 56 of card 3: no card of this node had 56 units free that no pod placed" in (
        refused.message
    )
    assert (served.phase, cards_of(served)) == (RUNNING, ["3"])


@pytest.mark.parametrize(
    ("ours", "strict"),
    [pytest.param(True, "off", id="ours"), pytest.param(False, "on", id="strict")],
)
async def test_a_pod_that_fits_on_no_card_is_refused_if_strict_or_if_our_extender_chose(
    short_path: Path, log: EventLog, *, ours: bool, strict: str
) -> None:
    async with cluster_in(short_path, log, strict=strict) as cluster:
        await cluster.ready()
        await _fill(cluster)
        status = await cluster.run("too-much", 8, choice=chosen(0, ours=ours))
        event = await cluster.event("GpuRefused")

    assert status.phase is Phase.FAILED
    assert event["involvedObject"]["name"] == "too-much"


@pytest.mark.parametrize("junk", ["x", "-1", "", "1.0", "9" * 5000, "0x1"])
async def test_b58_a_card_index_that_is_none_is_told_and_passed_over(
    short_path: Path, log: EventLog, junk: str
) -> None:
    async with cluster_in(short_path, log) as cluster:
        await cluster.ready()
        status = await cluster.run("junk", 4, choice={INDEX: junk})
        allocation = await cluster.allocation("junk")
        event = await cluster.event("GpuAnnotationUnreadable")

    assert status.phase is RUNNING
    assert allocation == {"c0": {FIRST: 4}}
    assert INDEX in event["message"]


async def test_b58_amounts_that_a_user_wrote_by_hand_count_for_nothing(
    short_path: Path, log: EventLog
) -> None:
    written = {
        "ALIYUN_COM_GPU_MEM_POD": "1",
        "ALIYUN_COM_GPU_MEM_DEV": "99",
        ALLOCATION: '{"c0":{"GPU-none":1}}',
        **OURS,
        INDEX: "1",
    }
    async with cluster_in(short_path, log) as cluster:
        await cluster.ready()
        status = await cluster.run("sly", 4, choice=written)
        annotations = await cluster.published("sly", ALIYUN_COM_GPU_MEM_POD="4")

    assert status.containers[0].env["ALIYUN_COM_GPU_MEM_POD"] == "4"
    assert annotations["ALIYUN_COM_GPU_MEM_DEV"] == "15"
    assert json.loads(annotations[ALLOCATION]) == {"c0": {SECOND: 4}}


async def test_b59_where_the_chosen_card_is_full_the_record_of_our_extender_is_corrected(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log) as cluster:
        await cluster.ready()
        await cluster.run("fills", 14, choice=chosen(0))
        ours = await cluster.run("ours", 4, choice=chosen(0))
        theirs = await cluster.run("theirs", 4, choice=chosen(0, ours=False))
        corrected = await cluster.published("ours", **{INDEX: "1"})
        left = await cluster.published("theirs")

    assert [cards_of(ours), cards_of(theirs)] == [["1"], ["1"]]
    assert json.loads(corrected[ALLOCATION]) == {"c0": {SECOND: 4}}
    assert (left[INDEX], json.loads(left[ALLOCATION])) == ("0", {"c0": {SECOND: 4}})
