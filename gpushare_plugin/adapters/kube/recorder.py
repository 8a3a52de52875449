"""Kubernetes events: what happened, for who reads `kubectl describe`.

Rule 1: the same thing happening again counts up the event that is there, rather than
making another one.
Rule 2: what is remembered for that is bounded; to forget costs one more event.
"""

import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpushare_plugin.adapters.kube.client import KubeClient
from gpushare_plugin.errors import ApiNotFound
from gpushare_plugin.ports.cluster import Occurrence

COMPONENT = "gpushare"
LONGEST_MESSAGE = 1024
"""The API server refuses a longer one."""
REMEMBERED_EVENTS = 256
COUNTED_FOR = timedelta(minutes=10)
"""After that, the same thing is told as a new event: the old one may have scrolled away."""
CLUSTER_NAMESPACE = "default"
"""Where events about objects without a namespace are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    name: str
    first: datetime
    count: int


class EventRecorder:
    """Writes events; who calls it decides what a failure means (ApiError)."""

    def __init__(self, client: KubeClient, *, host: str, now: Callable[[], datetime]) -> None:
        """`host` is the node that we run on; `now` tells the time in UTC."""
        self._client = client
        self._host = host
        self._now = now
        self._written: OrderedDict[Occurrence, _Written] = OrderedDict()

    async def record(self, occurrence: Occurrence) -> None:
        """Write that something happened, or that it happened again; raises ApiError."""
        now = self._now()
        known = self._written.get(occurrence)
        if known is not None and now - known.first < COUNTED_FOR:
            try:
                await self._count_up(occurrence, known, now)
            except ApiNotFound:
                # The API server forgets events after an hour, or sooner.
                pass
            else:
                return
        await self._create(occurrence, now)

    async def _count_up(self, occurrence: Occurrence, known: _Written, now: datetime) -> None:
        count = known.count + 1
        change = {"count": count, "lastTimestamp": _stamp(now)}
        await self._client.patch_event(_namespace(occurrence), known.name, change)
        self._remember(occurrence, _Written(name=known.name, first=known.first, count=count))

    async def _create(self, occurrence: Occurrence, now: datetime) -> None:
        subject = occurrence.subject
        name = f"{subject.name}.{secrets.token_hex(8)}"
        namespace = _namespace(occurrence)
        involved = {"kind": subject.kind, "name": subject.name, "uid": subject.uid}
        if subject.namespace:
            involved["namespace"] = subject.namespace
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {"apiVersion": "v1", **involved},
            "type": "Warning" if occurrence.warning else "Normal",
            "reason": occurrence.reason,
            "message": occurrence.message[:LONGEST_MESSAGE],
            "source": {"component": COMPONENT, "host": self._host},
            "firstTimestamp": _stamp(now),
            "lastTimestamp": _stamp(now),
            "count": 1,
        }
        await self._client.create_event(namespace, event)
        self._remember(occurrence, _Written(name=name, first=now, count=1))

    def _remember(self, occurrence: Occurrence, written: _Written) -> None:
        self._written[occurrence] = written
        self._written.move_to_end(occurrence)
        if len(self._written) > REMEMBERED_EVENTS:
            self._written.popitem(last=False)


def _namespace(occurrence: Occurrence) -> str:
    return occurrence.subject.namespace or CLUSTER_NAMESPACE


def _stamp(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")
