"""Takes what the watches show into the cache and the queue.

Facts: pkg/scheduler/eventhandlers.go of 1.36. Pods that ended are as good as gone. Waiting pods
of other schedulers are none of ours; bound ones count whoever bound them.
"""

from gpushare_plugin.sim.scheduler.cluster import Cluster
from gpushare_plugin.sim.scheduler.happenings import Happening, node_happenings, own_happenings
from gpushare_plugin.sim.scheduler.objects import NodeInfo, PodInfo
from gpushare_plugin.sim.scheduler.scheduling_queue import SchedulingQueue

PODS_PATH = "/api/v1/pods"
PODS_SELECTOR = "status.phase!=Succeeded,status.phase!=Failed"
NODES_PATH = "/api/v1/nodes"


class Informing:
    """The handlers of both watches; a value is None where the object is not there."""

    def __init__(self, cluster: Cluster, queue: SchedulingQueue, *, scheduler_name: str) -> None:
        self._cluster = cluster
        self._queue = queue
        self._scheduler_name = scheduler_name

    def node_changed(self, before: NodeInfo | None, after: NodeInfo | None) -> None:
        """Take over a node that came, changed or went."""
        if after is None:
            if before is not None:
                self._cluster.remove_node(before.name)
                self._queue.happened(Happening.NODE_DELETED)
            return
        self._cluster.set_node(after)
        if before is None:
            self._queue.happened(Happening.NODE_ADDED)
            return
        for happening in node_happenings(before, after):
            self._queue.happened(happening)

    def pod_changed(self, before: PodInfo | None, after: PodInfo | None) -> None:
        """Take over a pod that came, changed or went."""
        if after is None:
            if before is not None:
                self._gone(before)
            return
        self._cluster.set_pod(after)
        if after.node_name:
            self._queue.remove(after.uid)
        elif after.scheduler_name == self._scheduler_name:
            self._waiting(before, after)

    def _gone(self, pod: PodInfo) -> None:
        held_room = bool(pod.node_name) or bool(
            {pod.uid} & (self._cluster.assumed.keys() | self._cluster.nominated.keys())
        )
        self._cluster.remove_pod(pod.uid)
        self._queue.remove(pod.uid)
        if held_room:
            self._queue.happened(Happening.POD_DELETED)

    def _waiting(self, before: PodInfo | None, after: PodInfo) -> None:
        if before is None or before.nominated_node != after.nominated_node:
            self._cluster.nominate(after, after.nominated_node)
        if before is None:
            self._queue.add(after)
        elif after.uid not in self._cluster.assumed:
            self._queue.update(after, own_happenings(before, after))
        elif after.terminating and not before.terminating:
            # Its binding goes on and is bound to fail; what it held is free at once.
            self._cluster.forget(after.uid)
            self._queue.happened(Happening.POD_DELETED)
