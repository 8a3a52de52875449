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
from gpushare_plugin.core.bookkeeping import Choice
from gpushare_plugin.core.card_count import CountFault
from gpushare_plugin.core.devices import Card
from gpushare_plugin.core.dialect import Dialect, PodAnnotationNames
from gpushare_plugin.core.health import State
from gpushare_plugin.core.injection import Injection, InjectionRule, Share
from gpushare_plugin.core.isolation import Isolation, additions
from gpushare_plugin.core.placement import Policy, Proposal, Request, propose
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.errors import AllocationRefused, DeviceIdError, Refusal
from gpushare_plugin.logs import event_logger
from gpushare_plugin.metrics import NodeMetrics
from gpushare_plugin.node.admission import Call
from gpushare_plugin.node.inventory import Inventory
from gpushare_plugin.node.pod_wishes import PodWishes, served_in
from gpushare_plugin.node.refusals import (
    check_asked_cores,
    check_device_ids,
    no_room_to_spread_text,
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
    """The names by which compute is asked for, to refuse what no card has; None: not looked at."""
    strict: bool = False
    """Refused too: a pod of another extender that fits on no card, rather than over-commit it,
    and a pod whose number of cards cannot be carried out, rather than serve it on one."""
    require_extender: bool = False
    """A pod for which no extender chose a card is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """A proposal of ours, and whose it is."""

    caller: Caller = NO_POD
    cards: tuple[Card, ...] = ()
    unheld: bool = False
    """No cards could hold what was asked for as it should be."""
    guessed: bool = False
    """The pod is guessed: good enough to place it by, not to refuse it."""
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
        self._wishes = PodWishes(
            inventory, specs, tellings, resource=rule.resource, annotations=rule.annotations
        )
        self._metrics = metrics
        self._tellings = tellings
        self._proposed: OrderedDict[frozenset[str], Remembered] = OrderedDict()
        self._last: tuple[frozenset[str], Remembered] = (frozenset(), Remembered())

    def set_cgpu_disable(self, *, disabled: bool) -> None:
        """Tell cGPU's runtime to leave our containers alone, or not, from now on."""
        injection = replace(self._rule.injection, cgpu_disable=disabled)
        self._rule = replace(self._rule, injection=injection)

    def set_isolation(self, isolation: Isolation) -> None:
        """Serve new containers under this isolation from now on."""
        self._rule = replace(self._rule, isolation=isolation)

    def set_control_nodes(self, paths: Sequence[str]) -> None:
        """Give new containers these device nodes beside the card's own from now on."""
        injection = replace(self._rule.injection, control_nodes=paths)
        self._rule = replace(self._rule, injection=injection)

    def propose(self, request: Request, call: Call) -> Proposal:
        """Return the devices that a container had best be given, and remember them."""
        proposal = propose(
            request,
            self._inventory.table,
            self._rule.policy,
            self._wishes.wish(call),
            withheld=self._wishes.withheld(call),
        )
        remembered = Remembered(
            caller=call.caller,
            cards=proposal.cards,
            unheld=not proposal.cards,
            guessed=call.guessed,
            served=served_in(call),
        )
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
        pod = self._wishes.pod(remembered.caller)
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
        self._remember_last(frozenset(device_ids), remembered)
        self._specs.given(device_ids, None if remembered.guessed else pod, self._rule.resource)
        log.info(
            "allocated",
            pod=_pod_text(remembered.caller),
            units=len(device_ids),
            card=_cards_text(cards),
            uuid=",".join(card.uuid for card in cards),
        )
        return self._injection(cards, len(device_ids), pod)

    def _injection(self, cards: tuple[Card, ...], units: int, pod: Pod | None) -> Injection:
        pod_units = self._wishes.units(pod) if pod else units
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
        last_ids, last = self._last
        if ids & last_ids:
            return Remembered(caller=last.caller, guessed=last.guessed)
        return Remembered()

    def _remember_last(self, ids: frozenset[str], remembered: Remembered) -> None:
        last_ids, last = self._last
        same_pod = isinstance(remembered.caller, Known) and remembered.caller == last.caller
        # All of the pod's: an init container's may go to several others, one after the other.
        self._last = (last_ids | ids if same_pod else ids, remembered)

    def _healthy_cards(
        self, device_ids: Sequence[str], remembered: Remembered, pod: Pod | None
    ) -> tuple[Card, ...]:
        check_device_ids(device_ids)
        try:
            by_card = self._inventory.table.group(device_ids)
        except DeviceIdError as error:
            raise AllocationRefused(Refusal.UNKNOWN_DEVICE, str(error)) from error
        if pod is not None and self._rule.cores is not None:
            check_asked_cores(pod, self._rule.cores, node_cards=len(self._inventory.cards))
        choice = self._wishes.choice(pod, remembered.served)
        if self._rule.require_extender and choice is None:
            raise AllocationRefused(Refusal.NO_EXTENDER, not_placed_text(pod))
        cards = tuple(by_card)
        if remembered.unheld or (len(cards) > 1 and cards != remembered.cards):
            units = {card: len(ids) for card, ids in by_card.items()}
            cards = (self._forced_card(choice, units, pod),)
        for card in cards:
            health = self._inventory.health(card.uuid)
            if health.state is State.UNHEALTHY:
                raise AllocationRefused(Refusal.UNHEALTHY_CARD, unhealthy_text(card, health.reason))
        if pod is not None:
            self._check_card_count(pod, cards, len(device_ids), guessed=remembered.guessed)
        if pod is not None and choice is None and len(self._inventory.cards) > 1:
            self._tellings.placed_here(pod, cards, self._rule.policy.value)
        return cards

    def _forced_card(
        self, choice: Choice | None, units_by_card: dict[Card, int], pod: Pod | None
    ) -> Card:
        """Return the card of a pod that another extender placed, although it is full.

        IDs of one card go there, as always; else it is the card that the extender chose.

        Raises:
            AllocationRefused: none did, or it shall not be so.
        """
        card = self._inventory.table.of_index(choice.cards[0]) if choice else None
        if len(units_by_card) == 1:
            (card,) = units_by_card
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

    def _check_card_count(
        self, pod: Pod, cards: Sequence[Card], units: int, *, guessed: bool
    ) -> None:
        """Tell, or refuse, a pod that asks for several cards and gets one.

        Raises:
            AllocationRefused: it shall be refused.
        """
        count = self._wishes.card_count(pod)
        fault, message = count.fault, count.message
        if fault is None and len(cards) < count.cards:
            fault = CountFault.NO_ROOM
            message = no_room_to_spread_text(pod, units, count.cards, self._inventory.cards)
        if fault is None:
            return
        if self._rule.strict and not guessed:
            raise AllocationRefused(Refusal.CARD_COUNT, message)
        self._metrics.card_counts_not_followed.labels(fault.value).inc()
        log.warning("card_count_not_followed", pod=pod, cause=fault.value, error=message)
        self._tellings.count_not_followed(pod, message)


def _cards_text(cards: Sequence[Card]) -> str:
    return ",".join(str(card.index) for card in cards) or "several"


def _pod_text(caller: Caller) -> str:
    return str(caller.pod) if isinstance(caller, Known) else "unknown"
