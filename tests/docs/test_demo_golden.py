"""The picture in the README is the demo's real output."""

import subprocess
import sys

import pytest

from tests.recordings import REPOSITORY, check_recording


@pytest.mark.e2e
@pytest.mark.timeout(60)
def test_the_readme_shows_what_the_demo_prints(golden_rewrite: bool) -> None:
    command = [sys.executable, "-m", "gpushare_plugin", "demo"]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    picture = "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())
    assert done.returncode == 0, done.stdout + done.stderr
    check_recording(
        REPOSITORY / "README.md", "demo", f"```text\n{picture}\n```", rewrite=golden_rewrite
    )
