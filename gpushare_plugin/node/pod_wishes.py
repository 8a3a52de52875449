"""What is known of the pod of a call: its spec, its extender's choice, its number of cards.

Rule 1: an annotation that does not parse is told, and the pod is placed as if it were not there.
Rule 2: nothing here decides where a container goes, or refuses one.
"""

from collections.abc import Mapping

from gpushare_plugin.core.association import Caller, Known
from gpushare_plugin.core.bookkeeping import Choice, choice_of, withheld_units
from gpushare_plugin.core.card_count import CardCount, card_count_of
from gpushare_plugin.core.dialect import PodAnnotationNames
from gpushare_plugin.core.placement import NOTHING_KNOWN, Wish
from gpushare_plugin.core.pods import Pod, requested_units
from gpushare_plugin.errors import DeviceIdError, RecordError
from gpushare_plugin.node.admission import Call
from gpushare_plugin.node.inventory import Inventory
from gpushare_plugin.node.specs import PodSpecs
from gpushare_plugin.node.tellings import Tellings


class PodWishes:
    """Reads pods' wishes, as far as the watch has told of the pods."""

    def __init__(
        self,
        inventory: Inventory,
        specs: PodSpecs,
        tellings: Tellings,
        *,
        resource: str,
        annotations: PodAnnotationNames,
    ) -> None:
        self._inventory = inventory
        self._specs = specs
        self._tellings = tellings
        self._resource = resource
        self._annotations = annotations

    def pod(self, caller: Caller) -> Pod | None:
        """Return the caller's spec; None if it, or the caller, is not known."""
        if not isinstance(caller, Known):
            return None
        return self._specs.find(caller.pod, self._resource)

    def choice(self, pod: Pod | None, served: frozenset[str]) -> Choice | None:
        """Return the cards that an extender chose for the pod's next container."""
        if pod is None:
            return None
        try:
            return choice_of(pod, self._annotations, served=served)
        except RecordError as error:
            self._tellings.unreadable(pod, str(error))
            return None

    def units(self, pod: Pod) -> int:
        """Return what the pod asks for in all."""
        return requested_units(pod, self._resource)

    def card_count(self, pod: Pod) -> CardCount:
        """Return over how many cards the pod's containers are to be spread."""
        return card_count_of(pod, self._resource, node_cards=len(self._inventory.cards))

    def wish(self, call: Call) -> Wish:
        """Return all that bears on where the call's container goes."""
        pod = self.pod(call.caller)
        if pod is None:
            return NOTHING_KNOWN
        choice = self.choice(pod, served_in(call))
        return Wish(
            chosen=choice.cards if choice else (),
            held=self._held(call),
            pod_units=self.units(pod),
            card_count=self.card_count(pod).cards,
        )

    def withheld(self, call: Call) -> Mapping[str, int]:
        """Return by card UUID the units that are used though the kubelet offers them."""
        table = self._inventory.table
        return withheld_units(call.pods, self._specs.pods, table, self._annotations, self._resource)

    def _held(self, call: Call) -> frozenset[str]:
        containers = call.listed.containers if call.listed else ()
        held = set()
        for device_id in (each for one in containers for each in one.device_ids):
            try:
                held.add(self._inventory.table.of_device(device_id).uuid)
            except DeviceIdError:
                continue
        return frozenset(held)


def served_in(call: Call) -> frozenset[str]:
    """Return the containers of the call's pod that hold devices already."""
    containers = call.listed.containers if call.listed else ()
    return frozenset(each.name for each in containers if each.device_ids)
