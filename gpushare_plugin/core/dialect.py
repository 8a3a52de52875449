"""Dialects: the names that a cluster's parts know each other by.

Rule 1: a dialect is one table of names; no code asks which dialect it is.
Rule 2: the names of `aliyun` are those of Aliyun gpushare, letter by letter, so
that its extender, its plugin and its inspect can stand beside ours.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpushare_plugin.errors import ConfigError

_DNS_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_QUOTA_PREFIX = "requests."
"""Quotas count a resource under this prefix, so its domain must fit behind it."""
_LONGEST_DOMAIN = 253 - len(_QUOTA_PREFIX)
_RESOURCE = re.compile(
    rf"(?P<domain>{_DNS_LABEL}(\.{_DNS_LABEL})*)/[A-Za-z0-9]([A-Za-z0-9._-]{{0,61}}[A-Za-z0-9])?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentNames:
    """The variables that a container finds; None where the dialect has no such variable."""

    visible_devices: str
    card_index: str | None = None
    pod_units: str | None = None
    container_units: str | None = None
    card_units: str | None = None
    isolation_off: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAnnotationNames:
    """What a pod's bookkeeping is called; None where the dialect has no such annotation."""

    assigned: str
    assume_time: str
    card_index: str | None = None
    pod_units: str | None = None
    card_units: str | None = None
    container_card_index: str | None = None
    """With the container's number in place of `{}`."""
    node: str | None = None
    """The node for which the cards were chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One table of names."""

    name: str
    memory_resource: str
    """The extended resource that counts memory units."""
    core_resource: str
    """The extended resource that counts compute, 100 a card."""
    count_resource: str | None
    """The node's number of cards, in its status; never scheduled by."""
    default_unit: str
    socket_prefix: str
    """Our socket in the plugin folder is `<prefix>-<nonce>.sock`."""
    core_socket_prefix: str
    environment: EnvironmentNames
    annotations: PodAnnotationNames
    whole_card_cores: int | None = None
    """From how many cores on a container asks for whole cards; None where it never does."""
    isolation_label: str | None = None
    """The node label by which an admin turns cGPU's isolation off, with the value `true`."""


ALIYUN = Dialect(
    name="aliyun",
    memory_resource="aliyun.com/gpu-mem",
    core_resource="aliyun.com/gpu-core.percentage",
    count_resource="aliyun.com/gpu-count",
    default_unit="GiB",
    socket_prefix="aliyungpushare",
    core_socket_prefix="aliyungpushare-core",
    environment=EnvironmentNames(
        visible_devices="NVIDIA_VISIBLE_DEVICES",
        card_index="ALIYUN_COM_GPU_MEM_IDX",
        pod_units="ALIYUN_COM_GPU_MEM_POD",
        container_units="ALIYUN_COM_GPU_MEM_CONTAINER",
        card_units="ALIYUN_COM_GPU_MEM_DEV",
        isolation_off="CGPU_DISABLE",
    ),
    annotations=PodAnnotationNames(
        assigned="ALIYUN_COM_GPU_MEM_ASSIGNED",
        assume_time="ALIYUN_COM_GPU_MEM_ASSUME_TIME",
        card_index="ALIYUN_COM_GPU_MEM_IDX",
        pod_units="ALIYUN_COM_GPU_MEM_POD",
        card_units="ALIYUN_COM_GPU_MEM_DEV",
    ),
    isolation_label="cgpu.disable.isolation",
)

TENCENT = Dialect(
    name="tencent",
    memory_resource="tencent.com/vcuda-memory",
    core_resource="tencent.com/vcuda-core",
    count_resource=None,
    default_unit="256MiB",
    socket_prefix="vcuda-memory",
    core_socket_prefix="vcuda-core",
    whole_card_cores=100,
    environment=EnvironmentNames(visible_devices="NVIDIA_VISIBLE_DEVICES"),
    annotations=PodAnnotationNames(
        assigned="tencent.com/gpu-assigned",
        assume_time="tencent.com/predicate-time",
        container_card_index="tencent.com/predicate-gpu-idx-{}",
        node="tencent.com/predicate-node",
    ),
)

DIALECTS: Mapping[str, Dialect] = {dialect.name: dialect for dialect in (ALIYUN, TENCENT)}


def find_dialect(
    name: str, *, resource_name: str | None = None, core_name: str | None = None
) -> Dialect:
    """Return the dialect, with its memory and its core resource renamed if asked for.

    Raises:
        ConfigError: no such dialect, or not an extended resource name.
    """
    if name not in DIALECTS:
        raise ConfigError(f"dialect: found {name!r}, expected one of {', '.join(DIALECTS)}")
    dialect = DIALECTS[name]
    if resource_name is not None:
        dialect = replace(dialect, memory_resource=check_resource_name(resource_name))
    if core_name is not None:
        dialect = replace(dialect, core_resource=check_resource_name(core_name))
    return dialect


def check_resource_name(name: str) -> str:
    """Return the name if the kubelet would take it as an extended resource.

    The rule is Kubernetes' IsExtendedResourceName: a domain outside kubernetes.io, a
    slash, a qualified name; not with a `requests.` prefix.

    Raises:
        ConfigError: it would not.
    """
    match = _RESOURCE.fullmatch(name)
    domain = match["domain"] if match else ""
    # Kubernetes looks for the text, so example-kubernetes.io is its own too.
    reserved = domain.endswith("kubernetes.io") or domain.startswith(_QUOTA_PREFIX)
    if match is None or reserved or len(domain) > _LONGEST_DOMAIN:
        raise ConfigError(
            f"resource name: found {name!r}, expected an extended resource name such as"
            " example.com/gpu-mem (a lower-case domain that is not Kubernetes' own, one slash, at"
            " most 63 letters, digits, '-', '_' or '.')"
        )
    return name
