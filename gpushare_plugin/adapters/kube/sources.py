"""What an informer holds: the pods that selectors choose, or one node."""

from collections.abc import AsyncGenerator

from gpushare_plugin.adapters.kube.client import KubeClient
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.ports.cluster import Listing, Node, WatchEvent


def live_pods_of(node_name: str) -> str:
    """Return the field selector of the pods that are bound to a node and have not ended."""
    return f"spec.nodeName={node_name},status.phase!=Failed,status.phase!=Succeeded"


class PodSource:
    """The pods that selectors choose."""

    def __init__(
        self,
        client: KubeClient,
        *,
        field_selector: str = "",
        label_selector: str = "",
        first_from_cache: bool = False,
    ) -> None:
        """`first_from_cache`: see `KubeClient.list_pods`; a relist is never from the cache."""
        self.what = "pods"
        self._client = client
        self._fields = field_selector
        self._labels = label_selector
        self._first_from_cache = first_from_cache

    async def listing(self, *, first: bool) -> Listing[Pod]:
        """List the pods."""
        return await self._client.list_pods(
            field_selector=self._fields,
            label_selector=self._labels,
            from_cache=first and self._first_from_cache,
        )

    def watch(self, version: str) -> AsyncGenerator[WatchEvent[Pod], None]:
        """Watch the pods."""
        return self._client.watch_pods(
            version=version, field_selector=self._fields, label_selector=self._labels
        )


class NodeSource:
    """One node; it may be gone and come again with another UID."""

    def __init__(self, client: KubeClient, name: str) -> None:
        self.what = f"node {name}"
        self._client = client
        self._name = name

    async def listing(self, *, first: bool) -> Listing[Node]:
        """List the node."""
        del first
        return await self._client.list_node(self._name)

    def watch(self, version: str) -> AsyncGenerator[WatchEvent[Node], None]:
        """Watch the node."""
        return self._client.watch_node(self._name, version=version)
