"""Who holds which devices, as each kubelet tells it on its own socket."""

from collections import Counter

import grpc

from e2e.cluster.cluster import Cluster
from e2e.cluster.kubectl import NAMESPACE
from e2e.product import RESOURCE
from gpushare_plugin.proto import podresources_v1_pb2 as messages

Holding = dict[tuple[str, str], Counter[str]]
"""By pod and container: how many units of each card, by the prefix of the devices' IDs."""


def held(sandbox: Cluster) -> Holding:
    """Return what the containers of the tests' pods hold, of both nodes."""
    found: Holding = {}
    for node in sandbox.nodes.values():
        for pod in _listed(f"unix:{node.pod_resources}").pod_resources:
            if pod.namespace == NAMESPACE:
                for container in pod.containers:
                    ids = [
                        each
                        for devices in container.devices
                        if devices.resource_name == RESOURCE
                        for each in devices.device_ids
                    ]
                    cards = Counter(each.rsplit("-", 1)[0] for each in ids)
                    if cards:
                        found[pod.name, container.name] = cards
    return found


def _listed(address: str) -> messages.ListPodResourcesResponse:
    with grpc.insecure_channel(address) as channel:
        call = channel.unary_unary(
            "/v1.PodResourcesLister/List",
            request_serializer=messages.ListPodResourcesRequest.SerializeToString,
            response_deserializer=messages.ListPodResourcesResponse.FromString,
        )
        answer: messages.ListPodResourcesResponse = call(
            messages.ListPodResourcesRequest(), timeout=5, wait_for_ready=True
        )
        return answer
