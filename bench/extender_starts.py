"""Rows of the extender's start: all it knows comes from the API server.

Beside it, in the same rounds: the same lists received by this process, and not read.
"""

import time

from bench.cluster import Cluster
from bench.extender_cluster import Scale
from bench.extender_process import extender
from bench.figures import Bound, Compared, Row, row
from bench.plan import Plan
from bench.watches import SAME_BYTES, receive_pages
from gpushare_plugin.adapters.kube.transport import Transport

MOST_SECONDS = 3.0
MOST_RSS_MIB = 200.0
RESOURCES = ("nodes", "pods")


async def extender_start_rows(
    plan: Plan, cluster: Cluster, empty_cluster: Cluster, scale: Scale
) -> list[Row]:
    """Measure starts beside the full cluster, and one beside an empty one."""
    ready, cpu, rss, peak = [], [], [], []
    bytes_seconds, bytes_cpu = [], []
    for _ in range(plan.extender_starts):
        async with extender(cluster.account) as started:
            ready.append(started.ready_seconds)
            cpu.append(started.process.cpu_seconds())
            rss.append(started.process.memory().rss_mib)
            peak.append(started.process.peak_rss_mib())
        began, cpu_began = time.perf_counter(), time.process_time()
        async with Transport(cluster.credentials()) as transport:
            for resource in RESOURCES:
                await receive_pages(transport, resource)
        bytes_seconds.append(time.perf_counter() - began)
        bytes_cpu.append(time.process_time() - cpu_began)
    async with extender(empty_cluster.account) as alone:
        alone_mib = alone.process.memory().rss_mib
        alone_peak_mib = alone.process.peak_rss_mib()
    of = f"{scale.nodes:,} nodes and {scale.pods:,} pods"
    return [
        row(
            f"Start of the extender to ready, {of}",
            "s",
            ready,
            bytes_seconds,
            baseline_is=SAME_BYTES,
            bound=Bound(most=MOST_SECONDS, of=Compared.OURS),
            note=f"{alone.ready_seconds:.2f} s beside an empty cluster; objects of 8 KB, over TLS;"
            " the simulated API server's own work is in it",
        ),
        row(
            "- its processor time",
            "s",
            cpu,
            bytes_cpu,
            baseline_is=SAME_BYTES,
        ),
        row(
            f"RSS of the extender, {of}",
            "MiB",
            rss,
            [alone_mib] * len(rss),
            baseline_is="empty cluster",
            bound=Bound(most=MOST_RSS_MIB, of=Compared.OURS),
        ),
        row(
            "- the most that it had until then",
            "MiB",
            peak,
            [alone_peak_mib] * len(peak),
            baseline_is="empty cluster",
        ),
    ]
