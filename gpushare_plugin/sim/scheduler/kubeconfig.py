"""The few things of a kubeconfig file that a simulated scheduler needs.

Rule: the current context counts; credential plugins are not run.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpushare_plugin.sim.scheduler.failures import ConfigurationError
from gpushare_plugin.sim.scheduler.tls import TlsOptions, client_context


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """How the API server is reached."""

    server: str
    token: str
    tls: ssl.SSLContext | None


def read_kubeconfig(path: Path) -> Connection:
    """Read the current context; raises ConfigurationError."""
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
        context = _named(value["contexts"], value["current-context"])["context"]
        cluster = _named(value["clusters"], context["cluster"])["cluster"]
        user = _named(value["users"], context["user"])["user"] or {}
        return _connection(path, cluster, user)
    except (OSError, yaml.YAMLError, KeyError, TypeError, StopIteration) as error:
        raise ConfigurationError(
            f"kubeconfig {path}: found none that can be used ({error!r}), expected a current "
            "context with a cluster and a user"
        ) from error


def _named(entries: Any, name: str) -> Any:
    return next(entry for entry in entries if entry["name"] == name)


def _connection(path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> Connection:
    server, tls = cluster["server"], None
    if server.startswith("https:"):
        options = TlsOptions(
            insecure=bool(cluster.get("insecure-skip-tls-verify")),
            ca_file=cluster.get("certificate-authority", ""),
            ca_data=cluster.get("certificate-authority-data", ""),
            cert_file=user.get("client-certificate", ""),
            cert_data=user.get("client-certificate-data", ""),
            key_file=user.get("client-key", ""),
            key_data=user.get("client-key-data", ""),
        )
        tls = client_context(options, where=f"kubeconfig {path}")
    token = user.get("token", "")
    if not token and "tokenFile" in user:
        token = Path(user["tokenFile"]).read_text(encoding="utf-8").strip()
    return Connection(server=server.rstrip("/"), token=token, tls=tls)
