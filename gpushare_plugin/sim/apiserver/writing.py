"""The writes that clients ask for: create, update, patch, delete, bind.

Rule 1: nothing is awaited here, so a write is one step: it is done or refused,
and nobody sees half of it.
Rule 2: a write that changes nothing makes no new version and no event.
Rule 3: checks come in the real server's order: preconditions, the object's own
rules, admission policies, then the store.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpushare_plugin.sim.apiserver import admission, preparing
from gpushare_plugin.sim.apiserver.access import User
from gpushare_plugin.sim.apiserver.admission import (
    AdmissionPolicy,
    AdmissionRequest,
    Operation,
)
from gpushare_plugin.sim.apiserver.binding import bound, check_binding
from gpushare_plugin.sim.apiserver.clock import timestamp
from gpushare_plugin.sim.apiserver.graces import Graces
from gpushare_plugin.sim.apiserver.kinds import NAMESPACE, POD, Json, Kind
from gpushare_plugin.sim.apiserver.patching import Change
from gpushare_plugin.sim.apiserver.refusals import (
    already_exists,
    bad_request,
    conflict,
    invalid,
    not_found,
    precondition_failed,
)
from gpushare_plugin.sim.apiserver.store import Store
from gpushare_plugin.sim.apiserver.stored import StoredObject, dig
from gpushare_plugin.sim.apiserver.targets import Target
from gpushare_plugin.sim.apiserver.validation import check_pod_update, checked


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Who writes where."""

    user: User
    target: Target
    dry_run: bool = False


class Writing:
    """Carries writes out."""

    def __init__(self, store: Store, graces: Graces) -> None:
        self.policies: Sequence[AdmissionPolicy] = ()
        self._store = store
        self._graces = graces

    def create(self, write: Write, value: Json) -> StoredObject:
        """Create an object."""
        kind, target = write.target.kind, write.target
        value = _named(target, value)
        name, namespace = value["metadata"]["name"], target.namespace
        if namespace and self._store.find(NAMESPACE, "", namespace) is None:
            raise not_found(NAMESPACE, namespace)
        value = preparing.created(kind, value, uid=str(uuid.uuid4()), now=timestamp())
        value = checked(kind, value)
        if self._store.find(kind, namespace, name) is not None:
            raise already_exists(kind, name)
        self._ask(write, Operation.CREATE, name, None, value)
        return self._commit(write, value)

    def update(self, write: Write, value: Json) -> StoredObject:
        """Replace an object, or its status."""
        kind, target = write.target.kind, write.target
        stored = self.found(target)
        value = _named(target, value)
        metadata = value["metadata"]
        self._check_preconditions(stored, uid=metadata.get("uid"), version=None)
        version = metadata.get("resourceVersion")
        if not version and not kind.unconditional_update:
            cause = "Invalid value: 0: must be specified for an update"
            raise invalid(kind, target.name, "metadata.resourceVersion", cause)
        if version and version != str(stored.version):
            raise conflict(kind, target.name)
        return self._replace(write, stored, value)

    def patch(self, write: Write, change: Change) -> StoredObject:
        """Change an object, or its status."""
        kind, name = write.target.kind, write.target.name
        stored = self.found(write.target)
        before = kind.from_stored(stored.value())
        wanted = change(before)
        metadata = wanted.get("metadata") or {}
        if metadata.get("name") != name:
            raise bad_request(_other_name(metadata.get("name"), name))
        uid = metadata.get("uid") or stored.uid
        if uid != stored.uid:
            cause = f'Invalid value: "{uid}": field is immutable'
            raise invalid(kind, name, "metadata.uid", cause)
        if metadata.get("resourceVersion") not in {None, "", str(stored.version)}:
            raise conflict(kind, name)
        return self._replace(write, stored, wanted)

    def delete(self, write: Write, options: Json) -> StoredObject:
        """Delete an object; a pod that runs is only told to end, and keeps its grace."""
        stored = self.found(write.target)
        wanted = options.get("preconditions") or {}
        self._check_preconditions(
            stored, uid=wanted.get("uid"), version=wanted.get("resourceVersion")
        )
        value = stored.value()
        self._ask(write, Operation.DELETE, stored.name, value, None)
        grace_seconds = _grace_seconds(stored.kind, value, options)
        if write.dry_run:
            return stored
        if grace_seconds == 0:
            return self._store.remove(stored)
        if grace_seconds >= value["metadata"].get("deletionGracePeriodSeconds", float("inf")):
            return stored
        return self.terminate(stored, grace_seconds=grace_seconds)

    def terminate(self, stored: StoredObject, *, grace_seconds: int) -> StoredObject:
        """Mark an object as on its way out; it goes when its grace is over."""
        value = stored.value()
        value["metadata"]["deletionTimestamp"] = timestamp(ahead_seconds=grace_seconds)
        value["metadata"]["deletionGracePeriodSeconds"] = grace_seconds
        marked = self._store.put(stored.kind, value)
        self._graces.begin(marked, grace_seconds=grace_seconds)
        return marked

    def bind(self, write: Write, binding: Json) -> None:
        """Bind a pod to a node."""
        name = write.target.name or dig(binding, ("metadata", "name")) or ""
        check_binding(binding, name)
        pod = replace(write.target, kind=POD, name=name)
        # Policies are asked about the Binding, before anybody looks at the pod.
        self._ask(write, Operation.CREATE, name, None, binding)
        stored = self.found(pod)
        self._check_preconditions(
            stored,
            uid=dig(binding, ("metadata", "uid")),
            version=dig(binding, ("metadata", "resourceVersion")),
        )
        after = checked(POD, bound(stored.value(), binding, now=timestamp()))
        self._commit(replace(write, target=pod), after)

    def found(self, target: Target) -> StoredObject:
        """Return the object; raises ApiRefusal if there is none."""
        stored = self._store.find(target.kind, target.namespace, target.name)
        if stored is None:
            raise not_found(target.kind, target.name)
        return stored

    # ------------------------------------------------------------------------- steps

    def _replace(self, write: Write, stored: StoredObject, wanted: Json) -> StoredObject:
        kind, subresource = write.target.kind, write.target.subresource
        before = kind.from_stored(stored.value())
        after = preparing.updated(kind, before, wanted, subresource=subresource)
        after = checked(kind, after)
        if kind is POD and subresource != "status":
            check_pod_update(before, after)
        self._ask(write, Operation.UPDATE, stored.name, before, after)
        return stored if after == before else self._commit(write, after)

    def _ask(
        self, write: Write, operation: Operation, name: str, before: Json | None, after: Json | None
    ) -> None:
        request = AdmissionRequest(
            user=write.user,
            operation=operation,
            target=replace(write.target, name=name),
            before=before,
            after=after,
        )
        admission.check(self.policies, request)

    def _commit(self, write: Write, value: Json) -> StoredObject:
        kind = write.target.kind
        value = kind.to_stored(value)
        if write.dry_run:
            return self._store.seal(kind, value, version=self._store.version)
        return self._store.put(kind, value)

    def _check_preconditions(
        self, stored: StoredObject, *, uid: str | None, version: str | None
    ) -> None:
        pairs = (("UID", uid, stored.uid), ("ResourceVersion", version, str(stored.version)))
        for what, wanted, found in pairs:
            if wanted and wanted != found:
                raise precondition_failed(
                    stored.kind, stored.path, what=what, wanted=wanted, found=found
                )


def _named(target: Target, value: Json) -> Json:
    """Return the value with the name and namespace that the path says, or its own."""
    kind = target.kind
    metadata = dict(value.get("metadata") or {})
    for part, expected in kind.head.items():
        if value.get(part, expected) != expected:
            raise bad_request(
                f"the {part} in the data ({value[part]}) does not match the expected "
                f"{part} ({expected})"
            )
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = metadata["generateName"] + uuid.uuid4().hex[:5]
    if target.name and metadata.setdefault("name", target.name) != target.name:
        raise bad_request(_other_name(metadata["name"], target.name))
    if target.namespace and metadata.setdefault("namespace", target.namespace) != target.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    return value | {"metadata": metadata}


def _other_name(found: object, wanted: str) -> str:
    return f"the name of the object ({found}) does not match the name on the URL ({wanted})"


def _grace_seconds(kind: Kind, value: Json, options: Json) -> int:
    """Return how long the object may live on: only pods that were bound and run have any."""
    if kind is not POD or not dig(value, ("spec", "nodeName")):
        return 0
    if dig(value, ("status", "phase")) in {"Succeeded", "Failed"}:
        return 0
    asked = options.get("gracePeriodSeconds")
    default: int = dig(value, ("spec", "terminationGracePeriodSeconds")) or 0
    return default if asked is None else max(0, int(asked))
