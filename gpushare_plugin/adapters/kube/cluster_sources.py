"""What the extender's informers hold: all nodes, all pods that ask, all unhealthy lists.

Rule: what is not asked for is dropped as each object is read, so that a large cluster
costs memory only for what shares cards.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Generic

from gpushare_plugin.adapters.kube.listing import listed
from gpushare_plugin.adapters.kube.reading import Reader
from gpushare_plugin.adapters.kube.requests import list_call, selected, watch_call
from gpushare_plugin.adapters.kube.scheduling_reading import unhealthy_list_reader
from gpushare_plugin.adapters.kube.transport import Transport
from gpushare_plugin.adapters.kube.watching import WatchTimes, watched
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.ports.cluster import Listing, Node, T, WatchEvent
from gpushare_plugin.ports.scheduling import UnhealthyList

LIVE_PODS = "status.phase!=Failed,status.phase!=Succeeded"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSource(Generic[T]):
    """The objects of one resource, of a namespace or of all, that a query selects."""

    what: str
    transport: Transport
    reader: Reader[T]
    times: WatchTimes
    resource: str
    namespace: str = ""
    query: Mapping[str, str]

    async def listing(self, *, first: bool) -> Listing[T]:
        """List them, always from etcd and in pages."""
        del first
        call = list_call(self.resource, self.query, namespace=self.namespace)
        return await listed(self.transport, call, self.reader)

    def watch(self, version: str) -> AsyncGenerator[WatchEvent[T], None]:
        """Watch them."""
        call = watch_call(
            self.resource,
            self.query,
            version=version,
            life_seconds=self.times.life_seconds,
            namespace=self.namespace,
        )
        silence_seconds = self.times.silence_seconds
        return watched(self.transport, call, self.reader, silence_seconds=silence_seconds)


class ClusterSources:
    """Makes the sources over one transport."""

    def __init__(self, transport: Transport, *, watch_times: WatchTimes | None = None) -> None:
        self._transport = transport
        self._times = watch_times or WatchTimes()

    def nodes(self, reader: Reader[Node]) -> ClusterSource[Node]:
        """Return all nodes; the reader says what of a node is held."""
        return ClusterSource(
            what="nodes",
            transport=self._transport,
            reader=reader,
            times=self._times,
            resource="nodes",
            query={},
        )

    def live_pods(self, reader: Reader[Pod]) -> ClusterSource[Pod]:
        """Return the pods that have not ended; the reader says which are kept."""
        return ClusterSource(
            what="pods",
            transport=self._transport,
            reader=reader,
            times=self._times,
            resource="pods",
            query=selected(LIVE_PODS),
        )

    def unhealthy_lists(self, namespace: str) -> ClusterSource[UnhealthyList]:
        """Return the lists of unhealthy cards, one a node, from a namespace's ConfigMaps."""
        return ClusterSource(
            what="unhealthy lists",
            transport=self._transport,
            reader=unhealthy_list_reader(),
            times=self._times,
            resource="configmaps",
            namespace=namespace,
            query={},
        )
