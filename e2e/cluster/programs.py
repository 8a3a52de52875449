"""Programs that run beside the tests: started with a log file, stopped by their process ID."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

STOP_SECONDS = 10.0
LOG_TAIL = 2000


class DidNotWork(Exception):
    """Something did not become as it was waited for; the text says what was seen last."""


class Program:
    """One running program."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self._command = [str(each) for each in command]
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, its output appended to the log."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process ID; it is running."""
        if self._process is None:
            raise DidNotWork(f"{self.name} was not started")
        return self._process.pid

    def check(self) -> None:
        """Raise DidNotWork if it has ended."""
        if self._process is not None and self._process.poll() is not None:
            text = self.log.read_text(errors="replace")[-LOG_TAIL:]
            raise DidNotWork(f"{self.name} ended with {self._process.returncode}:\n{text}")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop it, by SIGKILL if it does not listen; return when it has ended."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            self._process.send_signal(number)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


def wait_until(
    done: Callable[[], object], *, what: str, seconds: float, every_seconds: float = 0.2
) -> None:
    """Return once `done` is true; what it raises while waiting counts as not yet.

    Raises:
        DidNotWork: it was not in time; says what was seen last.
    """
    end = time.monotonic() + seconds
    last: object = None
    while time.monotonic() < end:
        try:
            last = done()
            if last:
                return
        except Exception as error:  # noqa: BLE001  # whatever it is, it is told below
            last = error
        time.sleep(every_seconds)
    raise DidNotWork(f"{what}: not within {seconds:g} s; seen last: {last!r}")
