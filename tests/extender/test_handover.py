"""The sidecar way: who is asked after a pause looks who was asked meanwhile; in virtual time."""

import asyncio
from dataclasses import dataclass, field

from gpushare_plugin.errors import ApiUnavailable
from gpushare_plugin.extender.handover import Handover
from gpushare_plugin.ports.scheduling import Lease
from tests.extender.leases import LeaseClient, Leases
from tests.histories.virtual_time import run
from tests.node.event_log import EventLog

LEASE = ("kube-system", "gpushare-scheduler")


@dataclass
class Sidecar:
    """An extender beside a kube-scheduler, and the Lease of both kube-schedulers."""

    lease: tuple[str, str] | None = LEASE
    lists: int = 0
    list_seconds: float = 0.0
    lists_fail: bool = False
    handovers: int = 0
    server: Leases = field(default_factory=Leases)

    def __post_init__(self) -> None:
        self.client = LeaseClient(self.server)
        self.led_by("a", transitions=3)
        self.handover = Handover(
            self.client,
            self.lease,
            clock=asyncio.get_running_loop().time,
            relist=self._relist,
            changed=self._changed,
        )

    def led_by(self, holder: str, *, transitions: int) -> None:
        self.server.put(
            Lease(
                namespace=LEASE[0],
                name=LEASE[1],
                holder=holder,
                duration_seconds=15,
                acquire_time="then",
                renew_time="now",
                transitions=transitions,
            )
        )

    async def asked(self, *, writing: bool = False) -> str | None:
        return await self.handover.refusal(writing=writing)

    async def _relist(self, seconds: float) -> None:
        assert seconds >= 30.0
        await asyncio.sleep(self.list_seconds)
        if self.lists_fail:
            raise ApiUnavailable("list pods: nobody answers")
        self.lists += 1

    def _changed(self) -> None:
        self.handovers += 1


def test_at_the_first_call_the_pods_are_listed_before_the_answer() -> None:
    async def main() -> None:
        sidecar = Sidecar()
        assert sidecar.handover.leads
        assert await sidecar.asked() is None
        assert (sidecar.lists, sidecar.handovers) == (1, 1)

    run(main())


def test_calls_without_a_pause_look_at_nothing() -> None:
    async def main() -> None:
        sidecar = Sidecar()
        await sidecar.asked()
        sidecar.client.away = True
        for _ in range(20):
            await asyncio.sleep(9.9)
            assert await sidecar.asked() is None
        assert sidecar.lists == 1

    run(main())


def test_after_a_pause_under_the_same_leader_nothing_is_listed() -> None:
    async def main() -> None:
        sidecar = Sidecar()
        await sidecar.asked()
        sidecar.server.put(sidecar.server.stored[LEASE])
        await asyncio.sleep(300.0)
        assert await sidecar.asked() is None
        assert sidecar.lists == 1

    run(main())


def test_after_another_led_the_pods_are_listed_also_if_the_first_leads_again() -> None:
    async def main() -> None:
        sidecar = Sidecar()
        await sidecar.asked()
        sidecar.led_by("a", transitions=5)
        await asyncio.sleep(10.0)
        assert await sidecar.asked() is None
        assert (sidecar.lists, sidecar.handovers) == (2, 2)

    run(main())


def test_while_a_long_list_is_made_calls_are_told_so_and_it_is_made_once() -> None:
    async def main() -> None:
        sidecar = Sidecar(list_seconds=12.0)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        assert "listing pods anew" in (await sidecar.asked() or "")
        assert loop.time() - begun <= 2.1
        binding = loop.time()
        assert "listing pods anew" in (await sidecar.asked(writing=True) or "")
        assert loop.time() - binding <= 0.4
        await asyncio.sleep(10.0)
        assert await sidecar.asked(writing=True) is None
        assert sidecar.lists == 1

    run(main())


def test_a_scheduler_that_hangs_up_does_not_end_the_list() -> None:
    async def main() -> None:
        sidecar = Sidecar(list_seconds=5.0)
        call = asyncio.create_task(sidecar.asked())
        await asyncio.sleep(1.0)
        call.cancel()
        await asyncio.sleep(5.0)
        assert await sidecar.asked() is None
        assert sidecar.lists == 1

    run(main())


def test_without_the_api_server_the_answer_says_so_and_the_next_call_looks_again(
    log: EventLog,
) -> None:
    async def main() -> None:
        sidecar = Sidecar()
        await sidecar.asked()
        await asyncio.sleep(60.0)
        sidecar.client.away = True
        assert "leases: no answer" in (await sidecar.asked() or "")
        sidecar.client.away = False
        assert await sidecar.asked() is None

    run(main())
    assert log.of("catch_up_failing")


def test_a_list_that_failed_is_made_again_at_the_next_call() -> None:
    async def main() -> None:
        sidecar = Sidecar(lists_fail=True)
        assert "list pods: nobody answers" in (await sidecar.asked() or "")
        assert "list pods: nobody answers" in (await sidecar.asked() or "")
        sidecar.lists_fail = False
        assert await sidecar.asked() is None
        assert sidecar.lists == 1

    run(main())


def test_without_a_lease_to_look_at_each_pause_counts_as_a_change() -> None:
    async def main() -> None:
        sidecar = Sidecar(lease=None)
        sidecar.client.away = True
        await sidecar.asked()
        await asyncio.sleep(10.0)
        await sidecar.asked()
        assert sidecar.lists == 2
        assert await sidecar.handover.is_active()

    run(main())


def test_it_is_active_while_the_scheduler_that_asked_it_leads() -> None:
    async def main() -> None:
        sidecar = Sidecar()
        assert not await sidecar.handover.is_active()
        await sidecar.asked()
        assert await sidecar.handover.is_active()
        sidecar.client.away = True
        assert not await sidecar.handover.is_active()
        sidecar.client.away = False
        sidecar.led_by("b", transitions=4)
        assert not await sidecar.handover.is_active()

    run(main())
