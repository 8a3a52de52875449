"""The benchmarks run: every program starts, is measured, and is shown. No figure is judged."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent.parent
BOUNDED_ROWS = 21
GO_ROWS = 10
"""Of filter, which stand alone here: Go is no part of what tests need."""


@pytest.mark.e2e
@pytest.mark.timeout(90)
def test_a_quick_run_writes_every_row_with_its_baseline(tmp_path: Path) -> None:
    written = tmp_path / "figures.json"

    done = subprocess.run(
        [sys.executable, "-m", "bench", "--quick", "--without-go", "--json", str(written)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    rows = json.loads(written.read_text())["rows"]
    alone = [row for row in rows if row["baseline"] is None or not row["baseline_is"]]
    assert len(alone) == GO_ROWS
    assert all("Filter" in row["name"] or row["name"].startswith("-") for row in alone)
    assert "without the Go peer: --without-go was given" in done.stdout
    assert sum(row["holds"] is not None for row in rows) == BOUNDED_ROWS
    assert "bounds held in this run" in done.stdout


def test_a_group_that_there_is_not_is_a_wrong_use() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--only", "nothing"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "invalid choice: 'nothing'" in done.stderr
