"""What a pod asks of a node: amounts from its spec, wishes from its annotations.

Rule 1: an ask is the same for pods that ask for the same: it is the key of what is
remembered of an answer.
Rule 2: a wish that does not parse, or that no node could serve, is told with the pod, what
was found, what was expected and the cure; it is never passed over.
Rule 3: a pod that asks for no unit of ours has no wish of ours either.
"""

from dataclasses import dataclass
from functools import lru_cache

from gpushare_plugin.core.card_count import card_count_of, number, shown
from gpushare_plugin.core.compute import (
    CORES_A_CARD,
    cores_over_cards,
    cores_without_memory,
    whole_cards,
)
from gpushare_plugin.core.dialect import Dialect
from gpushare_plugin.core.node_record import label_value
from gpushare_plugin.core.placement import Policy
from gpushare_plugin.core.pods import Pod, requested_units
from gpushare_plugin.errors import AskError

POLICY = "gpushare.io/policy"
GPU_INDEX = "gpushare.io/gpu-index"
MODELS = "gpushare.io/models"
AVOID_MODELS = "gpushare.io/avoid-models"
MOST_MODELS = 64
LONGEST_MODELS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a pod asks for."""

    units: int
    """In all, by Kubernetes's rule; 0 asks for no card."""
    card_count: int = 1
    units_per_card: int
    cores_per_card: int = 0
    policy: Policy = Policy.BINPACK
    pinned: int | None = None
    """The index of the card that must be taken, or be among those taken."""
    models: tuple[str, ...] = ()
    """Only cards of one of these models; empty asks for none in particular."""
    avoid_models: tuple[str, ...] = ()
    """No card of any of these models, nor one of which the model is not known."""

    @property
    def is_plain(self) -> bool:
        """Whether the free units of one card alone decide where it fits."""
        return (
            self.card_count == 1
            and self.cores_per_card == 0
            and self.pinned is None
            and not self.models
            and not self.avoid_models
        )

    def takes_model(self, model: str) -> bool:
        """Say whether the pod may go to a card of this model; empty is one that is not known.

        A name that the pod gives stands for the models that have it as whole words: `T4` for
        `Tesla T4` and not for `T400`, `A100` for `NVIDIA A100-SXM4-80GB`. Case does not count.
        """
        if not self.models and not self.avoid_models:
            return True
        return _takes_model(model, self.models, self.avoid_models)


def ask_of(pod: Pod, names: Dialect, default_policy: Policy) -> Ask:
    """Return what the pod asks for.

    Raises:
        AskError: its spec or an annotation asks for what no node could give.
    """
    units = requested_units(pod, names.memory_resource)
    cores = requested_units(pod, names.core_resource)
    if pod.fault:
        raise AskError(f"{pod.fault}; correct the pod, or what makes it")
    if not units and not cores:
        return Ask(units=0, units_per_card=0, policy=default_policy)
    cards = _card_count(pod, names)
    fault = _cores_fault(pod, names, cores=cores, cards=cards)
    if fault:
        raise AskError(fault)
    return Ask(
        units=units,
        card_count=cards,
        units_per_card=-(-units // cards),
        cores_per_card=-(-cores // cards),
        policy=_policy(pod, default_policy),
        pinned=_pinned(pod),
        models=_models(pod, MODELS),
        avoid_models=_models(pod, AVOID_MODELS),
    )


def _card_count(pod: Pod, names: Dialect) -> int:
    found = card_count_of(pod, names.memory_resource, node_cards=None)
    if found.fault is not None:
        raise AskError(found.message)
    return found.cards


def _cores_fault(pod: Pod, names: Dialect, *, cores: int, cards: int) -> str | None:
    fault = (
        cores_without_memory(pod, names)
        or whole_cards(pod, names)
        or cores_over_cards(pod, names, node_cards=None)
    )
    most = CORES_A_CARD * cards
    if fault or cores <= most:
        return fault
    return (
        f"pod {pod} asks for {cores} {names.core_resource} in all: its containers share"
        f" {'one card' if cards == 1 else f'{cards} cards'} of {CORES_A_CARD} each; ask for at"
        f" most {most} in all"
    )


def _policy(pod: Pod, default: Policy) -> Policy:
    text = pod.annotations.get(POLICY)
    if text is None:
        return default
    try:
        return Policy(text)
    except ValueError:
        expected = " or ".join(each.value for each in Policy)
        raise _fault(pod, POLICY, f"expected {expected}; correct it, or take it off") from None


def _pinned(pod: Pod) -> int | None:
    text = pod.annotations.get(GPU_INDEX)
    if text is None:
        return None
    index = number(text)
    if index is None:
        cure = "write a number such as 0, or take it off"
        raise _fault(pod, GPU_INDEX, f"expected one card's index; {cure}")
    return index


def _models(pod: Pod, key: str) -> tuple[str, ...]:
    text = pod.annotations.get(key)
    if text is None:
        return ()
    models = tuple(dict.fromkeys(each.strip() for each in text.split(",", MOST_MODELS)))
    if len(text) > LONGEST_MODELS or len(models) > MOST_MODELS or not all(models):
        expected = f"expected up to {MOST_MODELS} card models with commas between, such as T4,A100"
        raise _fault(pod, key, f"{expected}; correct it, or take it off")
    return models


def _fault(pod: Pod, key: str, rest: str) -> AskError:
    return AskError(f"pod {pod}, annotation {key}: found {shown(pod.annotations[key])}, {rest}")


@lru_cache(maxsize=4096)
def _takes_model(model: str, models: tuple[str, ...], avoided: tuple[str, ...]) -> bool:
    words = _words(model)
    wanted = not models or any(_words(each) in words for each in models)
    return bool(model) and wanted and not any(_words(each) in words for each in avoided)


def _words(text: str) -> str:
    return f"-{label_value(text.replace('_', '-')).lower()}-"
