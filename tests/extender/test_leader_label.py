"""The label by which the Service finds who leads, whatever others do to it; in virtual time."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from gpushare_plugin.core.pods import Pod
from gpushare_plugin.errors import ApiNotFound, ApiUnavailable
from gpushare_plugin.extender.leader_label import LABEL, LeaderLabel
from gpushare_plugin.ports.cluster import StatusPatch
from tests.histories.virtual_time import run
from tests.node.event_log import EventLog


@dataclass
class Pods:
    """The pods of our namespace, and which carry the label."""

    labelled: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    away: bool = False
    calls: int = 0
    on_list: Callable[[], None] = lambda: None

    async def get_pod(self, namespace: str, name: str, *, timeout_seconds: float) -> Pod:
        self._called(timeout_seconds)
        return _pod(namespace, name)

    async def list_namespace_pods(
        self, namespace: str, *, label_selector: str, timeout_seconds: float
    ) -> tuple[Pod, ...]:
        self._called(timeout_seconds)
        assert label_selector == LABEL
        self.on_list()
        return tuple(_pod(namespace, name) for name in sorted(self.labelled))

    async def touch_pod(
        self, namespace: str, name: str, patch: StatusPatch, *, timeout_seconds: float
    ) -> Pod:
        self._called(timeout_seconds)
        assert patch.uid == f"uid-{name}"
        if name in self.gone:
            self.labelled.discard(name)
            raise ApiNotFound(f"patch pods/status {name}: there is none")
        if patch.labels == {LABEL: "true"}:
            self.labelled.add(name)
        elif patch.labels == {LABEL: None}:
            self.labelled.discard(name)
        return _pod(namespace, name)

    def _called(self, timeout_seconds: float) -> None:
        assert timeout_seconds > 0
        self.calls += 1
        if self.away:
            raise ApiUnavailable("pods: no answer")


def _pod(namespace: str, name: str) -> Pod:
    return Pod(namespace=namespace, name=name, uid=f"uid-{name}", containers=())


class Scene:
    """Our pod `a` among others."""

    def __init__(self, *labelled: str, leads: bool) -> None:
        self.pods = Pods(labelled=set(labelled))
        self.leads = leads
        label = LeaderLabel(
            self.pods,
            namespace="kube-system",
            pod_name="a",
            leads=lambda: self.leads,
            clock=asyncio.get_running_loop().time,
        )
        self.task = asyncio.create_task(label.run())

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def test_who_leads_has_it_alone_also_beside_a_pod_that_is_gone() -> None:
    async def main() -> None:
        scene = Scene("b", "dead", leads=True)
        scene.pods.gone.add("dead")
        await asyncio.sleep(1.0)
        assert scene.pods.labelled == {"a"}
        await scene.stop()
        assert scene.pods.labelled == set()

    run(main())


def test_who_does_not_lead_takes_off_its_own_alone_and_asks_no_more() -> None:
    async def main() -> None:
        scene = Scene("a", "b", leads=False)
        await asyncio.sleep(1.0)
        assert scene.pods.labelled == {"b"}
        calls = scene.pods.calls
        await asyncio.sleep(300.0)
        assert scene.pods.calls == calls
        await scene.stop()

    run(main())


def test_who_leads_no_more_takes_it_off_within_a_second() -> None:
    async def main() -> None:
        scene = Scene(leads=True)
        await asyncio.sleep(1.0)
        scene.leads = False
        await asyncio.sleep(1.0)
        assert scene.pods.labelled == set()
        await scene.stop()

    run(main())


def test_what_a_late_request_puts_back_goes_again() -> None:
    async def main() -> None:
        scene = Scene(leads=True)
        await asyncio.sleep(1.0)
        scene.pods.labelled = {"b"}
        await asyncio.sleep(11.0)
        assert scene.pods.labelled == {"a"}
        await scene.stop()

    run(main())


def test_with_the_api_server_away_it_is_told_once_and_done_later(log: EventLog) -> None:
    async def main() -> None:
        scene = Scene("b", leads=True)
        scene.pods.away = True
        await asyncio.sleep(60.0)
        scene.pods.away = False
        await asyncio.sleep(1.0)
        assert scene.pods.labelled == {"a"}
        await scene.stop()

    run(main())
    assert len(log.of("leader_label_failing")) == 1


def test_who_loses_the_lead_meanwhile_leaves_the_label_of_the_next_one_alone() -> None:
    async def main() -> None:
        scene = Scene("b", leads=True)

        def lost() -> None:
            scene.leads = False

        scene.pods.on_list = lost
        await asyncio.sleep(5.0)
        assert scene.pods.labelled == {"b"}
        await scene.stop()

    run(main())
