"""What a pod is annotated with when it is bound: the cards that were chosen for it.

Rule 1: the names are the dialect's, so that the original's parts read them too; the mark
says that the choice is ours.
Rule 2: a list of cards is for our own parts; a pod for one card has one number.
"""

from collections.abc import Sequence

from gpushare_plugin.core.asks import Ask
from gpushare_plugin.core.bookkeeping import MARK
from gpushare_plugin.core.dialect import Dialect
from gpushare_plugin.core.pods import ContainerKind, Pod
from gpushare_plugin.core.room import CardRoom


def binding_annotations(
    pod: Pod,
    ask: Ask,
    cards: Sequence[CardRoom],
    names: Dialect,
    *,
    node_name: str,
    now_ns: int,
) -> dict[str, str]:
    """Return the annotations that go with the pod's binding; none where no card was chosen."""
    if not cards:
        return {}
    keys = names.annotations
    chosen = sorted((each.card for each in cards), key=lambda card: card.index)
    indices = ",".join(str(card.index) for card in chosen)
    found = {
        keys.card_index: indices,
        keys.pod_units: str(ask.units),
        keys.card_units: ",".join(str(card.units) for card in chosen),
        keys.assigned: "false",
        keys.assume_time: str(now_ns),
        keys.node: node_name,
        MARK: "1",
    }
    if keys.container_card_index is not None:
        mains = [each for each in pod.containers if each.kind is ContainerKind.MAIN]
        found |= {keys.container_card_index.format(n): indices for n, _ in enumerate(mains)}
    return {key: value for key, value in found.items() if key is not None}
