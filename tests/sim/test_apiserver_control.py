"""The control socket: the same verbs for other processes."""

import asyncio
import inspect
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gpushare_plugin.sim.apiserver import (
    Access,
    ApiServerControl,
    ControlServer,
    Fault,
    FaultKind,
    ObjectExistsError,
    Rule,
    SimApiServer,
    UnknownObjectError,
    User,
    WaitExpiredError,
)
from gpushare_plugin.sim.apiserver.control import VERBS
from gpushare_plugin.sim.json_values import decode, encode
from tests.sim.apiserver_peers import NODES, PODS, Api, node, pod, running

WHO = "t"
ONLY_IN_PROCESS = {"until", "until_object", "set_policies"}


@asynccontextmanager
async def controlled(folder: Path) -> AsyncIterator[tuple[Api, ApiServerControl]]:
    path = folder / "c.sock"
    async with running() as api, ControlServer(api.server, path):
        yield api, ApiServerControl(path)


def test_the_client_has_every_verb_with_the_parameters_of_the_server() -> None:
    for verb in VERBS:
        here = inspect.signature(getattr(ApiServerControl, verb))
        there = inspect.signature(getattr(SimApiServer, verb))

        assert here == there, verb


def test_every_public_method_of_the_server_that_needs_no_code_is_a_verb() -> None:
    methods = inspect.getmembers(SimApiServer, inspect.isfunction)
    public = {name for name, _ in methods if not name.startswith("_")}

    assert public - ONLY_IN_PROCESS == {*VERBS}


async def test_object_verbs_do_there_what_they_do_here(short_path: Path) -> None:
    async with controlled(short_path) as (api, control):
        made = await control.create("pods", pod("a"))
        await control.create_many("nodes", node("n-{n}"), 2, first=1)
        await control.replace("nodes", node("n-1") | {"spec": {"unschedulable": True}})
        labelled = await control.patch("nodes", "n-2", {"metadata": {"labels": {"a": "b"}}})
        running_pod = await control.set_pod_phase("a", "Running")
        told = await control.terminate_pod("a", grace_seconds=3)
        seen = await control.get("pods", "a")
        await control.finish_termination("a")
        await control.gone("pods", "a")
        await control.delete("nodes", "n-1")

        assert made["metadata"]["name"] == "a"
        assert running_pod["status"]["phase"] == "Running"
        assert told == seen
        assert await control.objects("nodes") == (labelled,)
        assert api.server.objects("nodes") == (labelled,)


async def test_the_other_verbs_do_there_what_they_do_here(short_path: Path) -> None:
    access = Access(
        tokens={"t": User(name="u", extra={"x": ("y",)})},
        rules={"u": (Rule(verbs=("list",), resources=("nodes",)),)},
    )
    fault = Fault(kind=FaultKind.STATUS, status=503, verbs=("list",), resource="pods", count=1)
    async with controlled(short_path) as (api, control):
        number = await control.inject(fault)
        seen = (await control.state()).faults
        await api.get(PODS)
        other = await control.inject(fault)
        await control.lift(other)
        await control.lift_all()
        version = (await control.state()).version
        await control.set_access(access)
        newer = await control.newer_state(version)
        denied = await api.get(NODES)
        await control.set_access(None)
        await control.compact()
        await control.go_away()
        away = api.server.state().away
        await control.come_back()

        assert (number, other) == (1, 2)
        assert seen == {"1": fault}
        assert newer.version > version
        assert denied.status == 403
        assert away
        assert await control.state() == api.server.state()
        assert await control.calls(after=1) == api.server.calls(after=1)
        assert await control.called("list pods") == await api.server.called("list pods")
        assert await control.kubeconfig(token=WHO) == api.server.kubeconfig(token=WHO)


async def test_watches_are_seen_silenced_and_cut_from_there(short_path: Path) -> None:
    async with controlled(short_path) as (api, control), api.watch(PODS) as stream:
        watches = (await control.watched("pods")).watches
        silenced = await control.silence_watches("pods")
        cut = await control.cut_watches(cleanly=True)

        assert [watch.resource for watch in watches] == ["pods"]
        assert (silenced, cut) == (1, 1)
        assert await stream.next() is None


async def test_an_error_there_is_the_same_error_here(short_path: Path) -> None:
    async with controlled(short_path) as (_, control):
        await control.create("nodes", node("n"))
        with pytest.raises(ObjectExistsError, match="nodes n exists"):
            await control.create("nodes", node("n"))
        with pytest.raises(UnknownObjectError, match="there is no pods a in default"):
            await control.get("pods", "a")
        with pytest.raises(WaitExpiredError, match="nodes n is still there"):
            await control.gone("nodes", "n", timeout_seconds=0.01)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("nonsense", "Expecting value"),
        ("[]", "expected an object with a verb of go_away"),
        ('{"verb": "__init__"}', "expected an object with a verb of go_away"),
        ('{"verb": "set_policies"}', "expected an object with a verb of go_away"),
        ('{"verb": "go_away", "now": true}', "go_away has no now"),
        ('{"verb": "get"}', "missing a required argument: 'resource'"),
        ('{"verb": "get", "resource": 1}', "resource: expected <class 'str'>, found 1"),
        ('{"verb": "inject", "fault": {"x": 1}}', "fault: no such fields in Fault: x"),
        ('{"verb": "inject", "fault": {}}', "missing 1 required keyword-only argument"),
        ('{"verb": "inject", "fault": {"kind": "x"}}', "'x' is not a valid FaultKind"),
    ],
)
async def test_a_request_that_makes_no_sense_is_answered_with_what_is_wrong(
    line: str, text: str, short_path: Path
) -> None:
    async with controlled(short_path):
        reader, writer = await asyncio.open_unix_connection(short_path / "c.sock")
        writer.write(line.encode() + b"\n")
        reply = json.loads(await reader.readline())
        writer.close()
        await writer.wait_closed()

    assert reply["error"].endswith("Error")
    assert text in reply["text"]


async def test_a_control_client_that_goes_away_harms_nobody(short_path: Path) -> None:
    async with controlled(short_path) as (_, control):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await control.newer_state(99_999)

        assert not (await control.state()).away


def test_values_come_back_equal() -> None:
    access = Access(
        tokens={"t": User(name="u", groups=("g",), extra={"x": ("y", "z")})},
        rules={"u": (Rule(verbs=("get",), resources=("pods",), namespaces=("n",)),)},
    )

    assert decode(Access, json.loads(json.dumps(encode(access)))) == access


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"seconds": "1"}, "value.seconds: expected <class 'float'>, found '1'"),
        ({"count": True}, "value.count: expected <class 'int'>, found True"),
        ({"verbs": [1]}, r"value.verbs\[0\]: expected <class 'str'>, found 1"),
        ({"verbs": "get"}, r"value.verbs: expected tuple\[str, ...\], found 'get'"),
    ],
)
def test_a_value_that_does_not_fit_names_where(changes: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        decode(Fault, {"kind": "slow", "seconds": 1} | changes)
