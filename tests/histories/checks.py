"""What must be true of a node whenever it is quiet."""

import json
from collections import Counter
from collections.abc import Mapping

from gpushare_plugin.core.bookkeeping import ALLOCATION, MARK
from gpushare_plugin.core.dialect import ALIYUN
from gpushare_plugin.core.pods import ContainerKind, Pod
from tests.histories.daemon_model import RESOURCE
from tests.histories.history import INDEX, History
from tests.histories.kubelet_model import Admitted

VISIBLE = ALIYUN.environment.visible_devices


def check(history: History) -> None:
    """Environment, PodResources, annotations and ledger tell the same of every container."""
    assert history.daemon is not None
    ledger = history.daemon.publisher.ledger()
    assert ledger is not None
    used: Counter[str] = Counter()
    forced: set[str] = set()
    live = history.live()
    for pod in live:
        admitted = history.kubelet.pods[pod.uid]
        given = given_cards(history, admitted)
        if not given:
            continue
        for units in given.values():
            used.update(units)
            if pod.uid in history.overcommitted:
                forced |= units.keys()
        assert ledger.holdings[pod.uid].containers == given, f"{pod}: the ledger"
        assert json.loads(pod.annotations[ALLOCATION]) == given, f"{pod}: the annotation"
        assert pod.annotations[ALIYUN.annotations.assigned] == "true"
        _check_card(history, pod, given)
    for card in history.table.cards:
        told = card.uuid in forced
        assert used[card.uuid] <= card.units or told, f"card {card.index} is over-committed"
    assert {uid for uid, holding in ledger.holdings.items() if holding.containers} == {
        pod.uid for pod in live if given_cards(history, history.kubelet.pods[pod.uid])
    }


def _check_card(history: History, pod: Pod, given: Mapping[str, Mapping[str, int]]) -> None:
    uuids = {uuid for units in given.values() for uuid in units}
    indices = [card.index for card in history.table.cards if card.uuid in uuids]
    if pod.annotations.get(MARK) == "1":
        assert pod.annotations[INDEX] == ",".join(map(str, indices)), f"{pod}: the card index"
    chosen = history.chosen.get(pod.uid)
    if chosen is not None:
        assert set(indices) <= set(chosen), f"{pod}: our extender chose {chosen}, got {indices}"


def given_cards(history: History, admitted: Admitted) -> dict[str, dict[str, int]]:
    """Return the units by container and card, as the containers' environments tell."""
    given = {}
    for container in admitted.pod.containers:
        ids = admitted.devices.get(container.name, ())
        if container.kind is ContainerKind.INIT or not ids:
            continue
        uuids = admitted.envs[container.name][VISIBLE].split(",")
        each, rest = divmod(container.requests[RESOURCE], len(uuids))
        assert rest == 0
        given[container.name] = dict.fromkeys(uuids, each)
        if admitted.pod.uid not in history.overcommitted:
            by_card = {card.uuid: len(ids) for card, ids in history.table.group(ids).items()}
            assert given[container.name] == by_card, f"{admitted.pod}: IDs of {by_card}"
    return given
