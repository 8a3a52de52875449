"""Bad input to the process: a clear message and an exit code, or a daemon that waits."""

import socket
from pathlib import Path

import pytest

from gpushare_plugin.sim.kubelet import Faults, Phase
from tests.e2e.processes import daemon, kubelet, node_arguments, pod, ready

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60)]

CANNOT_WORK, BAD_CONFIGURATION = 1, 2


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        pytest.param(
            ["--memory-unit", "GB"],
            ["--memory-unit: ", "found 'GB', expected GiB, MiB, or a whole number of them"],
            id="unit",
        ),
        pytest.param(
            ["--dialect", "nvidia"], ["--dialect: ", "found 'nvidia', expected one of aliyun"]
        ),
        pytest.param(["--policy", "worst-fit"], ["--policy: ", "expected one of binpack, spread"]),
        pytest.param(["--resource-name", "gpu-mem"], ["--resource-name: ", "example.com/gpu-mem"]),
        pytest.param(["--config", "/nonexistent.yaml"], ["/nonexistent.yaml: cannot be read"]),
        pytest.param(["--config", "/"], ["/: cannot be read: Is a directory"], id="a folder"),
        pytest.param(["--plugin-dir", "relative"], ["--plugin-dir: ", "absolute path"]),
        pytest.param(["--isolation", "driver"], ["isolation driver: the driver is 570.124.06"]),
        pytest.param(
            ["--memory-unit", "1MiB", "--simulate", "h200-x8"],
            ["memory unit MiB: ", "the smallest unit that fits here is 8MiB"],
            id="unit too small",
        ),
        pytest.param(["--simulate", "none-such"], ["found profile 'none-such'"], id="profile"),
    ],
)
async def test_a_wrong_value_stops_the_start_and_says_what_was_expected(
    short_path: Path, arguments: list[str], parts: list[str]
) -> None:
    async with daemon(node_arguments(short_path, *arguments)) as node:
        code = await node.exit_code()

    expected = CANNOT_WORK if "none-such" in arguments else BAD_CONFIGURATION
    assert code == expected
    [line] = [each for each in node.lines if " error " in each]
    assert all(part in line for part in parts), line
    assert not any("Traceback" in each for each in node.lines)


async def test_a_file_that_is_no_yaml_stops_the_start(short_path: Path) -> None:
    file = short_path / "config.yaml"
    file.write_text("memory-unit: [\n", encoding="utf-8")

    async with daemon(node_arguments(short_path, "--config", str(file))) as node:
        code = await node.exit_code()

    assert code == BAD_CONFIGURATION
    assert f"{file}: is not YAML" in "\n".join(node.lines)


async def test_an_unknown_option_stops_the_start(short_path: Path) -> None:
    async with daemon(node_arguments(short_path, "--no-such-option")) as node:
        code = await node.exit_code()

    assert code == BAD_CONFIGURATION
    assert "Error: No such option" in "\n".join(node.lines)


async def test_a_variable_is_named_where_its_value_is_wrong(short_path: Path) -> None:
    async with daemon(node_arguments(short_path), environ={"GPUSHARE_POLICY": "best"}) as node:
        code = await node.exit_code()

    assert code == BAD_CONFIGURATION
    assert "GPUSHARE_POLICY: found 'best'" in "\n".join(node.lines)


async def test_a_kubelet_that_will_never_take_us_ends_the_daemon_with_the_reason(
    short_path: Path,
) -> None:
    text = 'requested API version "v1beta1" is not supported by kubelet. Supported is ["v2"]'
    async with kubelet(short_path) as driven:
        await driven.set_faults(Faults(refuse_registrations=1, refuse_text=text))
        async with daemon(node_arguments(short_path)) as node:
            code = await node.exit_code()
    assert code == CANNOT_WORK
    [line] = node.of("cannot_work")
    assert "is not supported by kubelet" in line["error"]
    assert not any("Traceback" in each for each in node.lines)


async def test_a_folder_without_permission_is_waited_for(short_path: Path) -> None:
    # Not even root may make a file there.
    arguments = node_arguments(short_path, "--plugin-dir", "/sys/kernel")
    async with daemon(arguments) as node:
        line = await node.said("plugin_folder_unavailable")

        page = await node.page("/readyz")
        assert "503" in page
        assert "cannot be made" in page
        assert await node.stop() == 0
    assert "expected the kubelet's plugin folder, writable" in line["error"]


async def test_a_port_that_is_taken_does_not_keep_the_kubelet_waiting(short_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        async with (
            kubelet(short_path) as driven,
            daemon(node_arguments(short_path, "--status-address", address)) as node,
        ):
            await ready(driven)
            await node.said("status_address_unavailable")


async def test_the_originals_own_command_line_works(short_path: Path) -> None:
    # That of its DaemonSet, and every flag of its binary in Go's ways of writing them.
    originals = [
        *("-logtostderr", "--v=5", "--memory-unit=GiB"),
        *("-health-check=true", "-mps=false", "-query-kubelet", "--kubelet-address=0.0.0.0"),
        *("-kubelet-port", "10250", "-client-cert", "", "-client-key=", "-token=", "-timeout=10"),
        *("-alsologtostderr", "-stderrthreshold=2", "-vmodule=", "-log_dir=", "-v", "5"),
    ]
    environ = {"NODE_NAME": "gpu-a", "KUBECONFIG": "/etc/kubernetes/kubelet.conf"}
    async with (
        kubelet(short_path) as driven,
        daemon(node_arguments(short_path, *originals), environ=environ) as node,
    ):
        await ready(driven)
        status = await driven.admit(pod("a", 3))

    assert status.phase is Phase.RUNNING
    assert status.container("c0").env["ALIYUN_COM_GPU_MEM_CONTAINER"] == "3"
    dropped = {line["option"] for line in node.of("option_without_effect")}
    assert {"--logtostderr", "--v", "--mps", "--query-kubelet", "--token"} <= dropped


async def test_b18_a_proxy_in_the_environment_is_not_for_sockets(short_path: Path) -> None:
    names = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")
    proxies = {name: "http://192.0.2.1:3128" for each in names for name in (each, each.upper())}
    async with (
        kubelet(short_path) as driven,
        daemon(node_arguments(short_path), environ=proxies | {"no_proxy": ""}) as node,
    ):
        await ready(driven)
        await driven.admit(pod("a", 3))
        line = await node.said("allocated")

    assert line["pod"] == "default/a"
