"""The cards that a pod is bound to on the node that kube-scheduler decided on.

Rule 1: they are those by which filter and prioritize spoke of the node, as of now.
Rule 2: where an earlier request for the same pod and node may still be carried out, its
cards are taken again: whichever request comes first, the ledger is right.
Rule 3: what an unbound pod carries as its allocation is a copy of another pod's; it is
taken off with the same request.
"""

from collections.abc import Callable
from dataclasses import dataclass

from gpushare_plugin.core.asks import Ask
from gpushare_plugin.core.binding import binding_annotations
from gpushare_plugin.core.bookkeeping import ALLOCATION
from gpushare_plugin.core.dialect import Dialect
from gpushare_plugin.core.fitting import Misfit, able_cards
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.core.room import CardRoom, NodeRoom
from gpushare_plugin.extender.cluster import Cluster
from gpushare_plugin.extender.fits import Fits, unknown_node
from gpushare_plugin.extender.verdicts import BindOutcome, Verdict
from gpushare_plugin.ports.scheduling import Binding

NOTHING_ALLOCATED = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Where a pod goes, and what is asked of the API server."""

    cards: tuple[int, ...]
    """By index; none for a pod that asks for nothing of ours."""
    binding: Binding


class Choosing:
    """Chooses out of the room that there is now."""

    def __init__(
        self, cluster: Cluster, fits: Fits, names: Dialect, now_ns: Callable[[], int]
    ) -> None:
        self._cluster = cluster
        self._fits = fits
        self._names = names
        self._now_ns = now_ns

    def choose(self, pod: Pod, ask: Ask, node_name: str) -> Choice | Verdict:
        """Return the choice, or why there is none (any more)."""
        cards: tuple[CardRoom, ...] = ()
        if ask.units:
            found = self._cards(pod, ask, node_name)
            if isinstance(found, Verdict):
                return found
            cards = found
        return Choice(
            cards=tuple(each.card.index for each in cards),
            binding=Binding(
                namespace=pod.namespace,
                name=pod.name,
                uid=pod.uid,
                node_name=node_name,
                annotations=self._annotations(pod, ask, cards, node_name),
            ),
        )

    def _cards(self, pod: Pod, ask: Ask, node_name: str) -> tuple[CardRoom, ...] | Verdict:
        room = self._cluster.room(node_name, without=pod.uid)
        if room is None:
            return Verdict(outcome=BindOutcome.UNFIT, error=unknown_node(node_name).reason)
        outcome = self._earlier(pod, ask, room) or self._fits.in_room(room, ask)
        if not isinstance(outcome, Misfit):
            return outcome
        if outcome.resolvable:
            return Verdict(outcome=BindOutcome.NO_ROOM, error=_taken(room, ask, outcome))
        return Verdict(outcome=BindOutcome.UNFIT, error=outcome.reason)

    def _earlier(self, pod: Pod, ask: Ask, room: NodeRoom) -> tuple[CardRoom, ...] | None:
        """Return the cards of an earlier request that still can hold the pod."""
        able = able_cards(room, ask)
        roomy = () if isinstance(able, Misfit) else able
        roomy = tuple(each for each in roomy if each.has(ask.units_per_card, ask.cores_per_card))
        for each in self._cluster.assumptions.of(pod.uid):
            cards = tuple(card for card in roomy if card.card.index in each.cards)
            if each.pod.node_name == room.node.name and len(cards) == ask.card_count:
                return cards
        return None

    def _annotations(
        self, pod: Pod, ask: Ask, cards: tuple[CardRoom, ...], node_name: str
    ) -> dict[str, str]:
        found = binding_annotations(
            pod, ask, cards, self._names, node_name=node_name, now_ns=self._now_ns()
        )
        if ALLOCATION in pod.annotations:
            found[ALLOCATION] = NOTHING_ALLOCATED
        return found


def _taken(room: NodeRoom, ask: Ask, misfit: Misfit) -> str:
    if not ask.is_plain:
        return f"{misfit.reason}; it was free a moment ago"
    return (
        f"no card of {room.node.name} has {ask.units} {room.node.unit} free any more: largest has"
        f" {max(0, room.largest_free_units)}"
    )
