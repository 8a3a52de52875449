"""The card record's file: whole or not at all, and every trouble with it told by its name."""

import resource
from pathlib import Path

import pytest

from gpushare_plugin.adapters.record_file import LONGEST_BYTES, RecordFile, recorded_resources
from gpushare_plugin.errors import RecordError

RESOURCE = "aliyun.com/gpu-mem"
NAME = "gpushare-aliyun.com_gpu-mem.cards.json"


def test_what_is_written_is_read_by_the_next_start(tmp_path: Path) -> None:
    RecordFile(tmp_path, RESOURCE).write('{"model":"Tesla Größe"}')

    assert RecordFile(tmp_path, RESOURCE).read() == '{"model":"Tesla Größe"}'
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


@pytest.mark.parametrize("folder", [".", "not-there"])
def test_no_file_is_no_record_and_no_error(tmp_path: Path, folder: str) -> None:
    assert RecordFile(tmp_path / folder, RESOURCE).read() is None


def test_a_folder_of_that_name_can_be_neither_read_nor_written(tmp_path: Path) -> None:
    (tmp_path / NAME / "something").mkdir(parents=True)
    file = RecordFile(tmp_path, RESOURCE)

    with pytest.raises(RecordError, match=rf"{NAME} cannot be read: Is a directory"):
        file.read()
    with pytest.raises(RecordError, match=rf"{NAME} cannot be written: .*expected the kubelet's"):
        file.write("{}")
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"\xff\x00")

    with pytest.raises(RecordError, match=f"{NAME}: found bytes that are no text"):
        RecordFile(tmp_path, RESOURCE).read()


def test_a_file_that_can_be_no_record_is_not_read_whole(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b" " * (LONGEST_BYTES + 1))

    with pytest.raises(RecordError, match=f"found more than {LONGEST_BYTES} bytes"):
        RecordFile(tmp_path, RESOURCE).read()


def test_a_folder_where_nobody_may_make_a_file_is_told() -> None:
    # Not even root may.
    with pytest.raises(RecordError, match=r"/sys/kernel/.* cannot be written"):
        RecordFile(Path("/sys/kernel"), RESOURCE).write("{}")


def test_a_disk_that_takes_no_more_leaves_the_old_file_whole_and_no_other(tmp_path: Path) -> None:
    file = RecordFile(tmp_path, RESOURCE)
    file.write("old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, limits[1]))
    try:
        with pytest.raises(RecordError, match="cannot be written: File too large"):
            file.write("new" * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert file.read() == "old"
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_a_file_that_is_gone_or_another_one_is_not_kept(tmp_path: Path) -> None:
    file, path = RecordFile(tmp_path, RESOURCE), tmp_path / NAME
    assert not file.is_kept()
    file.write("{}")
    assert file.is_kept()

    path.unlink()
    assert not file.is_kept()
    file.write("{}")
    path.write_text("another", encoding="utf-8")
    assert not file.is_kept()
    file.read()
    assert file.is_kept()


def test_the_resources_on_record_are_told_by_the_files_names_whatever_is_in_them(
    tmp_path: Path,
) -> None:
    RecordFile(tmp_path, RESOURCE).write("")
    RecordFile(tmp_path, "example.com/my_vram").write("{}")
    for other in ("gpushare-vram.cards.json", "gpushare-a_b.cards.json.new", "gpushare-a_b.lock"):
        (tmp_path / other).touch()

    assert recorded_resources(tmp_path) == (RESOURCE, "example.com/my_vram")
    assert recorded_resources(tmp_path / "not-there") == ()


def test_a_file_that_is_removed_is_gone_and_one_that_cannot_be_is_told(tmp_path: Path) -> None:
    file = RecordFile(tmp_path, RESOURCE)
    file.write("{}")
    for _ in range(2):
        file.remove()
    assert list(tmp_path.iterdir()) == []

    (tmp_path / NAME).mkdir()
    with pytest.raises(RecordError, match=f"{NAME} cannot be removed: "):
        file.remove()
