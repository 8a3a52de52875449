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
    card_index: str | None
    pod_units: str | None
    container_units: str | None
    card_units: str | None
    isolation_off: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One table of names."""

    name: str
    memory_resource: str
    """The extended resource that counts memory units."""
    default_unit: str
    socket_prefix: str
    """Our socket in the plugin folder is `<prefix>-<nonce>.sock`."""
    environment: EnvironmentNames


ALIYUN = Dialect(
    name="aliyun",
    memory_resource="aliyun.com/gpu-mem",
    default_unit="GiB",
    socket_prefix="aliyungpushare",
    environment=EnvironmentNames(
        visible_devices="NVIDIA_VISIBLE_DEVICES",
        card_index="ALIYUN_COM_GPU_MEM_IDX",
        pod_units="ALIYUN_COM_GPU_MEM_POD",
        container_units="ALIYUN_COM_GPU_MEM_CONTAINER",
        card_units="ALIYUN_COM_GPU_MEM_DEV",
        isolation_off="CGPU_DISABLE",
    ),
)

DIALECTS: Mapping[str, Dialect] = {dialect.name: dialect for dialect in (ALIYUN,)}


def find_dialect(name: str, *, resource_name: str | None = None) -> Dialect:
    """Return the dialect, with its memory resource renamed if asked for.

    Raises:
        ConfigError: no such dialect, or not an extended resource name.
    """
    if name not in DIALECTS:
        raise ConfigError(f"dialect: found {name!r}, expected one of {', '.join(DIALECTS)}")
    dialect = DIALECTS[name]
    if resource_name is None:
        return dialect
    return replace(dialect, memory_resource=check_resource_name(resource_name))


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
