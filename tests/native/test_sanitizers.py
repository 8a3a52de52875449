"""The simulated NVML's tests again, with memory and arithmetic checked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.timeout(300)
def test_no_call_misuses_memory(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    if not pytestconfig.getoption("--native-sanitizers", default=False):
        pytest.skip("needs --native-sanitizers")
    runtime = run(["cc", "-print-file-name=libasan.so"]).stdout.strip()
    # The interpreter is not built with sanitizers: their run time must come first,
    # and what the interpreter keeps until its end is no leak of ours.
    environment = os.environ | {"LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0"}
    # Output is not captured (-s): a report would be lost with the process.
    plain = ["-s", "-p", "no:xdist", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'inner'}"]
    files = [str(path) for path in sorted(HERE.glob("test_nvml_stub*.py"))]

    tests = run([sys.executable, "-m", "pytest", "-q", *plain, *files], environment)

    assert tests.returncode == 0, tests.stdout + tests.stderr


def run(
    command: list[str], environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False, env=environment
    )
