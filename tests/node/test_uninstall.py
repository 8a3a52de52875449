"""`gpushare uninstall`: what the product wrote on node objects goes, and nothing else does."""

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpushare_plugin.app.uninstall import Wanted, uninstall
from gpushare_plugin.errors import ApiError, ApiNotFound, ConfigError
from gpushare_plugin.sim.apiserver import Fault, FaultKind, SimApiServer
from tests.node.event_log import EventLog
from tests.node.two_resources import NODE, Asked, cluster_in
from tests.node.waiting import eventually

MEMORY, CORES, COUNT = (
    "aliyun.com/gpu-mem",
    "aliyun.com/gpu-core.percentage",
    "aliyun.com/gpu-count",
)
OURS = {MEMORY: "0", CORES: "0", COUNT: "2"}
READY = [{"type": "Ready", "status": "True"}]


def node(
    name: str,
    *,
    marked: bool = True,
    capacity: Mapping[str, str] | None = None,
    allocatable: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A node object with keys and resources of others beside ours."""
    annotations = {"gpushare.io/gpus": "{}", "gpushare.io/health": "{}"} if marked else {}
    labels = {"gpushare.io/count": "2"} if marked else {}
    capacity = OURS if capacity is None else capacity
    allocatable = capacity if allocatable is None else allocatable
    return {
        "metadata": {
            "name": name,
            "annotations": {"example.com/note": "gpushare.io/x", **annotations},
            "labels": {"gpushare": "true", "cgpu.disable.isolation": "true", **labels},
        },
        "status": {
            "capacity": {"cpu": "8", **capacity},
            "allocatable": {"cpu": "7", **allocatable},
            "conditions": READY,
        },
    }


def wanted(api: SimApiServer, folder: Path, **changes: Any) -> Wanted:
    file = folder / "kubeconfig"
    file.write_text(api.kubeconfig(), encoding="utf-8")
    return replace(Wanted(node=None, kubeconfig=file), **changes)


async def run(api: SimApiServer, folder: Path, **changes: Any) -> list[str]:
    """Uninstall; return the lines it said."""
    lines: list[str] = []
    await uninstall(wanted(api, folder, **changes), lines.append)
    return lines


def keys(api: SimApiServer, name: str) -> tuple[set[str], set[str], set[str], set[str]]:
    """Annotations, labels, capacity and allocatable of a node, by name."""
    found = api.get("nodes", name)
    meta, status = found["metadata"], found["status"]
    return (
        set(meta["annotations"]),
        set(meta["labels"]),
        set(status["capacity"]),
        set(status["allocatable"]),
    )


CLEAN = ({"example.com/note"}, {"gpushare", "cgpu.disable.isolation"}, {"cpu"}, {"cpu"})


async def test_b24_everything_of_ours_goes_and_all_else_stays(tmp_path: Path) -> None:
    async with SimApiServer() as api:
        await api.create("nodes", node("a"))

        lines = await run(api, tmp_path, node="a")

        assert keys(api, "a") == CLEAN
    [line] = lines
    assert line == (
        "node a: took off annotations gpushare.io/gpus, gpushare.io/health; labels"
        f" gpushare.io/count; resources {MEMORY}, {CORES}, {COUNT}"
    )


async def test_it_goes_by_one_patch_of_the_status_alone(tmp_path: Path) -> None:
    async with SimApiServer() as api:
        await api.create("nodes", node("a"))

        await run(api, tmp_path, node="a")

        calls = [f"{call.verb} {call.resource}" for call in api.calls()]
    assert calls == ["get nodes", "patch nodes/status"]


async def test_one_node_is_cleaned_and_its_neighbour_is_not(tmp_path: Path) -> None:
    async with SimApiServer() as api:
        await api.create("nodes", node("a"))
        await api.create("nodes", node("b"))

        await run(api, tmp_path, node="b")

        assert keys(api, "b") == CLEAN
        assert keys(api, "a") != CLEAN


async def test_all_nodes_are_cleaned_and_those_with_nothing_are_passed_over(tmp_path: Path) -> None:
    async with SimApiServer() as api:
        await api.create_many("nodes", node("n{n}"), 150)
        await api.create("nodes", node("other", marked=False, capacity={}))

        lines = await run(api, tmp_path)

        assert all(keys(api, f"n{n}") == CLEAN for n in range(150))
    assert len(lines) == 150


async def test_a_dry_run_says_the_same_and_changes_nothing(tmp_path: Path) -> None:
    async with SimApiServer() as api:
        await api.create("nodes", node("a"))
        before = api.get("nodes", "a")

        [line] = await run(api, tmp_path, dry_run=True)

        assert api.get("nodes", "a") == before
    assert line.startswith("node a: would take off annotations gpushare.io/gpus")


async def test_a_second_run_finds_nothing_of_ours(tmp_path: Path) -> None:
    async with SimApiServer() as api:
        await api.create("nodes", node("a"))
        await run(api, tmp_path)

        assert await run(api, tmp_path) == []
        assert await run(api, tmp_path, node="a") == ["node a: nothing of ours is there"]


async def test_b24_what_the_kubelet_leaves_at_0_goes_even_without_our_keys(tmp_path: Path) -> None:
    async with SimApiServer() as api:
        await api.create("nodes", node("a", marked=False))
        of_another = {MEMORY: "30", COUNT: "2"}
        ill = node("b", marked=False, capacity=of_another, allocatable={MEMORY: "0", COUNT: "2"})
        await api.create("nodes", ill)

        await run(api, tmp_path)

        assert keys(api, "a") == CLEAN
        assert keys(api, "b")[2] == {"cpu", *of_another}


async def test_what_a_plugin_still_serves_stays_and_what_to_do_first_is_said(
    tmp_path: Path,
) -> None:
    async with SimApiServer() as api:
        served = node("a", capacity={MEMORY: "30", CORES: "0", COUNT: "2"})
        await api.create("nodes", served)

        lines = await run(api, tmp_path)

        found = keys(api, "a")
    assert found == (CLEAN[0], CLEAN[1], {"cpu", MEMORY, COUNT}, {"cpu", MEMORY, COUNT})
    assert lines[1].startswith(f"node a: {MEMORY} is still served by a device plugin and stays")
    assert "delete its DaemonSet" in lines[1]


async def test_what_a_dead_kubelet_said_last_does_not_keep_a_resource(tmp_path: Path) -> None:
    async with SimApiServer() as api:
        dead = node("a", capacity={MEMORY: "30", COUNT: "2"})
        dead["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
        await api.create("nodes", dead)

        await run(api, tmp_path)

        assert keys(api, "a") == CLEAN


async def test_a_renamed_resource_goes_where_it_is_named(tmp_path: Path) -> None:
    async with SimApiServer() as api:
        await api.create("nodes", node("a", capacity={"example.com/vram": "0", COUNT: "2"}))

        await run(api, tmp_path, renamed=("example.com/vram",))

        assert keys(api, "a") == CLEAN


async def test_names_of_the_other_dialect_go_too(tmp_path: Path) -> None:
    tencent = {"tencent.com/vcuda-memory": "0", "tencent.com/vcuda-core": "0"}
    async with SimApiServer() as api:
        await api.create("nodes", node("a", capacity=tencent))

        await run(api, tmp_path)

        assert keys(api, "a") == CLEAN


async def test_a_node_that_fails_is_said_and_the_others_are_cleaned(tmp_path: Path) -> None:
    async with SimApiServer() as api:
        for name in ("a", "b", "c"):
            await api.create("nodes", node(name))
        refused = Fault(kind=FaultKind.STATUS, verbs=("patch",), resource="*", name="b", status=403)
        await api.inject(refused)

        lines: list[str] = []
        with pytest.raises(ApiError):
            await uninstall(wanted(api, tmp_path), lines.append)

        assert keys(api, "a") == keys(api, "c") == CLEAN
        assert keys(api, "b") != CLEAN
    assert [line for line in lines if "failed" in line] == [lines[1]]
    assert lines[1].startswith("node b: failed: ")


async def test_a_node_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    async with SimApiServer() as api:
        with pytest.raises(ApiNotFound, match="nodes none"):
            await run(api, tmp_path, node="none")


async def test_a_resource_name_that_is_none_is_refused_before_anything_is_asked(
    tmp_path: Path,
) -> None:
    async with SimApiServer() as api:
        with pytest.raises(ConfigError, match="expected an extended resource name"):
            await run(api, tmp_path, renamed=("vram",))

        assert api.calls() == ()


async def test_what_a_daemon_wrote_goes_after_it_and_the_pods_record_stays(
    short_path: Path, log: EventLog
) -> None:
    async with cluster_in(short_path, log, core_resource="on") as cluster:
        await cluster.node.ready()
        await cluster.api.patch("nodes", NODE, {"status": {"capacity": {MEMORY: "30"}}})
        await cluster.run(Asked(name="a", containers={"main": (4, 0)}))
        await eventually(lambda: COUNT in _capacity(cluster.api))
        await eventually(lambda: "gpushare.io/allocation" in _pod_keys(cluster.api))
        cluster.node.running.cancel()
        await asyncio.gather(cluster.node.running, return_exceptions=True)

        await run(cluster.api, short_path, node=NODE)

        found = cluster.api.get("nodes", NODE)
        stays = _pod_keys(cluster.api)
    assert "gpushare.io/" not in str(found["metadata"])
    assert "aliyun.com/" not in str(found["status"])
    assert "gpushare.io/allocation" in stays


# ------------------------------------------------------------------------ the command line


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--all-nodes",), 0, "node a: took off annotations"),
        (("--node", "a", "--dry-run"), 0, "node a: would take off annotations"),
        (("--node", "none"), 1, "error cannot_work"),
        (("--all-nodes", "--resource-name", "vram"), 2, "error bad_configuration"),
        ((), 2, "expected either --node NAME or --all-nodes"),
        (("--node", "a", "--all-nodes"), 2, "expected either --node NAME or --all-nodes"),
    ],
)
async def test_the_command_ends_with_the_exit_code_of_the_others(
    tmp_path: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    async with SimApiServer() as api:
        await api.create("nodes", node("a"))
        file = wanted(api, tmp_path).kubeconfig

        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "gpushare_plugin", "uninstall", "--kubeconfig", str(file)),
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()

    assert process.returncode == code, output.decode()
    assert words in output.decode()


def _capacity(api: SimApiServer) -> Mapping[str, str]:
    found: Mapping[str, str] = api.get("nodes", NODE)["status"]["capacity"]
    return found


def _pod_keys(api: SimApiServer) -> set[str]:
    return set(api.get("pods", "a")["metadata"].get("annotations", {}))
