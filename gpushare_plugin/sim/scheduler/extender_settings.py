"""The part `extenders` of the configuration file, and what the real scheduler refuses in it.

Rule: raises ValueError with the field's place and the cause, in upstream's order of checks
(pkg/scheduler/apis/config/validation).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpushare_plugin.sim.scheduler.strict_reading import only, seconds
from gpushare_plugin.sim.scheduler.tls import TlsOptions

_FIELDS = frozenset(
    {
        "urlPrefix",
        "filterVerb",
        "preemptVerb",
        "prioritizeVerb",
        "weight",
        "bindVerb",
        "enableHTTPS",
        "tlsConfig",
        "httpTimeout",
        "nodeCacheCapable",
        "managedResources",
        "ignorable",
    }
)
_TLS_NAMES: Mapping[str, str] = {
    "insecure": "insecure",
    "serverName": "server_name",
    "certFile": "cert_file",
    "keyFile": "key_file",
    "caFile": "ca_file",
    "certData": "cert_data",
    "keyData": "key_data",
    "caData": "ca_data",
}
_RESOURCE_FIELDS = frozenset({"name", "ignoredByScheduler"})
_DEFAULT_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderSettings:
    """One entry of `extenders`."""

    url_prefix: str
    filter_verb: str = ""
    prioritize_verb: str = ""
    bind_verb: str = ""
    preempt_verb: str = ""
    weight: int = 0
    enable_https: bool = False
    tls: TlsOptions = field(default_factory=TlsOptions)
    http_timeout_seconds: float = _DEFAULT_TIMEOUT_SECONDS
    node_cache_capable: bool = False
    managed: frozenset[str] = frozenset()
    """Empty: it is asked about every pod."""
    left_to_it: frozenset[str] = frozenset()
    """The managed resources that the scheduler's own fit leaves out (ignoredByScheduler)."""
    ignorable: bool = False


def read_extenders(values: Sequence[Any]) -> tuple[ExtenderSettings, ...]:
    """Read all entries; raises ValueError."""
    extenders = tuple(_extender(value, f"extenders[{n}]") for n, value in enumerate(values))
    binders = sum(bool(each.bind_verb) for each in extenders)
    if binders > 1:
        raise ValueError(f"extenders: Invalid value: found {binders} extenders implementing bind")
    _refuse_shared(each.managed for each in extenders)
    return extenders


def _extender(value: Mapping[str, Any], at: str) -> ExtenderSettings:
    only(value, _FIELDS, f"{at}.")
    resources = [only(each, _RESOURCE_FIELDS, f"{at}.managedResources.") for each in _list(value)]
    weight = value.get("weight") or 0
    if value.get("prioritizeVerb") and weight <= 0:
        raise ValueError(f"{at}.weight: must have a positive weight applied to it")
    if not str(value.get("urlPrefix", "")).startswith(("http://", "https://")):
        raise ValueError(f"{at}.urlPrefix: found {value.get('urlPrefix')!r}, expected a URL")
    return ExtenderSettings(
        url_prefix=value["urlPrefix"],
        filter_verb=value.get("filterVerb", ""),
        prioritize_verb=value.get("prioritizeVerb", ""),
        bind_verb=value.get("bindVerb", ""),
        preempt_verb=value.get("preemptVerb", ""),
        weight=weight,
        enable_https=bool(value.get("enableHTTPS")),
        tls=_tls(value.get("tlsConfig"), f"{at}.tlsConfig."),
        http_timeout_seconds=seconds(value.get("httpTimeout"), _DEFAULT_TIMEOUT_SECONDS),
        node_cache_capable=bool(value.get("nodeCacheCapable")),
        managed=frozenset(each["name"] for each in resources),
        left_to_it=frozenset(each["name"] for each in resources if each.get("ignoredByScheduler")),
        ignorable=bool(value.get("ignorable")),
    )


def _list(value: Mapping[str, Any]) -> Sequence[Any]:
    found: Sequence[Any] = value.get("managedResources") or ()
    return found


def _tls(value: Mapping[str, Any] | None, at: str) -> TlsOptions:
    given = only(value, frozenset(_TLS_NAMES), at)
    return TlsOptions(**{_TLS_NAMES[name]: item for name, item in given.items()})


def _refuse_shared(managed: Iterable[frozenset[str]]) -> None:
    seen: set[str] = set()
    for names in managed:
        if twice := sorted(seen & names):
            raise ValueError(f"extenders: duplicate extender managed resource name {twice[0]}")
        seen |= names
