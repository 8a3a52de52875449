"""Leader election on a Lease, with client-go's rules.

Facts (client-go tools/leaderelection): a lease of another holder is taken once its record has
not changed for its duration, measured here and never by its timestamps; updates name the
resourceVersion; a leader that could not renew in time leads no more; at its end it gives the
lease back. kube-scheduler exits when it loses; this one stands for election again, as the
restarted one would.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from gpushare_plugin.sim.scheduler.api_client import NOT_FOUND, ApiClient, ApiError
from gpushare_plugin.sim.scheduler.configuration import ElectionSettings
from gpushare_plugin.sim.scheduler.objects import Json

_JITTER = 1.2

_log = logging.getLogger(__name__)


class LeaderElector:
    """Stands for election for as long as it runs."""

    def __init__(
        self,
        api: ApiClient,
        settings: ElectionSettings,
        *,
        identity: str,
        chance: random.Random,
        told: Callable[[bool], None],
    ) -> None:
        """`told` is called with whether this one leads, whenever that changes."""
        self._api = api
        self._settings = settings
        self._identity = identity
        self._chance = chance
        self._told = told
        self._leads = False
        self._seen: Json = {}
        self._seen_at = 0.0

    async def run(self) -> None:
        """Acquire and renew until cancelled; then give the lease back."""
        loop = asyncio.get_running_loop()
        renewed_at = 0.0
        try:
            while True:
                if await self._try():
                    renewed_at = loop.time()
                    self._say(leads=True)
                elif loop.time() - renewed_at >= self._settings.renew_seconds:
                    self._say(leads=False)
                pause = self._settings.retry_seconds
                await asyncio.sleep(
                    pause if self._leads else self._chance.uniform(1, _JITTER) * pause
                )
        finally:
            if self._leads:
                self._say(leads=False)
                await self._release()

    def _say(self, *, leads: bool) -> None:
        if leads != self._leads:
            _log.info("%s %s", self._identity, "leads" if leads else "leads no more")
            self._leads = leads
            self._told(leads)

    async def _try(self) -> bool:
        try:
            async with asyncio.timeout(self._settings.renew_seconds):
                return await self._acquire_or_renew()
        except (ApiError, TimeoutError) as error:
            _log.info("the lease is not to be had: %r", error)
            return False

    async def _acquire_or_renew(self) -> bool:
        try:
            lease = await self._api.get(self._path(self._settings.name))
        except ApiError as error:
            if error.code != NOT_FOUND:
                raise
            await self._api.create(self._path(), self._lease({}))
            return True
        spec: Json = lease.get("spec") or {}
        self._look(spec)
        holder = spec.get("holderIdentity") or ""
        if holder not in {"", self._identity} and not self._expired(spec):
            return False
        wanted = self._lease(spec)
        wanted["metadata"] = lease["metadata"]
        await self._api.update(self._path(self._settings.name), wanted)
        return True

    def _look(self, spec: Json) -> None:
        if spec != self._seen:
            self._seen, self._seen_at = spec, asyncio.get_running_loop().time()

    def _expired(self, spec: Json) -> bool:
        seconds = spec.get("leaseDurationSeconds") or self._settings.lease_seconds
        return asyncio.get_running_loop().time() >= self._seen_at + float(seconds)

    async def _release(self) -> None:
        path = self._path(self._settings.name)
        try:
            lease = await self._api.get(path)
            if (lease.get("spec") or {}).get("holderIdentity") == self._identity:
                lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                await self._api.update(path, lease)
        except ApiError as error:
            _log.info("the lease is not given back: %s", error)

    def _path(self, name: str = "") -> str:
        namespace = self._settings.namespace
        path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        return f"{path}/{name}" if name else path

    def _lease(self, before: Json) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        changed = before.get("holderIdentity") != self._identity
        transitions = before.get("leaseTransitions") or 0
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._settings.name, "namespace": self._settings.namespace},
            "spec": {
                "holderIdentity": self._identity,
                # A whole number in the API; a test's lease may be shorter than a second.
                "leaseDurationSeconds": max(1, round(self._settings.lease_seconds)),
                "acquireTime": now if changed else before.get("acquireTime", now),
                "renewTime": now,
                "leaseTransitions": transitions + 1 if changed and before else transitions,
            },
        }
