"""What a pod asks of a node: amounts from its spec, wishes from its annotations."""

from collections.abc import Mapping

import pytest

from gpushare_plugin.core.asks import Ask, ask_of
from gpushare_plugin.core.dialect import ALIYUN, TENCENT
from gpushare_plugin.core.placement import Policy
from gpushare_plugin.core.pods import ContainerKind, Pod
from gpushare_plugin.core.quantity import parse_quantity
from gpushare_plugin.errors import AskError
from tests.core.nodes import INIT, MAIN, SIDECAR, pod_of


def asked(pod: Pod) -> Ask:
    return ask_of(pod, ALIYUN, Policy.BINPACK)


def test_a_pod_without_wishes_asks_for_its_units_on_one_card() -> None:
    ask = asked(pod_of((MAIN, 3), (MAIN, 1)))

    assert ask == Ask(units=4, units_per_card=4)
    assert ask.is_plain


def test_every_wish_is_read_from_its_annotation() -> None:
    wishes = {
        "gpushare.io/gpu-count": "2",
        "gpushare.io/policy": "spread",
        "gpushare.io/gpu-index": "1",
        "gpushare.io/models": "A100, H100",
        "gpushare.io/avoid-models": "Tesla T4",
    }

    assert asked(pod_of((MAIN, 6, 91), annotations=wishes)) == Ask(
        units=6,
        card_count=2,
        units_per_card=3,
        cores_per_card=46,
        policy=Policy.SPREAD,
        pinned=1,
        models=("A100", "H100"),
        avoid_models=("Tesla T4",),
    )


@pytest.mark.parametrize("key", ["gpu-count", "policy", "gpu-index", "models", "avoid-models"])
def test_a_pod_that_asks_for_no_unit_has_no_wish_that_could_be_at_fault(key: str) -> None:
    pod = pod_of((MAIN, 0), annotations={f"gpushare.io/{key}": "?,"})

    assert asked(pod) == Ask(units=0, units_per_card=0)


@pytest.mark.parametrize("wish", [{"gpu-index": "0"}, {"models": "T4"}, {"avoid-models": "T4"}])
def test_with_a_wish_for_a_card_free_units_alone_do_not_decide(wish: Mapping[str, str]) -> None:
    wishes = {f"gpushare.io/{key}": text for key, text in wish.items()}

    assert not asked(pod_of((MAIN, 2), annotations=wishes)).is_plain
    assert not asked(pod_of((MAIN, 2, 10))).is_plain
    assert not asked(pod_of((MAIN, 2), annotations={"gpushare.io/gpu-count": "2"})).is_plain


def test_the_policy_is_the_pods_or_else_the_extenders() -> None:
    packed = {"gpushare.io/policy": "binpack"}

    assert ask_of(pod_of((MAIN, 1)), ALIYUN, Policy.SPREAD).policy is Policy.SPREAD
    assert (
        ask_of(pod_of((MAIN, 1), annotations=packed), ALIYUN, Policy.SPREAD).policy
        is Policy.BINPACK
    )


@pytest.mark.parametrize(
    ("containers", "units"),
    [
        pytest.param([(INIT, 10), (INIT, 10), (INIT, 10), (MAIN, 4)], 10, id="inits-in-turn"),
        pytest.param([(SIDECAR, 4), (MAIN, 4)], 8, id="sidecar-stays"),
        pytest.param([(SIDECAR, 2), (INIT, 6), (MAIN, 3)], 8, id="sidecar-before-init"),
        pytest.param([(INIT, 6), (SIDECAR, 2), (MAIN, 3)], 6, id="sidecar-after-init"),
    ],
)
def test_b80_a_pod_asks_for_the_most_that_runs_at_one_time(
    containers: list[tuple[ContainerKind, int]], units: int
) -> None:
    assert asked(pod_of(*containers)).units == units


@pytest.mark.parametrize(
    ("text", "units"),
    [("10G", 10**10), ("16Gi", 16 << 30), ("3k", 3000), ("2500m", 3), ("1e3", 1000), ("08", 8)],
)
def test_b81_an_amount_with_a_suffix_is_asked_for_to_the_unit(text: str, units: int) -> None:
    assert asked(pod_of((MAIN, parse_quantity(text)))).units == units


@pytest.mark.parametrize(
    ("annotation", "text", "expected"),
    [
        pytest.param("policy", "tight", "binpack or spread", id="policy"),
        pytest.param("policy", "", "binpack or spread", id="policy-empty"),
        pytest.param("gpu-index", "one", "index", id="index-no-number"),
        pytest.param("gpu-index", "-1", "index", id="index-below-0"),
        pytest.param("gpu-index", "0,1", "index", id="index-several"),
        pytest.param("models", "", "commas between", id="models-empty"),
        pytest.param("models", "T4,,A100", "commas between", id="models-gap"),
        pytest.param("avoid-models", "T4,", "commas between", id="avoid-models-gap"),
        pytest.param("models", ",".join(f"m{n}" for n in range(65)), "up to 64", id="models-many"),
        pytest.param("models", "x" * 5000, "up to 64", id="models-long"),
        pytest.param("gpu-count", "two", "from 1 to 64", id="count-no-number"),
        pytest.param("gpu-count", "65", "from 1 to 64", id="count-large"),
        pytest.param("gpu-count", "4", "ask for 4 or 8 units", id="count-does-not-divide"),
    ],
)
def test_a_wish_that_cannot_be_read_names_pod_annotation_found_expected_and_cure(
    annotation: str, text: str, expected: str
) -> None:
    with pytest.raises(AskError, match=r"pod default/p") as caught:
        asked(pod_of((MAIN, 6), annotations={f"gpushare.io/{annotation}": text}))

    assert f"annotation gpushare.io/{annotation}: found" in str(caught.value)
    assert expected in str(caught.value)
    assert "cards of this node" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_init_containers_with_units_cannot_be_spread_over_cards() -> None:
    with pytest.raises(AskError, match="init container c0 asks for 2 units"):
        asked(pod_of((INIT, 2), (MAIN, 6), annotations={"gpushare.io/gpu-count": "2"}))


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        pytest.param(pod_of((MAIN, 0, 10)), "and no aliyun.com/gpu-mem", id="no-memory-at-all"),
        pytest.param(pod_of((MAIN, 4), (MAIN, 0, 10)), "container c1 asks", id="no-memory-here"),
        pytest.param(pod_of((MAIN, 4, 101)), "ask for at most 100", id="over-one-card"),
        pytest.param(pod_of((MAIN, 4, 60), (MAIN, 4, 60)), "120 .* in all", id="over-together"),
        pytest.param(
            pod_of((MAIN, 4, 201), annotations={"gpushare.io/gpu-count": "2"}),
            "at most 200",
            id="over-two-cards",
        ),
    ],
)
def test_cores_that_no_card_could_give_are_refused(pod: Pod, text: str) -> None:
    with pytest.raises(AskError, match=text):
        asked(pod)


def test_whole_cards_are_refused_in_a_dialect_that_has_them() -> None:
    with pytest.raises(AskError, match="whole cards"):
        ask_of(pod_of((MAIN, 4, 100), names=TENCENT), TENCENT, Policy.BINPACK)


@pytest.mark.parametrize("units", [0, 4])
def test_a_spec_that_does_not_parse_is_never_taken_for_asking_nothing(units: int) -> None:
    fault = "pod default/p: spec.containers[c0].resources.limits[aliyun.com/gpu-mem]: quantity 'x'"

    with pytest.raises(AskError, match="correct the pod"):
        asked(pod_of((MAIN, units), fault=fault))


@pytest.mark.parametrize(
    ("models", "avoided", "model", "taken"),
    [
        pytest.param("", "", "", True, id="no-wish"),
        pytest.param("T4", "", "Tesla T4", True, id="one-word"),
        pytest.param("tesla t4", "", "Tesla T4", True, id="case"),
        pytest.param("Tesla-T4", "", "Tesla T4", True, id="as-in-the-label"),
        pytest.param("A100", "", "NVIDIA A100-SXM4-80GB", True, id="word-of-a-long-name"),
        pytest.param("A100-SXM4", "", "NVIDIA A100-SXM4-80GB", True, id="two-words"),
        pytest.param("T4", "", "NVIDIA T400", False, id="no-part-of-a-word"),
        pytest.param("A100,T4", "", "Tesla T4", True, id="any-of-them"),
        pytest.param("A100", "", "Tesla T4", False, id="another"),
        pytest.param("A100", "", "", False, id="not-known"),
        pytest.param("", "T4", "Tesla T4", False, id="avoided"),
        pytest.param("", "T4", "A100", True, id="not-avoided"),
        pytest.param("", "T4", "", False, id="not-known-whether-avoided"),
        pytest.param("A100", "SXM4", "NVIDIA A100-SXM4-80GB", False, id="avoided-among-wanted"),
        pytest.param("A100", "SXM4", "NVIDIA A100-PCIE-40GB", True, id="wanted-and-not-avoided"),
    ],
)
def test_a_model_is_meant_by_whole_words_of_its_name(
    models: str, avoided: str, model: str, taken: bool
) -> None:
    wishes = {"gpushare.io/models": models, "gpushare.io/avoid-models": avoided}
    ask = asked(pod_of((MAIN, 1), annotations={key: text for key, text in wishes.items() if text}))

    assert ask.takes_model(model) is taken
