"""The first part of the story: pods come, and each gets the card that was chosen for it."""

import asyncio
from collections.abc import Sequence

from gpushare_plugin.demo.picture import Picture
from gpushare_plugin.demo.stage import INDEX, Expected, Stage
from gpushare_plugin.sim.kubelet import Phase, PodStatus

FIRST_PODS = (
    Expected(name="notebook", units=(4,), card=0),
    Expected(name="batch", units=(5,), card=1, policy="spread"),
)
TWINS = (
    Expected(name="twin-a", units=(6,), card=1),
    Expected(name="twin-b", units=(6,), card=0),
)
TOO_LARGE = Expected(name="too-large", units=(8,))
REASON = "gpu-node: largest free card has 5 of 8 GiB asked; 9 GiB free in all"
LATE = Expected(name="late", units=(5,), card=0)
PAIR = Expected(name="pair", units=(3, 1), card=1)


async def place(stage: Stage, picture: Picture) -> bool:
    """Pods come one after the other."""
    picture.step("Pods come", "kube-scheduler asks the extender; batch asks for policy spread")
    return await _run(stage, picture, FIRST_PODS)


async def twins(stage: Stage, picture: Picture) -> bool:
    """Two pods that ask for the same are admitted in another order than they were bound in."""
    picture.step("Two equal pods, in the other order", "bound a then b, admitted b then a")
    specs = {}
    for pod in TWINS:
        await stage.create(pod)
        specs[pod.name] = await stage.bound(pod)
    picture.extender([await _choice(stage, pod) for pod in TWINS])
    statuses = [await stage.peers.kubelet.admit(specs[pod.name]) for pod in reversed(TWINS)]
    stage.pods += reversed(statuses)
    picture.daemon(await stage.peers.daemon.news(*["allocated"] * len(TWINS)))
    picture.kubelet([_in_short(status) for status in statuses])
    return picture.checked(
        "each gets the card that was chosen for it, not its twin's",
        held=all(map(_as_expected, reversed(statuses), TWINS)),
    )


async def too_large(stage: Stage, picture: Picture) -> bool:
    """A pod comes that no card has room for, though the node has in all."""
    picture.step("A pod that fits on no card", "it asks for 8 units; the cards have 5 and 4 free")
    await stage.create(TOO_LARGE)
    told = await stage.refusal(TOO_LARGE)
    picture.scheduler([f"FailedScheduling pod {TOO_LARGE.name}:", told])
    pod = await stage.peers.api.get("pods", TOO_LARGE.name)
    return picture.checked(
        "it waits, on no node, and its user is told what was asked and what there is",
        held=REASON in told and not pod["spec"].get("nodeName"),
    )


async def away(stage: Stage, picture: Picture) -> bool:
    """The API server is away while a pod is admitted."""
    picture.step("The API server goes away", "a pod that was bound before is admitted meanwhile")
    await stage.create(LATE)
    spec = await stage.bound(LATE)
    picture.extender([await _choice(stage, LATE)])
    # The watch has had its time to bring the pod; without it the policy would place it.
    await asyncio.sleep(0.2)
    await stage.peers.api.go_away()
    status = await stage.peers.kubelet.admit(spec)
    stage.pods.append(status)
    picture.daemon(await stage.peers.daemon.news("allocated"))
    picture.kubelet([_in_short(status)])
    served = picture.checked("it is served all the same", held=_as_expected(status, LATE))
    await stage.peers.api.come_back()
    allocation = await stage.published(LATE.name)
    picture.api([f"back again; pod {LATE.name}: {sum(allocation['main'].values())} units written"])
    return served & picture.checked(
        "what happened is written once the API server is back",
        held=list(allocation["main"].values()) == list(LATE.units),
    )


async def pair(stage: Stage, picture: Picture) -> bool:
    """A pod of two containers comes."""
    picture.step("A pod of two containers", "the sum of both has to fit on one card")
    return await _run(stage, picture, (PAIR,))


async def _run(stage: Stage, picture: Picture, pods: Sequence[Expected]) -> bool:
    """Have pods placed and admitted, one after the other."""
    statuses = []
    for pod in pods:
        await stage.create(pod)
        statuses.append(await stage.peers.kubelet.admit(await stage.bound(pod)))
    stage.pods += statuses
    picture.extender([await _choice(stage, pod) for pod in pods])
    picture.daemon(await stage.peers.daemon.news(*["allocated" for pod in pods for _ in pod.units]))
    picture.kubelet([_in_short(status) for status in statuses])
    return picture.checked(
        "each container runs on the card that was chosen, and is told which",
        held=all(map(_as_expected, statuses, pods)),
    )


async def _choice(stage: Stage, pod: Expected) -> str:
    """Return what the extender wrote on a pod as it bound it."""
    return f"pod {pod.name} bound; {INDEX}={(await stage.annotations(pod.name))[INDEX]}"


def _as_expected(status: PodStatus, pod: Expected) -> bool:
    got = [container.env.get(INDEX) for container in status.containers]
    return status.phase is Phase.RUNNING and got == [str(pod.card)] * len(pod.units)


def _in_short(status: PodStatus) -> str:
    parts = [
        f"{container.name}: {container.env['ALIYUN_COM_GPU_MEM_CONTAINER']} units,"
        f" NVIDIA_VISIBLE_DEVICES={container.env['NVIDIA_VISIBLE_DEVICES'][:12]}…"
        for container in status.containers
    ]
    return f"pod {status.name} {status.phase}; " + "; ".join(parts)
