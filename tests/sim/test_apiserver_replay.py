"""A list and the events after it, replayed over random histories."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies

from gpushare_plugin.sim.apiserver.kinds import POD
from gpushare_plugin.sim.apiserver.selectors import selection
from gpushare_plugin.sim.apiserver.store import HistoryGone, Store
from gpushare_plugin.sim.apiserver.watch_events import event_of

STEPS = strategies.lists(
    strategies.tuples(
        strategies.sampled_from(["put", "remove", "other"]),
        strategies.sampled_from("ab"),
        strategies.sampled_from(["Pending", "Running"]),
        strategies.sampled_from(["n", "m", ""]),
    ),
    max_size=12,
)


def play(store: Store, steps: Any) -> None:
    for what, name, phase, where in steps:
        found = store.find(POD, "default", name)
        metadata = {"name": name, "namespace": "default", "uid": name}
        if what == "remove" and found is not None:
            store.remove(found)
        elif what == "put":
            value = {"metadata": metadata, "spec": {"nodeName": where}, "status": {"phase": phase}}
            store.put(POD, value)


@given(before=STEPS, after=STEPS)
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_a_list_and_the_events_after_it_make_the_list_of_now(before: Any, after: Any) -> None:
    store = Store(history_changes=100, managed_fields_bytes=0)
    selected = selection(POD, "", {"fieldSelector": "spec.nodeName=n,status.phase!=Pending"})
    play(store, before)
    version = store.version
    known = {o.name: o.body for o in store.all(POD) if selected.matches(o)}
    play(store, after)
    for change in store.changes_after(version):
        event = event_of(change, selected)
        if event is None:
            continue
        assert (event.type == "ADDED") is (event.stored.name not in known)
        if event.type == "DELETED":
            del known[event.stored.name]
        else:
            known[event.stored.name] = event.stored.body

    assert known == {o.name: o.body for o in store.all(POD) if selected.matches(o)}


@pytest.mark.parametrize("changes", range(9))
def test_the_history_has_every_change_after_the_oldest_version(changes: int) -> None:
    store = Store(history_changes=3, managed_fields_bytes=0)
    play(store, [("put", "a", "Running", "n")] * changes)

    assert store.version == changes + 1
    assert store.oldest == max(1, store.version - 3)
    for version in range(store.oldest, store.version + 1):
        found = [change.after.version for change in store.changes_after(version)]
        assert found == list(range(version + 1, store.version + 1))
    with pytest.raises(HistoryGone):
        store.changes_after(store.oldest - 1)
