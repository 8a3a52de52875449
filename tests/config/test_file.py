"""The YAML file: what it may hold, and how it is refused."""

from pathlib import Path

import pytest

from gpushare_plugin.config import NodeConfig, load_node_config
from gpushare_plugin.errors import ConfigError


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"memory-unit: [", "is not YAML"),
        (b"\xff\xfe\xfa", "is not YAML"),
        (b"memory-unit: 2026-13-45", "is not YAML"),
        (b"memory_unit: GiB", "unknown key 'memory_unit'; the keys are dialect,"),
        (b"1: GiB", "unknown key 1"),
        (b"- memory-unit", "found list, expected keys with values"),
        (b"GiB", "found str, expected keys with values"),
        (b"memory-unit: {GiB: 1}", "key memory-unit: found {'GiB': 1}, expected one value"),
        (b"ignore-xids: [[13]]", "key ignore-xids: found [[13]], expected one value or a list"),
    ],
)
def test_a_file_that_cannot_be_understood_is_refused(
    content: bytes, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "node.yaml"
    path.write_bytes(content)

    with pytest.raises(ConfigError) as caught:
        load_node_config({}, {}, file=path)

    assert str(caught.value).startswith(f"{path}")
    assert words in str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load_node_config({}, {}, file=tmp_path / "node.yaml")


@pytest.mark.parametrize("content", ["", "# nothing yet\n", "memory-unit:\n"])
def test_an_empty_file_and_an_empty_key_say_nothing(content: str, tmp_path: Path) -> None:
    path = tmp_path / "node.yaml"
    path.write_text(content)

    assert load_node_config({}, {}, file=path) == NodeConfig()


def test_yamls_own_kinds_of_values_mean_what_their_texts_mean(tmp_path: Path) -> None:
    path = tmp_path / "node.yaml"
    path.write_text(
        "health: no\nstatus-address: off\nreserve-mib: 512\nprobe-seconds: 2.5\n"
        "ignore-xids: [13, 31]\ncdi-dirs: [/one, /other]\nonly-xids: none\n"
    )

    config = load_node_config({}, {}, file=path)

    assert config == NodeConfig(
        health=False,
        status_address=None,
        reserve_mib=512,
        probe_seconds=2.5,
        ignore_xids=frozenset({13, 31}),
        cdi_dirs=(Path("/one"), Path("/other")),
        only_xids=frozenset(),
    )
