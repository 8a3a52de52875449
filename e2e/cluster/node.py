"""One node: containerd and a kubelet, in a mount namespace of their own.

The kubelet's folder is /var/lib/kubelet there, as on a real node, since the manifests
under test mount it.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from e2e import sandbox
from e2e.cluster.programs import Program, wait_until

CONTAINERD = """\
version = 2
root = "{folder}/containerd/root"
state = "{folder}/containerd/state"
[grpc]
  address = "{folder}/containerd.sock"
[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    sandbox_image = "localhost/pause:1"
    # Without CAP_SYS_RESOURCE nobody can lower a process's OOM score.
    restrict_oom_score_adj = true
    [plugins."io.containerd.grpc.v1.cri".cni]
      bin_dir = "/usr/lib/cni"
      conf_dir = "{folder}/cni"
    [plugins."io.containerd.grpc.v1.cri".containerd]
      snapshotter = "overlayfs"
      default_runtime_name = "runc"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
        runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.internal.v1.opt"]
    path = "{folder}/containerd/opt"
"""

KUBELET = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: {address}
healthzPort: 0
readOnlyPort: 0
authentication: {{anonymous: {{enabled: true}}, webhook: {{enabled: false}}}}
authorization: {{mode: AlwaysAllow}}
cgroupDriver: cgroupfs
cgroupRoot: {cgroup}
failSwapOn: false
failCgroupV1: false
containerRuntimeEndpoint: unix://{folder}/containerd.sock
makeIPTablesUtilChains: false
evictionHard:
  memory.available: 50Mi
  nodefs.available: 1%
  nodefs.inodesFree: 1%
  imagefs.available: 1%
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
nodeStatusUpdateFrequency: 1s
nodeStatusReportFrequency: 5s
resolvConf: ""
podLogsDir: {folder}/pod-logs
maxPods: 200
{extra}
"""

# The second line keeps the namespace's mounts to itself, the third gives this node its own
# kubelet folder and its own names of network namespaces.
ENTER = """\
set -e
mkdir -p {folder}/kubelet /run/netns /var/lib/kubelet
mount --bind {folder}/kubelet /var/lib/kubelet
mount -t tmpfs tmpfs /run/netns
exec sleep infinity
"""


class Node:
    """One node of the cluster."""

    def __init__(
        self, name: str, number: int, programs: Path, folder: Path, kubeconfig: Path
    ) -> None:
        self.name = name
        self.folder = folder / name
        self._number = number
        self._kubeconfig = kubeconfig
        self._programs = programs
        self._namespace = self._namespace_holder()
        self.containerd: Program | None = None
        self.kubelet: Program | None = None

    @property
    def address(self) -> str:
        """The node's address."""
        return f"192.0.2.{10 + self._number}"

    @property
    def pod_resources(self) -> Path:
        """The socket on which the kubelet tells who holds which devices."""
        return self.folder / "kubelet" / "pod-resources" / "kubelet.sock"

    def start(self, *, kubelet_settings: str = "") -> None:
        """Start the runtime, then the kubelet."""
        self.folder.mkdir()
        (self.folder / "cni").mkdir()
        (self.folder / "cni" / "10-ptp.conflist").write_text(json.dumps(self._network()))
        (self.folder / "containerd.toml").write_text(CONTAINERD.format(folder=self.folder))
        self.write_settings(kubelet_settings)
        self._namespace.start()
        holder = self._namespace.pid
        wait_until(
            lambda: Path(f"/proc/{holder}/comm").read_text().strip() == "sleep",
            what=f"the namespace of {self.name}",
            seconds=10,
            every_seconds=0.02,
        )
        self.containerd = self._program(
            "containerd", ["/usr/bin/containerd", "--config", self.folder / "containerd.toml"]
        )
        self.containerd.start()
        wait_until(self._runtime_answers, what=f"containerd of {self.name}", seconds=20)
        self.kubelet = self._program(
            "kubelet",
            [
                self._programs / "kubelet",
                f"--config={self.folder / 'kubelet.yaml'}",
                f"--kubeconfig={self._kubeconfig}",
                "--root-dir=/var/lib/kubelet",
                f"--cert-dir={self.folder / 'certificates'}",
                f"--hostname-override={self.name}",
                f"--node-ip={self.address}",
            ],
        )

    def write_settings(self, extra: str) -> None:
        """Write the kubelet's configuration; it reads it when it starts."""
        text = KUBELET.format(
            address=self.address,
            folder=self.folder,
            cgroup=sandbox.cgroup(self.name),
            extra=extra,
        )
        (self.folder / "kubelet.yaml").write_text(text)

    def import_image(self, archive: Path) -> None:
        """Give the runtime an image."""
        command = ["ctr", "-a", self.folder / "containerd.sock", "-n", "k8s.io"]
        outcome = subprocess.run(
            [*self._enter(), *map(str, command), "images", "import", str(archive)],
            capture_output=True,
            text=True,
            check=False,
        )
        if outcome.returncode != 0:
            raise RuntimeError(f"{archive}: {outcome.stderr}")

    def run_kubelet(self) -> Program:
        """Start the kubelet, which `start` has prepared; return it."""
        if self.kubelet is None:
            raise RuntimeError("the node was not started")
        self.kubelet.start()
        return self.kubelet

    def stop_kubelet(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop the kubelet alone; what it started runs on."""
        if self.kubelet is not None:
            self.kubelet.stop(number)

    def kill_containers(self, *, but: str = "") -> None:
        """Kill all that runs in the node's pods, as a reboot does, but one pod, by its UID."""
        spared = processes_of(but) if but else []
        for process in set(processes_of(sandbox.cgroup(self.name))).difference(spared):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def stop(self) -> None:
        """Stop all; containers end with the sandbox."""
        for program in (self.kubelet, self.containerd, self._namespace):
            if program is not None:
                program.stop()

    def _runtime_answers(self) -> bool:
        command = ["ctr", "-a", str(self.folder / "containerd.sock"), "version"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def _namespace_holder(self) -> Program:
        unshare = ["unshare", "--mount", "--propagation", "private", "sh", "-c"]
        log = self.folder.parent / f"{self.name}-namespace.log"
        return Program(
            f"namespace of {self.name}", [*unshare, ENTER.format(folder=self.folder)], log
        )

    def _enter(self) -> list[str]:
        return ["nsenter", f"--mount=/proc/{self._namespace.pid}/ns/mnt", "--"]

    def _program(self, name: str, command: list[str | Path]) -> Program:
        log = self.folder / f"{name}.log"
        return Program(f"{name} of {self.name}", [*self._enter(), *command], log)

    def _network(self) -> dict[str, object]:
        addresses = {
            "type": "host-local",
            "subnet": f"10.88.{self._number}.0/24",
            "dataDir": str(self.folder / "cni-addresses"),
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        plugin = {"type": "ptp", "ipMasq": False, "ipam": addresses}
        return {"cniVersion": "0.4.0", "name": "ptp", "plugins": [plugin]}


def processes_of(part: str) -> list[int]:
    """Return the processes whose cgroup has this in its path, such as a pod's UID."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cgroup"):
        with suppress(OSError):
            if part in path.read_text():
                found.append(int(path.parent.name))
    return found


if sys.platform != "linux":
    raise ImportError("nodes are Linux namespaces")
