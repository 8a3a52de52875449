"""Kubernetes events: one store, seen through two APIs."""

from tests.sim.apiserver_peers import running

EVENTS = "/api/v1/namespaces/default/events"
NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


async def test_an_event_of_one_api_is_seen_through_the_other() -> None:
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Node", "name": "n"},
        "reason": "GpuUnhealthy",
        "message": "XID 79",
        "type": "Warning",
        "reportingComponent": "raw",
    }
    async with running() as api:
        made = await api.post(EVENTS, event)
        seen = (await api.get(f"{NEW_EVENTS}/e")).json
        (listed,) = (await api.get(NEW_EVENTS, fieldSelector="regarding.name=n")).json["items"]

        assert made.status == 201
        assert seen["apiVersion"] == "events.k8s.io/v1"
        assert (seen["regarding"], seen["note"]) == (event["involvedObject"], "XID 79")
        assert seen["reportingController"] == "raw"
        assert listed == {key: seen[key] for key in seen.keys() - {"kind", "apiVersion"}}


async def test_an_event_of_the_new_api_is_kept_under_the_old_names() -> None:
    event = {
        "metadata": {"name": "e"},
        "regarding": {"kind": "Node", "name": "n"},
        "reason": "GpuUnhealthy",
        "note": "XID 79",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "raw",
        "reportingInstance": "raw-1",
        "action": "Probe",
    }
    async with running() as api:
        made = await api.post(NEW_EVENTS, event)
        patched = await api.patch(f"{NEW_EVENTS}/e", {"note": "XID 80"})

        assert (made.status, patched.status) == (201, 200)
        kept = api.server.get("events", "e")
        assert (kept["apiVersion"], kept["message"]) == ("v1", "XID 80")
        assert kept["involvedObject"] == event["regarding"]


async def test_an_event_lies_in_the_namespace_of_what_it_is_about() -> None:
    about = {"involvedObject": {"kind": "Pod", "name": "a", "namespace": "kube-system"}}
    async with running() as api:
        reply = await api.post(EVENTS, {"metadata": {"name": "e"}, **about})

        assert reply.refusal[:2] == (422, "Invalid")
        assert "does not match event.namespace" in reply.refusal[2]


async def test_an_event_of_the_new_api_must_be_complete() -> None:
    async with running() as api:
        reply = await api.post(NEW_EVENTS, {"metadata": {"name": "e"}})

        assert reply.refusal[2] == 'Event "e" is invalid: eventTime: Required value'
