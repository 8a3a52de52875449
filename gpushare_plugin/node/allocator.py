"""One container's devices: which had best be taken, and what they bring with them.

Rule 1: the card of the IDs is the card the container gets.
Rule 2: the answer comes from the IDs, the configuration and what is in memory: no
call to anybody, no lock, no file.
Rule 3: never an OK that carries a broken environment: what cannot be served is
refused, and the refusal names the request, the cards, the cause and the cure.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpushare_plugin.core.association import NO_POD, Caller, Known
from gpushare_plugin.core.bookkeeping import Choice, card_count_of, choice_of
from gpushare_plugin.core.devices import Card, CardTable
from gpushare_plugin.core.dialect import Dialect, PodAnnotationNames
from gpushare_plugin.core.health import State
from gpushare_plugin.core.injection import Injection, InjectionRule, Share
from gpushare_plugin.core.isolation import Isolation, additions
from gpushare_plugin.core.placement import NOTHING_KNOWN, Policy, Proposal, Request, Wish, propose
from gpushare_plugin.core.pods import Pod, requested_units
from gpushare_plugin.errors import AllocationRefused, DeviceIdError, RecordError, Refusal
from gpushare_plugin.logs import event_logger
from gpushare_plugin.metrics import NodeMetrics
from gpushare_plugin.node.admission import Call
from gpushare_plugin.node.inventory import Inventory
from gpushare_plugin.node.refusals import (
    check_device_ids,
    check_whole_cards,
    not_placed_text,
    several_cards_text,
    unhealthy_text,
)
from gpushare_plugin.node.specs import PodSpecs
from gpushare_plugin.node.tellings import Tellings

log = event_logger(__name__)

REMEMBERED_PROPOSALS = 256
"""Far more than a kubelet has under way: it admits one pod at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationRule:
    """How containers are placed and served on this node."""

    resource: str
    annotations: PodAnnotationNames
    policy: Policy
    injection: InjectionRule
    isolation: Isolation
    unit_mib: int
    cores: Dialect | None = None
    """The names by which whole cards are asked for, to be refused; None: not looked at."""
    strict: bool = False
    """A pod of another extender that fits on no card is refused too, not over-committed."""
    require_extender: bool = False
    """A pod for which no extender chose a card is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """A proposal of ours, and whose it is."""

    caller: Caller = NO_POD
    cards: tuple[Card, ...] = ()
    served: frozenset[str] = frozenset()
    """The containers of its pod that held devices before it."""


class Allocator:
    """Answers for one container at a time."""

    def __init__(
        self,
        inventory: Inventory,
        specs: PodSpecs,
        rule: AllocationRule,
        metrics: NodeMetrics,
        tellings: Tellings,
    ) -> None:
        self._inventory = inventory
        self._specs = specs
        self._rule = rule
        self._metrics = metrics
        self._tellings = tellings
        self._proposed: OrderedDict[frozenset[str], Remembered] = OrderedDict()
        self._last: tuple[frozenset[str], Caller] = (frozenset(), NO_POD)

    def set_cgpu_disable(self, *, disabled: bool) -> None:
        """Tell cGPU's runtime to leave our containers alone, or not, from now on."""
        injection = replace(self._rule.injection, cgpu_disable=disabled)
        self._rule = replace(self._rule, injection=injection)

    def set_isolation(self, isolation: Isolation) -> None:
        """Serve new containers under this isolation from now on."""
        self._rule = replace(self._rule, isolation=isolation)

    def propose(self, request: Request, call: Call) -> Proposal:
        """Return the devices that a container had best be given, and remember them."""
        wish = self._wish(call)
        proposal = propose(request, self._inventory.table, self._rule.policy, wish)
        remembered = Remembered(caller=call.caller, cards=proposal.cards, served=_served(call))
        self._proposed[frozenset(proposal.device_ids)] = remembered
        while len(self._proposed) > REMEMBERED_PROPOSALS:
            self._proposed.popitem(last=False)
        log.debug(
            "proposed",
            pod=_pod_text(call.caller),
            units=request.size,
            cards=_cards_text(proposal.cards),
        )
        return proposal

    def allocate(self, device_ids: Sequence[str]) -> Injection:
        """Return what the container of these devices is given.

        Raises:
            AllocationRefused: it cannot be served.
        """
        remembered = self._recall(device_ids)
        pod = self._pod(remembered.caller)
        try:
            cards = self._healthy_cards(device_ids, remembered, pod)
        except AllocationRefused as refusal:
            log.error(
                "allocate_refused",
                pod=_pod_text(remembered.caller),
                units=len(device_ids),
                cause=refusal.cause.value,
                error=refusal,
            )
            self._tellings.refused(pod, str(refusal))
            raise
        self._remember_last(frozenset(device_ids), remembered.caller)
        log.info(
            "allocated",
            pod=_pod_text(remembered.caller),
            units=len(device_ids),
            card=_cards_text(cards),
            uuid=",".join(card.uuid for card in cards),
        )
        return self._injection(cards, len(device_ids), pod)

    def _injection(self, cards: tuple[Card, ...], units: int, pod: Pod | None) -> Injection:
        pod_units = requested_units(pod, self._rule.resource) if pod else units
        share = Share(cards=cards, container_units=units, pod_units=pod_units)
        added = additions(self._rule.isolation, share, unit_mib=self._rule.unit_mib)
        return self._rule.injection.inject(share).merged(added)

    def _recall(self, device_ids: Sequence[str]) -> Remembered:
        """Return the proposal that these devices are; or whose they were a moment ago.

        Devices of an init container go to the next one of its pod without a proposal.
        """
        ids = frozenset(device_ids)
        remembered = self._proposed.pop(ids, None)
        if remembered is not None:
            return remembered
        last_ids, last_caller = self._last
        return Remembered(caller=last_caller) if ids & last_ids else Remembered()

    def _remember_last(self, ids: frozenset[str], caller: Caller) -> None:
        last_ids, last_caller = self._last
        same_pod = isinstance(caller, Known) and caller == last_caller
        # All of the pod's: an init container's may go to several others, one after the other.
        self._last = (last_ids | ids if same_pod else ids, caller)

    def _healthy_cards(
        self, device_ids: Sequence[str], remembered: Remembered, pod: Pod | None
    ) -> tuple[Card, ...]:
        check_device_ids(device_ids)
        try:
            by_card = self._inventory.table.group(device_ids)
        except DeviceIdError as error:
            raise AllocationRefused(Refusal.UNKNOWN_DEVICE, str(error)) from error
        if pod is not None and self._rule.cores is not None:
            check_whole_cards(pod, self._rule.cores)
        choice = self._choice(pod, remembered.served)
        if self._rule.require_extender and choice is None:
            raise AllocationRefused(Refusal.NO_EXTENDER, not_placed_text(pod))
        cards = tuple(by_card)
        if len(cards) > 1 and cards != remembered.cards:
            units = {card: len(ids) for card, ids in by_card.items()}
            cards = (self._forced_card(choice, units, pod),)
        for card in cards:
            health = self._inventory.health(card.uuid)
            if health.state is State.UNHEALTHY:
                raise AllocationRefused(Refusal.UNHEALTHY_CARD, unhealthy_text(card, health.reason))
        if pod is not None and choice is None and len(self._inventory.cards) > 1:
            self._tellings.placed_here(pod, cards, self._rule.policy.value)
        return cards

    def _forced_card(
        self, choice: Choice | None, units_by_card: dict[Card, int], pod: Pod | None
    ) -> Card:
        """Return the card that another extender gave the pod, although it is full.

        Raises:
            AllocationRefused: none did, or it shall not be so.
        """
        card = _card_of_index(self._inventory.table, choice.cards[0]) if choice else None
        if choice is None or choice.ours or self._rule.strict or card is None or pod is None:
            raise AllocationRefused(Refusal.SEVERAL_CARDS, several_cards_text(units_by_card))
        self._metrics.overcommits.inc()
        log.warning(
            "card_overcommitted",
            pod=pod,
            card=card.index,
            units=sum(units_by_card.values()),
            advice="its extender counted otherwise than this node",
        )
        self._tellings.overcommitted(pod, card, sum(units_by_card.values()))
        return card

    def _wish(self, call: Call) -> Wish:
        pod = self._pod(call.caller)
        if pod is None:
            return NOTHING_KNOWN
        choice = self._choice(pod, _served(call))
        try:
            card_count = card_count_of(pod)
        except RecordError as error:
            self._tellings.unreadable(pod, str(error))
            card_count = 1
        return Wish(
            chosen=choice.cards if choice else (),
            held=self._held(call),
            pod_units=requested_units(pod, self._rule.resource),
            card_count=card_count,
        )

    def _held(self, call: Call) -> frozenset[str]:
        ids = [
            each
            for one in (call.listed.containers if call.listed else ())
            for each in one.device_ids
        ]
        held = set()
        for device_id in ids:
            try:
                held.add(self._inventory.table.of_device(device_id).uuid)
            except DeviceIdError:
                continue
        return frozenset(held)

    def _choice(self, pod: Pod | None, served: frozenset[str]) -> Choice | None:
        if pod is None:
            return None
        try:
            return choice_of(pod, self._rule.annotations, served=served)
        except RecordError as error:
            self._tellings.unreadable(pod, str(error))
            return None

    def _pod(self, caller: Caller) -> Pod | None:
        return self._specs.find(caller.pod) if isinstance(caller, Known) else None


def _served(call: Call) -> frozenset[str]:
    containers = call.listed.containers if call.listed else ()
    return frozenset(each.name for each in containers if each.device_ids)


def _card_of_index(table: CardTable, index: int) -> Card | None:
    return next((card for card in table.cards if card.index == index), None)


def _cards_text(cards: Sequence[Card]) -> str:
    return ",".join(str(card.index) for card in cards) or "several"


def _pod_text(caller: Caller) -> str:
    return str(caller.pod) if isinstance(caller, Known) else "unknown"
