"""The whole cluster: control plane, two nodes, images."""

import json
import os
from pathlib import Path
from typing import Any

from e2e import binaries
from e2e.cluster import images
from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.node import Node
from e2e.cluster.programs import Program, wait_until

NODES = ("node-a", "node-b")
READY_SECONDS = 60.0


class Cluster:
    """A cluster that runs."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs = programs
        self.folder = folder
        self.control_plane = ControlPlane(programs, folder)
        self.kubectl = self.control_plane.kubectl
        self.nodes = {
            name: Node(name, number, programs, folder, self.control_plane.kubeconfig(name))
            for number, name in enumerate(NODES, 1)
        }
        self.scheduler = self._scheduler()

    @property
    def node_names(self) -> tuple[str, ...]:
        """The names of the nodes."""
        return tuple(self.nodes)

    def start(self) -> None:
        """Start all; return once both nodes are Ready."""
        self.control_plane.start()
        archives = [
            images.busybox(self.folder),
            images.product(self.folder),
            images.kube_scheduler(
                self.folder, self.programs / "kube-scheduler", binaries.version()
            ),
        ]
        for node in self.nodes.values():
            node.start()
            for archive in archives:
                node.import_image(archive)
            node.run_kubelet()
        self.configure_scheduler()
        self.scheduler.start()
        wait_until(self.ready, what="both nodes Ready", seconds=READY_SECONDS)
        self.kubectl.make_namespace()

    def stop(self) -> None:
        """Stop all."""
        self.scheduler.stop()
        for node in self.nodes.values():
            node.stop()
        self.control_plane.stop()

    def ready(self) -> bool:
        """Say whether both nodes are Ready."""
        states = {
            node["metadata"]["name"]: any(
                each["type"] == "Ready" and each["status"] == "True"
                for each in node["status"].get("conditions", [])
            )
            for node in self.kubectl.items("nodes")
        }
        return len(states) == len(NODES) and all(states.values())

    def configure_scheduler(self, **settings: Any) -> None:
        """Write the scheduler's configuration; it reads it when it starts."""
        connection = {"kubeconfig": str(self.control_plane.kubeconfig("scheduler"))}
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": connection,
            "leaderElection": {"leaderElect": False},
            **settings,
        }
        self._scheduler_settings.write_text(json.dumps(configuration))

    @property
    def _scheduler_settings(self) -> Path:
        return self.folder / "scheduler.yaml"

    def _scheduler(self) -> Program:
        flags = [
            f"--config={self._scheduler_settings}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.folder / 'scheduler-certificates'}",
            "--authentication-skip-lookup=true",
        ]
        command: list[str | Path] = [self.programs / "kube-scheduler", *flags]
        return Program("kube-scheduler", command, self.folder / "kube-scheduler.log")


def from_environment() -> Cluster:
    """Return the cluster of this run, which `python -m e2e` has made ready for."""
    programs = Path(os.environ["GPUSHARE_E2E_PROGRAMS"])
    return Cluster(programs, Path(os.environ["GPUSHARE_E2E_FOLDER"]))
