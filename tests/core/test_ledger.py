"""Who holds what: what is listed, of pods that count, card by card."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare_plugin.core.devices import CardTable
from gpushare_plugin.core.ledger import Holding, Ledger, keep_ledger
from gpushare_plugin.core.pods import Phase, Pod
from tests.core.cards import cards
from tests.core.pods import INDEX, listing, pod

TABLE = CardTable(cards(3, 3))
FIRST, SECOND = TABLE.cards
IDS = tuple(each for card in TABLE.cards for each in card.device_ids())


def holdings(holder: Pod, **device_ids: tuple[str, ...]) -> Holding | None:
    return keep_ledger([listing(**device_ids)], [holder], TABLE).holdings.get("uid-a")


def test_units_are_counted_by_container_and_card() -> None:
    held = holdings(pod(2, 0, 2), c0=IDS[:2], c1=(), c2=(IDS[2], IDS[3]))

    assert held is not None
    assert held.containers == {
        "c0": {FIRST.uuid: 2},
        "c2": {FIRST.uuid: 1, SECOND.uuid: 1},
    }
    assert held.cards == {FIRST.uuid, SECOND.uuid}
    assert [held.units_of(card.uuid) for card in TABLE.cards] == [3, 1]


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("terminating", [False, True])
def test_a_pod_holds_until_it_has_ended_terminating_or_not(
    phase: Phase, *, terminating: bool
) -> None:
    held = holdings(pod(1, phase=phase, terminating=terminating), c0=IDS[:1])

    assert (held is None) is (phase in {Phase.SUCCEEDED, Phase.FAILED})


def test_annotations_hold_nothing() -> None:
    assert holdings(pod(3, annotations={INDEX: "1"}), c0=()) is None


def test_devices_of_the_originals_plugin_belong_to_no_card_of_ours() -> None:
    held = holdings(pod(2), c0=(f"{FIRST.uuid}-_-0", f"{FIRST.uuid}-_-1"))

    assert held is not None
    assert (held.containers, held.foreign_units) == ({}, 2)


@pytest.mark.parametrize("unknown", ["ffffffff-0", f"{FIRST.tag}-9", "nonsense"])
def test_devices_that_are_of_no_card_here_are_passed_over(unknown: str) -> None:
    held = holdings(pod(2), c0=(unknown, IDS[0]))

    assert held is not None
    assert held.containers == {"c0": {FIRST.uuid: 1}}


def test_pods_that_only_one_side_knows_hold_nothing() -> None:
    unknown = listing("b", c0=IDS[:1])

    assert keep_ledger([unknown], [pod(1)], TABLE) == Ledger(others=(unknown,))
    assert keep_ledger([], [pod(1)], TABLE) == Ledger()


def test_a_name_that_is_listed_twice_is_nobodys() -> None:
    twice = [listing(c0=IDS[:1]), listing(c0=IDS[1:2])]

    assert keep_ledger(twice, [pod(1)], TABLE) == Ledger(others=tuple(twice))


def test_of_two_of_a_name_the_one_is_joined_whose_devices_were_given_to_that_pod() -> None:
    old, new = listing(c0=IDS[:1]), listing(c0=IDS[1:2])
    owners = {IDS[0]: "uid-before", IDS[1]: "uid-a"}

    ledger = keep_ledger([old, new], [pod(1)], TABLE, owners)

    assert [each.containers for each in ledger.holdings.values()] == [{"c0": {FIRST.uuid: 1}}]
    assert ledger.others == (old,)


def test_what_was_given_to_the_pod_of_its_name_before_is_not_a_pending_pods() -> None:
    old = listing(c0=IDS[:1])
    owners = {IDS[0]: "uid-before"}

    pending = keep_ledger([old], [pod(1)], TABLE, owners)
    running = keep_ledger([old], [pod(1)], TABLE, owners, ran={"uid-a"})

    assert pending == Ledger(others=(old,))
    # It was admitted, so the one that is listed is it: who was thought the owner was not.
    assert running.holdings.keys() == {"uid-a"}


@given(st.lists(st.sets(st.sampled_from(IDS)), max_size=4))
def test_no_unit_is_lost_and_none_is_counted_twice(shares: list[set[str]]) -> None:
    pods = [replace(pod(1), name=f"p{n}", uid=f"uid-{n}") for n, _ in enumerate(shares)]
    lists = [listing(f"p{n}", c0=tuple(ids)) for n, ids in enumerate(shares)]

    ledger = keep_ledger(lists, pods, TABLE)

    assert sum(ledger.used_units(card.uuid) for card in TABLE.cards) == sum(map(len, shares))
    over = {card for card in TABLE.cards if ledger.used_units(card.uuid) > card.units}
    assert set(ledger.overcommitted(TABLE.cards)) == over
