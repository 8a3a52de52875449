"""The manifests as data, for tests."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.recordings import REPOSITORY

DAEMON_SET = REPOSITORY / "daemonset.yaml"
NODE_POLICY = REPOSITORY / "deploy" / "policy" / "node-account.yaml"
OVERLAY = REPOSITORY / "deploy" / "overlays" / "runtimeclass-nvidia"

Manifest = Mapping[str, Any]


def manifests(path: Path) -> list[Manifest]:
    """Return the objects of one file."""
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def only(kind: str, path: Path = DAEMON_SET) -> Manifest:
    """Return the one object of this kind."""
    (found,) = (each for each in manifests(path) if each["kind"] == kind)
    return found


def pod() -> Manifest:
    """Return the spec of the node daemon's pods."""
    spec: Manifest = only("DaemonSet")["spec"]["template"]["spec"]
    return spec


def container() -> Manifest:
    """Return the node daemon's container."""
    (found,) = pod()["containers"]
    daemon: Manifest = found
    return daemon


def environment() -> Mapping[str, Manifest]:
    """Return the container's variables, by name."""
    return {each["name"]: each for each in container()["env"]}


def service_account() -> str:
    """Return the API server's name for the user that the node daemon is."""
    metadata = only("ServiceAccount")["metadata"]
    return f"system:serviceaccount:{metadata['namespace']}:{metadata['name']}"


def granted_rules() -> set[tuple[str, str, str]]:
    """Return what the node daemon may do: verb, API group, resource with its subresource."""
    return {
        (verb, group, resource)
        for rule in only("ClusterRole")["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
