"""A simulated peer as a process of its own: flags from its settings, an end by signal.

Must not know: any of the peers.
"""

import argparse
import asyncio
import dataclasses
import signal
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

Settings = TypeVar("Settings")


def read_arguments(
    settings: type[Settings], prog: str, arguments: Sequence[str]
) -> tuple[Settings, Path]:
    """Return the settings that the flags give, and the control socket's path."""
    chosen = vars(_parser(settings, prog).parse_args(arguments))
    control_socket: Path = chosen.pop("control_socket")
    return settings(**chosen), control_socket


async def serve_until_signalled(*parts: AbstractAsyncContextManager[Any], ready_line: str) -> None:
    """Enter the parts in their order, say so in one line, and leave them at SIGTERM or SIGINT.

    `{}` in the line stands for the first part's address.
    """
    told_to_stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told_to_stop.set)
    async with AsyncExitStack() as stack:
        for part in parts:
            await stack.enter_async_context(part)
        # For a parent that waits on our output rather than on the socket.
        sys.stdout.write(ready_line.format(getattr(parts[0], "address", "")) + "\n")
        sys.stdout.flush()
        await told_to_stop.wait()


def _parser(settings: type[Any], prog: str) -> argparse.ArgumentParser:
    """Build one flag for each setting, and the control socket's."""
    parser = argparse.ArgumentParser(prog=prog)
    parser.add_argument("--control-socket", type=Path, required=True)
    hints = get_type_hints(settings)
    for field in dataclasses.fields(settings):
        flag, hint = f"--{field.name.replace('_', '-')}", hints[field.name]
        if field.default is dataclasses.MISSING:
            parser.add_argument(flag, type=hint, required=True)
        elif hint is bool:
            # One that is on by default is switched off with --no-...
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=field.default)
        elif hint == Path | None:
            parser.add_argument(flag, type=Path)
        else:
            choices = list(hint) if issubclass(hint, Enum) else None
            parser.add_argument(flag, type=hint, default=field.default, choices=choices)
    return parser
