"""Why a pod does not fit on a node, in words that its author understands.

Rule 1: a reason begins with the node's name, and says what was asked and what there is,
in the node's unit.
Rule 2: what is out of sight is said too: cards that are unhealthy, and units of which the
card is not known.
Decides nothing: `fitting` knows when each of them is true.
"""

from collections.abc import Sequence

from gpushare_plugin.core.asks import AVOID_MODELS, GPU_INDEX, MODELS, Ask
from gpushare_plugin.core.card_count import listed
from gpushare_plugin.core.room import CardRoom, NodeRoom

LONGEST_MODEL = 64
"""Of a model's name in a reason: it is a user's text, and is told of each of 5,000 nodes."""


def node_problem(room: NodeRoom) -> str:
    """Nothing new may go to the node."""
    return f"{room.node.name}: {room.node.problem}"


def pinned_card(room: NodeRoom, ask: Ask) -> str:
    """The card that the pod is pinned to is not one that it could ever go to."""
    who = f"{room.node.name}: the pod is pinned to card {ask.pinned} ({GPU_INDEX})"
    card = next((each.card for each in room.cards if each.card.index == ask.pinned), None)
    if card is None:
        return f"{who}, and its cards are {_indices(range(len(room.cards)))}"
    if not ask.takes_model(card.model):
        return f"{who}, which is {card.model or 'of an unknown model'}; {_wanted_models(ask)}"
    if card.units < ask.units_per_card:
        return f"{who}, which has {card.units} of {_amount(room, ask)} asked"
    return f"{who}, which is unhealthy"


def other_models(room: NodeRoom, ask: Ask) -> str:
    """No card of the node is of a model that the pod takes."""
    models = tuple(dict.fromkeys(each.card.model or "of unknown model" for each in room.cards))
    return f"{room.node.name}: its cards are {_shortened(models)}; {_wanted_models(ask)}"


def too_few_cards(room: NodeRoom, ask: Ask) -> str:
    """Not enough cards could hold the pod, were they empty."""
    name, cards = room.node.name, [each.card for each in room.cards]
    taken = [card for card in cards if ask.takes_model(card.model)]
    if len(cards) < ask.card_count:
        return f"{name}: {ask.card_count} cards asked, and it has {len(cards)}"
    if ask.card_count == 1:
        most = max((card.units for card in taken if card.healthy), default=0)
        if not most:
            return f"{name}: it has no healthy card{_for_models(ask)}{_unhealthy(room)}"
        text = f"{name}: {_amount(room, ask)} asked of one card, and its largest has {most}"
    else:
        fit = sum(card.healthy and card.units >= ask.units_per_card for card in taken)
        text = f"{name}: {fit} of {ask.card_count} cards asked could hold {_amount(room, ask)} each"
    return f"{text}{_for_models(ask)}{_unhealthy(room)}"


def no_room(room: NodeRoom, able: Sequence[CardRoom], ask: Ask) -> str:
    """Cards that could hold the pod have no room now; `able` are those."""
    in_all = f"; {room.free_units} {room.node.unit} free in all"
    notes = f"{in_all}{_unknown(room)}{_unhealthy(room)}"
    pinned = [each for each in able if each.card.index == ask.pinned]
    if pinned and not pinned[0].has(ask.units_per_card, ask.cores_per_card):
        which = f"card {ask.pinned}, which the pod is pinned to ({GPU_INDEX}),"
        return f"{room.node.name}: {_short_of(which, room, pinned, ask)}{notes}"
    if ask.card_count == 1:
        which = f"largest free card{_for_models(ask)}"
        return f"{room.node.name}: {_short_of(which, room, able, ask)}{notes}"
    roomy = sum(each.has(ask.units_per_card, ask.cores_per_card) for each in able)
    cores = f" and {ask.cores_per_card} compute" if ask.cores_per_card else ""
    return (
        f"{room.node.name}: {roomy} of {ask.card_count} cards asked{_for_models(ask)} have"
        f" {_amount(room, ask)}{cores} free{notes}"
    )


def _short_of(which: str, room: NodeRoom, cards: Sequence[CardRoom], ask: Ask) -> str:
    roomy = [each for each in cards if each.free_units >= ask.units_per_card]
    if not roomy:
        most = max(0, *(each.free_units for each in cards))
        return f"{which} has {most} of {_amount(room, ask)} asked"
    most_cores = max(0, *(each.free_cores for each in roomy))
    return (
        f"{which} has room for {_amount(room, ask)}, and beside that at most {most_cores} of the"
        f" {ask.cores_per_card} compute asked (a card has 100)"
    )


def _amount(room: NodeRoom, ask: Ask) -> str:
    return f"{ask.units_per_card} {room.node.unit}"


def _wanted_models(ask: Ask) -> str:
    wishes = {MODELS: ask.models, AVOID_MODELS: ask.avoid_models}
    told = [f"{key}: {_shortened(models)}" for key, models in wishes.items() if models]
    return f"the pod asks for {'; '.join(told)}"


def _for_models(ask: Ask) -> str:
    return " of a model that the pod takes" if ask.models or ask.avoid_models else ""


def _unknown(room: NodeRoom) -> str:
    if not room.unknown_units:
        return ""
    return (
        f"; {room.unknown_units} {room.node.unit} are held on a card that is not known, and so"
        " count on each"
    )


def _unhealthy(room: NodeRoom) -> str:
    bad = [each.card.index for each in room.cards if not each.card.healthy]
    if not bad:
        return ""
    return f"; unhealthy: card{'s' if len(bad) > 1 else ''} {_indices(bad)}"


def _indices(indices: Sequence[int]) -> str:
    return ", ".join(str(each) for each in indices) or "none"


def _shortened(models: Sequence[str]) -> str:
    return listed(
        [each if len(each) <= LONGEST_MODEL else f"{each[:LONGEST_MODEL]}…" for each in models]
    )
