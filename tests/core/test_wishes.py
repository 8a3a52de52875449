"""Which pods wait for devices, as far as their specs tell."""

from dataclasses import replace

import pytest

from gpushare_plugin.core.association import PodName
from gpushare_plugin.core.pods import Phase, Pod
from gpushare_plugin.core.wishes import Specs
from tests.core.pods import RESOURCE, listing, pod

NAME = PodName(namespace="default", name="a")


@pytest.mark.parametrize(
    ("spec", "held", "waits"),
    [
        pytest.param(pod(1), {"c0": ()}, True, id="lacks"),
        pytest.param(pod(1), {"c0": ("x-0",)}, False, id="has"),
        pytest.param(pod(1, 1), {"c0": ("x-0",), "c1": ()}, True, id="half served"),
        pytest.param(pod(1, 0), {"c0": ("x-0",), "c1": ()}, False, id="the other never asks"),
        pytest.param(pod(0), {"c0": ()}, False, id="never asks"),
        pytest.param(pod(1, sidecar=(1,)), {"c0": ("x-0",)}, True, id="sidecar lacks"),
        pytest.param(pod(1, init=(2,)), {"c0": ("x-0",)}, False, id="init is never listed"),
        pytest.param(pod(0, init=(2,)), {"c0": ()}, None, id="init alone asks"),
        pytest.param(pod(0, init=(2,), phase=Phase.RUNNING), {"c0": ()}, False, id="init is past"),
        pytest.param(pod(1, phase=Phase.RUNNING), {"c0": ()}, None, id="runs: another's spec"),
        pytest.param(pod(1, terminating=True), {"c0": ()}, None, id="ends: another's spec"),
        pytest.param(pod(1, phase=Phase.RUNNING), {"c0": ("x-0",)}, False, id="runs, has"),
        pytest.param(pod(1, phase=Phase.FAILED), {"c0": ()}, None, id="refused"),
        pytest.param(replace(pod(1), node_name=""), {"c0": ()}, None, id="not bound"),
        pytest.param(replace(pod(1), name="b"), {"c0": ()}, None, id="unknown"),
    ],
)
def test_a_pod_waits_while_a_container_that_stays_lacks_what_it_asks_for(
    spec: Pod, held: dict[str, tuple[str, ...]], *, waits: bool | None
) -> None:
    [found] = Specs.of([spec]).with_waits([listing("a", **held)], RESOURCE)

    assert found.waits is waits


@pytest.mark.parametrize(
    ("spec", "awaits"),
    [
        (pod(1), True),
        (pod(1, terminating=True), False),
        (pod(1, phase=Phase.RUNNING), False),
        (pod(1, phase=Phase.FAILED), False),
        (replace(pod(1), name="b"), False),
    ],
)
def test_only_a_pending_pod_that_is_not_ending_can_be_under_admission(
    spec: Pod, *, awaits: bool
) -> None:
    assert Specs.of([spec]).awaits_admission(NAME, RESOURCE) is awaits


@pytest.mark.parametrize(
    ("spec", "served", "ends"),
    [
        pytest.param(pod(1, terminating=True), (), True, id="deleted before its admission"),
        pytest.param(pod(1), (), False, id="stays"),
        pytest.param(pod(1, terminating=True), ("uid-a",), False, id="was served"),
        pytest.param(pod(1, phase=Phase.RUNNING, terminating=True), (), False, id="ran"),
        pytest.param(replace(pod(1, terminating=True), name="b"), (), False, id="unknown"),
    ],
)
def test_a_pod_that_is_to_end_may_be_under_admission_until_it_was_served(
    spec: Pod, served: tuple[str, ...], *, ends: bool
) -> None:
    specs = Specs.of([replace(spec, uid="uid-a")], served={RESOURCE: served})

    assert specs.ends_unserved(NAME, RESOURCE) is ends
    assert not ends or not specs.awaits_admission(NAME, RESOURCE)


def test_of_two_pods_of_a_name_the_later_is_meant() -> None:
    new = replace(pod(2), uid="uid-new")

    assert Specs.of([pod(1), new]).by_name == {NAME: new}


def test_a_pod_that_was_given_all_that_it_asks_for_is_past_its_admission() -> None:
    specs = Specs.of([pod(1)], served={RESOURCE: {"uid-a"}})

    [found] = specs.with_waits([listing(c0=())], RESOURCE)

    assert not specs.awaits_admission(NAME, RESOURCE)
    # Of the other resource it may lack something still.
    assert specs.awaits_admission(NAME, "example.com/other")
    # Another pod of the name, whose spec has not come.
    assert found.waits is None


def test_a_listed_pod_that_holds_what_another_was_given_does_not_wait() -> None:
    specs = Specs.of([pod(1, 1)], owners={"x-0": "uid-before"})
    old, new = listing(c0=("x-0",), c1=()), listing(c0=(), c1=())

    assert [each.waits for each in specs.with_waits([old, new], RESOURCE)] == [False, True]
