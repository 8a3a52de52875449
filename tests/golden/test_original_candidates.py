"""The original's candidates and writes: the easy ones alike, and where it errs, ours right.

Candidates are pods that an extender without our mark chose a card for; the vectors tell
which of them the original took for the kubelet's call, and what it then wrote.
"""

import json
from pathlib import Path
from typing import Any

from gpushare_plugin.sim.kubelet import Phase, PodStatus
from tests.golden.vectors import machine, uuid, vector
from tests.node.clusters import COUNT, INDEX, NODE, Cluster, cards_of, chosen, cluster_in
from tests.node.event_log import EventLog
from tests.node.nodes import RESOURCE, profile_in

UNITS = 15 + 23
ALIKE = ("ALIYUN_COM_GPU_MEM_CONTAINER", INDEX, "ALIYUN_COM_GPU_MEM_POD")
"""DEV is the unit count of the pod's own card here, and VISIBLE_DEVICES its UUID."""


def candidate(card: int, assume_time: int) -> dict[str, str]:
    return {**chosen(card, ours=False), "ALIYUN_COM_GPU_MEM_ASSUME_TIME": str(assume_time)}


def on_the_originals_cards(folder: Path) -> str:
    return profile_in(folder, machine(vector("allocation", "P3")["cards_mib"]))


def environment(status: PodStatus) -> dict[str, str]:
    return dict(status.containers[0].env)


async def test_golden_the_first_and_the_second_candidate_get_their_cards(
    short_path: Path, log: EventLog
) -> None:
    vectors = [vector("allocation", name) for name in ("P3", "P4")]
    async with cluster_in(short_path, log, simulate=on_the_originals_cards(short_path)) as cluster:
        await cluster.ready(units=UNITS)
        pods = [
            await cluster.bind(f"a{n}", each["units"], choice=candidate(each["card"], 100 + n))
            for n, each in enumerate(vectors)
        ]
        given = [environment(await cluster.admit(pod)) for pod in pods]

    for env, original in zip(given, vectors, strict=True):
        assert {key: env[key] for key in ALIKE} == {key: original["env"][key] for key in ALIKE}
        assert env["NVIDIA_VISIBLE_DEVICES"] == uuid(original["card"])


async def test_golden_of_equal_candidates_the_one_that_is_admitted_is_meant_not_the_oldest(
    short_path: Path, log: EventLog
) -> None:
    """The original gives the first call the oldest candidate's card: the two are swapped."""
    original = vector("allocation", "P3")
    async with cluster_in(short_path, log, simulate=on_the_originals_cards(short_path)) as cluster:
        await cluster.ready(units=UNITS)
        await cluster.bind("a0", original["units"], choice=candidate(0, 100))
        younger = await cluster.bind("a1", original["units"], choice=candidate(1, 200))
        status = await cluster.admit(younger)

    assert (cards_of(status), original["env"][INDEX]) == (["1"], "0")


async def test_golden_a_pod_of_two_containers_is_served_with_its_card_in_both(
    short_path: Path, log: EventLog
) -> None:
    """The original compares a container's units with the pod's, and answers `no-gpu-has-...`."""
    async with cluster_in(short_path, log, simulate=on_the_originals_cards(short_path)) as cluster:
        await cluster.ready(units=UNITS)
        status = await cluster.run("a", 1, 2, choice=candidate(1, 100))
        await cluster.published("a", ALIYUN_COM_GPU_MEM_ASSIGNED="true")

    assert (status.phase, cards_of(status)) == (Phase.RUNNING, ["1", "1"])


async def test_golden_a_terminating_candidate_is_not_taken_for_another_pods_call(
    short_path: Path, log: EventLog
) -> None:
    """The original gives the next equal pod the card of the terminating one."""
    original = vector("allocation", "P8")
    async with cluster_in(short_path, log, simulate=on_the_originals_cards(short_path)) as cluster:
        await cluster.ready(units=UNITS)
        await cluster.bind("ending", original["units"], choice=candidate(0, 100))
        await cluster.api.terminate_pod("ending", grace_seconds=3600)
        status = await cluster.run("next", original["units"], choice=candidate(1, 200))

    assert (cards_of(status), original["env"][INDEX]) == (["1"], "0")


async def test_golden_the_writes_say_what_the_originals_say(
    short_path: Path, log: EventLog
) -> None:
    """Ours go to the pod's status (rights to patch pods are not needed), and say more."""
    original = {name: json.loads(vector("write", name)["body"]) for name in ("node", "pod")}
    async with cluster_in(short_path, log, simulate=on_the_originals_cards(short_path)) as cluster:
        await cluster.ready(units=UNITS)
        await cluster.recorded()
        await cluster.api.patch("nodes", NODE, {"status": {"capacity": {RESOURCE: str(UNITS)}}})
        await cluster.api.until_object(
            "nodes", NODE, lambda node: COUNT in node["status"]["capacity"]
        )
        await cluster.run("a0", 3, choice=candidate(0, 100))
        await cluster.published("a0", ALIYUN_COM_GPU_MEM_ASSIGNED="true")

    counted = _bodies(cluster, "nodes/status", "status")
    [annotated] = _bodies(cluster, "pods/status", "metadata")
    assert counted == [original["node"]["status"]]
    written = annotated["annotations"]
    assert original["pod"]["metadata"]["annotations"].keys() <= written.keys()
    assert written["ALIYUN_COM_GPU_MEM_ASSIGNED"] == "true"
    assert len(written["ALIYUN_COM_GPU_MEM_ASSUME_TIME"]) == len("1796092762173468028")


def _bodies(cluster: Cluster, resource: str, key: str) -> list[dict[str, Any]]:
    """What was patched in that part of these objects, in order."""
    bodies = [
        call.json
        for call in cluster.api.calls()
        if (call.verb, call.resource) == ("patch", resource)
    ]
    return [body[key] for body in bodies if key in body]
