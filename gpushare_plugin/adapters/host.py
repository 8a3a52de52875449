"""What the host can do, read from its files: cgroup version, CDI specs, device nodes."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from gpushare_plugin.logs import event_logger

log = event_logger(__name__)

CGROUP_ROOT = Path("/sys/fs/cgroup")
LIMIT_HOOK = "apply-cuda-memory-limits"
"""The NVIDIA container toolkit's hook (1.20.1 and later) that sets a container's limit."""

CONTROL_NODES: tuple[str, ...] = (
    "/dev/nvidiactl",
    "/dev/nvidia-uvm",
    "/dev/nvidia-uvm-tools",
    "/dev/nvidia-modeset",
)


def has_cgroup_v2(root: Path = CGROUP_ROOT) -> bool:
    """Say whether the host's cgroups are version 2 (the unified hierarchy's own file is there)."""
    return (root / "cgroup.controllers").is_file()


def control_nodes(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the device nodes beside the cards' own that are there.

    One that is not there would keep a container from ever starting.
    """
    return tuple(path for path in paths if Path(path).exists())


def cards_with_limit_hook(folders: Iterable[Path]) -> frozenset[str]:
    """Return the CDI device names of `nvidia.com/gpu` that carry the memory-limit hook.

    A spec that cannot be read is passed over with a warning: it can vouch for nothing.
    """
    paths = [path for folder in folders for path in _spec_files(folder)]
    return frozenset(name for path in paths for name in _hooked_devices(_read(path)))


class LimitHooks:
    """`cards_with_limit_hook`, read again only when a spec has changed: YAML takes long."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = tuple(folders)
        self._seen: tuple[tuple[str, int, int], ...] | None = None
        self._cards: frozenset[str] = frozenset()

    def cards(self) -> frozenset[str]:
        """Return the CDI device names that carry the hook, as the specs are now."""
        seen = tuple(
            signature
            for folder in self._folders
            for path in _spec_files(folder)
            if (signature := _signature(path)) is not None
        )
        if seen != self._seen:
            self._seen, self._cards = seen, cards_with_limit_hook(self._folders)
        return self._cards


def _signature(path: Path) -> tuple[str, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return str(path), status.st_mtime_ns, status.st_size


def _spec_files(folder: Path) -> Iterator[Path]:
    try:
        paths = sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        log.warning("cdi_spec_unreadable", path=folder, error=error)
        return
    yield from (path for path in paths if path.suffix in (".json", ".yaml", ".yml"))


def _read(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            return json.loads(text)
        import yaml  # noqa: PLC0415  # most hosts have no YAML spec, and pay nothing

        try:
            return yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ValueError(str(error)) from error
    except (OSError, ValueError) as error:
        log.warning("cdi_spec_unreadable", path=path, error=error)
        return None


def _hooked_devices(spec: Any) -> Iterator[str]:
    if not isinstance(spec, dict) or spec.get("kind") != "nvidia.com/gpu":
        return
    for device in _list(spec.get("devices")):
        edits = device.get("containerEdits") if isinstance(device, dict) else None
        hooks = edits.get("hooks") if isinstance(edits, dict) else None
        arguments = [hook.get("args") for hook in _list(hooks) if isinstance(hook, dict)]
        if any(LIMIT_HOOK in _list(each) for each in arguments):
            yield str(device.get("name"))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
