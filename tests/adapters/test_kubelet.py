"""Registering with the kubelet: what went wrong, and whether another try is any use."""

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

import pytest

from gpushare_plugin.adapters.kubelet import KubeletClient, plugin_answers
from gpushare_plugin.errors import KubeletRefused, KubeletUnavailable
from gpushare_plugin.ports import Registration
from gpushare_plugin.sim.kubelet import Faults, SimKubelet
from gpushare_plugin.sim.kubelet.names import refusal
from tests.sim.kubelet_peers import RESOURCE, TinyPlugin, devices, pod, running_kubelet

MINE = Registration(endpoint="tiny.sock", resource_name=RESOURCE)
SECONDS = 5.0
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")


def client(kubelet: SimKubelet) -> KubeletClient:
    return KubeletClient(kubelet.settings.plugin_dir / "kubelet.sock")


@asynccontextmanager
async def node() -> AsyncIterator[tuple[SimKubelet, TinyPlugin]]:
    """A kubelet, and a plugin that serves but has not registered."""
    async with running_kubelet() as kubelet, TinyPlugin(kubelet, devices(2)) as plugin:
        yield kubelet, plugin


@contextmanager
def mute_server(path: Path) -> Iterator[None]:
    """A socket that takes a connection and never says a word."""
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(str(path))
        server.listen()
        yield


def dead_socket(path: Path) -> Path:
    with closing(socket.socket(socket.AF_UNIX)) as bound:
        bound.bind(str(path))
    return path


# ----------------------------------------------------------------------- registering


async def test_a_serving_plugin_is_registered_under_its_name_and_options() -> None:
    async with node() as (kubelet, _):
        await client(kubelet).register(MINE, timeout_seconds=SECONDS)
        await kubelet.registered(RESOURCE)

        [record] = kubelet.state().registrations

    assert (record.version, record.endpoint, record.resource) == ("v1beta1", "tiny.sock", RESOURCE)


@pytest.mark.parametrize("preferred", [True, False])
async def test_an_old_kubelet_believes_the_options_in_the_registration(*, preferred: bool) -> None:
    mine = Registration(
        endpoint=MINE.endpoint, resource_name=RESOURCE, preferred_allocation=preferred
    )
    async with (
        running_kubelet(options_from_register=True) as kubelet,
        TinyPlugin(kubelet, devices(2)) as plugin,
    ):
        await client(kubelet).register(mine, timeout_seconds=SECONDS)
        await kubelet.allocatable(RESOURCE, equals=2)
        await kubelet.admit(pod("a", 1))

        assert bool(plugin.called("GetPreferredAllocation")) is preferred


async def test_b18_a_proxy_in_the_environment_is_not_for_the_kubelets_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in PROXIES:
        monkeypatch.setenv(name, "http://192.0.2.1:3128")
    monkeypatch.setenv("no_proxy", "")

    async with node() as (kubelet, plugin):
        await client(kubelet).register(MINE, timeout_seconds=SECONDS)
        answers = await plugin_answers(plugin.path, timeout_seconds=SECONDS)

    assert answers


# ------------------------------------------------------------- it will never take us


@pytest.mark.parametrize(
    "text",
    [
        refusal(version="v2", resource=RESOURCE),
        refusal(version="v1beta1", resource="gpu-mem"),
    ],
)
async def test_b09_what_the_kubelet_will_never_take_is_refused_with_its_own_words(
    text: str,
) -> None:
    async with node() as (kubelet, _):
        await kubelet.set_faults(Faults(refuse_registrations=1, refuse_text=text))

        with pytest.raises(KubeletRefused) as caught:
            await client(kubelet).register(MINE, timeout_seconds=SECONDS)

    assert text in str(caught.value)
    assert RESOURCE in str(caught.value)
    assert caught.value.__cause__ is not None


async def test_a_name_that_is_no_extended_resource_is_refused_by_the_kubelet_itself() -> None:
    async with node() as (kubelet, _):
        wrong = Registration(endpoint=MINE.endpoint, resource_name="kubernetes.io/gpu-mem")

        with pytest.raises(KubeletRefused, match=r"kubernetes\.io/gpu-mem"):
            await client(kubelet).register(wrong, timeout_seconds=SECONDS)


async def test_a_kubelet_without_the_api_is_refused_with_the_version_that_has_it() -> None:
    async with node() as (kubelet, _):
        await kubelet.set_faults(
            Faults(refuse_registrations=1, refuse_text="unknown", refuse_status="UNIMPLEMENTED")
        )

        with pytest.raises(KubeletRefused, match=r"Kubernetes 1\.10 or later"):
            await client(kubelet).register(MINE, timeout_seconds=SECONDS)


# ------------------------------------------------------------------------- not now


async def test_a_kubelet_that_refuses_for_now_is_unavailable_in_its_own_words() -> None:
    async with node() as (kubelet, _):
        await kubelet.set_faults(Faults(refuse_registrations=1, refuse_text="starting up"))

        with pytest.raises(KubeletUnavailable, match=f"did not register {RESOURCE}: starting up"):
            await client(kubelet).register(MINE, timeout_seconds=SECONDS)
        await client(kubelet).register(MINE, timeout_seconds=SECONDS)


async def test_a_plugin_that_the_kubelet_cannot_dial_is_not_refused_for_good() -> None:
    async with running_kubelet(dial_seconds=0.1) as kubelet:
        with pytest.raises(KubeletUnavailable):
            await client(kubelet).register(MINE, timeout_seconds=SECONDS)


async def test_a_kubelet_that_hangs_is_given_up_after_the_time() -> None:
    async with node() as (kubelet, _):
        await kubelet.set_faults(Faults(register_hangs=True))

        with pytest.raises(KubeletUnavailable, match="Deadline Exceeded"):
            await client(kubelet).register(MINE, timeout_seconds=0.2)


async def test_a_socket_that_nobody_serves_is_unavailable(short_path: Path) -> None:
    path = dead_socket(short_path / "kubelet.sock")

    with pytest.raises(KubeletUnavailable, match=f"no kubelet answers at {path}"):
        await KubeletClient(path).register(MINE, timeout_seconds=SECONDS)


@pytest.mark.parametrize("name", ["kubelet.sock", "k" * 120])
async def test_a_socket_that_is_not_there_or_cannot_be_is_unavailable(
    name: str, short_path: Path
) -> None:
    with pytest.raises(KubeletUnavailable, match=str(short_path)):
        await KubeletClient(short_path / name).register(MINE, timeout_seconds=SECONDS)


async def test_b01_a_kubelet_that_comes_later_is_reached_by_the_same_client() -> None:
    async with node() as (kubelet, _):
        registering = client(kubelet)
        await kubelet.stop()
        with pytest.raises(KubeletUnavailable):
            await registering.register(MINE, timeout_seconds=SECONDS)
        await kubelet.start()

        async with TinyPlugin(kubelet, devices(2)):
            await registering.register(MINE, timeout_seconds=SECONDS)


# -------------------------------------------------------- our own plugin, as it is seen


async def test_a_plugin_that_serves_answers() -> None:
    async with node() as (_, plugin):
        assert await plugin_answers(plugin.path, timeout_seconds=SECONDS)


async def test_a_plugin_whose_socket_is_dead_or_gone_does_not_answer(short_path: Path) -> None:
    dead = dead_socket(short_path / "dead.sock")

    assert not await plugin_answers(dead, timeout_seconds=SECONDS)
    assert not await plugin_answers(short_path / "gone.sock", timeout_seconds=SECONDS)


async def test_b21_a_plugin_that_hangs_does_not_answer(short_path: Path) -> None:
    path = short_path / "mute.sock"

    with mute_server(path):
        assert not await plugin_answers(path, timeout_seconds=0.2)
