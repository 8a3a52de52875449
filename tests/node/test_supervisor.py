"""The loop around the plugin's lives: when it waits, for how long, and what it says."""

import asyncio
from collections.abc import Sequence

import pytest

from gpushare_plugin.errors import GpushareError, KubeletRefused, KubeletUnavailable
from gpushare_plugin.errors import PluginSocketError as NoSocket
from gpushare_plugin.metrics import NodeMetrics
from gpushare_plugin.node.registration import End
from gpushare_plugin.node.retrying import FIRST_SECONDS, JITTER, LONGEST_SECONDS, BackOff
from gpushare_plugin.node.supervisor import Supervisor
from gpushare_plugin.ports import SocketIdentity
from tests.node.event_log import EventLog

KUBELET = SocketIdentity(inode=1, changed_ns=1)


class StillFolder:
    """A folder in which nothing happens."""

    def identity(self, name: str) -> SocketIdentity | None:  # noqa: ARG002  # the seam's name
        return KUBELET

    async def changed(self, *, timeout_seconds: float) -> None:
        await asyncio.sleep(timeout_seconds)


class CountedWaits(BackOff):
    """A back-off whose waits take no time and are counted, from 1 after each reset."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[int] = []
        self._row = 0

    def reset(self) -> None:
        self._row = 0

    def next_seconds(self) -> float:
        self._row += 1
        self.waits.append(self._row)
        return 0.0


class Lives:
    """What becomes of each life, one after the other; the last one goes on for ever."""

    def __init__(self, ends: Sequence[End | GpushareError]) -> None:
        self._ends = list(ends)
        self.over = asyncio.Event()

    async def live_once(self) -> End:
        if not self._ends:
            self.over.set()
            await asyncio.Event().wait()
        end = self._ends.pop(0)
        if isinstance(end, GpushareError):
            raise end
        return end


async def _lived(ends: Sequence[End | GpushareError]) -> tuple[CountedWaits, Supervisor]:
    lives, waits = Lives(ends), CountedWaits()
    supervisor = Supervisor(
        lives.live_once, StillFolder(), NodeMetrics(), tick_seconds=1, back_off=waits
    )
    running = asyncio.create_task(supervisor.run(), name="the supervisor under test")
    try:
        async with asyncio.timeout(5):
            done, _ = await asyncio.wait(
                (running, asyncio.create_task(lives.over.wait(), name="wait for the last life")),
                return_when=asyncio.FIRST_COMPLETED,
            )
        for task in done:
            task.result()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return waits, supervisor


async def test_a_new_kubelet_is_tried_at_once() -> None:
    waits, _ = await _lived([End.KUBELET_RESTARTED] * 3)

    assert waits.waits == []


async def test_every_other_end_waits_and_a_new_kubelet_begins_anew() -> None:
    waits, _ = await _lived(
        [
            KubeletUnavailable("x"),
            End.STREAMS_ENDED,
            NoSocket("y"),
            End.KUBELET_RESTARTED,
            End.OWN_SOCKET_GONE,
        ]
    )

    assert waits.waits == [1, 2, 3, 1]


async def test_the_same_trouble_is_said_once_and_each_other_one_again(log: EventLog) -> None:
    await _lived([KubeletUnavailable(text) for text in ("a", "a", "a", "b", "a")])

    assert [line["error"] for line in log.of("not_registered")] == ["a", "b", "a"]


async def test_what_is_wrong_now_can_be_asked() -> None:
    _, supervisor = await _lived([KubeletUnavailable("a"), End.STREAMS_ENDED])

    assert supervisor.problem == "not registered since: streams_ended"


async def test_a_refusal_for_good_ends_the_loop() -> None:
    with pytest.raises(KubeletRefused, match="never"):
        await _lived([KubeletUnavailable("a"), KubeletRefused("never")])


def test_the_waits_double_up_to_the_longest_and_start_anew_after_a_reset() -> None:
    back_off = BackOff(lambda: 0.5)

    waits = [back_off.next_seconds() for _ in range(8)]
    back_off.reset()

    assert waits == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, LONGEST_SECONDS, LONGEST_SECONDS]
    assert back_off.next_seconds() == FIRST_SECONDS


@pytest.mark.parametrize(("draw", "factor"), [(0.0, 1 - JITTER), (1.0, 1 + JITTER)])
def test_each_wait_is_up_to_a_fifth_shorter_or_longer(draw: float, factor: float) -> None:
    back_off = BackOff(lambda: draw)

    assert back_off.next_seconds() == pytest.approx(FIRST_SECONDS * factor)
