"""Assumptions: what is counted before the watch shows it, and what ends it."""

import pytest

from gpushare_plugin.core.pods import Phase
from gpushare_plugin.extender.assumptions import Assumption, Assumptions, State
from tests.extender.clusters import pod


class Ledger:
    """Assumptions, and the nodes that were touched."""

    def __init__(self) -> None:
        self.touched: list[str] = []
        self.all = Assumptions(self.touched.append)

    def assume(self, node_name: str = "a", card: int = 0, now_seconds: float = 0.0) -> Assumption:
        bound = pod("p", 4, on=node_name, card=str(card))
        return self.all.assume(bound, (card,), now_seconds=now_seconds)

    @property
    def standing(self) -> list[tuple[str, tuple[int, ...], State]]:
        return [(each.pod.node_name, each.cards, each.state) for each in self.all]


def test_each_step_touches_the_node() -> None:
    ledger = Ledger()

    made = ledger.assume()
    ledger.all.doubt(made, now_seconds=1.0)
    ledger.all.release(made)

    assert ledger.touched == ["a", "a", "a"]
    assert ledger.standing == []


def test_a_doubtful_one_on_the_same_cards_is_replaced_and_on_others_it_is_not() -> None:
    ledger = Ledger()
    ledger.all.doubt(ledger.assume(card=0), now_seconds=1.0)

    ledger.assume(card=0)
    assert ledger.standing == [("a", (0,), State.IN_FLIGHT)]

    ledger.assume(card=1)
    ledger.assume("b", card=0)
    assert len(ledger.standing) == 3


def test_a_refusal_leaves_an_earlier_doubt_as_old_as_it_was() -> None:
    ledger = Ledger()
    ledger.all.doubt(ledger.assume(), now_seconds=7.0)

    ledger.all.refused(ledger.assume(now_seconds=50.0))

    (left,) = ledger.all
    assert left.state is State.DOUBTFUL
    assert left.since_seconds == 7.0


def test_a_second_doubt_is_as_young_as_the_last_request() -> None:
    ledger = Ledger()
    ledger.all.doubt(ledger.assume(), now_seconds=7.0)

    ledger.all.doubt(ledger.assume(), now_seconds=50.0)

    (left,) = ledger.all
    assert left.since_seconds == 50.0


def test_where_the_pod_is_found_ends_all_others_of_it() -> None:
    ledger = Ledger()
    ledger.all.doubt(ledger.assume("a"), now_seconds=1.0)
    made = ledger.assume("b")

    ledger.all.found(made, pod("p", 4, on="c", card="1"), now_seconds=2.0)

    (left,) = ledger.all
    assert left.pod.node_name == "c"
    assert left.state is State.CONFIRMED
    assert [each.pod.node_name for each in ledger.all.on("c")] == ["c"]
    assert not list(ledger.all.on("a"))


@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.FAILED])
def test_a_pod_that_is_found_to_have_ended_holds_nothing(phase: Phase) -> None:
    ledger = Ledger()

    ledger.all.found(ledger.assume(), pod("p", 4, on="a", phase=phase), now_seconds=2.0)

    assert ledger.standing == []


def test_whoever_holds_one_that_was_settled_changes_nothing() -> None:
    ledger = Ledger()
    made = ledger.assume()
    ledger.all.settle("uid-p")

    ledger.all.found(made, made.pod, now_seconds=1.0)
    ledger.all.doubt(made, now_seconds=1.0)
    ledger.all.refused(made)
    ledger.all.release(made)

    assert ledger.standing == []


def test_there_is_a_question_for_each_that_is_confirmed_or_doubtful() -> None:
    ledger = Ledger()
    asked: list[int] = []
    ledger.all.on_question(lambda: asked.append(len(ledger.all)))

    made = ledger.assume()
    assert asked == []

    ledger.all.doubt(made, now_seconds=1.0)
    ledger.all.found(made, made.pod, now_seconds=2.0)
    assert asked == [1, 1]
