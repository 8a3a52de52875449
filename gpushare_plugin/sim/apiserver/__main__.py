"""A simulated API server as a process of its own, driven over its control socket.

Prints one line with its address once it is up. Serves until SIGTERM or SIGINT;
whatever ends it, its objects end with it.
"""

import argparse
import asyncio
import dataclasses
import signal
import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import get_type_hints

from gpushare_plugin.sim.apiserver.apiserver import SimApiServer
from gpushare_plugin.sim.apiserver.control import ControlServer
from gpushare_plugin.sim.apiserver.settings import ApiServerSettings

READY_LINE = "the simulated API server is up at"


def main(arguments: Sequence[str]) -> None:
    """Run a server with these arguments until told to stop."""
    chosen = vars(_parser().parse_args(arguments))
    control_socket: Path = chosen.pop("control_socket")
    asyncio.run(_serve(ApiServerSettings(**chosen), control_socket))


async def _serve(settings: ApiServerSettings, control_socket: Path) -> None:
    told_to_stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told_to_stop.set)
    async with SimApiServer(settings) as server, ControlServer(server, control_socket):
        sys.stdout.write(f"{READY_LINE} {server.address}\n")
        sys.stdout.flush()
        await told_to_stop.wait()


def _parser() -> argparse.ArgumentParser:
    """Build one flag for each setting, and the control socket's."""
    parser = argparse.ArgumentParser(prog="python -m gpushare_plugin.sim.apiserver")
    parser.add_argument("--control-socket", type=Path, required=True)
    hints = get_type_hints(ApiServerSettings)
    for field in dataclasses.fields(ApiServerSettings):
        flag, hint = f"--{field.name.replace('_', '-')}", hints[field.name]
        if hint is bool:
            # One that is on by default is switched off with --no-...
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=field.default)
        elif hint == Path | None:
            parser.add_argument(flag, type=Path)
        else:
            choices = list(hint) if issubclass(hint, Enum) else None
            parser.add_argument(flag, type=hint, default=field.default, choices=choices)
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
