"""What exists once there are cards to serve: everything between the inventory and the kubelet."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from gpushare_plugin.adapters import host
from gpushare_plugin.adapters.kubelet import KubeletClient
from gpushare_plugin.config import NodeConfig
from gpushare_plugin.core.injection import DeviceInjection, InjectionRule
from gpushare_plugin.core.isolation import Decision, HostFacts, decide
from gpushare_plugin.core.node_record import Record
from gpushare_plugin.core.units import unit_text
from gpushare_plugin.errors import ConfigError, PodResourcesError
from gpushare_plugin.metrics import NodeMetrics
from gpushare_plugin.node.admission import Admission
from gpushare_plugin.node.allocator import AllocationRule, Allocator
from gpushare_plugin.node.inventory import Inventory
from gpushare_plugin.node.registration import KUBELET_SOCKET, LifeRule, PluginLife
from gpushare_plugin.node.retrying import BackOff
from gpushare_plugin.node.service import DeviceLists, DevicePluginService
from gpushare_plugin.node.specs import PodSpecs
from gpushare_plugin.node.supervisor import Supervisor
from gpushare_plugin.node.tellings import Tellings
from gpushare_plugin.ports import PodResources, Reading, SocketFiles

LIST_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeParts:
    """The parts that are there from the start."""

    inventory: Inventory
    admission: Admission
    specs: PodSpecs
    metrics: NodeMetrics
    files: SocketFiles
    ever_registered: asyncio.Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """The parts that serve the kubelet."""

    decision: Decision
    allocator: Allocator
    service: DevicePluginService
    life: PluginLife
    supervisor: Supervisor


class ToldFirst(Protocol):
    """Who is told of the kubelet's calls, and before the kubelet of bad news."""

    @property
    def tellings(self) -> Tellings:
        """What is told of pods and cards."""

    async def before_bad_news(self) -> None:
        """Return once the kubelet may be told of fewer devices."""


def build_serving(
    config: NodeConfig, parts: NodeParts, cluster: ToldFirst, reading: Reading
) -> Serving:
    """Build what serves these cards.

    Raises:
        ConfigError: the isolation that was asked for cannot work here.
    """
    names = config.names
    decision = decide_isolation(config, parts.inventory, reading)
    service = DevicePluginService(
        parts.inventory,
        Allocator(
            parts.inventory,
            parts.specs,
            _allocation_rule(config, decision),
            parts.metrics,
            cluster.tellings,
        ),
        parts.admission,
        parts.metrics,
        lists=DeviceLists(with_numa=config.numa_topology, before_bad_news=cluster.before_bad_news),
        allocate_deadline_seconds=config.allocate_deadline_seconds,
    )
    rule = LifeRule(
        plugin_dir=config.plugin_dir,
        names=names,
        tick_seconds=config.tick_seconds,
        register_timeout_seconds=config.register_timeout_seconds,
    )
    kubelet = KubeletClient(config.plugin_dir / KUBELET_SOCKET)
    life = PluginLife(service, kubelet, parts.files, parts.metrics, rule, parts.ever_registered)
    supervisor = Supervisor(
        life.live_once,
        parts.files,
        parts.metrics,
        tick_seconds=config.tick_seconds,
        back_off=BackOff(),
    )
    return Serving(
        decision=decision,
        allocator=service.allocator,
        service=service,
        life=life,
        supervisor=supervisor,
    )


def decide_isolation(config: NodeConfig, inventory: Inventory, reading: Reading) -> Decision:
    """Return the isolation in force on this host.

    Raises:
        ConfigError: the one that was asked for cannot work here.
    """
    facts = HostFacts(
        driver_version=reading.driver_version,
        cgroup_v2=host.has_cgroup_v2(),
        any_mig=reading.any_mig,
        cards_with_limit_hook=host.cards_with_limit_hook(config.cdi_dirs),
        cards=frozenset(card.uuid for card in inventory.cards),
    )
    return decide(config.isolation, facts)


async def refuse_another_unit(
    config: NodeConfig, record: Record | None, pod_resources: PodResources
) -> None:
    """Make sure that the unit is the one that pods here hold devices of.

    Raises:
        ConfigError: it is another; a pod's units would be of another size than it asked for.
    """
    if record is None or record.unit_mib == config.memory_unit:
        return
    with suppress(PodResourcesError):
        pods = await pod_resources.list_pods(
            config.names.memory_resource, timeout_seconds=LIST_SECONDS
        )
        holding = [str(each.pod) for each in pods if each.holds_devices]
        if holding:
            raise ConfigError(
                f"memory unit {unit_text(config.memory_unit)}: this node shares by"
                f" {unit_text(record.unit_mib)}, and pods hold such units"
                f" ({', '.join(holding[:3])}); drain the node first, or keep its unit"
            )


def _allocation_rule(config: NodeConfig, decision: Decision) -> AllocationRule:
    by_nodes = config.device_injection is DeviceInjection.DEVICE_NODES
    injection = InjectionRule(
        names=config.names.environment,
        injection=config.device_injection,
        visible=config.visible_devices,
        cgpu_disable=config.cgpu_disable,
        control_nodes=host.control_nodes() if by_nodes else (),
    )
    return AllocationRule(
        resource=config.names.memory_resource,
        annotations=config.names.annotations,
        policy=config.policy,
        injection=injection,
        isolation=decision.isolation,
        unit_mib=config.memory_unit,
        strict=config.strict,
        require_extender=config.require_extender,
    )
