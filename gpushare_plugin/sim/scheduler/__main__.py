"""A simulated scheduler as a process of its own, driven over its control socket.

Prints one line once it runs. Schedules until SIGTERM or SIGINT; then it gives its lease back.
"""

import argparse
import asyncio
import dataclasses
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_type_hints

from gpushare_plugin.sim.scheduler.control import ControlServer
from gpushare_plugin.sim.scheduler.failures import ConfigurationError
from gpushare_plugin.sim.scheduler.scheduler import SimScheduler
from gpushare_plugin.sim.scheduler.settings import SchedulerSettings

READY_LINE = "the simulated scheduler is up"


def main(arguments: Sequence[str]) -> None:
    """Run a scheduler with these arguments until told to stop."""
    chosen = vars(_parser().parse_args(arguments))
    control_socket: Path = chosen.pop("control_socket")
    try:
        asyncio.run(_serve(SchedulerSettings(**chosen), control_socket))
    except ConfigurationError as error:
        sys.exit(str(error))


async def _serve(settings: SchedulerSettings, control_socket: Path) -> None:
    told_to_stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told_to_stop.set)
    async with SimScheduler(settings) as scheduler, ControlServer(scheduler, control_socket):
        # For a parent that waits on our output rather than on the socket.
        sys.stdout.write(f"{READY_LINE}\n")
        sys.stdout.flush()
        await told_to_stop.wait()


def _parser() -> argparse.ArgumentParser:
    """Build one flag for each setting, and the control socket's."""
    parser = argparse.ArgumentParser(prog="python -m gpushare_plugin.sim.scheduler")
    parser.add_argument("--control-socket", type=Path, required=True)
    hints = get_type_hints(SchedulerSettings)
    for field in dataclasses.fields(SchedulerSettings):
        flag, hint = f"--{field.name.replace('_', '-')}", hints[field.name]
        if field.default is dataclasses.MISSING:
            parser.add_argument(flag, type=hint, required=True)
        elif hint is bool:
            # One that is on by default is switched off with --no-...
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=field.default)
        else:
            parser.add_argument(flag, type=hint, default=field.default)
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
