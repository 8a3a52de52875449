"""What a container is given, value by value."""

from dataclasses import replace

import pytest

from gpushare_plugin.core.devices import Card
from gpushare_plugin.core.dialect import ALIYUN, EnvironmentNames
from gpushare_plugin.core.injection import (
    CDI_ANNOTATION,
    DeviceInjection,
    Injection,
    InjectionRule,
    Share,
    VisibleDevices,
)
from tests.core.cards import card, gpu

UUID = "GPU-6f0c3a52-8d1e-4b7a-9c35-2e4f81a7d601"
SECOND = card(1, 15, uuid=UUID, on=gpu(total_mib=16_160, index=3, minor=7))
SHARE = Share(cards=(SECOND,), container_units=4, pod_units=4)
NAMES = ALIYUN.environment


def given_to(share: Share = SHARE, **changes: object) -> Injection:
    return replace(InjectionRule(names=NAMES), **changes).inject(share)  # type: ignore[arg-type]


def test_4_of_15_units_of_the_second_card_are_told_as_the_design_says() -> None:
    assert given_to() == Injection(
        envs={
            "NVIDIA_VISIBLE_DEVICES": UUID,
            "ALIYUN_COM_GPU_MEM_IDX": "1",
            "ALIYUN_COM_GPU_MEM_POD": "4",
            "ALIYUN_COM_GPU_MEM_CONTAINER": "4",
            "ALIYUN_COM_GPU_MEM_DEV": "15",
        }
    )


def test_the_units_of_the_pod_are_told_where_they_are_known() -> None:
    envs = given_to(Share(cards=(SECOND,), container_units=1, pod_units=3)).envs

    assert envs["ALIYUN_COM_GPU_MEM_POD"] == "3"
    assert envs["ALIYUN_COM_GPU_MEM_CONTAINER"] == "1"


def test_by_index_the_card_is_named_by_nvmls_index_not_by_its_rank() -> None:
    envs = given_to(visible=VisibleDevices.INDEX).envs

    assert envs["NVIDIA_VISIBLE_DEVICES"] == "3"
    assert envs["ALIYUN_COM_GPU_MEM_IDX"] == "1"


def test_cgpus_runtime_is_told_to_stay_away_only_if_asked_for() -> None:
    assert given_to(cgpu_disable=True).envs["CGPU_DISABLE"] == "true"
    assert "CGPU_DISABLE" not in given_to().envs


def test_a_dialect_without_a_variable_does_not_write_it() -> None:
    names = EnvironmentNames(
        visible_devices="NVIDIA_VISIBLE_DEVICES",
        card_index=None,
        pod_units=None,
        container_units=None,
        card_units=None,
        isolation_off=None,
    )

    assert given_to(names=names, cgpu_disable=True).envs == {"NVIDIA_VISIBLE_DEVICES": UUID}


def test_cdi_names_the_card_twice_for_kubelets_with_and_without_the_field() -> None:
    injection = given_to(injection=DeviceInjection.CDI)

    assert injection == Injection(
        envs=given_to().envs,
        cdi_devices=(f"nvidia.com/gpu={UUID}",),
        annotations={CDI_ANNOTATION: f"nvidia.com/gpu={UUID}"},
    )


def test_b40_the_device_node_is_that_of_the_minor_number_not_of_the_index() -> None:
    injection = given_to(
        injection=DeviceInjection.DEVICE_NODES, control_nodes=("/dev/nvidiactl", "/dev/nvidia-uvm")
    )

    assert injection.device_nodes == ("/dev/nvidia7", "/dev/nvidiactl", "/dev/nvidia-uvm")
    assert injection.envs == given_to().envs


@pytest.mark.parametrize("injection", DeviceInjection)
def test_the_dialects_variables_are_there_whatever_the_way_of_injection(
    injection: DeviceInjection,
) -> None:
    assert given_to(injection=injection).envs == given_to().envs


def test_a_mig_instance_is_named_by_its_own_uuid() -> None:
    uuid = "MIG-11111111-0000-0000-0000-000000000001"
    instance: Card = card(0, 9, on=gpu(uuid), uuid=uuid)

    injection = given_to(
        Share(cards=(instance,), container_units=1, pod_units=1), injection=DeviceInjection.CDI
    )

    assert injection.envs["NVIDIA_VISIBLE_DEVICES"] == uuid
    assert injection.cdi_devices == (f"nvidia.com/gpu={uuid}",)


def test_of_two_injections_nothing_is_given_twice_and_the_second_value_stays() -> None:
    one = Injection(envs={"A": "1", "B": "1"}, device_nodes=("/dev/a",), cdi_devices=("x=1",))
    other = Injection(
        envs={"B": "2"}, device_nodes=("/dev/b", "/dev/a"), cdi_devices=("x=1", "x=2")
    )

    assert one.merged(other) == Injection(
        envs={"A": "1", "B": "2"},
        device_nodes=("/dev/a", "/dev/b"),
        cdi_devices=("x=1", "x=2"),
    )
