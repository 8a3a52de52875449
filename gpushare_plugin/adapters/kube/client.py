"""The calls to the API server that we make, and no others.

Rule 1: one call is one try (a list whose pages are forgotten begins again, a 401 is
asked twice); retrying is the caller's.
Rule 2: objects are written through `pods/status` and `nodes/status` alone, as merge
patches of what is ours, with the UID of the object that is meant: fields that we do
not know stay as they are, and another object of the same name is left alone.
"""

from collections.abc import AsyncGenerator, Mapping

from gpushare_plugin.adapters.kube import reading, wire
from gpushare_plugin.adapters.kube.failures import Call
from gpushare_plugin.adapters.kube.listing import listed
from gpushare_plugin.adapters.kube.reading import Reader
from gpushare_plugin.adapters.kube.requests import (
    list_call,
    merge_patch,
    read_object,
    selected,
    watch_call,
)
from gpushare_plugin.adapters.kube.transport import Transport
from gpushare_plugin.adapters.kube.watching import WatchTimes, watched
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.ports.cluster import Listing, Node, StatusPatch, T, WatchEvent

_FROM_CACHE = {"resourceVersion": "0"}
"""Kubernetes' word for: whatever the API server has in memory, in one page."""


class KubeClient:
    """Reads pods and nodes, patches their status, writes events. Every method raises ApiError."""

    def __init__(
        self,
        transport: Transport,
        *,
        pods: Reader[Pod],
        watch_times: WatchTimes | None = None,
    ) -> None:
        """`pods` says what of a pod is read: see `reading.pod_reader`."""
        self._transport = transport
        self._pods = pods
        self._nodes = reading.node_reader()
        self._times = watch_times or WatchTimes()

    # ------------------------------------------------------------------------ reading

    async def get_pod(self, namespace: str, name: str) -> Pod:
        """Return one pod."""
        call = Call(verb="get", resource="pods", namespace=namespace, name=name)
        return await read_object(self._transport, call, self._pods)

    async def get_node(self, name: str) -> Node:
        """Return one node."""
        return await read_object(
            self._transport, Call(verb="get", resource="nodes", name=name), self._nodes
        )

    async def list_pods(
        self, *, field_selector: str = "", label_selector: str = "", from_cache: bool = False
    ) -> Listing[Pod]:
        """Return the pods of all namespaces that are selected, as of one version.

        `from_cache` spares the API server a read of all pods in etcd; the answer may be
        a little old, and comes in one page: for one node's pods, not for a cluster's.
        """
        query = selected(field_selector, label_selector) | (_FROM_CACHE if from_cache else {})
        return await listed(self._transport, list_call("pods", query), self._pods)

    def watch_pods(
        self, *, version: str, field_selector: str = "", label_selector: str = ""
    ) -> AsyncGenerator[WatchEvent[Pod], None]:
        """Yield what happens to these pods after a version; close it (`aclosing`).

        Ends when the server ends it, which it does every few minutes: watch again, from
        the last version. Raises ApiExpired when the version is forgotten: list again.
        """
        return self._watch("pods", selected(field_selector, label_selector), version, self._pods)

    async def list_nodes(self) -> Listing[Node]:
        """Return all nodes, as of one version."""
        return await listed(self._transport, list_call("nodes", {}), self._nodes)

    async def list_node(self, name: str) -> Listing[Node]:
        """Return one node, or none, with the version to watch it from."""
        return await listed(self._transport, list_call("nodes", selected(name=name)), self._nodes)

    def watch_node(self, name: str, *, version: str) -> AsyncGenerator[WatchEvent[Node], None]:
        """Yield what happens to one node; as `watch_pods`."""
        return self._watch("nodes", selected(name=name), version, self._nodes)

    # ------------------------------------------------------------------------ writing

    async def patch_pod_status(self, namespace: str, name: str, patch: StatusPatch) -> Pod:
        """Change a pod; raises ApiConflict if its UID is another one."""
        call = Call(
            verb="patch",
            resource="pods/status",
            namespace=namespace,
            name=name,
            body=merge_patch(patch),
        )
        return await read_object(self._transport, call, self._pods)

    async def patch_node_status(self, name: str, patch: StatusPatch) -> Node:
        """Change a node; raises ApiConflict if its UID is another one."""
        call = Call(verb="patch", resource="nodes/status", name=name, body=merge_patch(patch))
        return await read_object(self._transport, call, self._nodes)

    async def create_event(self, namespace: str, event: Mapping[str, object]) -> None:
        """Write a Kubernetes event: see `recorder`."""
        body = wire.encoded(event)
        await self._transport.answer(
            Call(verb="create", resource="events", namespace=namespace, body=body)
        )

    async def patch_event(self, namespace: str, name: str, change: Mapping[str, object]) -> None:
        """Change a Kubernetes event; raises ApiNotFound if it has been forgotten."""
        await self._transport.answer(
            Call(
                verb="patch",
                resource="events",
                namespace=namespace,
                name=name,
                body=wire.encoded(change),
            )
        )

    def _watch(
        self, resource: str, query: Mapping[str, str], version: str, reader: Reader[T]
    ) -> AsyncGenerator[WatchEvent[T], None]:
        call = watch_call(resource, query, version=version, life_seconds=self._times.life_seconds)
        silence_seconds = self._times.silence_seconds
        return watched(self._transport, call, reader, silence_seconds=silence_seconds)
