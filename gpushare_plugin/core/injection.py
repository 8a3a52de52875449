"""What a container is given: the environment, device nodes and CDI names of its share.

Rule 1: the dialect's variables are always there, whatever the way of injection.
Rule 2: a share of several cards, which only a pod that asked for it has, gives each
value as a comma list, in order of card index.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from gpushare_plugin.core.devices import Card
from gpushare_plugin.core.dialect import EnvironmentNames

CDI_KIND = "nvidia.com/gpu"
CDI_ANNOTATION = "cdi.k8s.io/gpushare"
"""For container runtimes behind kubelets before 1.28, which know no CDI field (KEP-4009)."""


class VisibleDevices(Enum):
    """How NVIDIA_VISIBLE_DEVICES names the card."""

    UUID = "uuid"
    INDEX = "index"
    """NVML's index, which is what NVIDIA's runtime takes a number for."""


class DeviceInjection(Enum):
    """How the card gets into the container."""

    ENVVAR = "envvar"
    CDI = "cdi"
    DEVICE_NODES = "device-nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The units that one container holds, of one card, or evenly of several."""

    cards: tuple[Card, ...]
    container_units: int
    pod_units: int
    """The units of the container's pod; the container's where the pod's are not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """What one container is given."""

    envs: Mapping[str, str] = field(default_factory=dict)
    device_nodes: tuple[str, ...] = ()
    """Paths, the same on the host and in the container, readable and writable."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()

    def merged(self, other: "Injection") -> "Injection":
        """Return both together; of equal keys the other's value stays."""
        return Injection(
            envs={**self.envs, **other.envs},
            device_nodes=tuple(dict.fromkeys([*self.device_nodes, *other.device_nodes])),
            annotations={**self.annotations, **other.annotations},
            cdi_devices=tuple(dict.fromkeys([*self.cdi_devices, *other.cdi_devices])),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectionRule:
    """How shares are given on this node."""

    names: EnvironmentNames
    injection: DeviceInjection = DeviceInjection.ENVVAR
    visible: VisibleDevices = VisibleDevices.UUID
    cgpu_disable: bool = False
    control_nodes: Sequence[str] = ()
    """The device nodes beside the card's own that are there on this host."""

    def inject(self, share: Share) -> Injection:
        """Return what the container of this share is given."""
        envs = self.environment(share)
        match self.injection:
            case DeviceInjection.ENVVAR:
                return Injection(envs=envs)
            case DeviceInjection.CDI:
                names = tuple(cdi_name(card) for card in share.cards)
                together = {CDI_ANNOTATION: ",".join(names)}
                return Injection(envs=envs, cdi_devices=names, annotations=together)
            case DeviceInjection.DEVICE_NODES:
                nodes = [f"/dev/nvidia{card.gpu.minor_number}" for card in share.cards]
                return Injection(envs=envs, device_nodes=(*nodes, *self.control_nodes))

    def environment(self, share: Share) -> dict[str, str]:
        """Return the dialect's variables for this share."""
        by_index = self.visible is VisibleDevices.INDEX
        visible = [str(card.gpu.nvml_index) if by_index else card.uuid for card in share.cards]
        values = {
            self.names.visible_devices: ",".join(visible),
            self.names.card_index: ",".join(str(card.index) for card in share.cards),
            self.names.pod_units: str(share.pod_units),
            self.names.container_units: str(share.container_units),
            self.names.card_units: ",".join(str(card.units) for card in share.cards),
            self.names.isolation_off: "true" if self.cgpu_disable else None,
        }
        return {
            name: value for name, value in values.items() if name is not None and value is not None
        }


def cdi_name(card: Card) -> str:
    """Return the card's fully qualified CDI device name."""
    return f"{CDI_KIND}={card.uuid}"
