"""Which isolation is in force, why not a better one, and what it adds."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare_plugin.core.injection import Injection, Share
from gpushare_plugin.core.isolation import (
    HostFacts,
    Isolation,
    IsolationChoice,
    additions,
    decide,
    driver_obstacle,
)
from gpushare_plugin.errors import ConfigError
from tests.core.cards import card, gpu

CAPABLE = HostFacts(
    driver_version="615.36.02",
    cgroup_v2=True,
    any_mig=False,
    cards_with_limit_hook=frozenset({"GPU-a", "GPU-b", "0", "all"}),
    cards=frozenset({"GPU-a", "GPU-b"}),
)

OBSTACLES = {
    "an old driver": (replace(CAPABLE, driver_version="614.99"), "the driver is 614.99"),
    "an unknown driver": (replace(CAPABLE, driver_version=""), "the driver is unknown"),
    "an odd driver": (replace(CAPABLE, driver_version="r615"), "the driver is r615"),
    "cgroup v1": (replace(CAPABLE, cgroup_v2=False), "no cgroup v2"),
    "MIG": (replace(CAPABLE, any_mig=True), "MIG is on"),
    "one card without the hook": (
        replace(CAPABLE, cards_with_limit_hook=frozenset({"GPU-a"})),
        "hook for GPU-b",
    ),
    "no spec at all": (
        replace(CAPABLE, cards_with_limit_hook=frozenset()),
        "hook for GPU-a, GPU-b",
    ),
    "no card": (replace(CAPABLE, cards=frozenset()), "hook for any card"),
}

obstacles = pytest.mark.parametrize(("facts", "words"), OBSTACLES.values(), ids=OBSTACLES)


def share(units: int, total_mib: int, *, reserved_mib: int = 0) -> Share:
    on = gpu(total_mib=total_mib, reserved_mib=reserved_mib)
    return Share(cards=(card(0, units=8, on=on),), container_units=units, pod_units=units)


@obstacles
def test_auto_steps_down_and_says_why(facts: HostFacts, words: str) -> None:
    decision = decide(IsolationChoice.AUTO, facts)

    assert decision.isolation is Isolation.NONE
    assert words in decision.reason


@obstacles
def test_the_driver_asked_for_by_name_never_steps_down_in_silence(
    facts: HostFacts, words: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        decide(IsolationChoice.DRIVER, facts)

    assert words in str(caught.value)
    assert "--isolation auto" in str(caught.value)


@pytest.mark.parametrize("choice", [IsolationChoice.AUTO, IsolationChoice.DRIVER])
def test_on_a_capable_host_the_driver_is_taken(choice: IsolationChoice) -> None:
    assert decide(choice, CAPABLE).isolation is Isolation.DRIVER


@given(
    driver=st.sampled_from(("", "614", "615", "616.1")),
    cgroup_v2=st.booleans(),
    any_mig=st.booleans(),
    cards=st.frozensets(st.sampled_from("ab")),
    hooked=st.frozensets(st.sampled_from("ab")),
)
def test_the_driver_is_taken_exactly_where_nothing_stands_against_it(
    driver: str, cards: frozenset[str], hooked: frozenset[str], *, cgroup_v2: bool, any_mig: bool
) -> None:
    facts = HostFacts(
        driver_version=driver,
        cgroup_v2=cgroup_v2,
        any_mig=any_mig,
        cards=cards,
        cards_with_limit_hook=hooked,
    )
    capable = driver >= "615" and cgroup_v2 and not any_mig and bool(cards) and cards <= hooked

    assert (driver_obstacle(facts) is None) == capable


def test_none_is_none_even_on_a_capable_host() -> None:
    assert decide(IsolationChoice.NONE, CAPABLE).isolation is Isolation.NONE


def test_only_none_is_called_unenforced() -> None:
    assert [each for each in Isolation if not each.enforces] == [Isolation.NONE]


def test_the_driver_gets_request_and_limit_in_mib_and_the_cards_cdi_name() -> None:
    mine = share(4, 15_360)

    added = additions(Isolation.DRIVER, mine, unit_mib=1024)

    assert added == Injection(
        envs={"NVIDIA_GPU_MEMORY_REQUEST": "4096", "NVIDIA_GPU_MEMORY_LIMIT": "4096"},
        cdi_devices=(f"nvidia.com/gpu={mine.cards[0].uuid}",),
    )


@given(units=st.integers(0, 4), total=st.integers(0, 4), reserved=st.integers(0, 4))
def test_a_limit_is_never_more_than_the_card_can_really_give(
    units: int, total: int, reserved: int
) -> None:
    mine = share(units, total, reserved_mib=reserved)

    envs = additions(Isolation.DRIVER, mine, unit_mib=1).envs

    assert envs["NVIDIA_GPU_MEMORY_LIMIT"] == str(min(units, max(0, total - reserved)))
    assert envs["NVIDIA_GPU_MEMORY_REQUEST"] == envs["NVIDIA_GPU_MEMORY_LIMIT"]


def test_none_adds_nothing() -> None:
    assert additions(Isolation.NONE, share(4, 15_360), unit_mib=1024) == Injection()
