"""What a request is made of, for every kind of object: selectors, a list, a watch, a patch."""

import random
from collections.abc import Mapping

from gpushare_plugin.adapters.kube import wire
from gpushare_plugin.adapters.kube.failures import Call
from gpushare_plugin.adapters.kube.reading import Reader
from gpushare_plugin.adapters.kube.transport import Transport
from gpushare_plugin.errors import ApiUnavailable
from gpushare_plugin.ports.cluster import StatusPatch, T

LIST_SECONDS = 60.0


def selected(
    field_selector: str = "", label_selector: str = "", *, name: str = ""
) -> dict[str, str]:
    """Return the query that selects so, or by one name."""
    selectors = {
        "fieldSelector": f"metadata.name={name}" if name else field_selector,
        "labelSelector": label_selector,
    }
    return {key: selector for key, selector in selectors.items() if selector}


def list_call(
    resource: str,
    query: Mapping[str, str],
    *,
    namespace: str = "",
    timeout_seconds: float = LIST_SECONDS,
) -> Call:
    """Return the call for a list, of all namespaces if none is named."""
    return Call(
        verb="list",
        resource=resource,
        namespace=namespace,
        query=query,
        timeout_seconds=timeout_seconds,
    )


def watch_call(
    resource: str,
    query: Mapping[str, str],
    *,
    version: str,
    life_seconds: int,
    namespace: str = "",
) -> Call:
    """Return the call for a watch from a version on; the server ends it after its life."""
    # Not all at once: the daemons of a cluster were cut off together when it restarted.
    spread_seconds = life_seconds * (1 + random.random())  # noqa: S311
    watch = {
        **query,
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": version,
        "timeoutSeconds": str(int(spread_seconds)),
    }
    return Call(verb="watch", resource=resource, namespace=namespace, query=watch)


def merge_patch(patch: StatusPatch) -> bytes:
    """Return the body of a merge patch of what is named, and of the UID that is meant."""
    parts = {"annotations": patch.annotations, "labels": patch.labels}
    metadata = {"uid": patch.uid, **{key: part for key, part in parts.items() if part}}
    return wire.encoded(
        {"metadata": metadata, **({"status": patch.status} if patch.status else {})}
    )


async def read_object(transport: Transport, call: Call, reader: Reader[T]) -> T:
    """Return the object that a call is answered with; raises ApiError."""
    body = await transport.answer(call)
    try:
        return reader.read(body).item
    except wire.Garbled as error:
        raise ApiUnavailable(f"{call}: the answer is garbled: {error}; try again") from error
