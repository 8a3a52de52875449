"""The cluster as a person drives it: by kubectl."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from e2e.cluster.programs import wait_until

Object = Mapping[str, Any]
NAMESPACE = "gpushare-e2e"
"""Where the tests' pods are: on a cluster of somebody's, all that is in there is theirs."""


class Refused(Exception):
    """kubectl said no; the text is what it said."""


class Kubectl:
    """Runs kubectl with one kubeconfig, whose context is in the tests' namespace."""

    def __init__(self, program: Path, kubeconfig: Path) -> None:
        self._command = [str(program), "--kubeconfig", str(kubeconfig)]

    def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl and return what it printed; warnings are in `said`. Raises Refused."""
        return self.said(*arguments, stdin=stdin)[0]

    def said(self, *arguments: str, stdin: str | None = None) -> tuple[str, str]:
        """Return standard output and standard error; raises Refused."""
        outcome = subprocess.run(
            [*self._command, *arguments], input=stdin, capture_output=True, text=True, check=False
        )
        if outcome.returncode != 0:
            raise Refused(outcome.stderr.strip())
        return outcome.stdout, outcome.stderr

    def apply(self, *objects: Object) -> str:
        """Apply objects; return kubectl's warnings."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        return self.said("apply", "-f", "-", stdin=text)[1]

    def get(self, kind: str, name: str, namespace: str = NAMESPACE) -> Any:
        """Return one object."""
        return json.loads(self("-n", namespace, "get", kind, name, "-o", "json"))

    def items(self, kind: str, *, namespace: str | None = None, selector: str = "") -> list[Any]:
        """Return the objects of a kind."""
        where = ["-A"] if namespace is None else ["-n", namespace]
        which = ["-l", selector] if selector else []
        found: list[Any] = json.loads(self("get", kind, *where, *which, "-o", "json"))["items"]
        return found

    def delete(self, kind: str, *names: str, namespace: str = NAMESPACE, now: bool = False) -> None:
        """Delete objects; with `now` a pod's object goes before its kubelet has ended it."""
        grace = ["--grace-period=0", "--force"] if now else []
        self("-n", namespace, "delete", kind, *names, "--ignore-not-found", "--wait=false", *grace)

    def make_namespace(self) -> None:
        """Make the tests' namespace; return once pods can be made in it."""
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        wait_until(
            lambda: self.get("serviceaccount", "default"),
            what=f"the default service account of {NAMESPACE}",
            seconds=60,
        )

    def wait_phase(self, pod: str, phases: Sequence[str], *, seconds: float = 60) -> Any:
        """Wait until a pod is in one of the phases; return it."""

        def there() -> bool:
            phase: str = self.get("pod", pod)["status"]["phase"]
            return phase in phases

        wait_until(there, what=f"pod {pod} {'/'.join(phases)}", seconds=seconds)
        return self.get("pod", pod)
