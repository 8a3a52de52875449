"""The parts of one server, put together: read it as a parts list."""

from dataclasses import dataclass
from typing import Self

from gpushare_plugin.sim.apiserver.access import Gate
from gpushare_plugin.sim.apiserver.calls import Calls
from gpushare_plugin.sim.apiserver.faults import FaultsInForce
from gpushare_plugin.sim.apiserver.graces import Graces
from gpushare_plugin.sim.apiserver.journal import Journal
from gpushare_plugin.sim.apiserver.late_calls import LateCalls
from gpushare_plugin.sim.apiserver.objects import Objects
from gpushare_plugin.sim.apiserver.pages import Pages
from gpushare_plugin.sim.apiserver.settings import ApiServerSettings
from gpushare_plugin.sim.apiserver.store import Store
from gpushare_plugin.sim.apiserver.watching import Watches
from gpushare_plugin.sim.apiserver.writing import Writing


@dataclass(frozen=True, slots=True, kw_only=True)
class Interior:
    """What stays while the server is away."""

    settings: ApiServerSettings
    journal: Journal
    store: Store
    faults: FaultsInForce
    gate: Gate
    graces: Graces
    writing: Writing
    objects: Objects
    watches: Watches
    calls: Calls
    late_calls: LateCalls

    @classmethod
    def of(cls, settings: ApiServerSettings) -> Self:
        """Build all of it."""
        journal = Journal(call_log_entries=settings.call_log_entries)
        store = Store(
            history_changes=settings.history_changes,
            managed_fields_bytes=settings.managed_fields_bytes,
        )
        store.listeners.append(journal.changed)
        graces = Graces(store, enforced=settings.grace_enforced, scale=settings.grace_scale)
        writing = Writing(store, graces)
        faults, gate = FaultsInForce(), Gate()
        calls = Calls(Pages(store), writing, gate)
        return cls(
            settings=settings,
            journal=journal,
            store=store,
            faults=faults,
            gate=gate,
            graces=graces,
            writing=writing,
            objects=Objects(store, writing),
            watches=Watches(store, faults, settings, changed=journal.changed),
            calls=calls,
            late_calls=LateCalls(calls),
        )
