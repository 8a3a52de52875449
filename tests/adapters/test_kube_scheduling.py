"""What the extender asks: a binding in every outcome, touched pods."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from gpushare_plugin.adapters.kube.credentials import Fixed
from gpushare_plugin.adapters.kube.scheduling_client import SchedulingClient
from gpushare_plugin.errors import (
    ApiConflict,
    ApiError,
    ApiNotFound,
    ApiRefused,
    ApiThrottled,
    ApiUnavailable,
)
from gpushare_plugin.ports.cluster import StatusPatch
from gpushare_plugin.ports.scheduling import Binding
from gpushare_plugin.sim.apiserver import (
    Access,
    AdmissionRequest,
    Denial,
    Fault,
    FaultKind,
    Rule,
    SimApiServer,
    User,
)
from tests.adapters.kube_servers import MEMORY, scheduling_client_of, scripted, stream

SOON = 5.0
CHOICE = {"ALIYUN_COM_GPU_MEM_IDX": "1", "gpushare.io/extender": "1"}


def pod(name: str = "a", *, units: int = 2, **spec: Any) -> dict[str, Any]:
    limits = {MEMORY: str(units)} if units else {}
    container = {"name": "c", "image": "i", "resources": {"limits": limits, "requests": limits}}
    return {
        "metadata": {"name": name, "namespace": "team", "annotations": {"kept": "yes"}},
        "spec": {"containers": [container], **spec},
    }


@dataclass(frozen=True)
class Peers:
    """A server with one pod that waits, and the extender's client."""

    server: SimApiServer
    client: SchedulingClient
    uid: str

    @property
    def pod(self) -> dict[str, Any]:
        return self.server.get("pods", "a", namespace="team")

    @property
    def node_name(self) -> str:
        return str(self.pod["spec"].get("nodeName", ""))

    async def bind(self, *, uid: str = "", name: str = "a", timeout_seconds: float = SOON) -> None:
        binding = Binding(
            namespace="team",
            name=name,
            uid=uid or self.uid,
            node_name="node-1",
            annotations=CHOICE,
        )
        await self.client.bind(binding, timeout_seconds=timeout_seconds)


@asynccontextmanager
async def peers(*, bearer: str = "", **spec: Any) -> AsyncIterator[Peers]:
    async with SimApiServer() as server:
        made = await server.create("pods", pod(**spec))
        async with scheduling_client_of(Fixed(server.address, token=bearer)) as (client, _):
            yield Peers(server=server, client=client, uid=made["metadata"]["uid"])


# ---------------------------------------------------------------------------- binding


async def test_a_pod_is_bound_with_its_annotations_by_one_request() -> None:
    async with peers() as at:
        await at.bind()

        assert at.node_name == "node-1"
        assert at.pod["metadata"]["annotations"] == {"kept": "yes", **CHOICE}
        assert [call.method for call in at.server.calls()] == ["POST"]


async def test_a_pod_that_is_bound_already_is_a_conflict_that_names_its_node() -> None:
    async with peers(nodeName="node-2") as at:
        with pytest.raises(
            ApiConflict,
            match=r'^create pods/binding team/a: .*409 .*already assigned to node "node-2"',
        ):
            await at.bind()

        assert at.pod["metadata"]["annotations"] == {"kept": "yes"}


async def test_another_pod_of_that_name_is_not_bound() -> None:
    async with peers() as at:
        with pytest.raises(ApiConflict, match=r"409 .*Precondition failed: UID"):
            await at.bind(uid="of-the-one-before")

        assert at.node_name == ""


async def test_a_policy_that_denies_is_a_conflict_and_nothing_is_done() -> None:
    class NoBindings:
        def denial(self, request: AdmissionRequest) -> Denial | None:
            if request.target.resource != "pods/binding":
                return None
            return Denial(policy="closed", binding="closed-all", message="not today")

    async with peers() as at:
        at.server.set_policies([NoBindings()])
        with pytest.raises(ApiConflict, match=r"422 .*denied request: not today"):
            await at.bind()

        assert at.node_name == ""


async def test_rights_that_are_missing_are_named() -> None:
    scheduler = User(name="system:serviceaccount:kube-system:scheduler")
    rule = Rule(verbs=("get",), resources=("pods",))
    async with peers(bearer="ours") as at:
        access = Access(tokens={"ours": scheduler}, rules={scheduler.name: (rule,)})
        await at.server.set_access(access)
        with pytest.raises(ApiRefused, match="must grant create on pods/binding"):
            await at.bind()

        assert at.node_name == ""


async def test_credentials_that_are_refused_are_told() -> None:
    async with peers(bearer="stale") as at:
        await at.server.set_access(Access(tokens={}, rules={}))
        with pytest.raises(ApiRefused, match=r"^create pods/binding team/a: .*401"):
            await at.bind()

        assert at.node_name == ""


async def test_a_pod_that_is_gone_is_not_found() -> None:
    async with peers() as at:
        with pytest.raises(ApiNotFound, match='pods "b" not found'):
            await at.bind(name="b")


@pytest.mark.parametrize(("status", "definite"), [(400, True), (500, False), (504, False)])
async def test_only_an_answer_that_leaves_the_outcome_open_is_unavailable(
    status: int, *, definite: bool
) -> None:
    async with peers() as at:
        await at.server.inject(Fault(kind=FaultKind.STATUS, status=status))
        with pytest.raises(ApiError) as raised:
            await at.bind()

        assert isinstance(raised.value, ApiUnavailable) is not definite


@pytest.mark.parametrize(("status", "begun"), [(429, False), (503, True)])
async def test_a_throttled_binding_says_when_to_come_again_and_whether_it_was_begun(
    status: int, *, begun: bool
) -> None:
    async with peers() as at:
        fault = Fault(kind=FaultKind.STATUS, status=status, retry_after_seconds=3)
        await at.server.inject(fault)
        with pytest.raises(ApiThrottled) as raised:
            await at.bind()

        assert raised.value.retry_after_seconds == 3
        assert raised.value.begun is begun
        assert at.node_name == ""


async def test_a_binding_that_is_not_answered_ends_in_its_own_time() -> None:
    async with peers() as at:
        await at.server.inject(Fault(kind=FaultKind.HANG, resource="pods/binding"))
        with pytest.raises(ApiUnavailable, match=r"nothing came from .* for 0\.05 s"):
            await at.bind(timeout_seconds=0.05)

        found = await at.client.get_pod("team", "a", timeout_seconds=SOON)
        assert (found.uid, found.node_name) == (at.uid, "")


async def test_a_binding_whose_answer_is_lost_is_unknown_and_found_by_a_look() -> None:
    async with peers() as at:
        await at.server.inject(Fault(kind=FaultKind.LOSE_ANSWER, resource="pods/binding"))
        with pytest.raises(ApiUnavailable, match=r"the connection to .* broke"):
            await at.bind()

        found = await at.client.get_pod("team", "a", timeout_seconds=SOON)
        assert (found.node_name, found.annotations) == ("node-1", {"kept": "yes", **CHOICE})
        assert len(await at.server.called("create pods/binding")) == 1


async def test_a_binding_may_be_carried_out_after_its_client_has_given_up() -> None:
    async with peers() as at:
        late = Fault(kind=FaultKind.APPLY_LATE, resource="pods/binding", seconds=0.3)
        await at.server.inject(late)
        with pytest.raises(ApiUnavailable):
            await at.bind(timeout_seconds=0.05)
        early = await at.client.get_pod("team", "a", timeout_seconds=SOON)
        await at.server.until(lambda: at.node_name != "", failure=lambda: "it never came")

        assert early.node_name == ""
        assert at.node_name == "node-1"


async def test_a_server_that_is_away_is_unavailable() -> None:
    async with peers() as at:
        await at.server.go_away()
        with pytest.raises(ApiUnavailable, match="no connection to"):
            await at.bind()


async def test_a_yes_that_breaks_off_is_unknown() -> None:
    cut = b"HTTP/1.1 201 Created\r\nContent-Length: 90\r\n\r\n{"
    async with scripted(cut) as api, scheduling_client_of(api.address) as (client, _):
        binding = Binding(namespace="team", name="a", uid="u", node_name="node-1")
        with pytest.raises(ApiUnavailable):
            await client.bind(binding, timeout_seconds=SOON)

        assert len(api.requests) == 1


async def test_a_look_at_a_pod_is_a_quorum_read_with_its_own_time() -> None:
    async with peers() as at:
        await at.client.get_pod("team", "a", timeout_seconds=SOON)
        (call,) = await at.server.called("get pods")
        await at.server.inject(Fault(kind=FaultKind.HANG))
        with pytest.raises(ApiUnavailable, match=r"for 0\.05 s"):
            await at.client.get_pod("team", "a", timeout_seconds=0.05)

        assert call.query == {}


async def test_a_garbled_pod_is_unavailable() -> None:
    async with (
        scripted(stream(b'{"metadata":')) as api,
        scheduling_client_of(api.address) as (client, _),
    ):
        with pytest.raises(ApiUnavailable, match="the answer is garbled"):
            await client.get_pod("team", "a", timeout_seconds=SOON)


# ------------------------------------------------------------------------ pods by label


async def test_pods_of_a_label_are_found_though_they_ask_for_nothing() -> None:
    async with peers() as at:
        leading = pod("extender-0", units=0)
        leading["metadata"]["labels"] = {"gpushare.io/leader": "true"}
        await at.server.create("pods", leading)
        elsewhere = {**leading, "metadata": {**leading["metadata"], "namespace": "other"}}
        await at.server.create("pods", elsewhere)

        found = await at.client.list_namespace_pods(
            "team", label_selector="gpushare.io/leader=true", timeout_seconds=SOON
        )

        assert [str(each) for each in found] == ["team/extender-0"]


async def test_a_label_is_put_on_and_taken_off_through_the_status() -> None:
    async with peers() as at:
        on = StatusPatch(
            uid=at.uid, labels={"gpushare.io/leader": "true"}, annotations={"gpushare.io/x": "1"}
        )
        touched = await at.client.touch_pod("team", "a", on, timeout_seconds=SOON)
        metadata = at.pod["metadata"]
        off = StatusPatch(uid=at.uid, labels={"gpushare.io/leader": None})
        await at.client.touch_pod("team", "a", off, timeout_seconds=SOON)

        assert metadata["labels"] == {"gpushare.io/leader": "true"}
        assert touched.annotations == {"kept": "yes", "gpushare.io/x": "1"}
        assert "labels" not in at.pod["metadata"]
        calls = await at.server.called("patch pods/status", count=2)
        assert {call.path for call in calls} == {"/api/v1/namespaces/team/pods/a/status"}


async def test_another_pod_of_that_name_is_not_touched() -> None:
    async with peers() as at:
        patch = StatusPatch(uid="of-the-one-before", labels={"gpushare.io/leader": "true"})
        with pytest.raises(ApiConflict):
            await at.client.touch_pod("team", "a", patch, timeout_seconds=SOON)
