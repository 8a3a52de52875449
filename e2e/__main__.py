"""Run the tests on a real cluster: `python -m e2e [--build] [what pytest takes]`.

Skips with a reason where the machine cannot; with GPUSHARE_E2E=required (as in CI), that
is a failure. GPUSHARE_E2E_KUBECONFIG names somebody's cluster to run them on instead.
"""

import os
import subprocess
import sys
from pathlib import Path

from e2e import binaries, sandbox, system_packages

HERE = Path(__file__).parent


def main(arguments: list[str]) -> int:
    """Do it; return the exit code."""
    kubeconfig = os.environ.get("GPUSHARE_E2E_KUBECONFIG")
    try:
        if not kubeconfig:
            sandbox.check()
            system_packages.install()
        programs = binaries.built(("kubectl",) if kubeconfig else binaries.PROGRAMS)
    except (sandbox.CannotRun, system_packages.CannotInstall, binaries.CannotBuild) as error:
        sys.stderr.write(f"e2e: skipped: {error}\n")
        return 1 if kubeconfig or os.environ.get("GPUSHARE_E2E") == "required" else 0
    if "--build" in arguments:
        sys.stdout.write(f"{programs}\n")
        return 0
    os.environ["GPUSHARE_E2E_PROGRAMS"] = str(programs)
    # A path among the arguments chooses tests; else it is all of them.
    named = any(Path(each.split("::")[0]).exists() for each in arguments)
    chosen = arguments if named else [*arguments, str(HERE)]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--timeout=300", *chosen]
    if kubeconfig:
        return subprocess.run(command, check=False).returncode
    with sandbox.working_folder() as folder:
        try:
            return sandbox.run(command, folder)
        except (KeyboardInterrupt, subprocess.SubprocessError):
            return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
