"""`python -m bench`: measure, print the table, write the JSON.

The exit code is 0 if everything ran, whatever the figures; 1 if something did not.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc.aio
from rich.console import Console

from bench import report
from bench.calls import call_rows
from bench.cluster_rows import cluster_rows
from bench.extender import extender_rows
from bench.figures import Row
from bench.plan import FULL, QUICK, Plan
from bench.processes import BenchError, compile_modules, raised_priority
from bench.rest import rest_rows
from bench.starts import start_rows
from gpushare_plugin.errors import GpushareError
from gpushare_plugin.sim.apiserver import SimApiServerError
from gpushare_plugin.sim.kubelet import SimKubeletError

GROUPS: dict[str, Callable[[Plan], Awaitable[list[Row]]]] = {
    "calls": call_rows,
    "starts": start_rows,
    "rest": rest_rows,
    "cluster": cluster_rows,
    "extender": extender_rows,
}

TABLE_COLUMNS = 160


def main() -> int:
    """Run the benchmarks."""
    # gRPC's C core has a log of its own, of lines that say nothing here.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    chosen = _parser().parse_args()
    plan = (QUICK if chosen.quick else FULL).with_rounds(chosen.rounds)
    if chosen.without_go:
        plan = plan.without_peers()
    about = {
        **report.machine(),
        "priority": "raised" if raised_priority() else "as given",
        "rounds": plan.rounds,
        "calls_a_round": plan.calls,
    }
    groups = chosen.only or list(GROUPS)
    compile_modules()
    try:
        rows = asyncio.run(_measure(groups, plan))
    except (
        BenchError,
        GpushareError,
        SimKubeletError,
        SimApiServerError,
        grpc.aio.AioRpcError,
    ) as error:
        print(f"did not run: {error}", file=sys.stderr)
        return 1
    report.show(rows, about, Console(width=None if sys.stdout.isatty() else TABLE_COLUMNS))
    if chosen.json:
        chosen.json.write_text(report.as_json(rows, about), encoding="utf-8")
    return 0


async def _measure(groups: list[str], plan: Plan) -> list[Row]:
    rows: list[Row] = []
    for group in groups:
        print(f"measuring {group} ...", file=sys.stderr)
        rows += await GROUPS[group](plan)
    return rows


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"in place of {FULL.rounds}")
    parser.add_argument("--quick", action="store_true", help="only show that everything runs")
    parser.add_argument(
        "--without-go", action="store_true", help="as where there is no Go: no Go peer beside"
    )
    parser.add_argument(
        "--only", action="append", choices=GROUPS, help="this group of rows; may be repeated"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
