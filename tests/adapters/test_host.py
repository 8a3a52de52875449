"""What the host can do, read from its files."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpushare_plugin.adapters.host import cards_with_limit_hook, control_nodes, has_cgroup_v2

HOOK = {
    "hookName": "createRuntime",
    "path": "/usr/bin/nvidia-cdi-hook",
    "args": ["nvidia-cdi-hook", "apply-cuda-memory-limits"],
}
OTHER_HOOK = {**HOOK, "args": ["nvidia-cdi-hook", "update-ldcache"]}


def device(name: str, *hooks: Any) -> dict[str, Any]:
    return {"name": name, "containerEdits": {"hooks": list(hooks)}}


def spec(*devices: Any, kind: str = "nvidia.com/gpu") -> dict[str, Any]:
    return {"cdiVersion": "0.6.0", "kind": kind, "devices": list(devices)}


def write(path: Path, content: Any) -> None:
    text = json.dumps(content) if path.suffix == ".json" else yaml.safe_dump(content)
    path.write_text(text)


@pytest.mark.parametrize("name", ["nvidia.json", "nvidia.yaml", "nvidia.yml"])
def test_cards_that_carry_the_limit_hook_are_found_in_each_format(
    name: str, tmp_path: Path
) -> None:
    write(
        tmp_path / name,
        spec(device("GPU-a", OTHER_HOOK, HOOK), device("GPU-b", OTHER_HOOK), device("GPU-c")),
    )

    assert cards_with_limit_hook([tmp_path]) == {"GPU-a"}


def test_the_specs_of_all_folders_count_together(tmp_path: Path) -> None:
    one, other = tmp_path / "etc", tmp_path / "run"
    for folder, name in ((one, "GPU-a"), (other, "GPU-b")):
        folder.mkdir()
        write(folder / "nvidia.json", spec(device(name, HOOK)))

    assert cards_with_limit_hook([one, other]) == {"GPU-a", "GPU-b"}


@pytest.mark.parametrize(
    "content",
    [
        spec(device("GPU-a", HOOK), kind="example.com/gpu"),
        spec("GPU-a"),
        spec({"name": "GPU-a"}),
        spec({"name": "GPU-a", "containerEdits": None}),
        spec({"name": "GPU-a", "containerEdits": {"hooks": "all"}}),
        spec(device("GPU-a", "hook")),
        spec(device("GPU-a", {**HOOK, "args": None})),
        spec(device("GPU-a", {**HOOK, "args": "apply-cuda-memory-limits"})),
        {"kind": "nvidia.com/gpu", "devices": {"GPU-a": device("GPU-a", HOOK)}},
        {"kind": "nvidia.com/gpu"},
        ["nvidia.com/gpu"],
        None,
    ],
    ids=range(12),
)
def test_a_spec_of_another_kind_or_shape_vouches_for_nothing(content: Any, tmp_path: Path) -> None:
    write(tmp_path / "nvidia.json", content)

    assert cards_with_limit_hook([tmp_path]) == frozenset()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("broken.json", b"{"),
        ("broken.yaml", b"kind: ["),
        ("date.yaml", b"kind: 2026-13-45"),
        ("bytes.json", b"\xff\xfe\xfa"),
    ],
)
def test_a_spec_that_cannot_be_read_is_told_and_the_others_count(
    name: str, content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / name).write_bytes(content)
    write(tmp_path / "nvidia.json", spec(device("GPU-a", HOOK)))

    found = cards_with_limit_hook([tmp_path])

    assert found == {"GPU-a"}
    assert [record.getMessage() for record in caplog.records] == ["cdi_spec_unreadable"]


def test_a_folder_in_a_specs_place_is_told_and_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "nvidia.json").mkdir()

    assert cards_with_limit_hook([tmp_path]) == frozenset()
    assert len(caplog.records) == 1


def test_files_of_other_kinds_are_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "README.md").write_bytes(b"\xff")

    assert cards_with_limit_hook([tmp_path]) == frozenset()
    assert caplog.records == []


def test_a_host_without_cdi_folders_has_no_such_cards(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()

    assert cards_with_limit_hook([tmp_path / "none", tmp_path / "file"]) == frozenset()
    assert caplog.records == []


def test_a_folder_that_cannot_be_listed_is_told_and_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    endless = tmp_path / "cdi"
    endless.symlink_to(endless)

    assert cards_with_limit_hook([endless]) == frozenset()
    assert [record.getMessage() for record in caplog.records] == ["cdi_spec_unreadable"]


def test_a_host_has_cgroup_v2_where_the_unified_hierarchy_has_its_file(tmp_path: Path) -> None:
    before = has_cgroup_v2(tmp_path)
    (tmp_path / "cgroup.controllers").touch()

    assert (before, has_cgroup_v2(tmp_path)) == (False, True)


def test_only_device_nodes_that_are_there_are_given(tmp_path: Path) -> None:
    there, missing = tmp_path / "nvidiactl", tmp_path / "nvidia-uvm"
    there.touch()

    assert control_nodes([str(there), str(missing)]) == (str(there),)
