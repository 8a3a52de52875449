"""Start the image as a node would, beside the simulated kubelet, and see it serve.

    python image_check.py --root FOLDER --image IMAGE.json --manifest daemonset.yaml

Rule 1: what the image and the manifest say is what runs: entry point, arguments,
environment, mounts, probes, a read-only root, no capability. Nothing of it stands here.
Rule 2: only what a machine without GPU and cluster lacks is put in: simulated GPUs, no
API server, a free port.
Rule 3: what is started is stopped, by its process ID, however it ends.
"""

import argparse
import asyncio
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from gpushare_plugin.sim.kubelet import KubeletControl
from gpushare_plugin.sim.kubelet.pods import ContainerSpec, Phase, PodSpec

RESOURCE = "aliyun.com/gpu-mem"
UNITS = 30
LIMIT_SECONDS = 60.0
LOOK_AGAIN_SECONDS = 0.1
LENT = ("etc/pip.conf", "run/secrets", "root/.config/pip", "etc/apt/sources.list")
DEVICES = ("null", "zero", "full", "random", "urandom")
SIMULATION = {
    "GPUSHARE_SIMULATE": "t4-x2",
    "GPUSHARE_WITHOUT_CLUSTER": "on",
    "GPUSHARE_STATUS_ADDRESS": "127.0.0.1:0",
}


class NotAsItShouldBe(Exception):
    """The image does not do what a node needs; the text says what."""


def main() -> None:
    """Check, and tell; the exit code says whether all was well."""
    parser = argparse.ArgumentParser()
    for name in ("root", "image", "manifest"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    given = parser.parse_args()
    image = json.loads(given.image.read_text(encoding="utf-8"))
    config = (image.get("OCIv1") or image["Docker"])["config"]
    documents = yaml.safe_load_all(given.manifest.read_text(encoding="utf-8"))
    pod = next(each for each in documents if each["kind"] == "DaemonSet")["spec"]["template"]
    # gRPC's C core has a log of its own; here and in the kubelet it tells nothing.
    os.environ["GRPC_VERBOSITY"] = "NONE"
    folder = Path(tempfile.mkdtemp(prefix="gs"))
    log = folder / "log"
    try:
        _say("of the build it keeps", _kept(given.root))
        asyncio.run(_check(folder, given.root, config, pod["spec"]))
    except (NotAsItShouldBe, TimeoutError) as error:
        print(log.read_text(encoding="utf-8") if log.exists() else "no log")
        late = isinstance(error, TimeoutError)
        sys.exit(f"image: not as it should be: {'it took too long' if late else error}")
    finally:
        shutil.rmtree(folder)


async def _check(folder: Path, root: Path, config: Mapping[str, Any], pod: Any) -> None:
    host = folder / "node"
    for volume in pod["volumes"]:
        if "hostPath" in volume:
            (host / volume["hostPath"]["path"].lstrip("/")).mkdir(parents=True)
    container = pod["containers"][0]
    control = KubeletControl(folder / "control.sock")
    async with asyncio.timeout(LIMIT_SECONDS), _kubelet(folder, host):
        await control.ready(timeout_seconds=LIMIT_SECONDS)
        async with _daemon(folder, root, config, pod) as daemon:
            address = await _status_address(folder / "log", daemon)
            _say("it runs as", _confined(daemon.pid))
            for probe in ("livenessProbe", "readinessProbe"):
                path = container[probe]["httpGet"]["path"]
                _say(f"{path} answers", await _answer(f"{address}{path}", daemon))
            await control.allocatable(RESOURCE, equals=UNITS, timeout_seconds=LIMIT_SECONDS)
            _say("the kubelet has", f"{UNITS} units of {RESOURCE}")
            _say("a pod of 4 units is", await _admitted(control))
            daemon.send_signal(signal.SIGTERM)
            if await daemon.wait() != 0:
                raise NotAsItShouldBe(f"SIGTERM ended it with {daemon.returncode}, expected 0")
            _say("SIGTERM ends it with", "0")


def _kept(root: Path) -> str:
    """Say that neither tools of the build nor what it was lent are in the image."""
    names = [*(f"usr/bin/{tool}" for tool in ("cc", "gcc", "pip3")), *LENT]
    found = [name for name in names if os.path.lexists(root / name)]
    if found:
        raise NotAsItShouldBe(f"expected no trace of the build, found {', '.join(found)}")
    return "no compiler and no setting of a package index"


@asynccontextmanager
async def _kubelet(folder: Path, host: Path) -> AsyncIterator[None]:
    kubelet = host / "var/lib/kubelet"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gpushare_plugin.sim.kubelet"),
        *("--plugin-dir", str(kubelet / "device-plugins")),
        *("--pod-resources-socket", str(kubelet / "pod-resources/kubelet.sock")),
        *("--control-socket", str(folder / "control.sock")),
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        await _stop(process)


@asynccontextmanager
async def _daemon(
    folder: Path, root: Path, config: Mapping[str, Any], pod: Any
) -> AsyncIterator[asyncio.subprocess.Process]:
    container = pod["containers"][0]
    from_image = dict(each.split("=", 1) for each in config["Env"])
    from_manifest = {each["name"]: each.get("value", "node-a") for each in container["env"]}
    command = [*container.get("command", config["Entrypoint"]), *container["args"]]
    script = "\n".join(_as_a_runtime(folder / "node", root, pod, command))
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *("unshare", "--mount", "--propagation", "private", "sh", "-euc", script),
            env={"HOME": "/root", **from_image, **from_manifest, **SIMULATION},
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        await _stop(process)


def _as_a_runtime(host: Path, root: Path, pod: Any, command: list[str]) -> Iterator[str]:
    """Yield the lines of a shell script that does what a container runtime does."""
    container = pod["containers"][0]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    there = shlex.quote(str(root))
    yield f"mount --bind {there} {there}"
    yield f"mkdir -p {there}/dev {there}/proc"
    yield f"mount -t tmpfs tmpfs {there}/dev && mount -t proc proc {there}/proc"
    for device in DEVICES:
        yield f"touch {there}/dev/{device} && mount --bind /dev/{device} {there}/dev/{device}"
    for mount in container["volumeMounts"]:
        target = f"{there}{mount['mountPath']}"
        volume = volumes[mount["name"]]
        yield f"mkdir -p {target}"
        if "emptyDir" in volume:
            yield f"mount -t tmpfs tmpfs {target}"
            continue
        source = shlex.quote(f"{host}{volume['hostPath']['path']}")
        yield f"mount --bind {source} {target}"
        if mount.get("readOnly"):
            yield f"mount -o remount,ro,bind {target}"
    if container["securityContext"]["readOnlyRootFilesystem"]:
        yield f"mount -o remount,ro,bind {there}"
    bare = "setpriv --no-new-privs --bounding-set=-all --inh-caps=-all"
    yield f"exec chroot {there} {bare} {shlex.join(command)}"


def _confined(pid: int) -> str:
    """Say how little the process may do, by the kernel's word."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    fields = dict(line.split(":", 1) for line in status.splitlines())
    capabilities = {int(fields[name], 16) for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")}
    if capabilities != {0} or fields["NoNewPrivs"].strip() != "1":
        raise NotAsItShouldBe(f"expected no capability and no new privileges, found:\n{status}")
    return f"user {fields['Uid'].split()[0]} with no capability on a read-only root"


async def _status_address(log: Path, daemon: asyncio.subprocess.Process) -> str:
    """Return where the status pages are, once the log says so."""
    while True:
        for line in _lines(log):
            if " status_pages " in line:
                fields = dict(each.split("=", 1) for each in line.split() if "=" in each)
                return f"http://{fields['host']}:{fields['port']}"
        await _look_again(daemon)


def _lines(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8").splitlines()


async def _answer(url: str, daemon: asyncio.subprocess.Process) -> str:
    """Return what the page says once it says that all is well."""
    async with aiohttp.ClientSession() as http:
        while True:
            async with http.get(url) as page:
                text = await page.text()
                if page.status == 200:  # noqa: PLR2004
                    return text.strip()
            await _look_again(daemon)


async def _admitted(control: KubeletControl) -> str:
    requests = {RESOURCE: 4}
    pod = PodSpec(name="one", uid="1", containers=(ContainerSpec(name="c", requests=requests),))
    status = await control.admit(pod)
    if status.phase is not Phase.RUNNING:
        raise NotAsItShouldBe(f"a pod of 4 units is {status.phase.value}: {status}")
    return status.phase.value


async def _look_again(daemon: asyncio.subprocess.Process) -> None:
    if daemon.returncode is not None:
        raise NotAsItShouldBe(f"it ended with {daemon.returncode}")
    await asyncio.sleep(LOOK_AGAIN_SECONDS)


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        os.kill(process.pid, signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), 5)
        except TimeoutError:
            process.kill()
            await process.wait()


def _say(what: str, found: str) -> None:
    print(f"image: {what} {found}")


if __name__ == "__main__":
    main()
