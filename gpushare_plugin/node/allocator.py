"""One container's devices: which had best be taken, and what they bring with them.

Rule 1: the card of the IDs is the card the container gets.
Rule 2: the answer comes from the IDs, the configuration and what is in memory: no
call to anybody, no lock, no file.
Rule 3: never an OK that carries a broken environment: what cannot be served is
refused, and the refusal names the request, the cards, the cause and the cure.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from gpushare_plugin.core.association import Caller, Known
from gpushare_plugin.core.devices import Card
from gpushare_plugin.core.health import State
from gpushare_plugin.core.injection import Injection, InjectionRule, Share
from gpushare_plugin.core.isolation import Isolation, additions
from gpushare_plugin.core.placement import Policy, Proposal, Request, propose
from gpushare_plugin.errors import AllocationRefused, DeviceIdError, Refusal
from gpushare_plugin.logs import event_logger
from gpushare_plugin.node.inventory import Inventory

log = event_logger(__name__)

REMEMBERED_PROPOSALS = 256
"""Far more than a kubelet has under way: it admits one pod at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationRule:
    """How containers are placed and served on this node."""

    policy: Policy
    injection: InjectionRule
    isolation: Isolation
    unit_mib: int


class Allocator:
    """Answers for one container at a time."""

    def __init__(self, inventory: Inventory, rule: AllocationRule) -> None:
        self._inventory = inventory
        self._rule = rule
        self._proposed: OrderedDict[frozenset[str], Caller] = OrderedDict()

    def propose(self, request: Request, caller: Caller) -> Proposal:
        """Return the devices that a container had best be given, and remember them."""
        proposal = propose(request, self._inventory.table, self._rule.policy)
        self._proposed[frozenset(proposal.device_ids)] = caller
        while len(self._proposed) > REMEMBERED_PROPOSALS:
            self._proposed.popitem(last=False)
        log.debug(
            "proposed",
            pod=_pod_text(caller),
            units=request.size,
            card=proposal.card.index if proposal.card else "several",
        )
        return proposal

    def allocate(self, device_ids: Sequence[str]) -> Injection:
        """Return what the container of these devices is given.

        Raises:
            AllocationRefused: it cannot be served.
        """
        caller = self._proposed.pop(frozenset(device_ids), None)
        pod = _pod_text(caller)
        try:
            card = self._one_healthy_card(device_ids)
        except AllocationRefused as refusal:
            log.error(
                "allocate_refused",
                pod=pod,
                units=len(device_ids),
                cause=refusal.cause.value,
                error=refusal,
            )
            raise
        units = len(device_ids)
        log.info("allocated", pod=pod, units=units, card=card.index, uuid=card.uuid)
        share = Share(card=card, container_units=units, pod_units=units)
        injection = self._rule.injection.inject(share)
        added = additions(self._rule.isolation, share, unit_mib=self._rule.unit_mib)
        return injection.merged(added)

    def _one_healthy_card(self, device_ids: Sequence[str]) -> Card:
        if not device_ids:
            raise AllocationRefused(
                Refusal.BAD_REQUEST, "a container of no devices: expected at least one device ID"
            )
        if len(set(device_ids)) < len(device_ids):
            raise AllocationRefused(
                Refusal.BAD_REQUEST,
                f"{len(device_ids)} device IDs, of which {len(set(device_ids))} differ: expected"
                " each once",
            )
        try:
            by_card = self._inventory.table.group(device_ids)
        except DeviceIdError as error:
            raise AllocationRefused(Refusal.UNKNOWN_DEVICE, str(error)) from error
        if len(by_card) > 1:
            raise AllocationRefused(
                Refusal.SEVERAL_CARDS,
                _several_cards_text({card: len(ids) for card, ids in by_card.items()}),
            )
        [card] = by_card
        health = self._inventory.health(card.uuid)
        if health.state is State.UNHEALTHY:
            raise AllocationRefused(
                Refusal.UNHEALTHY_CARD,
                f"card {card.index} ({card.uuid}) is unhealthy: {health.reason}; the pod must be"
                " made anew once the card is healthy or on another node",
            )
        return card


def _several_cards_text(units_by_card: dict[Card, int]) -> str:
    total = sum(units_by_card.values())
    parts = ", ".join(f"{units} of card {card.index}" for card, units in units_by_card.items())
    return (
        f"a container of {total} units got {parts}: no card of this node had {total} units free,"
        " and a container is served by one card. Ask for fewer units, free a card, or place pods"
        " with the gpushare extender, which knows the cards before a pod is bound"
    )


def _pod_text(caller: Caller | None) -> str:
    return str(caller.pod) if isinstance(caller, Known) else "unknown"
