"""The extender's configuration: one frozen value, made as the node daemon's is.

Rule: plain HTTP is for loopback. Whoever can reach the bind verb can put pods on nodes,
so any other address has TLS, or the operator says in so many words that it has none.
"""

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from gpushare_plugin.config import parsing
from gpushare_plugin.config.table import LogLevel, setting
from gpushare_plugin.core.dialect import Dialect, check_resource_name, find_dialect
from gpushare_plugin.core.placement import Policy
from gpushare_plugin.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderConfig:
    """Everything that the extender can be told."""

    dialect: str = setting(
        "aliyun", parsing.dialect_name, "the table of names: resources and annotations"
    )
    resource_name: str | None = setting(
        None, check_resource_name, "the extended resource, in place of the dialect's"
    )
    core_resource: str = setting(
        "on",
        parsing.core_resource,
        "count compute too, 100 a card: on, off, or the extended resource in place of the"
        " dialect's",
    )
    policy: Policy = setting(
        "binpack",
        parsing.one_of(Policy),
        "the card and the node for a pod: binpack (best fit, fullest node) or spread; a pod's"
        " annotation wins",
    )
    kubeconfig: Path | None = setting(
        None, parsing.absolute_path, "how to reach the API server, in place of the service account"
    )
    listen_address: tuple[str, int] = setting(
        "127.0.0.1:39999", parsing.serving_address, "where kube-scheduler calls"
    )
    status_address: tuple[str, int] | None = setting(
        ":9436",
        parsing.listen_address,
        "where /metrics, /healthz and /readyz are for the kubelet and Prometheus, which have no"
        " client certificate and no way to loopback; off for none",
    )
    tls_certificate: Path | None = setting(
        None,
        parsing.absolute_path,
        "PEM file of our certificate and its chain; read again when it changes",
    )
    tls_key: Path | None = setting(None, parsing.absolute_path, "PEM file of the certificate's key")
    tls_client_ca: Path | None = setting(
        None,
        parsing.absolute_path,
        "PEM file of the authorities of clients: who calls without a certificate of theirs is"
        " not heard",
    )
    plain_http: bool = setting(
        "off", parsing.switch, "serve without TLS on an address that is not loopback"
    )
    body_limit_mib: int = setting(
        "128",
        parsing.whole(least=1, most=1024),
        "the largest request that is read; a scheduler that is not nodeCacheCapable sends about"
        " 8 MiB for each 1,000 nodes",
    )
    stale_seconds: float = setting(
        "150",
        parsing.number(least=1, most=3600),
        "answer with an error once the API server was silent for so long; it gives a sign of"
        " life each minute",
    )
    leader_elect: bool = setting(
        "off",
        parsing.switch,
        "several extenders behind one Service elect a leader by a Lease; off where each"
        " kube-scheduler has its own",
    )
    lease: tuple[str, str] = setting(
        "kube-system/gpushare-extender",
        parsing.namespaced_name,
        "namespace/name of the Lease of --leader-elect",
    )
    scheduler_lease: tuple[str, str] | None = setting(
        None,
        parsing.namespaced_name,
        "namespace/name of the Lease by which the kube-schedulers elect their leader: a change"
        " of leader is seen there; none: every pause counts as one",
    )
    pod_name: str | None = setting(
        None, parsing.kubernetes_name, "our pod's name, for --leader-elect; POD_NAME is read too"
    )
    pod_namespace: str | None = setting(
        None, parsing.kubernetes_name, "our pod's namespace; POD_NAMESPACE is read too"
    )
    unhealthy_configmap_namespace: str = setting(
        "kube-system",
        parsing.kubernetes_name,
        "where the ConfigMaps unhealthy-gpu-<node> are",
    )
    events: bool = setting(
        "on", parsing.switch, "write an event on a pod that cannot be placed, with the reason"
    )
    nudge: bool = setting(
        "on",
        parsing.switch,
        "touch waiting pods when memory is freed, so that kube-scheduler tries them again",
    )
    log_level: LogLevel = setting("info", parsing.one_of(LogLevel), "debug, info, warning or error")

    def check(self) -> None:
        """Make sure that the settings go together.

        Raises:
            ConfigError: two of them contradict each other, or one lacks another.
        """
        self._check_transport()
        if self.leader_elect and not (self.pod_name and self.pod_namespace):
            raise ConfigError(
                "--leader-elect: found no --pod-name or no --pod-namespace, expected both (in a"
                " pod, POD_NAME and POD_NAMESPACE from metadata.name and metadata.namespace)"
            )
        if self.counts_compute and self.names.core_resource == self.names.memory_resource:
            raise ConfigError(
                f"--core-resource: found {self.names.core_resource!r}, which is the memory's name"
                " too; expected another one"
            )

    def _check_transport(self) -> None:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ConfigError(
                "--tls-certificate and --tls-key: found one of them, expected both or none"
            )
        if self.tls_client_ca is not None and not self.has_tls:
            raise ConfigError(
                "--tls-client-ca: found no --tls-certificate, expected one; without TLS a client"
                " cannot show who it is"
            )
        if self.plain_http and self.has_tls:
            raise ConfigError("--plain-http: found --tls-certificate too, expected one of the two")
        if not (self.has_tls or self.plain_http or is_loopback(self.listen_address[0])):
            host, port = self.listen_address
            raise ConfigError(
                f"--listen-address: found {host or 'every address'}, port {port}, without TLS;"
                " whoever reaches it can bind pods. Expected --tls-certificate and --tls-key, or a"
                " loopback address such as 127.0.0.1, or --plain-http to have it so"
            )

    @property
    def has_tls(self) -> bool:
        """Whether TLS is spoken."""
        return self.tls_certificate is not None

    @property
    def names(self) -> Dialect:
        """The dialect, with the resources renamed if asked for."""
        core_name = self.core_resource if "/" in self.core_resource else None
        return find_dialect(self.dialect, resource_name=self.resource_name, core_name=core_name)

    @property
    def counts_compute(self) -> bool:
        """Whether the compute resource is counted beside memory."""
        return self.core_resource != "off"

    @property
    def body_limit_bytes(self) -> int:
        """The largest request that is read."""
        return self.body_limit_mib << 20


def is_loopback(host: str) -> bool:
    """Say whether only this machine can reach a host; a name other than localhost is not sure."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
