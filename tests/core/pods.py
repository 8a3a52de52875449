"""Pods and listings in the small."""

from collections.abc import Mapping

from gpushare_plugin.core.association import ContainerDevices, ListedPod, PodName
from gpushare_plugin.core.dialect import ALIYUN
from gpushare_plugin.core.pods import Container, ContainerKind, Phase, Pod

RESOURCE = ALIYUN.memory_resource
NAMES = ALIYUN.annotations
INDEX = "ALIYUN_COM_GPU_MEM_IDX"


def container(name: str, units: int, kind: ContainerKind = ContainerKind.MAIN) -> Container:
    return Container(name=name, kind=kind, requests={RESOURCE: units} if units else {})


def pod(
    *units: int,
    init: tuple[int, ...] = (),
    sidecar: tuple[int, ...] = (),
    annotations: Mapping[str, str] | None = None,
    phase: Phase = Phase.PENDING,
    terminating: bool = False,
) -> Pod:
    """The pod `default/a` with a container for each number of units."""
    return Pod(
        namespace="default",
        name="a",
        uid="uid-a",
        containers=(
            *(container(f"i{n}", each, ContainerKind.INIT) for n, each in enumerate(init)),
            *(container(f"s{n}", each, ContainerKind.SIDECAR) for n, each in enumerate(sidecar)),
            *(container(f"c{n}", each) for n, each in enumerate(units)),
        ),
        node_name="node",
        phase=phase,
        terminating=terminating,
        annotations=annotations or {},
    )


def listing(name: str = "a", /, **device_ids: tuple[str, ...]) -> ListedPod:
    """A listed pod with these devices by container."""
    return ListedPod(
        pod=PodName(namespace="default", name=name),
        containers=tuple(
            ContainerDevices(name=each, device_ids=ids) for each, ids in device_ids.items()
        ),
    )
