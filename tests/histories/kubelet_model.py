"""The kubelet in the small: one pod at a time, IDs in any order, and a list of who holds what."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from gpushare_plugin.core.association import ContainerDevices, ListedPod, PodName
from gpushare_plugin.core.devices import Card
from gpushare_plugin.core.dialect import ALIYUN
from gpushare_plugin.core.placement import Request
from gpushare_plugin.core.pods import Container, ContainerKind, Pod
from gpushare_plugin.errors import AllocationRefused, PodResourcesError
from tests.histories.daemon_model import RESOURCE, Daemon

VISIBLE = ALIYUN.environment.visible_devices


class Rejected(Exception):
    """The pod is not admitted."""


@dataclass
class Admitted:
    """What the kubelet keeps of a pod, in its checkpoint too."""

    pod: Pod
    devices: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By container; init containers' too."""
    envs: dict[str, Mapping[str, str]] = field(default_factory=dict)
    ended: bool = False


@dataclass
class KubeletModel:
    """All that a daemon meets of it; one daemon at a time is registered."""

    draw: Random
    all_ids: tuple[str, ...]
    lists_ended_pods: bool = False
    """As kubelets before 1.34 do."""
    pods: dict[str, Admitted] = field(default_factory=dict)
    list_failures: int = 0
    daemon: Daemon | None = None

    async def list_pods(
        self,
        resource_name: str,  # noqa: ARG002
        *,
        timeout_seconds: float,  # noqa: ARG002
    ) -> Sequence[ListedPod]:
        await asyncio.sleep(self.draw.choice((0.001, 0.02)))
        if self.list_failures:
            self.list_failures -= 1
            raise PodResourcesError("rejected by rate limit")
        shown = [each for each in self.pods.values() if self.lists_ended_pods or not each.ended]
        return [_listed(each) for each in self.draw.sample(shown, len(shown))]

    async def admit(self, pod: Pod) -> bool:
        """Admit a pod; say whether it runs."""
        admitted = self.pods[pod.uid] = Admitted(pod=pod)
        reusable: set[str] = set()
        try:
            for container in pod.containers:
                await asyncio.sleep(self.draw.choice((0.0, 0.004, 0.03)))
                ids = await self._serve(admitted, container, reusable)
                if container.kind is ContainerKind.INIT:
                    reusable |= ids
                else:
                    reusable -= ids
        except Rejected:
            del self.pods[pod.uid]
            return False
        return True

    def end(self, uid: str) -> None:
        """Its containers have ended; what they held is free."""
        if uid in self.pods:
            self.pods[uid].ended = True
            self.pods[uid].devices.clear()

    def remove(self, uid: str) -> None:
        self.pods.pop(uid, None)

    def free(self) -> set[str]:
        held = {
            each
            for pod in self.pods.values()
            for device_ids in pod.devices.values()
            for each in device_ids
        }
        return set(self.all_ids) - held

    def used_beyond_ids(self, card: Card) -> int:
        """How many units of the card are used by containers that hold IDs of others for it."""
        beyond = 0
        for pod in self.pods.values():
            for container in pod.pod.containers:
                ids = pod.devices.get(container.name, ())
                visible = pod.envs.get(container.name, {}).get(VISIBLE)
                if container.kind is not ContainerKind.INIT and visible == card.uuid:
                    beyond += sum(not each.startswith(card.tag) for each in ids)
        return beyond

    def seen_by(self, uid: str) -> set[str]:
        """The UUIDs of the cards that the pod's containers see."""
        envs = self.pods[uid].envs.values()
        return {uuid for each in envs for uuid in each.get(VISIBLE, "").split(",") if uuid}

    def seen_units(self, uuid: str) -> int:
        """How many units of a card the containers use, by the cards that they see."""
        seen = 0
        for pod in self.pods.values():
            for container in pod.pod.containers:
                uuids = pod.envs.get(container.name, {}).get(VISIBLE, "").split(",")
                if container.kind is not ContainerKind.INIT and uuid in uuids:
                    seen += len(pod.devices.get(container.name, ())) // len(uuids)
        return seen

    async def _serve(
        self, admitted: Admitted, container: Container, reusable: Collection[str]
    ) -> set[str]:
        size = container.requests.get(RESOURCE, 0)
        if not size:
            return set()
        assert self.daemon is not None
        chosen = self._shuffled(reusable)[:size]
        if len(chosen) < size:
            chosen = await self._choose(chosen, size, self.daemon)
        try:
            injection = self.daemon.allocator.allocate(self._shuffled(chosen))
        except AllocationRefused as refusal:
            raise Rejected(str(refusal)) from refusal
        self.daemon.admission.allocation_happened()
        admitted.devices[container.name] = tuple(sorted(chosen))
        admitted.envs[container.name] = injection.envs
        return set(chosen)

    async def _choose(self, chosen: list[str], size: int, daemon: Daemon) -> list[str]:
        free = self.free()
        if len(free) < size - len(chosen):
            raise Rejected("requested number of devices unavailable")
        call = await daemon.admission.pod_of_call()
        daemon.callers.append(call.caller)
        request = Request(
            available_ids=self._shuffled(free | set(chosen)),
            must_include_ids=self._shuffled(chosen),
            size=size,
        )
        hint = daemon.allocator.propose(request, call).device_ids
        taken = [*chosen, *(each for each in hint if each in free and each not in chosen)][:size]
        rest = self._shuffled(free - set(taken))
        return [*taken, *rest[: size - len(taken)]]

    def _shuffled(self, ids: Collection[str]) -> list[str]:
        return self.draw.sample(sorted(ids), len(ids))


def _listed(admitted: Admitted) -> ListedPod:
    pod = admitted.pod
    return ListedPod(
        pod=PodName(namespace=pod.namespace, name=pod.name),
        containers=tuple(
            ContainerDevices(name=each.name, device_ids=admitted.devices.get(each.name, ()))
            for each in pod.containers
            if each.kind is not ContainerKind.INIT
        ),
    )
