"""A simulated kubelet as a process of its own, driven over its control socket.

Serves until SIGTERM or SIGINT. A SIGKILL leaves what a killed kubelet leaves;
started again it knows who holds devices, from the checkpoint, but no pods.
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

from gpushare_plugin.sim.kubelet.control import ControlServer
from gpushare_plugin.sim.kubelet.kubelet import SimKubelet
from gpushare_plugin.sim.kubelet.settings import KubeletSettings

READY_LINE = "the simulated kubelet is up"


def main(arguments: Sequence[str]) -> None:
    """Run a kubelet with these arguments until told to stop."""
    chosen = vars(_parser().parse_args(arguments))
    control_socket: Path = chosen.pop("control_socket")
    asyncio.run(_serve(KubeletSettings(**chosen), control_socket))


async def _serve(settings: KubeletSettings, control_socket: Path) -> None:
    told_to_stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told_to_stop.set)
    async with SimKubelet(settings) as kubelet, ControlServer(kubelet, control_socket):
        # For a parent that waits on our output rather than on the socket.
        sys.stdout.write(f"{READY_LINE}\n")
        sys.stdout.flush()
        await told_to_stop.wait()


def _parser() -> argparse.ArgumentParser:
    """Build one flag for each setting, and the control socket's."""
    parser = argparse.ArgumentParser(prog="python -m gpushare_plugin.sim.kubelet")
    parser.add_argument("--control-socket", type=Path, required=True)
    hints = get_type_hints(KubeletSettings)
    for field in dataclasses.fields(KubeletSettings):
        flag, hint = f"--{field.name.replace('_', '-')}", hints[field.name]
        if field.default is dataclasses.MISSING:
            parser.add_argument(flag, type=hint, required=True)
        elif hint is bool:
            parser.add_argument(flag, action="store_true")
        else:
            choices = list(hint) if issubclass(hint, Enum) else None
            parser.add_argument(flag, type=hint, default=field.default, choices=choices)
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
