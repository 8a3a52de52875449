"""Binding a pod to a node: what POST pods/NAME/binding makes of the pod.

Rule: node, annotations and the PodScheduled condition come in one step, for the
pod of the named UID, and only once. Pure.
"""

from gpushare_plugin.sim.apiserver.kinds import BINDING, POD, Json
from gpushare_plugin.sim.apiserver.merge_patch import strategically_merged
from gpushare_plugin.sim.apiserver.refusals import bad_request, conflict, invalid
from gpushare_plugin.sim.apiserver.stored import dig


def check_binding(binding: Json, name: str) -> None:
    """Refuse a Binding that is for another pod than the path says, or for no node."""
    if dig(binding, ("metadata", "name")) != name:
        raise bad_request("name in URL does not match name in Binding object")
    if dig(binding, ("target", "kind")) not in {None, "", "Node"}:
        cause = 'Unsupported value: supported values: "Node"'
        raise invalid(BINDING, name, "target.kind", cause)
    if not dig(binding, ("target", "name")):
        raise invalid(BINDING, name, "target.name", "Required value")


def bound(pod: Json, binding: Json, *, now: str) -> Json:
    """Return the pod on its node; raises ApiRefusal if it may not be put there."""
    name = pod["metadata"]["name"]
    if "deletionTimestamp" in pod["metadata"]:
        cause = f"pod {name} is being deleted, cannot be assigned to a host"
        raise conflict(POD, name, cause, subresource="binding")
    if node := dig(pod, ("spec", "nodeName")):
        cause = f'pod {name} is already assigned to node "{node}"'
        raise conflict(POD, name, cause, subresource="binding")
    if dig(pod, ("spec", "schedulingGates")):
        cause = f"pod {name} has non-empty .spec.schedulingGates"
        raise conflict(POD, name, cause, subresource="binding")
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now}
    patch: Json = {
        "spec": {"nodeName": binding["target"]["name"]},
        "status": {"conditions": [scheduled]},
    }
    if annotations := dig(binding, ("metadata", "annotations")):
        patch["metadata"] = {"annotations": annotations}
    return strategically_merged(pod, patch)
