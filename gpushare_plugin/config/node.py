"""The node daemon's configuration: one frozen value.

Each field says its meaning, its default and how its text is read; flags, the
environment, the file's keys and the reference page are all made from here.
"""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from gpushare_plugin.config import parsing
from gpushare_plugin.config.table import LogLevel, setting
from gpushare_plugin.core.dialect import Dialect, check_resource_name, find_dialect
from gpushare_plugin.core.health import XidRule
from gpushare_plugin.core.injection import DeviceInjection, VisibleDevices
from gpushare_plugin.core.isolation import IsolationChoice
from gpushare_plugin.core.placement import Policy
from gpushare_plugin.core.sharing import SharingRule
from gpushare_plugin.core.units import UnitRule, UnitsFrom, parse_unit_mib
from gpushare_plugin.errors import ConfigError


class Mig(Enum):
    """What becomes of GPUs in MIG mode."""

    IGNORE = "ignore"
    """They are left out."""
    SHARED = "shared"
    """Each instance is a card."""


def _unit(text: str) -> int:
    return parse_unit_mib(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """Everything that the node daemon can be told."""

    dialect: str = setting(
        "aliyun", parsing.dialect_name, "the table of names: resource, environment, socket"
    )
    node_name: str | None = setting(
        None, str, "the name of this node's object; NODE_NAME is read too"
    )
    without_cluster: bool = setting(
        "off", parsing.switch, "there is a kubelet, but no API server: place pods by policy alone"
    )
    kubeconfig: Path | None = setting(
        None, parsing.absolute_path, "how to reach the API server, in place of the service account"
    )
    require_extender: bool = setting(
        "off", parsing.switch, "refuse a pod for which no extender chose a card"
    )
    strict: bool = setting(
        "off",
        parsing.switch,
        "refuse a pod that its extender put on a full card, rather than over-commit the card, and"
        " one whose gpushare.io/gpu-count cannot be carried out, rather than serve it on one card",
    )
    resource_name: str | None = setting(
        None, check_resource_name, "the extended resource, in place of the dialect's"
    )
    core_resource: str = setting(
        "off",
        parsing.core_resource,
        "serve compute too, 100 a card: on, or the extended resource in place of the dialect's",
    )
    memory_unit: int = setting(
        "GiB",
        _unit,
        "what one unit is: GiB, MiB, or a whole number of them such as 256MiB; the dialect tencent"
        " has 256MiB unless it is given",
    )
    units_from: UnitsFrom = setting(
        "total",
        parsing.one_of(UnitsFrom),
        "the memory that is divided into units: total, or usable (less what the driver reserves)",
    )
    reserve_mib: int = setting(
        "0", parsing.whole(least=0, most=10_000_000), "MiB taken off each card on top of that"
    )
    uniform_cards: bool = setting(
        "off", parsing.switch, "advertise the smallest card's units for every card"
    )
    policy: Policy = setting(
        "binpack",
        parsing.one_of(Policy),
        "the card for a container: binpack (best fit) or spread (most free)",
    )
    numa_topology: bool = setting(
        "off",
        parsing.switch,
        "name NUMA nodes in the device list; a topology manager may then split a container"
        " over two cards, and such a container is refused",
    )
    device_injection: DeviceInjection = setting(
        "envvar",
        parsing.one_of(DeviceInjection),
        "how a card gets into a container: envvar, cdi or device-nodes",
    )
    visible_devices: VisibleDevices = setting(
        "uuid", parsing.one_of(VisibleDevices), "NVIDIA_VISIBLE_DEVICES names uuid or index"
    )
    isolation: IsolationChoice = setting(
        "auto",
        parsing.one_of(IsolationChoice),
        "what keeps a container inside its share: auto (the best that works), driver or none",
    )
    cgpu_disable: bool = setting(
        "off", parsing.switch, "tell cGPU's runtime to leave our containers alone"
    )
    mig: Mig = setting(
        "ignore",
        parsing.one_of(Mig),
        "GPUs in MIG mode: ignore (left out) or shared (each instance is a card)",
    )
    forget_cards: frozenset[str] = setting(
        "",
        parsing.card_uuids,
        "UUIDs of cards that were taken out for good: their index and units are kept otherwise",
    )
    health: bool = setting("on", parsing.switch, "watch the cards' health")
    ignore_xids: frozenset[int] = setting(
        "", parsing.xids, "XIDs that are counted only, on top of the applications' faults"
    )
    only_xids: frozenset[int] | None = setting(
        None, parsing.xids_or_none, "if given, the only XIDs that are acted on; none for none"
    )
    probe_seconds: float = setting(
        "30",
        parsing.number(least=0.05, most=3600),
        "time between two probes of the cards; three good ones in a row heal",
    )
    plugin_dir: Path = setting(
        "/var/lib/kubelet/device-plugins",
        parsing.absolute_path,
        "the kubelet's device plugin folder",
    )
    pod_resources_socket: Path = setting(
        "/var/lib/kubelet/pod-resources/kubelet.sock",
        parsing.absolute_path,
        "the kubelet's PodResources socket",
    )
    tick_seconds: float = setting(
        "1",
        parsing.number(least=0.05, most=60),
        "how often the sockets are compared with what they were, events or not",
    )
    register_timeout_seconds: float = setting(
        "15",
        parsing.number(least=0.1, most=300),
        "limit of one registration; the kubelet itself dials us for up to 10 s inside it",
    )
    allocate_deadline_seconds: float = setting(
        "5",
        parsing.number(least=0.1, most=300),
        "limit of one Allocate; the kubelet sets none and admits no pod meanwhile",
    )
    status_address: tuple[str, int] | None = setting(
        ":9435", parsing.listen_address, "where /metrics, /healthz and /readyz are; off for none"
    )
    cdi_dirs: tuple[Path, ...] = setting(
        "/etc/cdi,/var/run/cdi", parsing.absolute_paths, "where the host's CDI specs are"
    )
    nvml_library: Path | None = setting(
        None, parsing.absolute_path, "libnvidia-ml.so.1, where the loader would not find it"
    )
    simulate: str | None = setting(
        None, str, "simulated GPUs in place of the node's: a shipped profile's name or a path"
    )
    simulate_events: Path | None = setting(
        None, parsing.absolute_path, "the file from which simulated GPUs read their faults"
    )
    log_level: LogLevel = setting("info", parsing.one_of(LogLevel), "debug, info, warning or error")

    def check(self) -> None:
        """Make sure that the settings go together.

        Raises:
            ConfigError: two of them contradict each other.
        """
        if self.mig is Mig.SHARED:
            if self.visible_devices is VisibleDevices.INDEX:
                raise ConfigError(
                    "--mig shared: a MIG instance has no index of its own; expected"
                    " --visible-devices uuid"
                )
            if self.device_injection is DeviceInjection.DEVICE_NODES:
                raise ConfigError(
                    "--mig shared: a MIG instance has no device node of its own; expected"
                    " --device-injection envvar or cdi"
                )
        if self.shares_compute and self.names.core_resource == self.names.memory_resource:
            raise ConfigError(
                f"--core-resource: found {self.names.core_resource!r}, which is the memory's name"
                " too; expected another one"
            )
        if self.without_cluster and self.require_extender:
            raise ConfigError("--require-extender: without a cluster there is no extender")
        if self.simulate is not None and self.nvml_library is not None:
            raise ConfigError(
                "--simulate brings its own NVML; expected no --nvml-library beside it"
            )

    def check_cluster(self) -> None:
        """Make sure that this node's object can be found, where there is an API server.

        Raises:
            ConfigError: nothing says what the node is called.
        """
        if not self.without_cluster and not self.node_name:
            raise ConfigError(
                "--node-name: found none, expected the name of this node's object (in a pod, from"
                " spec.nodeName); or set --without-cluster where there is no API server"
            )

    @property
    def names(self) -> Dialect:
        """The dialect, with the resources renamed if asked for."""
        core_name = self.core_resource if "/" in self.core_resource else None
        return find_dialect(self.dialect, resource_name=self.resource_name, core_name=core_name)

    @property
    def shares_compute(self) -> bool:
        """Whether the compute resource is served beside memory."""
        return self.core_resource != "off"

    @property
    def sharing(self) -> SharingRule:
        """How GPUs become cards."""
        units = UnitRule(
            unit_mib=self.memory_unit, units_from=self.units_from, reserve_mib=self.reserve_mib
        )
        return SharingRule(
            units=units,
            uniform=self.uniform_cards,
            with_numa=self.numa_topology,
            needs_minor=self.device_injection is DeviceInjection.DEVICE_NODES,
        )

    @property
    def xid_rule(self) -> XidRule:
        """The table of XIDs with the operator's changes."""
        return XidRule(ignored=self.ignore_xids, only=self.only_xids)
