"""What exists once there are cards to serve: everything between the inventory and the kubelet."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from gpushare_plugin.adapters import host
from gpushare_plugin.app.plugin import Plugin
from gpushare_plugin.config import NodeConfig
from gpushare_plugin.core.injection import DeviceInjection, InjectionRule
from gpushare_plugin.core.isolation import Decision, HostFacts, decide
from gpushare_plugin.metrics import NodeMetrics
from gpushare_plugin.node.admission import Admission
from gpushare_plugin.node.allocator import AllocationRule, Allocator
from gpushare_plugin.node.inventory import Inventory
from gpushare_plugin.node.registration import LifeRule
from gpushare_plugin.node.resources import CoreResource, MemoryResource, Resource
from gpushare_plugin.node.service import DevicePluginService
from gpushare_plugin.node.specs import PodSpecs
from gpushare_plugin.node.tellings import Tellings
from gpushare_plugin.ports import Reading, SocketFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeParts:
    """The parts that are there from the start."""

    inventory: Inventory
    admission: Admission
    specs: PodSpecs
    metrics: NodeMetrics
    new_files: Callable[[], SocketFiles]
    """Returns the plugin folder for one who waits for its changes."""
    ever_registered: asyncio.Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """The parts that serve the kubelet."""

    allocator: Allocator
    plugins: tuple[Plugin, ...]
    """One for each resource, the memory's first."""

    @property
    def memory(self) -> Plugin:
        """The memory's plugin."""
        return self.plugins[0]


class ToldFirst(Protocol):
    """Who is told of the kubelet's calls, and before the kubelet of bad news."""

    @property
    def tellings(self) -> Tellings:
        """What is told of pods and cards."""

    async def before_bad_news(self) -> None:
        """Return once the kubelet may be told of fewer devices."""


def build_serving(
    config: NodeConfig, parts: NodeParts, cluster: ToldFirst, decision: Decision
) -> Serving:
    """Build what serves these cards under this isolation."""
    names = config.names
    rule = _allocation_rule(config, decision)
    allocator = Allocator(parts.inventory, parts.specs, rule, parts.metrics, cluster.tellings)
    memory = MemoryResource(allocator, parts.admission, with_numa=config.numa_topology)
    life = LifeRule(
        plugin_dir=config.plugin_dir,
        resource=names.memory_resource,
        socket_prefix=names.socket_prefix,
        prefers=memory.prefers,
        tick_seconds=config.tick_seconds,
        register_timeout_seconds=config.register_timeout_seconds,
    )
    plugins = [_plugin(config, parts, cluster, memory, life)]
    if config.shares_compute:
        admission = parts.admission.of_resource(names.core_resource)
        cores = CoreResource(parts.inventory, admission, parts.specs, names, cluster.tellings)
        life = replace(
            life,
            resource=names.core_resource,
            socket_prefix=names.core_socket_prefix,
            prefers=cores.prefers,
        )
        plugins.append(_plugin(config, parts, cluster, cores, life))
    return Serving(allocator=allocator, plugins=tuple(plugins))


def _plugin(
    config: NodeConfig, parts: NodeParts, cluster: ToldFirst, resource: Resource, life: LifeRule
) -> Plugin:
    service = DevicePluginService(
        parts.inventory,
        resource,
        parts.metrics,
        before_bad_news=cluster.before_bad_news,
        allocate_deadline_seconds=config.allocate_deadline_seconds,
    )
    return Plugin(service, parts.new_files(), parts.metrics, life, parts.ever_registered)


def decide_isolation(
    config: NodeConfig, inventory: Inventory, reading: Reading, hooks: host.LimitHooks
) -> Decision:
    """Return the isolation in force on this host.

    Raises:
        ConfigError: the one that was asked for cannot work here.
    """
    shown = {gpu.uuid for gpu in reading.gpus}
    facts = HostFacts(
        driver_version=reading.driver_version,
        cgroup_v2=host.has_cgroup_v2(),
        any_mig=reading.any_mig,
        cards_with_limit_hook=hooks.cards(),
        # One that is lost is given to nobody, and no CDI spec names it.
        cards=frozenset(card.uuid for card in inventory.cards if card.uuid in shown),
    )
    return decide(config.isolation, facts)


def control_nodes(config: NodeConfig) -> tuple[str, ...]:
    """Return the device nodes beside the cards' own that containers are given, as of now."""
    by_nodes = config.device_injection is DeviceInjection.DEVICE_NODES
    return host.control_nodes(host.CONTROL_NODES) if by_nodes else ()


def _allocation_rule(config: NodeConfig, decision: Decision) -> AllocationRule:
    injection = InjectionRule(
        names=config.names.environment,
        injection=config.device_injection,
        visible=config.visible_devices,
        cgpu_disable=config.cgpu_disable,
        control_nodes=control_nodes(config),
    )
    return AllocationRule(
        resource=config.names.memory_resource,
        annotations=config.names.annotations,
        policy=config.policy,
        injection=injection,
        isolation=decision.isolation,
        unit_mib=config.memory_unit,
        cores=config.names,
        strict=config.strict,
        require_extender=config.require_extender,
    )
