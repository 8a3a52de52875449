"""The rows as a table for a person and as JSON for a program."""

import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.figures import Compared, Row, Spread

PACKAGES = ("grpcio", "protobuf")
HEADINGS = ("path", "unit", "measured", "baseline", "baseline is", "ratio", "must hold", "holds")


def machine() -> dict[str, str | int | float]:
    """Return what the figures were measured on."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cores": os.cpu_count() or 0,
        "processor": _processor(),
        "load_average": round(os.getloadavg()[0], 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }


def as_json(rows: Sequence[Row], about: dict[str, Any]) -> str:
    """Return everything as JSON text."""
    listed = [
        {
            **asdict(each),
            "bound": {"most": each.bound.most, "of": each.bound.of.value} if each.bound else None,
            "holds": each.holds,
        }
        for each in rows
    ]
    return json.dumps({**about, "rows": listed}, indent=2, ensure_ascii=False) + "\n"


def show(rows: Sequence[Row], about: dict[str, Any], console: Console) -> None:
    """Print the table."""
    table = Table(title="Each row beside a baseline: median (range)")
    for heading in HEADINGS:
        is_text = heading in {"path", "baseline is"}
        table.add_column(heading, justify="left" if is_text else "right")
    for each in rows:
        table.add_row(
            each.name,
            each.unit,
            _spread(each.ours),
            _spread(each.baseline),
            each.baseline_is,
            _spread(each.ratio),
            _bound(each),
            {True: "[green]yes[/]", False: "[red]no[/]", None: ""}[each.holds],
        )
    console.print(table)
    for each in rows:
        if each.note:
            console.print(f"{each.name}: {each.note}.", highlight=False)
    console.print(", ".join(f"{name} {value}" for name, value in about.items()), highlight=False)
    console.print(
        "Both sides are processes of their own; the client, in this process, is in the figures"
        " of both alike."
    )
    broken = [each for each in rows if each.holds is False]
    held = sum(each.holds is True for each in rows)
    console.print(f"{held} of {held + len(broken)} bounds held in this run.")


def _spread(spread: Spread | None) -> str:
    if spread is None:
        return "-"
    if spread.low == spread.high:
        return _number(spread.median)
    return f"{_number(spread.median)} ({_number(spread.low)}..{_number(spread.high)})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def _bound(each: Row) -> str:
    if each.bound is None:
        return ""
    words = {
        Compared.OURS: f"≤ {each.bound.most:g} {each.unit}",
        Compared.RATIO: f"ratio ≤ {each.bound.most:g}",
        Compared.OVER: f"≤ {each.bound.most:g} {each.unit} over",
    }
    figure = "" if each.bounded is None else f", is {_number(each.bounded)}"
    return words[each.bound.of] + (figure if each.bound.of is Compared.OVER else "")


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()
