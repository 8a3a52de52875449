"""The reference pages say what the code has: each table is made from it, and compared."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from gpushare_plugin.config import ExtenderConfig, NodeConfig, settings_of
from gpushare_plugin.core.health import APPLICATION_XIDS, NOTED_XIDS, RESET_XIDS
from gpushare_plugin.errors import Refusal
from gpushare_plugin.metrics import (
    CardState,
    ContainerShare,
    ExtenderMetrics,
    ExtenderState,
    Metrics,
    NodeMetrics,
    NodeState,
    PluginState,
)
from gpushare_plugin.node.service import STATUS_OF_REFUSAL
from tests.recordings import REPOSITORY, check_recording

REFERENCE = REPOSITORY / "docs" / "reference"
PACKAGE = REPOSITORY / "gpushare_plugin"
LEVELS = ("debug", "info", "warning", "error")


@pytest.mark.parametrize(
    ("config", "page", "part"),
    [
        (NodeConfig, "settings.md", "settings"),
        (ExtenderConfig, "extender.md", "extender-settings"),
    ],
)
def test_every_setting_is_on_its_page_with_its_default(
    config: type[NodeConfig | ExtenderConfig], page: str, part: str, golden_rewrite: bool
) -> None:
    rows = [
        f"| `{each.flag}` | `{each.variable}` | {_code(each.default)} | {each.meaning} |"
        for each in settings_of(config)
    ]
    table = ["| option | environment | default | meaning |", "|---|---|---|---|", *rows]

    check_recording(REFERENCE / page, part, "\n".join(table), rewrite=golden_rewrite)


def test_every_metric_is_on_its_page_with_its_labels(golden_rewrite: bool) -> None:
    node, extender = NodeMetrics(CollectorRegistry()), ExtenderMetrics(CollectorRegistry())
    node.show(_some_state)
    extender.show(_some_extender_state)
    for metrics, page, part in (
        (node, "metrics.md", "metrics"),
        (extender, "extender.md", "extender-metrics"),
    ):
        rows = _metric_rows(metrics)
        table = ["| metric | kind | labels | meaning |", "|---|---|---|---|", *rows]

        check_recording(REFERENCE / page, part, "\n".join(table), rewrite=golden_rewrite)


def test_every_log_event_is_on_its_page(golden_rewrite: bool) -> None:
    rows = [f"| `{event}` | {level} | {_codes(fields)} |" for event, level, fields in _events()]
    table = ["| event | level | fields |", "|---|---|---|", *rows]

    check_recording(REFERENCE / "log-events.md", "events", "\n".join(table), rewrite=golden_rewrite)


def test_every_refusal_is_on_its_page_with_its_status(golden_rewrite: bool) -> None:
    rows = [f"| `{each.value}` | `{STATUS_OF_REFUSAL[each].name}` |" for each in Refusal]
    table = ["| cause | gRPC status |", "|---|---|", *rows]

    check_recording(
        REFERENCE / "containers.md", "refusals", "\n".join(table), rewrite=golden_rewrite
    )


def test_the_page_on_health_names_the_xids_of_the_table(golden_rewrite: bool) -> None:
    back = (
        "after the card was lost and came back, or at a new start of the daemon if the probe is"
        " good"
    )
    rows = [
        f"| {_numbers(APPLICATION_XIDS)} | counted only: the application's fault | - |",
        f"| {_numbers(NOTED_XIDS)} | a log line and a metric; stays healthy | - |",
        f"| {_numbers(RESET_XIDS)} | unhealthy: needs a reset | {back} |",
    ]
    table = ["| XID | then | back to healthy |", "|---|---|---|", *rows]
    page = REPOSITORY / "docs" / "explanation" / "health.md"

    check_recording(page, "xids", "\n".join(table), rewrite=golden_rewrite)


def _code(default: str | None) -> str:
    return f"`{default}`" if default else "none"


def _codes(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _numbers(xids: frozenset[int]) -> str:
    return ", ".join(str(xid) for xid in sorted(xids))


def _metric_rows(metrics: Metrics) -> Iterator[str]:
    for family in metrics.registry.collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = _labels_of(metrics, family.name) or {
            label for sample in family.samples for label in sample.labels if label != "le"
        }
        shown = _codes(tuple(sorted(labels))) or "-"
        yield f"| `{name}` | {family.type} | {shown} | {family.documentation} |"


def _labels_of(metrics: Metrics, name: str) -> set[str]:
    """A counter without a child yet shows no sample, so its labels are asked of itself."""
    for each in vars(metrics).values():
        if getattr(each, "_name", None) == name:
            return set(each._labelnames)
    return set()


def _some_state() -> NodeState:
    card = CardState(
        index=0, uuid="", model="", units=1, allocated_units=1, healthy=True, watched=True
    )
    share = ContainerShare(namespace="", pod="", container="", uuid="", units=1)
    plugin = PluginState(resource="", registered=True, list_streams=1)
    return NodeState(
        plugins=(plugin,),
        isolation="none",
        enforced=False,
        nvml_up=True,
        gpus_left_out=0,
        cards=(card,),
        containers=(share,),
        stale_seconds={"pods": 1.0},
        build={"version": ""},
    )


def _some_extender_state() -> ExtenderState:
    return ExtenderState(
        leads=True,
        generation=1,
        nodes=1,
        total_units=1,
        used_units=1,
        pods=1,
        assumptions={"doubtful": 1},
        stale_seconds={"pods": 1.0},
        build={"version": ""},
    )


def _events() -> list[tuple[str, str, tuple[str, ...]]]:
    """Return each log event in the daemon's code: its name, level and fields."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.is_relative_to(PACKAGE / "sim"):
            continue
        for call in _log_calls(path):
            name = call.args[0]
            assert isinstance(name, ast.Constant), f"{path}: an event is a constant"
            assert re.fullmatch(r"[a-z_]+", str(name.value)), f"{path}: {name.value!r}"
            assert isinstance(call.func, ast.Attribute)
            fields = tuple(keyword.arg for keyword in call.keywords if keyword.arg)
            found[str(name.value), call.func.attr] = fields
    return [(event, level, fields) for (event, level), fields in sorted(found.items())]


def _log_calls(path: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "log"
            and node.func.attr in LEVELS
        ):
            yield node
