"""Who leads of several extenders: never two at once, and one as soon as it may; in virtual time."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpushare_plugin.errors import ApiUnavailable
from gpushare_plugin.extender.leadership import Leadership
from gpushare_plugin.extender.lease_holding import Candidate, LeaseHolding
from gpushare_plugin.ports.scheduling import Lease
from tests.extender.leases import LeaseClient, Leases
from tests.histories.virtual_time import run
from tests.node.event_log import EventLog

CALL_SECONDS = 2.5
"""The longest that a Binding takes."""
_ids = count()


@dataclass
class Extender:
    """One candidate, its clock, and what it was made to do."""

    server: Leases
    name: str
    offset_seconds: float = 0.0
    """By how much its monotonic clock is ahead: only differences may count."""
    lists: int = 0
    lists_fail: bool = False
    list_seconds: float = 0.0
    unsettled: bool = False
    terms: int = 0
    draws: Random = field(default_factory=lambda: Random(1))  # noqa: S311
    task: "asyncio.Task[None] | None" = None

    def __post_init__(self) -> None:
        self.client = LeaseClient(self.server)
        loop = asyncio.get_running_loop()
        self.wall_seconds = 1_800_000_000.0
        candidate = Candidate(
            namespace="kube-system", lease_name="ours", identity=f"{self.name}_{next(_ids)}"
        )
        self.holding = LeaseHolding(
            self.client,
            candidate,
            clock=lambda: loop.time() + self.offset_seconds,
            now_text=lambda: f"{self.wall_seconds + loop.time():.6f}",
        )
        self.leadership = Leadership(
            self.holding,
            draw=self.draws.random,
            relist=self._relist,
            unsettled=lambda: self.unsettled,
            took_over=self._took_over,
        )
        self.identity = candidate.identity

    async def _relist(self, seconds: float) -> None:
        assert seconds > 0
        await asyncio.sleep(self.list_seconds)
        if self.lists_fail:
            raise ApiUnavailable("list pods: no answer")
        self.lists += 1

    def _took_over(self) -> None:
        self.terms += 1

    @property
    def binds(self) -> bool:
        """Whether it would send a Binding at this moment."""
        return self.leadership.fence(CALL_SECONDS) == ""

    def start(self) -> "Extender":
        self.task = asyncio.create_task(self.leadership.run())
        return self

    async def stop(self) -> None:
        """Shut down in order."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
            self.task = None

    async def die(self) -> None:
        """End without a word to the API server, whatever is under way."""
        self.client.away = True
        self.holding.let_go()
        await self.stop()


@contextmanager
def two() -> Iterator[tuple[Extender, Extender]]:
    server = Leases()
    yield Extender(server, "a"), Extender(server, "b", offset_seconds=-5000.0)


async def until(what: Extender, *, binds: bool, within_seconds: float) -> float:
    """Wait in small steps; return how many seconds it took."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    while what.binds is not binds:
        assert loop.time() - begun <= within_seconds, f"{what.name}: binds={what.binds}"
        await asyncio.sleep(0.05)
    return loop.time() - begun


def test_the_first_one_leads_at_once_after_it_listed_everything() -> None:
    async def main() -> None:
        with two() as (first, second):
            first.list_seconds = 3.0
            first.start()
            await asyncio.sleep(1.0)
            assert first.leadership.leads
            assert "listing nodes and pods anew" in (
                await first.leadership.refusal(writing=False) or ""
            )
            assert "listing" in first.leadership.fence(0.1)
            await asyncio.sleep(2.1)
            assert first.binds
            assert await first.leadership.refusal(writing=True) is None
            second.start()
            await asyncio.sleep(60.0)
            assert (first.binds, second.leadership.leads) == (True, False)
            assert "does not lead" in (await second.leadership.refusal(writing=False) or "")
            assert (first.terms, first.lists, second.lists) == (1, 1, 0)
            await first.stop()
            await second.stop()

    run(main())


def test_a_list_that_fails_is_made_again_before_anything_is_answered(log: EventLog) -> None:
    async def main() -> None:
        with two() as (first, _):
            first.lists_fail = True
            first.start()
            await asyncio.sleep(30.0)
            assert first.leadership.leads
            assert not first.binds
            first.lists_fail = False
            await until(first, binds=True, within_seconds=3.0)
            await first.stop()

    run(main())
    assert log.of("relist_failing")


def test_a_leader_that_died_is_followed_after_its_lease_and_no_sooner() -> None:
    async def main() -> None:
        with two() as (first, second):
            first.start()
            second.start()
            await until(first, binds=True, within_seconds=5.0)
            await asyncio.sleep(7.3)
            await first.die()
            seconds = await until(second, binds=True, within_seconds=25.0)
            assert seconds > 12.0
            assert second.lists == 1
            [lease] = second.server.stored.values()
            assert lease.transitions == 1
            await second.stop()

    run(main())


def test_a_leader_that_shuts_down_is_followed_at_the_next_look() -> None:
    async def main() -> None:
        with two() as (first, second):
            first.start()
            second.start()
            await until(first, binds=True, within_seconds=5.0)
            await first.stop()
            assert not first.leadership.leads
            assert first.server.holder == ""
            await until(second, binds=True, within_seconds=4.5)
            await second.stop()

    run(main())


def test_with_a_binding_in_doubt_the_lease_is_left_to_run_out(log: EventLog) -> None:
    """Who leads next would list the pods while ours may still be bound."""

    async def main() -> None:
        with two() as (first, _):
            first.start()
            await until(first, binds=True, within_seconds=5.0)
            first.unsettled = True
            await first.stop()
            assert first.server.holder == first.identity

    run(main())
    assert log.of("lease_left")


def test_a_binding_under_way_is_waited_for_before_the_lease_is_given_up() -> None:
    async def main() -> None:
        with two() as (first, _):
            first.start()
            await until(first, binds=True, within_seconds=5.0)
            first.unsettled = True
            stopping = asyncio.create_task(first.stop())
            await asyncio.sleep(2.0)
            assert not first.binds
            assert first.server.holder == first.identity
            first.unsettled = False
            await stopping
            assert first.server.holder == ""

    run(main())


def test_with_the_api_server_away_it_stops_before_another_could_begin(log: EventLog) -> None:
    async def main() -> None:
        with two() as (first, second):
            first.start()
            second.start()
            await until(first, binds=True, within_seconds=5.0)
            first.client.away = True
            begun = asyncio.get_running_loop().time()
            await until(first, binds=False, within_seconds=10.1)
            assert not second.leadership.leads
            await until(second, binds=True, within_seconds=12.0)
            assert asyncio.get_running_loop().time() - begun > 12.9
            first.client.away = False
            await asyncio.sleep(30.0)
            assert (first.leadership.leads, second.binds) == (False, True)
            await first.stop()
            await second.stop()
            assert first.server.holder == ""

    run(main())
    assert log.of("lease_failing")
    assert log.of("leads_no_more")


def test_after_an_outage_for_both_it_lists_anew_before_it_serves_again() -> None:
    async def main() -> None:
        with two() as (first, _):
            first.start()
            await until(first, binds=True, within_seconds=5.0)
            first.client.away = True
            await asyncio.sleep(40.0)
            assert not first.leadership.leads
            first.client.away = False
            await until(first, binds=True, within_seconds=8.0)
            assert first.lists == 2
            await first.stop()

    run(main())


def test_a_write_that_was_sent_twice_is_known_as_our_own() -> None:
    """The second one is refused by what the first one wrote."""

    async def main() -> None:
        with two() as (first, second):
            first.client.sent_twice = True
            first.start()
            second.start()
            await until(first, binds=True, within_seconds=5.0)
            for _ in range(60):
                await asyncio.sleep(1.0)
                assert first.binds
            assert first.terms == 1
            await first.stop()
            await second.stop()

    run(main())


def test_writes_whose_answers_are_lost_keep_others_away_but_not_us_in_office() -> None:
    async def main() -> None:
        with two() as (first, second):
            first.start()
            second.start()
            await until(first, binds=True, within_seconds=5.0)
            first.client.answers_lost = True
            await until(first, binds=False, within_seconds=10.1)
            first.client.answers_lost = False
            await until(first, binds=True, within_seconds=15.0)
            assert not second.leadership.leads
            await first.stop()
            await second.stop()

    run(main())


@pytest.mark.parametrize("jump_seconds", [-86_400.0, -1.0, 86_400.0 * 365])
def test_the_time_of_day_may_jump(jump_seconds: float) -> None:
    async def main() -> None:
        with two() as (first, second):
            first.start()
            second.start()
            await until(first, binds=True, within_seconds=5.0)
            first.wall_seconds += jump_seconds
            for _ in range(400):
                await asyncio.sleep(0.1)
                assert first.binds
                assert not second.leadership.leads
            await first.die()
            second.wall_seconds -= jump_seconds
            await until(second, binds=True, within_seconds=25.0)
            await second.stop()

    run(main())


def test_a_lease_that_somebody_takes_by_force_is_given_up_at_once(log: EventLog) -> None:
    async def main() -> None:
        with two() as (first, _):
            first.start()
            await until(first, binds=True, within_seconds=5.0)
            [lease] = first.server.stored.values()
            stolen = Lease(
                namespace=lease.namespace,
                name=lease.name,
                holder="an-operator",
                duration_seconds=3600,
                acquire_time="now",
                renew_time="now",
            )
            first.server.put(stolen)
            await until(first, binds=False, within_seconds=2.1)
            await asyncio.sleep(3000.0)
            assert not first.leadership.leads
            first.server.stored.clear()
            await until(first, binds=True, within_seconds=5.0)
            assert first.lists == 2
            await first.stop()

    run(main())
    assert log.of("leads_no_more", holder="an-operator")


def test_nothing_is_written_that_could_outlast_the_lease() -> None:
    async def main() -> None:
        with two() as (first, _):
            first.start()
            await until(first, binds=True, within_seconds=5.0)
            first.client.away = True
            await asyncio.sleep(9.0)
            assert first.leadership.fence(3.0) == ""
            assert "may take 8.0 s" in first.leadership.fence(8.0)
            await first.stop()

    run(main())


LAGS_SECONDS = (0.0, 0.0, 0.01, 0.5, 1.4, 2.9)
PAUSES_SECONDS = (0.0, 0.1, 1.0, 3.0, 8.0, 12.0, 20.0)


MISHAPS: tuple[Callable[[LeaseClient, Random], None], ...] = (
    lambda client, _: setattr(client, "away", not client.away),
    lambda client, _: setattr(client, "answers_lost", not client.answers_lost),
    lambda client, _: setattr(client, "sent_twice", not client.sent_twice),
    lambda client, random: setattr(client, "there_seconds", random.choice(LAGS_SECONDS)),
    # Longer than the time-out too: a process that was paused hears its answer late.
    lambda client, random: setattr(client, "back_seconds", random.choice(PAUSES_SECONDS)),
)


class History:
    """Three candidates to which one thing after the other happens."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311 - the same history each time
        self.server = Leases()
        self.candidates = [self._candidate(name) for name in "abc"]

    def _candidate(self, name: str) -> Extender:
        return Extender(self.server, name, offset_seconds=self.random.uniform(-1e6, 1e6)).start()

    async def happens(self) -> None:
        each = self.random.choice(self.candidates)
        match self.random.randrange(4):
            case 0:
                await each.die()
                self.candidates.remove(each)
                self.candidates.append(self._candidate(each.name))
            case 1:
                await each.stop()
                each.start()
            case 2:
                each.wall_seconds += self.random.uniform(-1e5, 1e5)
            case _:
                self.random.choice(MISHAPS)(each.client, self.random)

    def check(self) -> None:
        binding = [each.name for each in self.candidates if each.binds]
        assert len(binding) <= 1, f"{binding} would bind at once"

    async def passes(self, seconds: float) -> None:
        for _ in range(round(seconds * 10)):
            await asyncio.sleep(0.1)
            self.check()

    async def becomes_quiet(self) -> None:
        for each in self.candidates:
            each.client.away = each.client.answers_lost = each.client.sent_twice = False
            each.client.there_seconds = each.client.back_seconds = 0.0
        await self.passes(60.0)
        assert sum(each.binds for each in self.candidates) == 1
        for each in self.candidates:
            await each.stop()


async def history(seed: int) -> None:
    found = History(seed)
    for _ in range(40):
        await found.happens()
        await found.passes(found.random.choice((0.1, 1.0, 6.0, 20.0)))
    await found.becomes_quiet()


@pytest.mark.timeout(60)
@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_whatever_happens_no_two_would_bind_at_the_same_moment(seed: int) -> None:
    """Kills, shut-downs, pauses, lags, outages, lost answers, and clocks that jump."""
    run(history(seed))
