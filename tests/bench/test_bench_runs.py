"""The benchmarks run: every program starts, is measured, and is shown. No figure is judged."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent.parent
BOUNDED_ROWS = 18


@pytest.mark.e2e
@pytest.mark.timeout(90)
def test_a_quick_run_writes_every_row_with_its_baseline(tmp_path: Path) -> None:
    written = tmp_path / "figures.json"

    done = subprocess.run(
        [sys.executable, "-m", "bench", "--quick", "--json", str(written)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    rows = json.loads(written.read_text())["rows"]
    assert all(row["baseline"] is not None and row["baseline_is"] for row in rows)
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
