"""Each manifest is what each supported Kubernetes expects: no unknown field, no wrong type."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from kubernetes_validate import ValidationError, validate  # type: ignore[import-untyped]

from tests.deploy.manifests import DAEMON_SET, NODE_POLICY, OVERLAY, Manifest, manifests, only

VERSIONS = [f"1.{minor}" for minor in range(28, 38)]
WITH_ADMISSION_POLICIES = [f"1.{minor}" for minor in range(30, 38)]


def named(manifest: Manifest) -> str:
    return f"{manifest['kind']}-{manifest['metadata']['name']}"


def check(manifest: Manifest, version: str) -> None:
    """Validate strictly; an older version's schema in place of a missing one does not count."""
    assert validate(dict(manifest), version, strict=True) == version


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("manifest", manifests(DAEMON_SET), ids=named)
def test_what_one_apply_sets_up_is_valid(manifest: Manifest, version: str) -> None:
    check(manifest, version)


@pytest.mark.parametrize("version", WITH_ADMISSION_POLICIES)
@pytest.mark.parametrize("manifest", manifests(NODE_POLICY), ids=named)
def test_the_policy_for_our_own_account_is_valid(manifest: Manifest, version: str) -> None:
    check(manifest, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_overlay_is_valid(version: str) -> None:
    check(merged(only("DaemonSet"), only("DaemonSet", OVERLAY / "daemonset-patch.yaml")), version)


def test_the_overlay_changes_the_runtime_class_and_nothing_else() -> None:
    before = only("DaemonSet")

    after = merged(before, only("DaemonSet", OVERLAY / "daemonset-patch.yaml"))

    assert after["spec"]["template"]["spec"].pop("runtimeClassName") == "nvidia"
    assert after == before


def test_the_overlay_reads_files_that_are_there() -> None:
    (overlay,) = manifests(OVERLAY / "kustomization.yaml")

    files = [*overlay["resources"], *(patch["path"] for patch in overlay["patches"])]

    assert (OVERLAY / files[0]).resolve() == DAEMON_SET
    assert all((OVERLAY / file).is_file() for file in files)


@pytest.mark.parametrize("path", [DAEMON_SET, NODE_POLICY], ids=lambda path: path.name)
def test_an_unknown_field_would_be_found(path: Path) -> None:
    manifest = deepcopy(dict(manifests(path)[-1]))
    manifest["spec"]["unknownField"] = True

    with pytest.raises(ValidationError, match="unknownField"):
        check(manifest, VERSIONS[-1])


def merged(manifest: Any, patch: Any) -> Any:
    """Return the manifest with a patch of maps laid over it."""
    if not isinstance(patch, dict):
        return patch
    below = manifest if isinstance(manifest, dict) else {}
    return deepcopy(below) | {key: merged(below.get(key), value) for key, value in patch.items()}
