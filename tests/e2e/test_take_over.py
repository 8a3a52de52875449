"""From the original's plugin to ours on a node with pods, and back again."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpushare_plugin.sim.apiserver import ApiServerSettings, SimApiServer
from gpushare_plugin.sim.kubelet import Phase, PodSpec, PodStatus, SimKubelet
from gpushare_plugin.sim.kubelet.settings import CHECKPOINT_FILE
from tests.e2e.original import ASSIGNED, SOCKET, original
from tests.e2e.processes import DaemonProcess, daemon
from tests.node.clusters import (
    ALLOCATION,
    COUNT,
    INDEX,
    NODE,
    bind,
    cards_of,
    chosen,
    in_cluster,
    make_node,
)
from tests.node.nodes import FIRST, RESOURCE, SECOND, kubelet_settings, metric
from tests.node.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90)]

CARDS, UNITS = (FIRST, SECOND), 15
POD_UNITS = "ALIYUN_COM_GPU_MEM_POD"
RUNNING = Phase.RUNNING


def placed(card: int, units: int) -> dict[str, str]:
    """What the original's extender writes on a pod when it binds it."""
    amounts = {POD_UNITS: str(units), "ALIYUN_COM_GPU_MEM_DEV": str(UNITS)}
    return chosen(card, ours=False) | amounts


@dataclass(kw_only=True)
class Machine:
    """A node and its API server; plugins come and go."""

    folder: Path
    api: SimApiServer
    kubelet: SimKubelet

    async def run(
        self, name: str, units: int, choice: Mapping[str, str] | None = None
    ) -> PodStatus:
        """Have a pod bound and admitted; its phase is told as by a kubelet."""
        status = await self.kubelet.admit(await self.bind(name, units, choice))
        await self.api.set_pod_phase(name, status.phase.value)
        return status

    async def bind(self, name: str, units: int, choice: Mapping[str, str] | None = None) -> PodSpec:
        return await bind(self.api, name, units, annotations=choice or {})

    def annotations(self, name: str) -> dict[str, str]:
        return dict(self.api.get("pods", name)["metadata"].get("annotations") or {})

    async def published(self, name: str) -> dict[str, str]:
        await eventually(lambda: self.annotations(name).get(ASSIGNED) == "true")
        return self.annotations(name)

    def checkpoint(self) -> list[str]:
        """The device IDs that the kubelet's checkpoint knows."""
        file = self.kubelet.settings.plugin_dir / CHECKPOINT_FILE
        entries = json.loads(file.read_text())["Data"]["PodDeviceEntries"]
        return [each for entry in entries for ids in entry["DeviceIDs"].values() for each in ids]

    @asynccontextmanager
    async def ours(self) -> AsyncIterator[DaemonProcess]:
        """Our daemon as a process, until the kubelet has its units."""
        settings = in_cluster(self.folder, self.api)
        plugins, pods = kubelet_settings(self.folder).plugin_dir, self.folder / "pods/kubelet.sock"
        arguments = [
            *("node", "--simulate", "t4-x2", "--simulate-events", f"{self.folder}/events"),
            *("--plugin-dir", str(plugins), "--pod-resources-socket", str(pods)),
            *("--node-name", NODE, "--kubeconfig", settings["kubeconfig"]),
            *("--status-address", "127.0.0.1:0", "--tick-seconds", "0.2"),
        ]
        async with daemon(arguments, environ={"GPUSHARE_WITHOUT_CLUSTER": "off"}) as process:
            await process.said("registered")
            await self.kubelet.allocatable(RESOURCE, equals=2 * UNITS, timeout_seconds=15)
            await process.said("watch_works", times=2)
            yield process


@asynccontextmanager
async def machine_in(folder: Path) -> AsyncIterator[Machine]:
    settings = ApiServerSettings(managed_fields_bytes=0)
    async with (
        SimApiServer(settings) as api,
        SimKubelet(kubelet_settings(folder)) as kubelet,
    ):
        await make_node(api)
        yield Machine(folder=folder, api=api, kubelet=kubelet)


async def allocated(node: DaemonProcess, page: list[str], **units: float) -> bool:
    """Say whether the page shows so many units of each card; keep the page."""
    page[:] = [await node.page("/metrics")]
    name = "gpushare_card_allocated_units"
    return all(metric(page[0], name, index=index[1:]) == n for index, n in units.items())


async def test_new_pods_are_placed_beside_those_of_the_originals_time(short_path: Path) -> None:
    async with machine_in(short_path) as machine:
        async with original(machine.kubelet, machine.api, CARDS, units=UNITS):
            old = [
                await machine.run("old-0", 10, placed(0, 10)),
                await machine.run("old-1", 3, placed(1, 3)),
            ]
        before = [machine.annotations(name) for name in ("old-0", "old-1")]
        await machine.kubelet.restart()
        assert len(machine.checkpoint()) == 13
        assert all("-_-" in each for each in machine.checkpoint())

        async with machine.ours() as node:
            # 5 units of the first card are left and 12 of the second, whatever the IDs say.
            around = await machine.run("around", 6)
            first = await machine.run("first", 5, placed(0, 5))
            second = await machine.run("second", 6, placed(1, 6))
            refused = await machine.run("too-much", 1)
            records = [json.loads((await machine.published(name))[ALLOCATION]) for name in NEW]
            page: list[str] = []
            await eventually(lambda: allocated(node, page, _0=15, _1=15))
            ready = await node.page("/readyz")
            after = [machine.annotations(name) for name in ("old-0", "old-1")]
            assert all("-_-" in each for each in old[0].containers[0].devices[RESOURCE])

            await machine.kubelet.delete_pod(machine.api.get("pods", "old-0")["metadata"]["uid"])
            await machine.api.delete("pods", "old-0")
            freed = await machine.run("freed", 10)

    assert [cards_of(each) for each in old] == [["0"], ["1"]]
    assert [cards_of(each) for each in (around, first, second)] == [["1"], ["0"], ["1"]]
    assert records == [{"c0": {SECOND: 6}}, {"c0": {FIRST: 5}}, {"c0": {SECOND: 6}}]
    assert refused.phase is Phase.FAILED
    assert "no card of this node had 1 units free" in refused.message
    assert metric(page[0], "gpushare_container_units", pod="old-0", uuid=FIRST) == 10
    assert metric(page[0], "gpushare_container_units", pod="old-1", uuid=SECOND) == 3
    assert metric(page[0], "gpushare_unplaced_units") == 0
    assert ready.startswith("HTTP/1.0 200")
    assert after == before
    assert (freed.phase, cards_of(freed)) == (RUNNING, ["0"])


NEW = ("around", "first", "second")


async def test_a_pod_of_which_nothing_tells_the_card_is_counted_apart(short_path: Path) -> None:
    async with machine_in(short_path) as machine:
        async with original(machine.kubelet, machine.api, CARDS, units=UNITS):
            # Around the extender, on a node of two cards: it gets an environment of no card.
            await machine.run("lost", 4)
        async with machine.ours() as node:
            page: list[str] = []
            await eventually(lambda: allocated(node, page, _0=0, _1=0))

            assert metric(page[0], "gpushare_unplaced_units") == 4
            assert ALLOCATION not in machine.annotations("lost")


@pytest.mark.parametrize("uninstalled", [True, False], ids=["uninstalled", "just removed"])
async def test_back_to_the_original_nothing_of_ours_is_in_its_way(
    short_path: Path, *, uninstalled: bool
) -> None:
    async with machine_in(short_path) as machine:
        async with machine.ours() as node:
            await machine.api.patch("nodes", NODE, {"status": {"capacity": {RESOURCE: "30"}}})
            await machine.run("placed", 4, placed(1, 4))
            around = await machine.run("around", 3)
            # Its image is being pulled, so it is Pending: but no candidate any more.
            await machine.kubelet.admit(await machine.bind("pulling", 5, placed(0, 5)))
            kept = {name: await machine.published(name) for name in OURS}
            await eventually(lambda: COUNT in _capacity(machine))
            assert await node.stop() == 0
        if uninstalled:
            await _uninstall(machine)

        async with original(machine.kubelet, machine.api, CARDS, units=UNITS) as plugin:
            back = await machine.run("back", 5, placed(1, 5))
            registered = machine.kubelet.state().registrations[-1]
        files = {path.name for path in machine.kubelet.settings.plugin_dir.iterdir()}
        counted = _counted_by_the_originals_extender(machine)

    assert registered.endpoint == SOCKET
    assert plugin.patched_count is uninstalled
    assert (back.phase, cards_of(back)) == (RUNNING, ["1"])
    assert {name: machine.annotations(name) for name in OURS} == kept
    assert counted == Counter({"0": 5, "1": 4 + 5}) + Counter({cards_of(around)[0]: 3})
    assert not [name for name in files if name.endswith(".sock") and name != "kubelet.sock"]
    node_keys = {*machine.api.get("nodes", NODE)["metadata"].get("annotations", {})}
    assert any(key.startswith("gpushare.io/") for key in node_keys) is not uninstalled


OURS = ("placed", "around", "pulling")


async def _uninstall(machine: Machine) -> None:
    # The kubelet shows 0 once the plugin has been gone for five minutes.
    await machine.api.patch("nodes", NODE, {"status": {"capacity": {RESOURCE: "0"}}})
    kubeconfig = str(machine.folder / "kubeconfig")
    async with daemon(["uninstall", "--all-nodes", "--kubeconfig", kubeconfig]) as process:
        assert await process.exit_code() == 0
    assert COUNT not in _capacity(machine)


def _capacity(machine: Machine) -> dict[str, str]:
    return dict(machine.api.get("nodes", NODE)["status"]["capacity"])


def _counted_by_the_originals_extender(machine: Machine) -> Counter[str]:
    """Return the units of each card index, as the annotations of the pods tell them."""
    found: Counter[str] = Counter()
    for pod in machine.api.objects("pods", namespace="default"):
        annotations = pod["metadata"].get("annotations") or {}
        if INDEX in annotations:
            index, units = annotations[INDEX], int(annotations[POD_UNITS])
            found[index] += units
    return found
