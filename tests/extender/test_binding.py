"""Bind: one request, and what is told of it, whatever becomes of it; in virtual time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from gpushare_plugin.core.bookkeeping import ALLOCATION, MARK
from gpushare_plugin.core.fitting import Misfit
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.errors import ApiConflict, ApiError, ApiNotFound, ApiRefused, ApiThrottled
from gpushare_plugin.extender.binding import BUDGET_SECONDS
from gpushare_plugin.extender.verdicts import BindOutcome
from gpushare_plugin.ports.cluster import Gone, Upserted
from gpushare_plugin.ports.scheduling import Binding
from tests.extender.clusters import INDEX, free_units, node, pod, tell, told
from tests.extender.scripted_binder import AWAY, HANG, Binds
from tests.histories.virtual_time import run
from tests.node.event_log import EventLog

CONFLICT = ApiConflict("create pods/binding default/p: the object is not as expected (409)")
FORBIDDEN = ApiRefused("create pods/binding default/p: forbidden (403)")
NOT_FOUND = ApiNotFound("create pods/binding default/p: not found (404)")
BAD_REQUEST = ApiError("create pods/binding default/p: no such request (400)")


def played(play: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await play()

    run(main())


def left(binds: Binds) -> list[str]:
    """The states of what is still assumed."""
    return [each.state.value for each in binds.cluster.assumptions]


def bound(binding: Binding, asked: Pod) -> Pod:
    annotations = {**asked.annotations, **binding.annotations}
    return replace(asked, node_name=binding.node_name, annotations=annotations)


def test_one_request_carries_the_node_the_uid_and_the_annotations() -> None:
    async def play() -> None:
        waiting = pod("p", 4)
        binds = Binds.over(told(node("gpu-a", 15, 15), waiting, pod("q", 8, on="gpu-a", card="1")))

        assert await binds.bind(waiting, "gpu-a") == ""

        assert binds.binder.sent == [
            Binding(
                namespace="default",
                name="p",
                uid="uid-p",
                node_name="gpu-a",
                annotations={
                    INDEX: "1",
                    "ALIYUN_COM_GPU_MEM_POD": "4",
                    "ALIYUN_COM_GPU_MEM_DEV": "15",
                    "ALIYUN_COM_GPU_MEM_ASSIGNED": "false",
                    "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "1700000000000000001",
                    MARK: "1",
                },
            )
        ]
        assert binds.binder.read == []
        assert binds.outcomes == [BindOutcome.BOUND]

    played(play)


def test_the_card_is_the_one_that_filter_spoke_of() -> None:
    async def play() -> None:
        waiting = pod("p", 3)
        cluster = told(node("a", 15, 8, 4), waiting, pod("q", 2, on="a", card="1"))
        binds = Binds.over(cluster)
        found = binds.fits.outcome("a", binds.fits.ask_of(waiting), uid=waiting.uid)
        assert not isinstance(found, Misfit)

        await binds.bind(waiting, "a")

        assert binds.binder.sent[0].annotations[INDEX] == str(found[0].card.index) == "2"

    played(play)


def test_a_bound_pod_counts_from_the_first_moment_and_not_twice_when_the_watch_shows_it() -> None:
    async def play() -> None:
        waiting = pod("p", 4)
        binds = Binds.over(told(node("a", 15), waiting))

        async def look() -> None:
            assert free_units(binds.cluster, "a") == (11,)

        binds.binder.meanwhile = look
        await binds.bind(waiting, "a")
        assert free_units(binds.cluster, "a") == (11,)
        assert left(binds) == ["confirmed"]

        tell(binds.cluster, bound(binds.binder.sent[0], waiting))
        assert free_units(binds.cluster, "a") == (11,)
        assert left(binds) == []

    played(play)


def test_two_binds_at_once_do_not_take_the_same_units() -> None:
    async def play() -> None:
        first, second = pod("p", 8), pod("q", 8)
        binds = Binds.over(told(node("gpu-a", 11), first, second))

        texts = await asyncio.gather(binds.bind(first, "gpu-a"), binds.bind(second, "gpu-a"))

        assert list(texts) == ["", "no card of gpu-a has 8 GiB free any more: largest has 3"]
        assert len(binds.binder.sent) == 1
        assert sorted(each.value for each in binds.outcomes) == ["bound", "no_room"]

    played(play)


def test_b69_a_second_bind_of_the_same_pod_is_answered_from_the_first() -> None:
    async def play() -> None:
        waiting = pod("p", 8)
        binds = Binds.over(told(node("a", 15), waiting), FORBIDDEN)

        texts = await asyncio.gather(*(binds.bind(waiting, "a") for _ in range(3)))

        assert list(texts) == [str(FORBIDDEN)] * 3
        assert len(binds.binder.sent) == 1
        assert binds.outcomes == [BindOutcome.REFUSED]

    played(play)


def test_a_bind_of_the_same_pod_to_another_node_waits_and_hears_where_it_is() -> None:
    async def play() -> None:
        waiting = pod("p", 8)
        binds = Binds.over(told(node("a", 15), node("b", 15), waiting))

        texts = await asyncio.gather(binds.bind(waiting, "a"), binds.bind(waiting, "b"))

        assert list(texts) == ["", "pod default/p is bound to a already, not to b"]
        assert [each.node_name for each in binds.binder.sent] == ["a"]

    played(play)


def test_a_bind_of_the_same_pod_to_another_node_goes_on_if_the_first_was_refused() -> None:
    async def play() -> None:
        waiting = pod("p", 8)
        binds = Binds.over(told(node("a", 15), node("b", 15), waiting), FORBIDDEN)

        texts = await asyncio.gather(binds.bind(waiting, "a"), binds.bind(waiting, "b"))

        assert list(texts) == [str(FORBIDDEN), ""]
        assert free_units(binds.cluster, "a") == (15,)
        assert free_units(binds.cluster, "b") == (7,)

    played(play)


THROTTLED = ApiThrottled("429: too many requests", retry_after_seconds=1.0, begun=False)


@pytest.mark.parametrize("refusal", [FORBIDDEN, BAD_REQUEST, THROTTLED])
def test_b71_a_refusal_is_told_and_its_units_are_free_again(refusal: ApiError) -> None:
    async def play() -> None:
        waiting = pod("p", 8)
        binds = Binds.over(told(node("a", 15), waiting), refusal)

        assert await binds.bind(waiting, "a") == str(refusal)

        assert free_units(binds.cluster, "a") == (15,)
        assert binds.outcomes == [BindOutcome.REFUSED]

    played(play)


def test_b71_a_pod_that_is_gone_is_told_and_holds_nothing() -> None:
    async def play() -> None:
        waiting = pod("p", 8)
        binds = Binds.over(told(node("a", 15), waiting), NOT_FOUND)

        text = await binds.bind(waiting, "a")

        assert text.startswith("pod default/p with UID uid-p is gone")
        assert free_units(binds.cluster, "a") == (15,)
        assert binds.outcomes == [BindOutcome.POD_GONE]

    played(play)


def test_b71_a_conflict_is_looked_into_and_the_binding_is_sent_again() -> None:
    async def play() -> None:
        waiting = pod("p", 8)
        binds = Binds.over(told(node("a", 15), waiting), CONFLICT, CONFLICT, pods=(waiting,))

        assert await binds.bind(waiting, "a") == ""

        assert len(binds.binder.sent) == 3
        assert free_units(binds.cluster, "a") == (7,)

    played(play)


def test_b71_a_conflict_for_ever_is_told_and_its_units_are_free_again() -> None:
    async def play() -> None:
        waiting = pod("p", 8)
        binds = Binds.over(told(node("a", 15), waiting), *[CONFLICT] * 9, pods=(waiting,))

        assert await binds.bind(waiting, "a") == str(CONFLICT)

        assert len(binds.binder.sent) == 3
        assert free_units(binds.cluster, "a") == (15,)

    played(play)


@pytest.mark.parametrize("failure", [CONFLICT, AWAY, HANG])
def test_a_pod_that_turns_out_to_be_bound_there_is_a_success(failure: ApiError) -> None:
    async def play() -> None:
        waiting, there = pod("p", 8), pod("p", 8, on="a", card="1")
        binds = Binds.over(told(node("a", 15, 15), waiting), failure, pods=(there,))

        assert await binds.bind(waiting, "a") == ""

        assert binds.binder.sent[0].annotations[INDEX] == "0"
        assert free_units(binds.cluster, "a") == (15, 7), "the card that was read counts"
        assert binds.outcomes == [BindOutcome.ALREADY_BOUND]

    played(play)


@pytest.mark.parametrize("failure", [CONFLICT, AWAY, HANG])
def test_a_pod_that_turns_out_to_be_bound_elsewhere_counts_there(failure: ApiError) -> None:
    async def play() -> None:
        waiting, there = pod("p", 8), pod("p", 8, on="b", card="0")
        binds = Binds.over(told(node("a", 15), node("b", 15), waiting), failure, pods=(there,))

        assert await binds.bind(waiting, "a") == "pod default/p is bound to b already, not to a"

        assert free_units(binds.cluster, "a") == (15,)
        assert free_units(binds.cluster, "b") == (7,)

    played(play)


@pytest.mark.parametrize("failure", [CONFLICT, AWAY, HANG])
def test_a_pod_of_another_uid_by_now_is_another_pod(failure: ApiError) -> None:
    async def play() -> None:
        waiting = pod("p", 8)
        binds = Binds.over(told(node("a", 15), waiting), failure, pods=(pod("p", 8, uid="new"),))

        assert "is gone" in await binds.bind(waiting, "a")

        assert free_units(binds.cluster, "a") == (15,)

    played(play)


@pytest.mark.parametrize("failure", [AWAY, HANG])
@pytest.mark.parametrize("seen", [pod("p", 8), AWAY, HANG])
def test_b71_an_unknown_outcome_stays_counted_and_is_told_within_the_budget(
    failure: ApiError, seen: Pod | ApiError
) -> None:
    async def play() -> None:
        waiting = pod("p", 8)
        binds = Binds.over(told(node("a", 15), waiting), failure, pods=(seen,))
        begun_seconds = asyncio.get_running_loop().time()

        text = await binds.bind(waiting, "a")

        assert asyncio.get_running_loop().time() - begun_seconds <= BUDGET_SECONDS + 0.01
        assert text.startswith("outcome unknown: ")
        assert free_units(binds.cluster, "a") == (7,)
        assert left(binds) == ["doubtful"]
        assert binds.outcomes == [BindOutcome.UNKNOWN]

    played(play)


def test_a_doubtful_bind_is_given_up_only_by_a_look_a_minute_later() -> None:
    async def play() -> None:
        waiting = pod("p", 8)
        binds = Binds.over(told(node("a", 15), waiting), AWAY, pods=(waiting,))
        asking = asyncio.create_task(binds.binding.run())
        await binds.bind(waiting, "a")

        await asyncio.sleep(59)
        assert left(binds) == ["doubtful"]
        assert 3 < len(binds.binder.read) < 15, "with growing waits"

        await asyncio.sleep(12)
        assert left(binds) == []
        assert free_units(binds.cluster, "a") == (15,)
        asking.cancel()

    played(play)


def test_a_look_that_began_before_the_minute_was_over_gives_nothing_up() -> None:
    async def play() -> None:
        waiting = pod("p", 8)
        binds = Binds.over(told(node("a", 15), waiting), AWAY, pods=(waiting,))
        asking = asyncio.create_task(binds.binding.run())
        await binds.bind(waiting, "a")

        await asyncio.sleep(50)
        binds.binder.read_seconds = 12.0
        await asyncio.sleep(23)
        assert left(binds) == ["doubtful"]

        await asyncio.sleep(12)
        assert left(binds) == []
        asking.cancel()

    played(play)


def test_no_time_that_passes_frees_what_cannot_be_looked_at() -> None:
    async def play() -> None:
        waiting = pod("p", 8)
        binds = Binds.over(told(node("a", 15), waiting), AWAY, pods=(AWAY,))
        asking = asyncio.create_task(binds.binding.run())
        await binds.bind(waiting, "a")

        await asyncio.sleep(3600)
        assert free_units(binds.cluster, "a") == (7,)

        binds.binder.pods.appendleft(pod("p", 8, on="a", card="0"))
        binds.binder.pods.pop()
        await asyncio.sleep(12)
        assert left(binds) == ["confirmed"]
        asking.cancel()

    played(play)


def test_a_confirmed_pod_that_no_watch_ever_shows_is_asked_after() -> None:
    async def play() -> None:
        waiting = pod("p", 8)
        binds = Binds.over(told(node("a", 15)), pods=(waiting, NOT_FOUND))
        asking = asyncio.create_task(binds.binding.run())
        assert await binds.bind(waiting, "a") == ""

        await asyncio.sleep(50)
        assert left(binds) == ["confirmed"]

        await asyncio.sleep(12)
        assert left(binds) == []
        asking.cancel()

    played(play)


def test_while_many_are_doubtful_an_api_server_that_is_away_is_asked_after_one() -> None:
    async def play() -> None:
        waiting = [pod(f"p{number}", 1) for number in range(20)]
        binds = Binds.over(told(node("a", 30), *waiting), *[AWAY] * 20, pods=(AWAY,))
        asking = asyncio.create_task(binds.binding.run())
        await asyncio.gather(*(binds.bind(each, "a") for each in waiting))
        reads = len(binds.binder.read)

        await asyncio.sleep(60)

        assert len(binds.binder.read) - reads < 30
        asking.cancel()

    played(play)


def test_one_that_may_not_be_looked_at_keeps_no_other_from_being_settled() -> None:
    async def play() -> None:
        first, second = pod("p", 4), pod("q", 4)
        cluster = told(node("a", 15), first, second)
        binds = Binds.over(cluster, AWAY, AWAY, pods=(AWAY, AWAY, FORBIDDEN, NOT_FOUND))
        asking = asyncio.create_task(binds.binding.run())
        await asyncio.gather(binds.bind(first, "a"), binds.bind(second, "a"))

        await asyncio.sleep(1.5)

        assert free_units(cluster, "a") == (11,)
        assert [each.pod.name for each in cluster.assumptions] == ["p"]
        asking.cancel()

    played(play)


def test_a_new_bind_of_a_doubtful_pod_takes_the_same_cards_and_counts_once() -> None:
    async def play() -> None:
        waiting, other = pod("p", 4), pod("q", 5)
        cluster = told(node("a", 15, 15), waiting, other)
        binds = Binds.over(cluster, AWAY, pods=(waiting,))
        await binds.bind(waiting, "a")
        tell(cluster, pod("q", 5, on="a", card="1"))

        assert await binds.bind(waiting, "a") == ""

        assert [each.annotations[INDEX] for each in binds.binder.sent] == ["0", "0"]
        assert free_units(cluster, "a") == (11, 10)

    played(play)


def test_a_refusal_does_not_free_what_an_earlier_request_may_still_take() -> None:
    async def play() -> None:
        waiting = pod("p", 8)
        binds = Binds.over(told(node("a", 15), waiting), AWAY, FORBIDDEN, pods=(waiting,))
        await binds.bind(waiting, "a")

        assert await binds.bind(waiting, "a") == str(FORBIDDEN)

        assert left(binds) == ["doubtful"]
        assert free_units(binds.cluster, "a") == (7,)

    played(play)


def test_a_doubtful_bind_counts_on_until_the_pod_is_bound_elsewhere() -> None:
    async def play() -> None:
        waiting = pod("p", 8)
        binds = Binds.over(told(node("a", 15), node("b", 15), waiting), AWAY, pods=(waiting,))
        await binds.bind(waiting, "a")

        async def look() -> None:
            assert free_units(binds.cluster, "a") == (7,)
            assert free_units(binds.cluster, "b") == (7,)

        binds.binder.meanwhile = look
        assert await binds.bind(waiting, "b") == ""

        assert free_units(binds.cluster, "a") == (15,)
        assert free_units(binds.cluster, "b") == (7,)

    played(play)


def test_b56_a_pod_that_is_deleted_while_it_is_bound_leaves_nothing_behind() -> None:
    async def play() -> None:
        waiting = pod("p", 8)
        binds = Binds.over(told(node("a", 15), waiting))

        async def go() -> None:
            there = pod("p", 8, on="a", card="0")
            binds.cluster.pod_changed(Upserted(there))
            binds.cluster.pod_changed(Gone(there))

        binds.binder.meanwhile = go
        await binds.bind(waiting, "a")

        assert left(binds) == []
        assert free_units(binds.cluster, "a") == (15,)

    played(play)


def test_a_caller_that_leaves_does_not_end_the_bind() -> None:
    async def play() -> None:
        waiting = pod("p", 8)
        binds = Binds.over(told(node("a", 15), waiting))
        caller = asyncio.create_task(binds.bind(waiting, "a"))
        await asyncio.sleep(0)

        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
        await asyncio.sleep(1)

        assert left(binds) == ["confirmed"]
        assert binds.outcomes == [BindOutcome.BOUND]

    played(play)


def test_a_bind_that_is_ended_from_outside_stays_counted() -> None:
    async def play() -> None:
        waiting = pod("p", 8)
        binds = Binds.over(told(node("a", 15), waiting), HANG)
        caller = asyncio.create_task(binds.bind(waiting, "a"))
        await asyncio.sleep(1)

        for task in asyncio.all_tasks() - {asyncio.current_task(), caller}:
            task.cancel()
        await asyncio.gather(caller, return_exceptions=True)

        assert left(binds) == ["doubtful"]
        assert free_units(binds.cluster, "a") == (7,)

    played(play)


def test_a_pod_that_the_watch_does_not_know_yet_is_read() -> None:
    async def play() -> None:
        binds = Binds.over(told(node("a", 15)), pods=(pod("p", 8),))

        assert await binds.bind(pod("p", 8), "a") == ""

        assert binds.binder.read == ["default/p"]
        assert free_units(binds.cluster, "a") == (7,)

    played(play)


@pytest.mark.parametrize(
    ("read", "outcome"),
    [
        (NOT_FOUND, BindOutcome.POD_GONE),
        (AWAY, BindOutcome.POD_UNREAD),
        (HANG, BindOutcome.POD_UNREAD),
        (pod("p", 8, uid="new"), BindOutcome.POD_GONE),
        (pod("p", 8, on="a", card="0"), BindOutcome.ALREADY_BOUND),
        (pod("p", 8, on="b", card="0"), BindOutcome.BOUND_ELSEWHERE),
    ],
)
def test_what_a_read_tells_instead_of_a_waiting_pod_is_answered(
    read: Pod | ApiError, outcome: BindOutcome
) -> None:
    async def play() -> None:
        binds = Binds.over(told(node("a", 15)), pods=(read,))

        text = await binds.bind(pod("p", 8), "a")

        assert binds.outcomes == [outcome]
        assert bool(text) == (outcome is not BindOutcome.ALREADY_BOUND)
        assert not binds.binder.sent

    played(play)


def test_a_pod_that_the_watch_shows_bound_is_not_bound_again() -> None:
    async def play() -> None:
        there = pod("p", 8, on="a", card="0")
        binds = Binds.over(told(node("a", 15), node("b", 15), there))

        assert await binds.bind(there, "a") == ""
        assert await binds.bind(there, "b") == "pod default/p is bound to a already, not to b"
        assert not binds.binder.sent

    played(play)


def test_a_confirmed_pod_is_not_bound_again_before_the_watch_shows_it() -> None:
    async def play() -> None:
        waiting = pod("p", 8)
        binds = Binds.over(told(node("a", 15), node("b", 15), waiting))
        await binds.bind(waiting, "a")

        assert await binds.bind(waiting, "a") == ""
        assert await binds.bind(waiting, "b") == "pod default/p is bound to a already, not to b"
        assert len(binds.binder.sent) == 1

    played(play)


@pytest.mark.parametrize(
    ("node_name", "text"),
    [
        ("no", "no: the API server has told of no such node (yet)"),
        ("small", "small: 8 GiB asked of one card, and its largest has 4"),
        ("away", "away: it is not ready: what its cards hold is not known"),
    ],
)
def test_a_node_where_the_pod_never_fits_is_told(node_name: str, text: str) -> None:
    async def play() -> None:
        waiting = pod("p", 8)
        cluster = told(node("small", 4), node("away", 15, ready=False), waiting)
        binds = Binds.over(cluster)

        assert await binds.bind(waiting, node_name) == text
        assert binds.outcomes == [BindOutcome.UNFIT]

    played(play)


def test_a_pod_with_a_fault_is_not_bound() -> None:
    async def play() -> None:
        waiting = pod("p", 8, annotations={"gpushare.io/gpu-index": "second"})
        binds = Binds.over(told(node("a", 15), waiting))

        assert "found 'second'" in await binds.bind(waiting, "a")
        assert binds.outcomes == [BindOutcome.BAD_POD]

    played(play)


def test_a_pod_that_asks_for_nothing_is_bound_plainly_to_whatever_node() -> None:
    async def play() -> None:
        waiting = pod("p", 0)
        binds = Binds.over(told(), pods=(waiting,))

        assert await binds.bind(waiting, "cpu") == ""

        assert binds.binder.sent[0].annotations == {}
        assert left(binds) == []

    played(play)


def test_a_pod_for_several_cards_is_bound_to_all_of_them() -> None:
    async def play() -> None:
        waiting = pod("p", 8, annotations={"gpushare.io/gpu-count": "2"})
        binds = Binds.over(told(node("a", 15, 3, 15), waiting))

        assert await binds.bind(waiting, "a") == ""

        assert binds.binder.sent[0].annotations[INDEX] == "0,2"
        assert free_units(binds.cluster, "a") == (11, 3, 11)

    played(play)


def test_b58_an_allocation_that_was_copied_with_the_pod_is_taken_off_and_not_believed() -> None:
    async def play() -> None:
        copied = {ALLOCATION: '{"main":{"GPU-00000000-0000-0000-0000-000000000000":8}}'}
        waiting = pod("p", 8, annotations=copied)
        binds = Binds.over(told(node("a", 15), waiting))

        await binds.bind(waiting, "a")

        assert binds.binder.sent[0].annotations[ALLOCATION] == "{}"
        assert free_units(binds.cluster, "a") == (7,)

    played(play)


def test_nothing_is_sent_while_the_fence_is_closed() -> None:
    async def play() -> None:
        waiting = pod("p", 8)
        binds = Binds.over(told(node("a", 15), waiting))
        binds.closed.append("the lease ends too soon")

        assert await binds.bind(waiting, "a") == "the lease ends too soon"

        assert not binds.binder.sent
        assert free_units(binds.cluster, "a") == (15,)
        assert binds.outcomes == [BindOutcome.HELD_BACK]

    played(play)


def test_each_bind_is_one_line_of_the_log() -> None:
    events = EventLog()
    logger = logging.getLogger("gpushare_plugin.extender.binding")
    level = logger.level
    logger.addHandler(events)
    logger.setLevel(logging.INFO)

    async def play() -> None:
        waiting, late = pod("p", 8), pod("q", 8)
        binds = Binds.over(told(node("gpu-a", 15), waiting, late))
        await binds.bind(waiting, "gpu-a")
        await binds.bind(late, "gpu-a")

    try:
        played(play)
    finally:
        logger.removeHandler(events)
        logger.setLevel(level)

    (first,), (second,) = events.of("bound"), events.of("not_bound")
    assert first == {
        "pod": "default/p",
        "uid": "uid-p",
        "node": "gpu-a",
        "outcome": "bound",
        "seconds": first["seconds"],
        "level": "INFO",
    }
    assert second["outcome"] == "no_room"
    assert second["error"] == "no card of gpu-a has 8 GiB free any more: largest has 7"
    assert second["level"] == "WARNING"
