"""What the Dockerfile says, as far as it can be told without building; `make image` builds it."""

import re
from importlib.metadata import requires

from packaging.requirements import Requirement

import gpushare_plugin
from tests.deploy.manifests import container, environment
from tests.recordings import REPOSITORY

DOCKERFILE = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8")
IGNORED = (REPOSITORY / ".dockerignore").read_text(encoding="utf-8").splitlines()
BUILD_BACKEND = "hatchling"


def copied() -> list[str]:
    """Return what the image takes from the repository."""
    lines = re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, flags=re.MULTILINE)
    return [source for line in lines for source in line.split()[:-1]]


def needed_by(package: str) -> set[str]:
    """Return the package, and all that it needs here."""
    found = {package}
    for text in requires(package) or []:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            found |= needed_by(requirement.name)
    return found


def last_stage() -> str:
    return DOCKERFILE.rpartition("\nFROM ")[2]


def test_what_the_image_takes_is_there_and_not_ignored() -> None:
    assert all((REPOSITORY / source).exists() for source in copied())
    assert {f"!{source}" for source in copied()} <= set(IGNORED)


def test_all_else_is_ignored() -> None:
    kept = {line for line in IGNORED if line.startswith("!")}

    assert "*" in IGNORED
    assert kept == {f"!{source}" for source in copied()}


def test_the_build_takes_from_the_lock_what_the_build_backend_needs() -> None:
    names = re.search(r"\^\((?P<names>[a-z|-]+)\)==", DOCKERFILE)
    assert names is not None

    assert set(names["names"].split("|")) == needed_by(BUILD_BACKEND)


def test_every_package_is_held_to_its_hash() -> None:
    installs = re.findall(r"install --no-cache-dir.*?(?:&&|\n\S)", DOCKERFILE, flags=re.DOTALL)

    assert installs
    assert all("--require-hashes" in each or "--no-index" in each for each in installs)


def test_the_last_stage_runs_nothing_so_nothing_is_left_in_it() -> None:
    assert "\nRUN" not in last_stage()
    assert "secret" not in last_stage()


def test_it_starts_the_node_daemon() -> None:
    assert 'ENTRYPOINT ["gpushare"]' in last_stage()
    assert f'CMD ["{container()["args"][0]}"]' in last_stage()


def test_image_and_manifest_ask_the_container_runtime_for_the_same() -> None:
    for name in ("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"):
        assert f"{name}={environment()[name]['value']}" in last_stage()


def test_the_image_says_which_version_it_is() -> None:
    assert f"ARG VERSION={gpushare_plugin.__version__}\n" in last_stage()
