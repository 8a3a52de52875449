"""Whether all sides say the same of every unit: containers, kubelets, annotations, the extender.

Rule: each side is asked in its own words, and only here are the words compared. What does
not agree is returned as text, so that a test can wait for it to come right, and show it.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpushare_plugin.core.devices import card_tags
from gpushare_plugin.sim.kubelet import ContainerStatus, SimKubelet
from tests.e2e.workload import RESOURCE, PodPlan
from tests.sim.kubelet_peers import pod_resources

Json = dict[str, Any]
Seats = dict[str, dict[str, int]]
"""Units by the card's UUID, by container."""
INDEX = "ALIYUN_COM_GPU_MEM_IDX"
UNITS = "ALIYUN_COM_GPU_MEM_CONTAINER"
ALLOCATION = "gpushare.io/allocation"
CARDS = "gpushare.io/gpus"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCards:
    """The cards of one node, by index: their UUIDs and units."""

    uuids: tuple[str, ...]
    units: tuple[int, ...]


def cards_of(node: Json) -> NodeCards:
    """What a node's annotation says of its cards."""
    listed = json.loads(node["metadata"]["annotations"][CARDS])["gpus"]
    return NodeCards(
        uuids=tuple(each["uuid"] for each in listed),
        units=tuple(each["units"] for each in listed),
    )


@dataclass(slots=True)
class CardWatch:
    """Sees every change, and writes down each card that ever holds more than it has.

    And each pod that did not get the card that was chosen for it at its binding.
    """

    plans: Mapping[str, PodPlan]
    cards: Mapping[str, NodeCards]
    overcommitted: list[str] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)
    """By pod; what it holds is not added up, since its annotation does not tell."""
    _chosen: dict[str, str] = field(default_factory=dict)

    def seen(self, pods: Iterable[Json]) -> None:
        """Add up what bound pods hold, by the cards that are written on them."""
        used: dict[tuple[str, int], int] = {}
        for pod in pods:
            if not is_live(pod):
                continue
            name, node_name = pod["metadata"]["name"], pod["spec"]["nodeName"]
            self._compare(name, pod["metadata"]["annotations"], self.cards[node_name])
            chosen = self._chosen[name].split(",") if name not in self.moved else ()
            for index in map(int, chosen):
                key = (node_name, index)
                used[key] = used.get(key, 0) + self.plans[name].units // self.plans[name].cards
        for (node_name, index), units in used.items():
            if units > self.cards[node_name].units[index]:
                self.overcommitted.append(f"{node_name}, card {index}: {units}")

    def _compare(self, name: str, annotations: Mapping[str, str], cards: NodeCards) -> None:
        """Compare what a pod got with what was chosen for it when it was bound."""
        chosen = self._chosen.setdefault(name, annotations[INDEX])
        wanted = _wanted(self.plans[name], chosen, cards)
        got = json.loads(annotations.get(ALLOCATION, "null")) or wanted
        if annotations[INDEX] != chosen or got != wanted:
            self.moved[name] = f"chosen {chosen}, {wanted}; {annotations[INDEX]}, {got}"


def is_live(pod: Json) -> bool:
    """Whether a pod is bound and has not ended."""
    ended = pod.get("status", {}).get("phase") in {"Failed", "Succeeded"}
    return bool(pod["spec"].get("nodeName")) and not ended


async def node_disagreements(
    kubelet: SimKubelet,
    cards: NodeCards,
    pods: Mapping[str, Json],
    plans: Mapping[str, PodPlan],
    page: Json,
) -> list[str]:
    """Everything on one node that two sides say differently; `page` is the extender's."""
    found: list[str] = []
    held = await _held(kubelet, cards)
    statuses = {each.name: each for each in kubelet.state().pods if not each.phase.ended}
    if not held.keys() == statuses.keys() == pods.keys():
        found.append(f"pods: {[sorted(each) for each in (held, statuses, pods)]}")
    for name in held.keys() & statuses.keys() & pods.keys():
        annotations = pods[name]["metadata"]["annotations"]
        containers = {each.name: each for each in statuses[name].containers}
        sides = {
            "PodResources": held[name],
            "environment": _told(containers, cards, plans[name]),
            ALLOCATION: json.loads(annotations.get(ALLOCATION, "{}")),
        }
        wanted = _wanted(plans[name], annotations[INDEX], cards)
        found += [
            f"{name}, {side}: {seats}, not {wanted}"
            for side, seats in sides.items()
            if seats != wanted
        ]
    return found + _ledger_disagreements(cards, pods, plans, page)


def _wanted(plan: PodPlan, chosen: str, cards: NodeCards) -> Seats:
    indices = [int(each) for each in chosen.split(",")]
    return {
        name: {cards.uuids[index]: units // plan.cards for index in indices}
        for name, units in plan.stays.items()
    }


async def _held(kubelet: SimKubelet, cards: NodeCards) -> dict[str, Seats]:
    uuids = {tag: uuid for uuid, tag in card_tags(cards.uuids).items()}
    found: dict[str, Seats] = {}
    async with pod_resources(kubelet) as reader:
        for pod in await reader.pods():
            seats = found.setdefault(pod.name, {})
            for container in pod.containers:
                for devices in container.devices:
                    assert devices.resource_name == RESOURCE
                    for device_id in devices.device_ids:
                        on = seats.setdefault(container.name, {})
                        uuid = uuids[device_id.partition("-")[0]]
                        on[uuid] = on.get(uuid, 0) + 1
    return found


def _told(containers: Mapping[str, ContainerStatus], cards: NodeCards, plan: PodPlan) -> Seats:
    """What the containers' environments say, where their two names of a card agree."""
    found: Seats = {}
    for name in plan.stays:
        env = containers[name].env
        uuids = env["NVIDIA_VISIBLE_DEVICES"].split(",")
        indices = [int(each) for each in env[INDEX].split(",")]
        agreed = [uuid for uuid in uuids if cards.uuids.index(uuid) in indices]
        found[name] = {uuid: int(env[UNITS]) // len(indices) for uuid in agreed}
    return found


def _ledger_disagreements(
    cards: NodeCards, pods: Mapping[str, Json], plans: Mapping[str, PodPlan], page: Json
) -> list[str]:
    wanted: list[dict[str, int]] = [{} for _ in cards.uuids]
    for name, pod in pods.items():
        for index in pod["metadata"]["annotations"][INDEX].split(","):
            wanted[int(index)][name] = plans[name].units // plans[name].cards
    shown = {
        card["id"]: {each["name"]: each["usedGPU"] for each in card["pods"]}
        for card in page["devs"]
    }
    sums = {card["id"]: (card["usedGPU"], card["totalGPU"]) for card in page["devs"]}
    return [
        f"inspect, {page['name']}, card {index}: {shown[index]}, {sums[index]}; not {on}"
        for index, on in enumerate(wanted)
        if shown[index] != on or sums[index] != (sum(on.values()), cards.units[index])
    ]


def free_by_node(pages: Iterable[Json]) -> dict[str, list[int]]:
    """The free units of each card, by node."""
    return {
        page["name"]: [card["totalGPU"] - card["usedGPU"] for card in page["devs"]]
        for page in pages
    }


def unexplained(plan: PodPlan, free: Mapping[str, list[int]], note: str) -> list[str]:
    """What is wrong with a pod that waits: it would fit, or its event does not say why not."""
    part = plan.units // plan.cards
    found = [
        f"{plan.name} waits, and {node_name} has room: {units}"
        for node_name, units in free.items()
        if sum(each >= part for each in units) >= plan.cards
    ]
    # A node with too little in all is refused by the scheduler before the extender is asked.
    asked = [name for name, units in free.items() if sum(units) >= plan.units]
    silent = [name for name in asked if not re.search(_reason(name, plan), note)]
    return found + [f"{plan.name}: nothing of {name} ({free[name]}) in {note!r}" for name in silent]


def _reason(node_name: str, plan: PodPlan) -> str:
    part = plan.units // plan.cards
    if plan.cards > 1:
        return (
            rf"1 {node_name}: ([01] of {plan.cards} cards asked (have|could hold) {part} GiB"
            rf"|{plan.cards} cards asked, and it has 1)"
        )
    return (
        rf"1 {node_name}: (largest free card has \d+ of {part} GiB asked; \d+ GiB free in all"
        rf"|{part} GiB asked of one card, and its largest has \d+)"
    )
