"""What a pod is annotated with when it is bound, and that our own parts read it back."""

import pytest

from gpushare_plugin.core.binding import binding_annotations
from gpushare_plugin.core.bookkeeping import Choice, choice_of
from gpushare_plugin.core.dialect import ALIYUN, TENCENT, Dialect
from gpushare_plugin.core.pods import Pod
from gpushare_plugin.core.room import CardRoom
from gpushare_plugin.core.seats import Seats, seats_of
from tests.core.nodes import INIT, MAIN, SIDECAR, ask_for, node_of, pod_of, room_with

NODE = node_of(15, 31, 15)
ROOM = room_with(NODE)


def annotations(pod: Pod, *indices: int, units: int = 4, names: Dialect = ALIYUN) -> dict[str, str]:
    cards: list[CardRoom] = [ROOM.cards[index] for index in indices]
    return binding_annotations(pod, ask_for(units), cards, names, node_name="gpu-a", now_ns=17)


def test_one_card_is_told_as_the_original_tells_it_and_marked_as_ours() -> None:
    assert annotations(pod_of((MAIN, 4)), 1) == {
        "ALIYUN_COM_GPU_MEM_IDX": "1",
        "ALIYUN_COM_GPU_MEM_POD": "4",
        "ALIYUN_COM_GPU_MEM_DEV": "31",
        "ALIYUN_COM_GPU_MEM_ASSIGNED": "false",
        "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "17",
        "gpushare.io/extender": "1",
    }


def test_several_cards_are_told_as_lists_by_index() -> None:
    found = annotations(pod_of((MAIN, 4)), 2, 1)

    assert found["ALIYUN_COM_GPU_MEM_IDX"] == "1,2"
    assert found["ALIYUN_COM_GPU_MEM_DEV"] == "31,15"


def test_where_each_container_has_its_own_index_every_main_one_gets_it() -> None:
    pod = pod_of((INIT, 1), (SIDECAR, 1), (MAIN, 2), (MAIN, 0), names=TENCENT)

    assert annotations(pod, 1, names=TENCENT) == {
        "tencent.com/predicate-gpu-idx-0": "1",
        "tencent.com/predicate-gpu-idx-1": "1",
        "tencent.com/gpu-assigned": "false",
        "tencent.com/predicate-time": "17",
        "tencent.com/predicate-node": "gpu-a",
        "gpushare.io/extender": "1",
    }


def test_without_a_card_nothing_is_told() -> None:
    assert annotations(pod_of((MAIN, 0)), units=0) == {}


@pytest.mark.parametrize("names", [ALIYUN, TENCENT], ids=lambda names: names.name)
@pytest.mark.parametrize("indices", [(1,), (0, 2)])
def test_what_is_told_is_read_back_as_the_same_seats(
    names: Dialect, indices: tuple[int, ...]
) -> None:
    containers = ((INIT, 1), (MAIN, 2, 10), (MAIN, 4, 10))
    told = annotations(pod_of(*containers, names=names), *indices, units=6, names=names)
    bound = pod_of(*containers, names=names, annotations=told)

    assert choice_of(bound, names.annotations) == Choice(cards=indices, ours=True)
    assert seats_of(bound, NODE, names) == Seats(
        units=dict.fromkeys(indices, 6 // len(indices)),
        cores=dict.fromkeys(indices, 20 // len(indices)),
    )
