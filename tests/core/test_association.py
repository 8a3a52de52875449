"""Whose call it is: a right name, or none."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpushare_plugin.core.association import (
    SETTLED_SECONDS,
    Admissions,
    Caller,
    ContainerDevices,
    Known,
    ListedPod,
    NoPod,
    Unclear,
    called,
    listed,
)
from tests.core.admitting_kubelet import (
    AdmittingKubelet,
    Come,
    Go,
    Look,
    Rest,
    Step,
    Wants,
    name_of,
    steps,
)

ONE = (Wants.DEVICES,)
NEVER = (Wants.NOTHING,)


def callers(*played: Step) -> list[Caller]:
    return [caller for _, caller in AdmittingKubelet().play(list(played))]


def known(*names: str) -> list[Caller]:
    return [Known(pod=name_of(name)) for name in names]


def unclear(*names: str) -> Unclear:
    return Unclear(pods=tuple(name_of(name) for name in names))


@settings(max_examples=300)
@given(played=steps)
def test_a_pod_that_is_named_is_the_right_one(played: list[Step]) -> None:
    for pod, caller in AdmittingKubelet().play(played):
        assert not isinstance(caller, Known) or caller.pod == pod


@settings(max_examples=300)
@given(played=steps)
def test_the_right_pod_is_always_among_those_it_may_be(played: list[Step]) -> None:
    for pod, caller in AdmittingKubelet().play(played):
        assert not isinstance(caller, Unclear) or pod in caller.pods


@given(
    wants=st.lists(
        st.lists(st.sampled_from(Wants), max_size=2),
        min_size=1,
        max_size=4,
    ),
    refused=st.booleans(),
)
def test_pods_of_which_each_holds_devices_in_the_end_are_all_known_whatever_else_they_want(
    wants: list[list[Wants]], *, refused: bool
) -> None:
    pods = [
        Come(name=f"p{n}", wants=(*each, Wants.DEVICES), refused=refused and n % 2 == 0)
        for n, each in enumerate(wants)
    ]

    for pod, caller in AdmittingKubelet().play(list(pods)):
        assert caller == Known(pod=pod)


def test_a_pod_is_known_though_one_before_it_has_a_container_that_never_asks() -> None:
    with_sidecar = (Wants.DEVICES, Wants.NOTHING)

    assert callers(*(Come(name=name, wants=with_sidecar) for name in "abc")) == known("a", "b", "c")


def test_a_pod_is_known_among_others_that_were_listed_before_it_and_never_ask() -> None:
    assert callers(Come(name="n", wants=NEVER), Look(), Come(name="a", wants=ONE)) == known("a")


def test_pods_first_listed_together_are_not_guessed_between() -> None:
    assert callers(Come(name="n", wants=NEVER), Come(name="a", wants=ONE)) == [unclear("a", "n")]


def test_a_pod_that_was_unclear_once_does_not_cloud_the_next_call() -> None:
    played = callers(
        Come(name="n", wants=NEVER), Come(name="a", wants=ONE), Come(name="b", wants=ONE)
    )

    assert played == [unclear("a", "n"), *known("b")]


def test_a_pod_made_anew_under_the_name_of_one_that_held_devices_is_known() -> None:
    played = callers(
        Come(name="a", wants=ONE),
        Rest(SETTLED_SECONDS + 1),
        Go("a"),
        Come(name="n", wants=NEVER),
        Look(),
        Come(name="a", wants=ONE),
    )

    assert played == known("a", "a")


def test_a_pod_made_anew_at_once_is_not_mistaken_for_one_that_was_listed_after_the_first() -> None:
    played = callers(
        Come(name="a", wants=ONE),
        Rest(SETTLED_SECONDS + 1),
        Go("a"),
        Come(name="n", wants=NEVER),
        Come(name="a", wants=ONE),
    )

    assert played == [*known("a"), unclear("a", "n")]


def test_a_pod_that_asks_in_an_init_container_alone_clouds_the_next_call_and_no_more() -> None:
    # Its devices are listed nowhere, so it looks like one made anew under its name.
    played = callers(
        Come(name="a", wants=(Wants.IN_INIT,)), Come(name="b", wants=ONE), Come(name="c", wants=ONE)
    )

    assert played == [*known("a"), unclear("a", "b"), *known("c")]


def test_a_slow_admission_stays_known_from_container_to_container() -> None:
    slow = Come(name="a", wants=(Wants.DEVICES,) * 4, call_seconds=SETTLED_SECONDS - 0.1)

    assert callers(slow) == known("a", "a", "a", "a")


def test_a_pod_listed_longer_ago_than_an_admission_takes_is_not_the_caller() -> None:
    pod = ListedPod(pod=name_of("n"), containers=(ContainerDevices(name="c", device_ids=()),))
    before = listed(Admissions(), [pod], at_seconds=0)

    _, caller = called(before, [pod], at_seconds=SETTLED_SECONDS + 0.1)

    assert caller == NoPod()


def test_a_pod_that_was_served_whole_is_not_the_caller_of_a_call_right_after() -> None:
    kubelet = AdmittingKubelet()
    served = [caller for _, caller in kubelet.play([Come(name="a", wants=ONE)])]

    _, caller = called(kubelet.knowledge, kubelet.listing(), at_seconds=kubelet.now_seconds)

    assert (served, caller) == (known("a"), NoPod())


def test_a_call_long_after_a_pods_last_one_is_not_taken_for_that_pods() -> None:
    kubelet = AdmittingKubelet()
    sidecar = Come(name="a", wants=(Wants.DEVICES, Wants.NOTHING))
    served = [caller for _, caller in kubelet.play([sidecar, Rest(SETTLED_SECONDS + 1)])]

    _, caller = called(kubelet.knowledge, kubelet.listing(), at_seconds=kubelet.now_seconds)

    assert (served, caller) == (known("a"), NoPod())


@pytest.mark.parametrize("listing", [[], [("a", ("x",))]])
def test_where_no_listed_pod_lacks_devices_there_is_no_pod(
    listing: list[tuple[str, tuple[str, ...]]],
) -> None:
    pods = [
        ListedPod(pod=name_of(name), containers=(ContainerDevices(name="c", device_ids=ids),))
        for name, ids in listing
    ]

    _, caller = called(Admissions(), pods, at_seconds=0)

    assert caller == NoPod()


def test_a_pod_listed_with_no_container_yet_may_be_the_caller() -> None:
    _, caller = called(Admissions(), [ListedPod(pod=name_of("a"), containers=())], at_seconds=0)

    assert caller == Known(pod=name_of("a"))


def test_pods_that_have_gone_are_forgotten() -> None:
    pod = ListedPod(pod=name_of("a"), containers=())
    before, _ = called(Admissions(), [pod], at_seconds=0)

    after = listed(before, [], at_seconds=1)

    assert after == Admissions(last_call_seconds=0)


def test_a_pod_is_written_as_kubectl_writes_it() -> None:
    assert str(name_of("a")) == "default/a"


def test_a_pod_that_waits_by_its_spec_is_not_the_caller_where_a_later_one_may_be() -> None:
    waits = ListedPod(pod=name_of("a"), containers=(), waits=True)
    unknown = ListedPod(pod=name_of("b"), containers=())
    before = listed(Admissions(), [waits], at_seconds=0)

    _, caller = called(before, [waits, unknown], at_seconds=1)

    assert caller == Unclear(pods=(name_of("a"), name_of("b")))


def test_a_pod_that_waits_by_its_spec_is_the_caller_where_no_later_one_may_be() -> None:
    waits = ListedPod(pod=name_of("a"), containers=(), waits=True)
    never = ListedPod(pod=name_of("b"), containers=(), waits=False)
    before = listed(Admissions(), [waits], at_seconds=0)

    _, caller = called(before, [waits, never], at_seconds=SETTLED_SECONDS + 1)

    assert caller == Known(pod=name_of("a"))


def test_a_pod_that_is_listed_twice_under_its_name_is_one_pod() -> None:
    waits = ListedPod(pod=name_of("a"), containers=(), waits=True)

    _, caller = called(Admissions(), [waits, waits], at_seconds=0)

    assert caller == Known(pod=name_of("a"))


def test_an_old_pod_that_is_listed_beside_the_next_of_its_name_is_not_made_anew_each_time() -> None:
    # The old one never held a device; the new one does. Later a call comes for another pod.
    old = ListedPod(pod=name_of("a"), containers=(ContainerDevices(name="c", device_ids=()),))
    new = ListedPod(pod=name_of("a"), containers=(ContainerDevices(name="c", device_ids=("x",)),))
    other = ListedPod(pod=name_of("b"), containers=())
    before = listed(Admissions(), [old, new], at_seconds=0)
    before = listed(before, [old, new, other], at_seconds=1)

    _, caller = called(before, [old, new, other], at_seconds=2)

    assert caller == Known(pod=name_of("b"))


def test_one_more_pod_of_a_name_without_devices_is_made_anew() -> None:
    old = ListedPod(pod=name_of("a"), containers=(ContainerDevices(name="c", device_ids=("x",)),))
    new = ListedPod(pod=name_of("a"), containers=(ContainerDevices(name="c", device_ids=()),))
    other = ListedPod(pod=name_of("b"), containers=())
    before = listed(Admissions(), [old, other], at_seconds=0)

    _, caller = called(before, [old, new, other], at_seconds=1)

    assert caller == Known(pod=name_of("a"))
