"""What is worth a Kubernetes event, in the words of who reads `kubectl describe`.

Rule: a reason is one constant word; what varies stands in the message.
"""

from collections.abc import Sequence

from gpushare_plugin.core.devices import Card
from gpushare_plugin.core.health import CardHealth, State
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.node.occurrences import Occurrences
from gpushare_plugin.ports.cluster import Node, Occurrence, Subject


class Tellings:
    """Tells events of pods and of the node; without a cluster nobody listens."""

    def __init__(self, occurrences: Occurrences) -> None:
        self._occurrences = occurrences
        self._node: Node | None = None

    def know_node(self, node: Node) -> None:
        """Take the node object that the node's own events are about."""
        self._node = node

    def refused(self, pod: Pod | None, message: str) -> None:
        """Tell that a container of the pod was refused."""
        if pod is not None:
            self._of_pod(pod, "GpuRefused", message, warning=True)

    def overcommitted(self, pod: Pod, card: Card, units: int) -> None:
        """Tell that a pod was put on a card that has no room for it."""
        message = (
            f"{units} units go to card {card.index}, which its extender chose and which has no"
            " room for them; the containers there share more memory than there is"
        )
        self._of_pod(pod, "GpuOverCommitted", message, warning=True)

    def count_not_followed(self, pod: Pod, message: str) -> None:
        """Tell that a pod that asks for several cards is served on one."""
        message = f"served on one card: {message}"
        self._of_pod(pod, "GpuCountNotFollowed", message, warning=True)

    def placed_here(self, pod: Pod, cards: Sequence[Card], policy: str) -> None:
        """Tell that no extender chose the card, and the node did."""
        where = ", ".join(str(card.index) for card in cards)
        message = (
            f"no extender chose a card, so this node's policy ({policy}) did: card {where}. If"
            " one should have, check the pod's schedulerName"
        )
        self._of_pod(pod, "GpuPlacedByNode", message, warning=False)

    def unreadable(self, pod: Pod, message: str) -> None:
        """Tell that an annotation does not parse, and is passed over."""
        self._of_pod(pod, "GpuAnnotationUnreadable", message, warning=True)

    def health(self, card: Card, health: CardHealth) -> None:
        """Tell that a card fell ill, or got well."""
        if self._node is None:
            return
        ill = health.state is State.UNHEALTHY
        reason = "GpuUnhealthy" if ill else "GpuHealthy"
        message = f"card {card.index} ({card.gpu.model}, {card.uuid})" + (
            f": {health.reason}" if ill else " is healthy again"
        )
        subject = Subject(kind="Node", name=self._node.name, uid=self._node.uid)
        self._occurrences.tell(
            Occurrence(subject=subject, reason=reason, message=message, warning=ill)
        )

    def _of_pod(self, pod: Pod, reason: str, message: str, *, warning: bool) -> None:
        subject = Subject(kind="Pod", name=pod.name, uid=pod.uid, namespace=pod.namespace)
        self._occurrences.tell(
            Occurrence(subject=subject, reason=reason, message=message, warning=warning)
        )
