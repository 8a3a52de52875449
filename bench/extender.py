"""Rows of the extender: filter beside a Go peer, bind, its start, and what a change costs it.

It runs as in a pod, by a service account over TLS, beside a simulated API server; the
scheduler is this process, and calls it over plain HTTP on loopback.
"""

import tempfile
from pathlib import Path

from bench.bind_rows import bind_rows
from bench.cluster import cluster
from bench.extender_cluster import Scale, fill
from bench.extender_process import extender
from bench.extender_starts import extender_start_rows
from bench.figures import Row
from bench.filter_rows import filter_rows
from bench.go_peer import go_peer
from bench.ledger_rows import ledger_rows
from bench.plan import Plan


async def extender_rows(plan: Plan) -> list[Row]:
    """Measure."""
    scale = Scale.of(plan)
    with tempfile.TemporaryDirectory(prefix="gsb", ignore_cleanup_errors=True) as name:
        async with cluster() as found, cluster() as empty_cluster:
            await fill(found.api, scale)
            starts = await extender_start_rows(plan, found, empty_cluster, scale)
            async with (
                extender(found.account) as ours,
                go_peer(scale.largest_free(), Path(name), wanted=plan.peers) as peer,
            ):
                rows = await filter_rows(plan, found, ours, peer, scale)
                rows += await bind_rows(plan, found, ours, scale)
                rows += starts
                rows += await ledger_rows(plan, found, ours, scale)
    return rows
