"""Shared nodes, pods and rooms in the small, for the tests of the scheduler's side."""

from collections.abc import Iterable, Mapping, Sequence

from hypothesis import strategies as st

from gpushare_plugin.core.asks import Ask, ask_of
from gpushare_plugin.core.dialect import ALIYUN, Dialect
from gpushare_plugin.core.placement import Policy
from gpushare_plugin.core.pods import Container, ContainerKind, Phase, Pod
from gpushare_plugin.core.room import NodeRoom, room_of
from gpushare_plugin.core.seats import Seats
from gpushare_plugin.core.shared_node import SharedCard, SharedNode

INIT, SIDECAR, MAIN = ContainerKind.INIT, ContainerKind.SIDECAR, ContainerKind.MAIN
IDX = "ALIYUN_COM_GPU_MEM_IDX"


def uuid_of(index: int) -> str:
    return f"GPU-{index:08x}"


def node_of(  # noqa: PLR0913 - one fact of the cards each
    *units: int,
    name: str = "gpu-a",
    unhealthy: Iterable[int] = (),
    models: Sequence[str] = (),
    numa: Sequence[int | None] = (),
    links: Mapping[tuple[int, int], int] | None = None,
    unit_mib: int | None = 1024,
    problem: str = "",
) -> SharedNode:
    """A node with a card for each number of units."""
    bad = frozenset(unhealthy)
    return SharedNode(
        name=name,
        cards=tuple(
            SharedCard(
                index=index,
                uuid=uuid_of(index),
                model=models[index] if models else "Tesla T4",
                units=each,
                healthy=index not in bad,
                numa=numa[index] if numa else None,
            )
            for index, each in enumerate(units)
        ),
        links=links or {},
        unit_mib=unit_mib,
        problem=problem,
    )


def room_with(
    node: SharedNode, *used: int, cores: Sequence[int] = (), unknown: int = 0
) -> NodeRoom:
    """The node's room with so much used, card by card."""
    seats = Seats(units=dict(enumerate(used)), cores=dict(enumerate(cores)), unknown_units=unknown)
    return room_of(node, [seats])


def pod_of(
    *containers: tuple[ContainerKind, int] | tuple[ContainerKind, int, int],
    annotations: Mapping[str, str] | None = None,
    names: Dialect = ALIYUN,
    phase: Phase = Phase.RUNNING,
    terminating: bool = False,
    fault: str = "",
) -> Pod:
    """The pod `default/p` with containers c0, c1, … of a kind, units, and perhaps cores."""
    return Pod(
        namespace="default",
        name="p",
        uid="uid-p",
        node_name="gpu-a",
        containers=tuple(
            Container(
                name=f"c{number}",
                kind=each[0],
                requests={
                    resource: amount
                    for resource, amount in zip(
                        (names.memory_resource, names.core_resource), each[1:], strict=False
                    )
                    if amount
                },
            )
            for number, each in enumerate(containers)
        ),
        annotations=annotations or {},
        phase=phase,
        terminating=terminating,
        fault=fault,
    )


def ask_for(
    units: int,
    *,
    cores: int = 0,
    policy: Policy = Policy.BINPACK,
    **wishes: str,
) -> Ask:
    """What a pod of one container asks for; wishes by their annotations' last word."""
    keys = {f"gpushare.io/{key.replace('_', '-')}": text for key, text in wishes.items()}
    return ask_of(pod_of((MAIN, units, cores), annotations=keys), ALIYUN, policy)


MOST_UNITS = 8


@st.composite
def nodes(draw: st.DrawFn, *, least_cards: int = 1, name: str = "gpu-a") -> SharedNode:
    """Nodes of small cards, some of them unhealthy, some linked, on two NUMA nodes or unknown."""
    count = draw(st.integers(least_cards, 4))
    pairs = [(low, high) for low in range(count) for high in range(low + 1, count)]
    return node_of(
        *draw(st.lists(st.integers(0, MOST_UNITS), min_size=count, max_size=count)),
        name=name,
        unhealthy=draw(st.sets(st.integers(0, count - 1), max_size=1)),
        numa=draw(st.lists(st.sampled_from((None, 0, 1)), min_size=count, max_size=count)),
        models=draw(
            st.lists(st.sampled_from(("Tesla T4", "A100")), min_size=count, max_size=count)
        ),
        links=draw(st.dictionaries(st.sampled_from(pairs), st.sampled_from((2, 4))))
        if pairs
        else None,
    )


@st.composite
def seats(draw: st.DrawFn, *, cards: int = 4) -> Seats:
    """What one pod may hold: on a card or two, or of an unknown card."""
    indices = st.integers(0, cards - 1)
    return Seats(
        units=draw(st.dictionaries(indices, st.integers(1, 4), max_size=2)),
        cores=draw(st.dictionaries(indices, st.integers(1, 60), max_size=1)),
        unknown_units=draw(st.sampled_from((0, 0, 0, 2))),
        unknown_cores=draw(st.sampled_from((0, 0, 0, 20))),
    )


@st.composite
def rooms(draw: st.DrawFn, *, least_cards: int = 1, name: str = "gpu-a") -> NodeRoom:
    """Rooms of such nodes beside a few pods; some cards are over-committed."""
    return room_of(
        draw(nodes(least_cards=least_cards, name=name)), draw(st.lists(seats(), max_size=4))
    )


@st.composite
def asks(draw: st.DrawFn) -> Ask:
    """Asks of every kind of wish."""
    count, each = draw(st.integers(1, 3)), draw(st.integers(1, MOST_UNITS))
    wishes = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "gpu_index": st.sampled_from("0123"),
                "models": st.sampled_from(("T4", "A100", "T4,A100")),
                "avoid_models": st.sampled_from(("T4", "H100")),
            },
        )
    )
    return ask_for(
        count * each,
        cores=draw(st.sampled_from((0, 0, 30, 80))),
        policy=draw(st.sampled_from(Policy)),
        gpu_count=str(count),
        **wishes,
    )
