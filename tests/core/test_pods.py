"""Whether a pod counts, and how much it asks for: one function each, for everyone."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare_plugin.core.pods import (
    Container,
    ContainerKind,
    Phase,
    Pod,
    counts,
    requested_units,
)

MEMORY, CORES = "aliyun.com/gpu-mem", "aliyun.com/gpu-core.percentage"
INIT, SIDECAR, MAIN = ContainerKind.INIT, ContainerKind.SIDECAR, ContainerKind.MAIN


def pod_of(
    *containers: tuple[ContainerKind, int],
    node_name: str = "node-1",
    phase: Phase = Phase.RUNNING,
    terminating: bool = False,
) -> Pod:
    return Pod(
        namespace="default",
        name="p",
        uid="u",
        containers=tuple(
            Container(name=f"c{number}", kind=kind, requests={MEMORY: units})
            for number, (kind, units) in enumerate(containers)
        ),
        node_name=node_name,
        phase=phase,
        terminating=terminating,
    )


@pytest.mark.parametrize(
    ("containers", "units"),
    [
        pytest.param([(INIT, 10), (INIT, 10), (INIT, 10), (MAIN, 4)], 10, id="inits-in-turn"),
        pytest.param([(SIDECAR, 4), (MAIN, 4)], 8, id="sidecar-stays"),
        pytest.param([(SIDECAR, 2), (INIT, 6), (MAIN, 3)], 8, id="sidecar-before-init"),
        pytest.param([(INIT, 6), (SIDECAR, 2), (MAIN, 3)], 6, id="sidecar-after-init"),
        pytest.param([(MAIN, 3), (MAIN, 4)], 7, id="mains-together"),
        pytest.param([(INIT, 6), (SIDECAR, 2)], 6, id="no-main"),
        pytest.param([(SIDECAR, 2), (SIDECAR, 3)], 5, id="sidecars-alone"),
        pytest.param([], 0, id="nothing"),
    ],
)
def test_b80_the_sum_is_the_most_that_runs_at_one_time(
    containers: list[tuple[ContainerKind, int]], units: int
) -> None:
    assert requested_units(pod_of(*containers), MEMORY) == units


init_containers = st.lists(
    st.tuples(st.sampled_from([INIT, SIDECAR]), st.integers(0, 4)), max_size=4
)
main_containers = st.lists(st.tuples(st.just(MAIN), st.integers(0, 4)), max_size=3)


@given(inits=init_containers, mains=main_containers)
def test_b80_the_sum_is_that_of_the_worst_moment_of_the_pods_life(
    inits: list[tuple[ContainerKind, int]], mains: list[tuple[ContainerKind, int]]
) -> None:
    # The life, step by step: what has begun and stays, and what runs in this step.
    staying = list(
        accumulate((units if kind is SIDECAR else 0 for kind, units in inits), initial=0)
    )
    steps = [before + units for before, (_, units) in zip(staying, inits, strict=False)]
    at_work = staying[-1] + sum(units for _, units in mains)

    assert requested_units(pod_of(*inits, *mains), MEMORY) == max([*steps, at_work])


@given(inits=init_containers, mains=main_containers)
def test_another_resource_is_asked_after_apart(
    inits: list[tuple[ContainerKind, int]], mains: list[tuple[ContainerKind, int]]
) -> None:
    assert requested_units(pod_of(*inits, *mains), CORES) == 0


@pytest.mark.parametrize(
    ("phase", "terminating", "holds"),
    [
        pytest.param(Phase.SUCCEEDED, False, False, id="completed"),
        pytest.param(Phase.FAILED, False, False, id="rejected-or-evicted"),
        pytest.param(Phase.FAILED, True, False, id="failed-and-terminating"),
        pytest.param(Phase.RUNNING, True, True, id="terminating"),
        pytest.param(Phase.PENDING, True, True, id="pending-and-terminating"),
        pytest.param(Phase.PENDING, False, True, id="pending-its-containers-ended"),
        pytest.param(Phase.RUNNING, False, True, id="crash-loop"),
        pytest.param(Phase.UNKNOWN, False, True, id="node-lost"),
    ],
)
def test_b73_a_pod_counts_until_it_has_ended(phase: Phase, terminating: bool, holds: bool) -> None:
    pod = pod_of((MAIN, 4), phase=phase, terminating=terminating)

    assert counts(pod) is holds


def test_a_pod_without_a_node_holds_nothing() -> None:
    assert not counts(pod_of((MAIN, 4), node_name="", phase=Phase.PENDING))


def test_a_pod_is_shown_by_namespace_and_name() -> None:
    assert str(pod_of()) == "default/p"
