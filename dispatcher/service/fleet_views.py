"""What people may ask of a running dispatcher, as JSON-ready rows; the HTTP API and the demo show the same."""

from collections.abc import Mapping
from typing import Any, Protocol

from dispatcher.model.resources import format_quantity
from dispatcher.scheduling import usage, views
from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.core.rebalancing import Mode
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.service.greeting import Greeting
from dispatcher.service.intent_sender import IntentSender
from dispatcher.service.poller import Poller

Row = dict[str, Any]


class FleetViews(Protocol):
    """Rows in a stable order."""

    def clusters(self) -> list[Row]:
        """One row a cluster."""
        ...

    def links(self) -> list[Row]:
        """One row a direction between two clusters."""
        ...

    def nodes(self) -> list[Row]:
        """One row a node."""
        ...

    def usage(self) -> list[Row]:
        """One row a cluster: requested and used."""
        ...

    def pods(self) -> list[Row]:
        """One row a pod that was submitted to us."""
        ...

    def tenants(self) -> list[Row]:
        """One row for each tenant and resource that it has a quota of."""
        ...

    def rebalancing(self) -> list[Row] | None:
        """One row a pod that was moved, or stays on a hot node; None where rebalancing is off."""
        ...

    def explain(self, namespace: str, name: str, cluster: str = "") -> Row | None:
        """The whole record of one pod, None if it is unknown."""
        ...

    def source_of(self, namespace: str, name: str) -> Row | None:
        """Of a copy: its cluster, and home, namespace and name of its source; None if it is none."""
        ...


class CoreViews:
    """The views of a core in this process."""

    def __init__(
        self,
        core: SchedulerCore,
        ledger: QuotaLedger,
        pollers: Mapping[str, Poller],
        senders: Mapping[str, IntentSender],
    ) -> None:
        self._core, self._ledger, self._pollers, self._senders = core, ledger, pollers, senders

    def clusters(self) -> list[Row]:
        """One row a cluster, with what its agent reported of itself when it was last greeted, whether it is silent now,
        and whether it takes orders.
        """
        rows = [{**row, **self._greeting_of(row["name"])} for row in views.clusters_view(self._core)]
        for row in rows:
            if not row["problem"] and (sender := self._senders.get(row["name"])) is not None:
                row["problem"] = sender.refusal
        return rows

    def _greeting_of(self, cluster: str) -> Row:
        poller = self._pollers.get(cluster)
        if poller is None:
            return {**Greeting().row(), "silent": True}
        return {**poller.greeting.row(), "silent": poller.silent}

    def links(self) -> list[Row]:
        """One row a direction between two clusters."""
        return views.links_view(self._core)

    def nodes(self) -> list[Row]:
        """One row a node."""
        return views.nodes_view(self._core)

    def usage(self) -> list[Row]:
        """One row a cluster: requested and used."""
        return usage.usage_view(self._core)

    def pods(self) -> list[Row]:
        """One row a pod."""
        return views.pods_view(self._core)

    def tenants(self) -> list[Row]:
        """One row for each tenant and resource."""
        totals = self._core.fleet.allocatable_total()
        return [
            {
                "tenant": tenant.name,
                "resource": resource,
                "used": format_quantity(resource, self._ledger.usage(tenant.name).get(resource, 0)),
                "limit": format_quantity(resource, limit),
            }
            for tenant in self._ledger.tenants
            for resource, limit in sorted(self._ledger.limits(tenant.name, totals).items())
        ]

    def rebalancing(self) -> list[Row] | None:
        """One row a pod."""
        return self._core.rebalancing.rows() if self._core.rebalancing.mode is not Mode.OFF else None

    def explain(self, namespace: str, name: str, cluster: str = "") -> Row | None:
        """The whole record of one pod."""
        return views.explain(self._core, namespace, name, cluster)

    def has_delegate(self, home: str, uid: str, cluster: str) -> bool:
        """Whether `cluster` has shown a copy of the pod of `home` with this UID."""
        tracked = self._core.tracked.peek((home, uid))
        return tracked is not None and cluster in tracked.delegates

    def source_of(self, namespace: str, name: str) -> Row | None:
        """The source of a copy."""
        return views.source_of(self._core, namespace, name)
