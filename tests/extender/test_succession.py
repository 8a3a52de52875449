"""Several extenders over one simulated API server: who answers, labels, nudges and tells."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gpushare_plugin.sim.apiserver import SimApiServer
from tests.extender.daemons import Extender, extender_beside, node_object, pod_object
from tests.node.event_log import EventLog

NAMESPACE = "kube-system"
LABEL = "gpushare.io/leader"
OURS = ("gpushare-a", "gpushare-b")


def labelled(api: SimApiServer) -> list[str]:
    """The pods that the Service would lead to."""
    pods = (api.get("pods", name, namespace=NAMESPACE) for name in OURS)
    return [
        pod["metadata"]["name"]
        for pod in pods
        if pod["metadata"].get("labels", {}).get(LABEL) == "true"
    ]


def holder(api: SimApiServer) -> str:
    lease = api.get("leases", "gpushare-extender", namespace=NAMESPACE)
    return str(lease["spec"].get("holderIdentity") or "").partition("_")[0]


async def make_pods(api: SimApiServer) -> None:
    for name in OURS:
        metadata = {"namespace": NAMESPACE, "labels": {"app": "gpushare"}}
        await api.create("pods", pod_object(name, metadata=metadata))


@asynccontextmanager
async def elected(
    api: SimApiServer, folder: Path, log: EventLog, pod_name: str, **settings: str
) -> AsyncIterator[Extender]:
    settings |= {"leader_elect": "on", "pod_name": pod_name, "pod_namespace": NAMESPACE}
    async with extender_beside(api, folder, log, synced=True, **settings) as extender:
        yield extender


async def test_one_leads_and_is_labelled_and_the_other_answers_503(
    tmp_path: Path, log: EventLog
) -> None:
    async with SimApiServer() as api, AsyncExitStack() as stack:
        await make_pods(api)
        await api.create("nodes", node_object("gpu-a", 46, 2))
        pod = await api.create("pods", pod_object("p", 4))
        first = await stack.enter_async_context(elected(api, tmp_path, log, OURS[0]))
        await log.said("leads")
        second = await stack.enter_async_context(elected(api, tmp_path, log, OURS[1]))
        await first.comes_to_fit(pod, "gpu-a", fits=True)
        body = {"Pod": pod, "NodeNames": ["gpu-a"]}
        refused = await second.post("filter", body)
        bound = await first.bind(pod, "gpu-a")
        await api.until(
            lambda: labelled(api) == [OURS[0]], failure=lambda: "the leader is labelled"
        )
        metrics = [(await each.page("/metrics")).text for each in (first, second)]

    assert refused.status == 503
    assert bound.json == {"Error": ""}
    assert "gpushare_extender_leads 1.0" in metrics[0]
    assert "gpushare_extender_handovers_total 1.0" in metrics[0]
    assert 'gpushare_extender_relists_total{result="ok"} 1.0' in metrics[0]
    assert "gpushare_extender_leads 0.0" in metrics[1]


async def test_after_a_shut_down_the_other_leads_and_alone_is_labelled(
    tmp_path: Path, log: EventLog
) -> None:
    async with SimApiServer() as api:
        await make_pods(api)
        await api.create("nodes", node_object("gpu-a", 46, 2))
        pod = await api.create("pods", pod_object("p", 4))
        async with AsyncExitStack() as stack:
            async with elected(api, tmp_path, log, OURS[0]) as first:
                await log.said("leads")
                await first.comes_to_fit(pod, "gpu-a", fits=True)
                await api.until(
                    lambda: labelled(api) == [OURS[0]], failure=lambda: "the first is labelled"
                )
                second = await stack.enter_async_context(elected(api, tmp_path, log, OURS[1]))
            assert holder(api) != OURS[0]
            await log.said("leads", times=2)
            await api.until(
                lambda: labelled(api) == [OURS[1]], failure=lambda: "the second alone is labelled"
            )
            assert holder(api) == OURS[1]
            await second.comes_to_fit(pod, "gpu-a", fits=True)
            assert (await second.bind(pod, "gpu-a")).json == {"Error": ""}
        assert labelled(api) == []
        assert holder(api) == ""


async def test_a_label_that_an_earlier_process_left_goes(tmp_path: Path, log: EventLog) -> None:
    async with SimApiServer() as api:
        await make_pods(api)
        for name in OURS:
            await api.patch(
                "pods", name, {"metadata": {"labels": {LABEL: "true"}}}, namespace=NAMESPACE
            )
        async with elected(api, tmp_path, log, OURS[1]):
            await api.until(
                lambda: labelled(api) == [OURS[1]], failure=lambda: "the leader alone is labelled"
            )


@pytest.mark.timeout(30)
async def test_the_sidecar_lists_again_when_another_scheduler_led(
    tmp_path: Path, log: EventLog
) -> None:
    async with SimApiServer() as api:
        await api.create("leases", lease_object("scheduler-a"))
        await api.create("nodes", node_object("gpu-a", 46, 2))
        pod = await api.create("pods", pod_object("p", 4))
        lease = f"{NAMESPACE}/gpushare-scheduler"
        async with extender_beside(api, tmp_path, log, scheduler_lease=lease) as extender:
            await extender.comes_to_fit(pod, "gpu-a", fits=True)
            said = await log.said("listing_pods")
            metrics = (await extender.page("/metrics")).text

    assert said["holder"] == "scheduler-a"
    assert 'gpushare_extender_relists_total{result="ok"} 1.0' in metrics


def lease_object(who: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "gpushare-scheduler", "namespace": NAMESPACE},
        "spec": {"holderIdentity": who, "leaseDurationSeconds": 15, "leaseTransitions": 1},
    }


async def test_without_the_schedulers_lease_the_answer_says_so(
    tmp_path: Path, log: EventLog
) -> None:
    async with SimApiServer() as api:
        await api.create("nodes", node_object("gpu-a", 46, 2))
        pod = await api.create("pods", pod_object("p", 4))
        lease = f"{NAMESPACE}/gpushare-scheduler"
        async with extender_beside(api, tmp_path, log, scheduler_lease=lease) as extender:
            answer = await extender.filter(pod, "gpu-a")

    assert "another scheduler bound pods" in answer["Error"]
    assert "gpushare-scheduler" in answer["Error"]


async def test_b77_a_waiting_pod_is_told_why_and_touched_once_there_is_room(
    tmp_path: Path, log: EventLog
) -> None:
    async with SimApiServer() as api, extender_beside(api, tmp_path, log) as extender:
        await api.create("nodes", node_object("gpu-a", 8, 1))
        metadata = {"name": "unhealthy-gpu-gpu-a", "namespace": NAMESPACE}
        await api.create("configmaps", {"metadata": metadata, "data": {"gpus": "0"}})
        pod = await extender.create(pod_object("p", 4))
        await extender.comes_to_fit(pod, "gpu-a", fits=False)
        await api.until(lambda: bool(events(api)), failure=lambda: "an event on the pod")
        await api.delete("configmaps", "unhealthy-gpu-gpu-a", namespace=NAMESPACE)
        await log.said("nudged", pod="default/p")
        annotations = api.get("pods", "p")["metadata"]["annotations"]
        metrics = (await extender.page("/metrics")).text

    assert "gpushare.io/nudged" in annotations
    assert 'gpushare_extender_nudges_total{result="touched"} 1.0' in metrics


def events(api: SimApiServer) -> list[str]:
    return [each["message"] for each in api.objects("events") if each["reason"] == "GpuNotPlaced"]
