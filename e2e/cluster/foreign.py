"""Somebody's cluster: `make e2e KUBECONFIG=...`, such as kind or a real one.

Rule: what the tests make there they take away; they touch no pod but those of their own
namespace, and label no more than two nodes.
What they need of it: two nodes that take any pod, and on them the images `gpushare` and
`busybox` (and kube-scheduler's) by the names that the manifests and `images` have.
"""

from pathlib import Path
from typing import Any, Protocol

from e2e.cluster.kubectl import NAMESPACE, Kubectl

WANTED_NODES = 2


class Unfit(Exception):
    """The tests cannot run on this cluster; the text says why."""


class Kubernetes(Protocol):
    """What a test may know of any cluster."""

    kubectl: Kubectl

    @property
    def node_names(self) -> tuple[str, ...]:
        """The names of the two nodes with cards."""


class ForeignCluster:
    """A cluster that was there before."""

    def __init__(self, program: Path, kubeconfig: Path, folder: Path) -> None:
        self.kubectl = Kubectl(program, _own_context(Kubectl(program, kubeconfig), folder))
        self._nodes: tuple[str, ...] = ()

    @property
    def node_names(self) -> tuple[str, ...]:
        """The names of the two nodes with cards."""
        return self._nodes

    def start(self) -> None:
        """Choose the nodes, and make the tests' namespace. Raises Unfit."""
        fit = [
            node["metadata"]["name"] for node in self.kubectl.items("nodes") if _takes_pods(node)
        ]
        if len(fit) < WANTED_NODES:
            raise Unfit(f"{WANTED_NODES} nodes that take any pod are needed; found: {fit}")
        self._nodes = tuple(sorted(fit)[:WANTED_NODES])
        self.kubectl.make_namespace()

    def stop(self) -> None:
        """Delete the tests' namespace, and the label that chose the nodes."""
        self.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=false")
        self.kubectl("label", "node", *self._nodes, "gpushare-")


def _own_context(kubectl: Kubectl, folder: Path) -> Path:
    """Write a kubeconfig like the one given, in the tests' namespace."""
    own = folder / "kubeconfig"
    own.write_text(kubectl("config", "view", "--raw", "--flatten", "--minify"))
    kubectl("config", "set-context", "--current", f"--namespace={NAMESPACE}", f"--kubeconfig={own}")
    return own


def _takes_pods(node: Any) -> bool:
    keep_off = [
        taint
        for taint in node["spec"].get("taints", [])
        if taint["effect"] in ("NoSchedule", "NoExecute")
    ]
    ready = any(
        each["type"] == "Ready" and each["status"] == "True"
        for each in node["status"]["conditions"]
    )
    return ready and not keep_off
