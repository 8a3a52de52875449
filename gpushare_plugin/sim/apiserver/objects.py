"""Objects as the cluster itself makes and changes them, past all rules for clients.

Rule 1: here an object is taken as it is, status and all; only its metadata is
completed, and a missing namespace is made.
Rule 2: `{n}` anywhere in a template's JSON is the object's number; its name must
have one, since names are what tells the objects apart.
"""

import json
import uuid
from collections.abc import Mapping
from typing import Any

from gpushare_plugin.sim.apiserver import preparing
from gpushare_plugin.sim.apiserver.clock import timestamp
from gpushare_plugin.sim.apiserver.failures import ObjectExistsError, UnknownObjectError
from gpushare_plugin.sim.apiserver.kinds import NAMESPACE, STORED, Json, Kind
from gpushare_plugin.sim.apiserver.merge_patch import merged
from gpushare_plugin.sim.apiserver.store import Store
from gpushare_plugin.sim.apiserver.stored import StoredObject
from gpushare_plugin.sim.apiserver.writing import Writing

_KINDS = {kind.resource: kind for kind in STORED}
_NUMBER = "{n}"
_FIRST_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


class Objects:
    """Acts on the store for who drives the server."""

    def __init__(self, store: Store, writing: Writing) -> None:
        self._store = store
        self._writing = writing
        for name in _FIRST_NAMESPACES:
            self._make_namespace(name)

    # ------------------------------------------------------------------------- looking

    def get(self, resource: str, name: str, *, namespace: str) -> Json:
        """Return an object; raises UnknownObjectError."""
        return self._found(resource, name, namespace).value()

    def all(self, resource: str, *, namespace: str) -> tuple[Json, ...]:
        """Return every object of a resource, or of one of its namespaces."""
        found = self._store.all(_kind(resource))
        return tuple(o.value() for o in found if namespace in {"", o.namespace})

    def counts(self) -> Mapping[str, int]:
        """Return how many objects there are of each resource."""
        return {kind.resource: len(self._store.all(kind)) for kind in STORED}

    # ------------------------------------------------------------------------- acting

    def create(self, resource: str, value: Mapping[str, Any]) -> Json:
        """Create an object; raises ObjectExistsError."""
        kind = _kind(resource)
        uid = str(uuid.uuid4())
        whole = preparing.created(kind, dict(value), uid=uid, now=timestamp(), trusted=True)
        namespace, name = whole["metadata"].get("namespace", ""), whole["metadata"]["name"]
        if namespace:
            self._make_namespace(namespace)
        if self._store.find(kind, namespace, name) is not None:
            raise ObjectExistsError(f"{resource} {name} exists")
        return self._store.put(kind, whole).value()

    def create_many(
        self, resource: str, template: Mapping[str, Any], *, count: int, first: int
    ) -> None:
        """Create objects from a template; raises ValueError if their names would be equal."""
        if _NUMBER not in str(template.get("metadata", {}).get("name", "")):
            raise ValueError(f"a template's metadata.name must have {_NUMBER} in it")
        text = json.dumps(template)
        for number in range(first, first + count):
            self.create(resource, json.loads(text.replace(_NUMBER, str(number))))

    def replace(self, resource: str, value: Mapping[str, Any]) -> Json:
        """Replace an object, all but what the server gave it."""
        metadata = value.get("metadata", {})
        name, namespace = metadata.get("name", ""), metadata.get("namespace", "")
        stored = self._found(resource, name, namespace)
        return self._put(stored, dict(value))

    def patch(self, resource: str, name: str, change: Mapping[str, Any], *, namespace: str) -> Json:
        """Apply a merge patch to an object."""
        stored = self._found(resource, name, namespace)
        return self._put(stored, merged(stored.value(), dict(change)))

    def delete(self, resource: str, name: str, *, namespace: str) -> None:
        """Remove an object."""
        self._store.remove(self._found(resource, name, namespace))

    def terminate(self, resource: str, name: str, grace_seconds: int, *, namespace: str) -> Json:
        """Mark an object as on its way out."""
        stored = self._found(resource, name, namespace)
        return self._writing.terminate(stored, grace_seconds=grace_seconds).value()

    def finish_termination(self, resource: str, name: str, *, namespace: str) -> None:
        """Remove an object that is on its way out; raises UnknownObjectError for any other."""
        stored = self._found(resource, name, namespace)
        if "deletionTimestamp" not in stored.value()["metadata"]:
            raise UnknownObjectError(f"{resource} {name} was not told to end")
        self._store.remove(stored)

    # --------------------------------------------------------------------------- steps

    def _put(self, stored: StoredObject, wanted: Json) -> Json:
        before = stored.value()
        after = preparing.updated(stored.kind, before, wanted, subresource="")
        if stored.kind.has_status and "status" in wanted:
            after["status"] = wanted["status"]
        return self._store.put(stored.kind, after).value() if after != before else before

    def _found(self, resource: str, name: str, namespace: str) -> StoredObject:
        kind = _kind(resource)
        namespace = (namespace or "default") if kind.namespaced else ""
        stored = self._store.find(kind, namespace, name)
        if stored is None:
            where = f" in {namespace}" if namespace else ""
            raise UnknownObjectError(f"there is no {resource} {name}{where}")
        return stored

    def _make_namespace(self, name: str) -> None:
        if self._store.find(NAMESPACE, "", name) is None:
            value: Json = {"metadata": {"name": name}, "status": {"phase": "Active"}}
            now = timestamp()
            self._store.put(
                NAMESPACE, preparing.created(NAMESPACE, value, uid=str(uuid.uuid4()), now=now)
            )


def _kind(resource: str) -> Kind:
    if resource not in _KINDS:
        raise UnknownObjectError(f"there is no resource {resource}, only {', '.join(_KINDS)}")
    return _KINDS[resource]
