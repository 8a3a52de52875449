"""Why a pod was not placed, in kube-scheduler's words.

Facts: FitError in pkg/scheduler/framework/types.go; the note of an event has at most 1,024
bytes. The words before "preemption" come from DynamicResources, which is asked before it and
has nothing to give. Pure.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from gpushare_plugin.sim.scheduler.filters import EXTENDER, Refusal

NO_NODES = "no nodes available to schedule pods"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
_NOTE_LIMIT = 1024
_CUT = " ..."


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Every node that was refused, and what preemption said."""

    nodes: int
    """How many there are; one that is in no other field was refused without a word."""
    refusals: Mapping[str, Refusal]
    by_extender: bool = False
    """Whether an extender took any node out, named or not."""

    @property
    def rejectors(self) -> frozenset[str]:
        """Whose refusals must change before trying again makes sense."""
        plugins = {each.plugin for each in self.refusals.values()} - {EXTENDER}
        return frozenset(plugins | {EXTENDER} if self.by_extender else plugins)

    def message(self, preemption: str = "") -> str:
        """Return the text of the event and the condition."""
        text = nodes_message(self.nodes, self.refusals)
        return f"{text} {preemption}" if preemption else text


class UnfitError(Exception):
    """No node is for the pod."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        super().__init__(diagnosis.message())
        self.diagnosis = diagnosis


class NoNodesError(Exception):
    """There is no node at all."""

    def __init__(self) -> None:
        super().__init__(NO_NODES)


def nodes_message(nodes: int, refusals: Mapping[str, Refusal], *, absent: str = "") -> str:
    """Return how many nodes have which reason; `absent` is that of the nodes not in refusals."""
    counts = Counter(reason for each in refusals.values() for reason in each.reasons)
    if absent and len(refusals) < nodes:
        counts[absent] += nodes - len(refusals)
    text = f"0/{nodes} nodes are available:"
    if counts:
        text += f" {', '.join(sorted(f'{count} {reason}' for reason, count in counts.items()))}."
    return text


def preemption_message(text: str) -> str:
    """Return what the plugins after the filters say when preemption refuses."""
    return f"no new claims to deallocate, preemption: {text}"


def cut_note(message: str) -> str:
    """Return the message as an event can carry it."""
    if len(message.encode()) <= _NOTE_LIMIT:
        return message
    return message.encode()[: _NOTE_LIMIT - len(_CUT)].decode(errors="ignore") + _CUT
