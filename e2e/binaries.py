"""Kubernetes' own programs, built from the Go module beside this file and kept.

Rule: kept under what they were built from (go.mod, go.sum, the Go version), outside the
tree: a build takes some ten minutes of processor, and happens once.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

MODULE = Path(__file__).with_name("kubernetes")
PROGRAMS = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kubectl",
    "kubelet",
)
_TAGS = "providerless,netgo,osusergo"


class CannotBuild(Exception):
    """The programs are not there, and cannot be built here; the text says why."""


def version() -> str:
    """Return the Kubernetes version that go.mod names, such as `v1.36.3`."""
    found = re.search(r"^\s*(?:require )?k8s\.io/kubernetes (v\S+)", _text("go.mod"), re.MULTILINE)
    if found is None:
        raise CannotBuild(f"{MODULE / 'go.mod'} names no k8s.io/kubernetes")
    return found[1]


def built(names: Sequence[str] = PROGRAMS) -> Path:
    """Return the folder of the programs, having built which of these are missing.

    Raises:
        CannotBuild: there is no Go, or the build failed.
    """
    go = shutil.which("go")
    if go is None:
        raise CannotBuild("Go is not installed; Kubernetes is built with it")
    folder = _folder(go)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        # Two runs at once build once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in names:
            if not (folder / name).exists():
                _build(go, folder, name)
    return folder


def _build(go: str, folder: Path, name: str) -> None:
    sys.stderr.write(f"e2e: building {name} {version()}\n")
    partial = folder / f"{name}.partial"
    flag = f"-s -w -X k8s.io/component-base/version.gitVersion={version()}"
    command = [go, "build", "-trimpath", "-tags", _TAGS, "-ldflags", flag, "-o", str(partial)]
    outcome = subprocess.run(
        [*command, f"k8s.io/kubernetes/cmd/{name}"],
        cwd=MODULE,
        env={**os.environ, "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if outcome.returncode != 0:
        raise CannotBuild(f"{name}: {outcome.stderr[-2000:]}")
    partial.rename(folder / name)


def _folder(go: str) -> Path:
    go_version = subprocess.run([go, "version"], capture_output=True, text=True, check=True).stdout
    made_from = "\n".join([_text("go.mod"), _text("go.sum"), go_version, _TAGS])
    digest = hashlib.sha256(made_from.encode()).hexdigest()[:12]
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "gpushare" / "kubernetes" / f"{version()}-{digest}"


def _text(name: str) -> str:
    return (MODULE / name).read_text(encoding="utf-8")
