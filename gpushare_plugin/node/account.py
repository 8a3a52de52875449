"""The node's state at one moment, as metrics show it: cards, and who holds what of them.

Rule: who holds what is the kubelet's word (PodResources), never our own count.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from gpushare_plugin.core.association import ListedPod
from gpushare_plugin.core.devices import CardTable
from gpushare_plugin.core.health import State
from gpushare_plugin.errors import DeviceIdError
from gpushare_plugin.metrics import CardState, ContainerShare
from gpushare_plugin.node.inventory import Inventory


def container_shares(pods: Iterable[ListedPod], table: CardTable) -> tuple[ContainerShare, ...]:
    """Return what each container holds of each card.

    Devices of the original's plugin, which served the node before, are passed over.
    """
    shares: Counter[tuple[str, str, str, str]] = Counter()
    for pod in pods:
        for container in pod.containers:
            for device_id in container.device_ids:
                try:
                    uuid = table.of_device(device_id).uuid
                except DeviceIdError:
                    continue
                shares[pod.pod.namespace, pod.pod.name, container.name, uuid] += 1
    return tuple(
        ContainerShare(namespace=namespace, pod=pod, container=container, uuid=uuid, units=units)
        for (namespace, pod, container, uuid), units in sorted(shares.items())
    )


def card_states(
    inventory: Inventory, shares: Sequence[ContainerShare] | None
) -> tuple[CardState, ...]:
    """Return the state of each card; `shares` is None while it is not known who holds what."""
    held: Counter[str] = Counter()
    for share in shares or ():
        held[share.uuid] += share.units
    return tuple(
        CardState(
            index=card.index,
            uuid=card.uuid,
            model=card.gpu.model,
            units=card.units,
            allocated_units=None if shares is None else held[card.uuid],
            healthy=inventory.health(card.uuid).state is State.HEALTHY,
            watched=inventory.health(card.uuid).watched,
        )
        for card in inventory.cards
    )
