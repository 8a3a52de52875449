"""The names that a cluster's parts know each other by."""

from collections import Counter
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare_plugin.core.dialect import (
    ALIYUN,
    DIALECTS,
    Dialect,
    check_resource_name,
    find_dialect,
)
from gpushare_plugin.core.units import parse_unit_mib
from gpushare_plugin.errors import ConfigError
from gpushare_plugin.sim.kubelet.names import is_extended_resource

NAMES = (
    "aliyun.com/gpu-mem",
    "a/b",
    "example.com/GPU_mem.1",
    f"{'a' * 63}.com/{'b' * 63}",
    f"a/{'b' * 64}",
    f"{'.'.join(['a' * 60] * 4)}/b",
    f"{'.'.join(['a' * 60] * 4)}.{'a' * 5}/b",
    "gpu-mem",
    "kubernetes.io/gpu",
    "example.kubernetes.io/gpu",
    "example-kubernetes.io/gpu",
    "kubernetes.io.example.com/gpu",
    "requests.example.com/gpu",
    "requestsexample.com/gpu",
    "Example.com/gpu",
    "example..com/gpu",
    "-example.com/gpu",
    "example.com/",
    "/gpu",
    "example.com/gpu/mem",
    "example.com/-gpu",
    "example.com/gpu\n",
    "",
)


def test_aliyuns_names_are_letter_by_letter_those_of_the_original() -> None:
    environment = ALIYUN.environment

    assert ALIYUN.memory_resource == "aliyun.com/gpu-mem"
    assert [getattr(environment, each.name) for each in fields(environment)] == [
        "NVIDIA_VISIBLE_DEVICES",
        "ALIYUN_COM_GPU_MEM_IDX",
        "ALIYUN_COM_GPU_MEM_POD",
        "ALIYUN_COM_GPU_MEM_CONTAINER",
        "ALIYUN_COM_GPU_MEM_DEV",
        "CGPU_DISABLE",
    ]


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_a_dialect_is_found_by_its_name_and_holds_together(dialect: Dialect) -> None:
    variables = [getattr(dialect.environment, each.name) for each in fields(dialect.environment)]

    assert find_dialect(dialect.name) is dialect
    assert check_resource_name(dialect.memory_resource)
    assert parse_unit_mib(dialect.default_unit) > 0
    assert Counter(name for name in variables if name).most_common(1)[0][1] == 1


def test_an_unknown_dialect_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ConfigError, match=r"found 'ailyun', expected one of aliyun"):
        find_dialect("ailyun")


def test_the_resource_alone_can_be_renamed() -> None:
    dialect = find_dialect("aliyun", resource_name="example.com/gpu-mem")

    assert dialect.memory_resource == "example.com/gpu-mem"
    assert dialect.environment == ALIYUN.environment


def accepted(name: str) -> bool:
    try:
        return check_resource_name(name) == name
    except ConfigError as error:
        assert repr(name) in str(error)  # noqa: PT017 - the text is part of each refusal
        return False


@pytest.mark.parametrize("name", NAMES)
def test_a_resource_is_taken_exactly_where_the_kubelet_takes_it(name: str) -> None:
    assert accepted(name) == is_extended_resource(name)


@given(name=st.text(alphabet="aB1-._/", max_size=8))
def test_any_small_name_is_taken_exactly_where_the_kubelet_takes_it(name: str) -> None:
    assert accepted(name) == is_extended_resource(name)
