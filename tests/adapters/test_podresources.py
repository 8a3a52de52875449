"""Which pod holds what, as the kubelet tells it in both of its shapes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from gpushare_plugin.adapters.podresources import PodResourcesClient
from gpushare_plugin.core.association import ListedPod, PodName
from gpushare_plugin.errors import PodResourcesError
from gpushare_plugin.sim.kubelet import ContainerSpec, Faults, PodResourcesShape, SimKubelet
from tests.sim.kubelet_peers import RESOURCE, TinyPlugin, devices, pod, running_kubelet

SECONDS = 5.0


@asynccontextmanager
async def node(**changes: Any) -> AsyncIterator[tuple[SimKubelet, PodResourcesClient]]:
    """A kubelet with a registered plugin of eight devices, and our client."""
    async with running_kubelet(**changes) as kubelet, TinyPlugin(kubelet, devices(8)) as plugin:
        await plugin.come_up()
        client = PodResourcesClient(kubelet.settings.pod_resources_socket)
        try:
            yield kubelet, client
        finally:
            await client.close()


def held(pods: Any) -> dict[str, dict[str, int]]:
    return {
        str(pod.pod): {each.name: len(each.device_ids) for each in pod.containers} for pod in pods
    }


@pytest.mark.parametrize("shape", PodResourcesShape)
async def test_what_each_container_holds_is_read_in_both_shapes(shape: PodResourcesShape) -> None:
    containers = (
        ContainerSpec(name="one", requests={RESOURCE: 2}),
        ContainerSpec(name="two", requests={RESOURCE: 3}),
        ContainerSpec(name="none"),
    )
    async with node(podresources_shape=shape) as (kubelet, client):
        status = await kubelet.admit(pod("a", containers=containers))
        [listed] = await client.list_pods(RESOURCE, timeout_seconds=SECONDS)

    assert isinstance(listed, ListedPod)
    assert listed.pod == PodName(namespace="default", name="a")
    assert held([listed]) == {"default/a": {"one": 2, "two": 3, "none": 0}}
    for each in listed.containers:
        given = status.container(each.name).devices.get(RESOURCE, ())
        assert sorted(each.device_ids) == sorted(given)
    assert listed.holds_devices
    assert listed.lacks_devices


async def test_devices_of_another_resource_are_not_ours() -> None:
    async with node() as (kubelet, client):
        other = TinyPlugin(kubelet, devices(4), resource="a.com/other", endpoint="other.sock")
        async with other:
            await other.come_up()
            main = ContainerSpec(name="main", requests={RESOURCE: 1, "a.com/other": 3})
            await kubelet.admit(pod("a", containers=(main,)))

            ours = await client.list_pods(RESOURCE, timeout_seconds=SECONDS)
            theirs = await client.list_pods("a.com/other", timeout_seconds=SECONDS)

    assert held(ours) == {"default/a": {"main": 1}}
    assert held(theirs) == {"default/a": {"main": 3}}


async def test_a_pod_that_holds_nothing_is_listed_as_such() -> None:
    async with node() as (kubelet, client):
        await kubelet.admit(pod("a"))

        [listed] = await client.list_pods(RESOURCE, timeout_seconds=SECONDS)

    assert listed.lacks_devices
    assert not listed.holds_devices


async def test_a_node_without_pods_lists_none() -> None:
    async with node() as (_, client):
        assert await client.list_pods(RESOURCE, timeout_seconds=SECONDS) == []


async def test_b18_a_proxy_in_the_environment_is_not_for_the_kubelets_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://192.0.2.1:3128")
    monkeypatch.setenv("no_proxy", "")

    async with node() as (_, client):
        assert await client.list_pods(RESOURCE, timeout_seconds=SECONDS) == []


async def test_the_kept_channel_finds_a_restarted_kubelet() -> None:
    async with node() as (kubelet, client):
        await client.list_pods(RESOURCE, timeout_seconds=SECONDS)
        await kubelet.stop()
        with pytest.raises(PodResourcesError):
            await client.list_pods(RESOURCE, timeout_seconds=SECONDS)
        await kubelet.start()

        async with asyncio.timeout(SECONDS):
            await until_it_answers(client)


async def until_it_answers(client: PodResourcesClient) -> None:
    while True:
        with suppress(PodResourcesError):
            await client.list_pods(RESOURCE, timeout_seconds=SECONDS)
            return
        await asyncio.sleep(0.02)


async def test_a_socket_that_is_not_there_is_told_with_the_cure() -> None:
    async with running_kubelet() as kubelet:
        missing = kubelet.settings.plugin_dir / "none.sock"
        client = PodResourcesClient(missing)

        with pytest.raises(PodResourcesError, match=f"nobody answers at {missing}.*mount its"):
            await client.list_pods(RESOURCE, timeout_seconds=SECONDS)
        await client.close()


async def test_a_kubelet_without_pod_resources_is_told_with_the_version_that_has_it() -> None:
    async with node() as (kubelet, client):
        await kubelet.set_faults(Faults(pod_resources_unimplemented=True))

        with pytest.raises(PodResourcesError, match=r"Kubernetes 1\.20 or later"):
            await client.list_pods(RESOURCE, timeout_seconds=SECONDS)


async def test_a_kubelet_that_is_too_slow_is_given_up() -> None:
    async with node() as (kubelet, client):
        await kubelet.set_faults(Faults(list_seconds=60))

        with pytest.raises(PodResourcesError, match="did not list its pods: Deadline Exceeded"):
            await client.list_pods(RESOURCE, timeout_seconds=0.1)


@pytest.mark.parametrize("answer", [b"\xff\xff\xff\xff", b"\x0a\x02\x0a\x01\xff"])
async def test_an_answer_that_is_no_list_of_pods_is_an_error_of_ours(
    answer: bytes, short_path: Path
) -> None:
    async with answering(short_path / "kubelet.sock", answer) as client:
        with pytest.raises(PodResourcesError, match="what is no list of pods"):
            await client.list_pods(RESOURCE, timeout_seconds=SECONDS)


@asynccontextmanager
async def answering(path: Path, answer: bytes) -> AsyncIterator[PodResourcesClient]:
    """A client of a server that answers List with these bytes, and nothing else."""

    async def answer_list(_: bytes, __: "aio.ServicerContext[bytes, bytes]") -> bytes:
        return answer

    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(answer_list)
    server = aio.server(
        handlers=[grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": handler})]
    )
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    client = PodResourcesClient(path)
    try:
        yield client
    finally:
        await client.close()
        await server.stop(None)


async def test_a_kubelet_that_is_asked_too_often_says_so() -> None:
    async with node(list_burst_calls=1, list_calls_per_second=0.001) as (_, client):
        await client.list_pods(RESOURCE, timeout_seconds=SECONDS)

        with pytest.raises(PodResourcesError, match="did not list its pods"):
            await client.list_pods(RESOURCE, timeout_seconds=SECONDS)
