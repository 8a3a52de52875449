"""The health table of the design, row by row, and each way back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare_plugin.core.health import (
    BadProbe,
    CardHealth,
    FatalXid,
    GoodProbe,
    Reaction,
    Seen,
    State,
    XidRule,
    after,
)

RECOVERY_SECONDS = 60.0
HEALTHY = CardHealth()

seen = st.one_of(
    st.builds(FatalXid, xid=st.sampled_from((48, 79))),
    st.builds(BadProbe, reason=st.sampled_from(("no answer", "ECC")), lost=st.booleans()),
    st.builds(GoodProbe, at_seconds=st.sampled_from((0.0, 30.0, 60.0, 90.0))),
)


def health_after(*events: Seen, begin: CardHealth = HEALTHY) -> CardHealth:
    health = begin
    for each in events:
        health = after(health, each, recovery_seconds=RECOVERY_SECONDS)
    return health


def good(*at_seconds: float) -> list[Seen]:
    return [GoodProbe(at_seconds=each) for each in at_seconds]


LOST = BadProbe(reason="GPU is lost", lost=True)
NO_ANSWER = BadProbe(reason="no answer")


# --------------------------------------------------------------------- the table of XIDs

ROWS = {
    Reaction.COUNT: (13, 31, 43, 45, 68, 109),
    Reaction.NOTE: (63, 92, 94),
    Reaction.RESET: (48, 64, 74, 79, 95, 119, 120),
    Reaction.PROBE: (0, 1, 8, 32, 62, 69, 140, 999, 4_294_967_295),
}


@pytest.mark.parametrize(
    ("xid", "reaction"), [(xid, reaction) for reaction, xids in ROWS.items() for xid in xids]
)
def test_b35_each_xid_leads_to_what_the_table_says(xid: int, reaction: Reaction) -> None:
    assert XidRule().reaction(xid) is reaction


@given(xid=st.sampled_from((13, 63, 79, 999)), ignored=st.frozensets(st.sampled_from((79, 999))))
def test_an_ignored_xid_is_counted_only(xid: int, ignored: frozenset[int]) -> None:
    reaction = XidRule(ignored=ignored).reaction(xid)

    assert reaction is (Reaction.COUNT if xid in ignored else XidRule().reaction(xid))


@given(xid=st.sampled_from((13, 63, 79, 999)), only=st.frozensets(st.sampled_from((79, 999))))
def test_with_a_list_of_the_only_xids_no_other_is_acted_on(xid: int, only: frozenset[int]) -> None:
    reaction = XidRule(only=only).reaction(xid)

    assert reaction is (XidRule().reaction(xid) if xid in only else Reaction.COUNT)


def test_an_xid_both_wanted_and_ignored_is_ignored() -> None:
    rule = XidRule(ignored=frozenset({79}), only=frozenset({79}))

    assert rule.reaction(79) is Reaction.COUNT


# ------------------------------------------------------------------- into Unhealthy


def test_b33_an_xid_of_the_reset_row_makes_the_card_unhealthy_and_says_which() -> None:
    health = health_after(FatalXid(xid=79))

    assert (health.state, health.reason, health.needs_reset) == (State.UNHEALTHY, "XID 79", True)


@pytest.mark.parametrize("probe", [NO_ANSWER, LOST])
def test_a_bad_probe_makes_the_card_unhealthy_for_its_reason(probe: BadProbe) -> None:
    health = health_after(probe)

    assert (health.state, health.reason) == (State.UNHEALTHY, probe.reason)
    assert not health.needs_reset


def test_a_good_probe_of_a_healthy_card_changes_nothing() -> None:
    assert health_after(*good(0, 30, 60)) == HEALTHY


# ------------------------------------------------------------------------ the way back


def test_three_good_probes_over_the_recovery_time_heal() -> None:
    begin = health_after(NO_ANSWER)

    states = [health_after(*good(0, 30, 60)[:count], begin=begin).state for count in (1, 2, 3)]

    assert states == [State.UNHEALTHY, State.UNHEALTHY, State.HEALTHY]


def test_a_healed_card_is_as_good_as_new() -> None:
    assert health_after(NO_ANSWER, *good(0, 30, 60)) == HEALTHY


def test_many_good_probes_in_a_shorter_time_do_not_heal() -> None:
    health = health_after(NO_ANSWER, *good(0, 10, 20, 30, 40, 50, 59))

    assert health.state is State.UNHEALTHY


def test_two_good_probes_however_far_apart_do_not_heal() -> None:
    assert health_after(NO_ANSWER, *good(0, 600)).state is State.UNHEALTHY


def test_a_bad_probe_in_the_row_begins_the_row_anew() -> None:
    interrupted = health_after(NO_ANSWER, *good(0, 30), NO_ANSWER, *good(60, 90))

    assert interrupted.state is State.UNHEALTHY
    assert health_after(*good(120), begin=interrupted).state is State.HEALTHY


def test_the_recovery_time_runs_from_the_first_good_probe_even_one_at_time_zero() -> None:
    assert health_after(NO_ANSWER, *good(0, 1, 60)).state is State.HEALTHY
    assert health_after(NO_ANSWER, *good(1, 2, 60)).state is State.UNHEALTHY


def test_a_card_that_needs_a_reset_is_not_cured_by_good_probes() -> None:
    health = health_after(FatalXid(xid=79), *good(0, 30, 60, 3600))

    assert (health.state, health.reason) == (State.UNHEALTHY, "XID 79")


def test_a_card_that_needs_a_reset_is_cured_by_being_lost_and_coming_back() -> None:
    lost = health_after(FatalXid(xid=79), LOST)

    assert (lost.state, lost.reason, lost.needs_reset) == (State.UNHEALTHY, LOST.reason, False)
    assert health_after(*good(0, 30), begin=lost).state is State.UNHEALTHY
    assert health_after(*good(0, 30, 60), begin=lost) == HEALTHY


def test_a_card_that_needs_a_reset_and_fails_a_probe_still_needs_it_for_the_first_reason() -> None:
    health = health_after(FatalXid(xid=79), NO_ANSWER, *good(0, 30, 60))

    assert (health.reason, health.needs_reset) == ("XID 79", True)


def test_an_xid_of_the_reset_row_in_the_row_of_good_probes_needs_a_reset_again() -> None:
    health = health_after(LOST, *good(0, 30), FatalXid(xid=48), *good(60, 90, 120))

    assert (health.reason, health.needs_reset) == ("XID 48", True)


@given(events=st.lists(seen, max_size=5))
def test_every_way_into_unhealthy_has_its_way_out(events: list[Seen]) -> None:
    health = health_after(*events, LOST, *good(1000, 1030, 1060))

    assert health == HEALTHY


@given(events=st.lists(seen, max_size=5), watched=st.booleans())
def test_what_is_seen_never_changes_whether_the_card_tells_its_events(
    events: list[Seen], *, watched: bool
) -> None:
    health = health_after(*events, begin=CardHealth(watched=watched))

    assert health.watched is watched
    assert health_after(LOST, *good(1000, 1030, 1060), begin=health).watched is watched


def test_b36_a_card_that_cannot_be_watched_is_not_unhealthy() -> None:
    assert CardHealth(watched=False).state is State.HEALTHY


@given(events=st.lists(seen, max_size=5))
def test_a_card_has_a_reason_exactly_while_it_is_unhealthy(events: list[Seen]) -> None:
    health = health_after(*events)

    assert bool(health.reason) == (health.state is State.UNHEALTHY)
