"""What people may ask of a running dispatcher, as JSON-ready rows; the HTTP API and the demo show
the same.
"""

from collections.abc import Mapping
from typing import Protocol

from dispatcher.scheduling import views
from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.core.rebalancing import Mode
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.scheduling.views import Pieces, Row
from dispatcher.service.links.greeting import Greeting
from dispatcher.service.links.intent_sender import IntentSender
from dispatcher.service.links.poller import Poller
from shared.model.pod import Pod


class FleetViews(Protocol):
    """Rows in a stable order; in pieces (dispatcher.scheduling.views.pieces) where a large fleet
    has many.
    """

    def clusters(self) -> Pieces:
        """One row a cluster."""
        ...

    def links(self) -> Pieces:
        """One row a direction between two clusters."""
        ...

    def cluster_names(self) -> list[str]:
        """The names of the rows of `clusters`."""
        ...

    def nodes(self, cluster: str = "") -> Pieces:
        """One row a node, of all clusters or of one."""
        ...

    def usage(self) -> Pieces:
        """One row a cluster: requested and used."""
        ...

    def pods(self, namespace: str = "") -> Pieces:
        """One row a pod that was submitted to us, in any namespace or in one."""
        ...

    def count_pods(self, namespace: str = "") -> int:
        """How many these are now."""
        ...

    def tenants(self) -> list[Row]:
        """One row for each tenant and resource that it is limited in, each tree from the top down."""
        ...

    def tenant(self, name: str) -> Row | None:
        """All about one tenant, None if there is none of that name."""
        ...

    def next_victims(self, tenant: str) -> Pieces:
        """Who of a tenant would be evicted first for others, one row for each resource that it has
        borrowed.
        """
        ...

    def quota(self, cluster: str, pod: Pod, replicas: int) -> Row:
        """Whether the tenants file lets pods like this pass now, submitted in a cluster; '': in
        any. ValueError if that makes a difference.
        """
        ...

    def queue(self, most: int) -> list[Row]:
        """One row for each of the first pods that are to be decided."""
        ...

    def queue_counts(self) -> Row:
        """How many pods wait in which state of the queue."""
        ...

    def place(self, namespace: str, name: str, cluster: str = "") -> Row | None:
        """Where a pod stands in the queue, None if it is unknown."""
        ...

    def rebalancing(self) -> list[Row] | None:
        """One row a pod that was moved, or stays on a hot node; None where rebalancing is off."""
        ...

    def drain(self, cluster: str, *, leave: bool = False) -> Pieces:
        """One row a controller whose pods run in a cluster for others: where these would go without
        it. `leave`: also of its own pods that run in others.
        """
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
        self._core = core
        self._ledger = ledger
        self._pollers = pollers
        self._senders = senders

    def clusters(self) -> Pieces:
        """One row a cluster, with what its agent reported of itself when it was last greeted,
        whether it is silent now, and whether it takes orders.
        """
        for piece in views.clusters_view(self._core):
            yield [self._with_agent(row) for row in piece]

    def _with_agent(self, row: Row) -> Row:
        sender = self._senders.get(row["name"])
        problem = row["problem"] or (sender.refusal if sender is not None else "")
        return {**row, **self._greeting_of(row["name"]), "problem": problem}

    def _greeting_of(self, cluster: str) -> Row:
        poller = self._pollers.get(cluster)
        if poller is None:
            return {**Greeting().row(), "silent": True}
        return {**poller.greeting.row(), "silent": poller.silent}

    def links(self) -> Pieces:
        """One row a direction between two clusters."""
        return views.links_view(self._core)

    def cluster_names(self) -> list[str]:
        """The names of the rows of `clusters`."""
        return views.cluster_names(self._core)

    def nodes(self, cluster: str = "") -> Pieces:
        """One row a node."""
        return views.nodes_view(self._core, cluster)

    def usage(self) -> Pieces:
        """One row a cluster: requested and used."""
        return views.usage_view(self._core)

    def pods(self, namespace: str = "") -> Pieces:
        """One row a pod."""
        return views.pods_view(self._core, namespace)

    def count_pods(self, namespace: str = "") -> int:
        """How many rows that is."""
        return views.count_pods(self._core, namespace)

    def _tenant_rows(self) -> views.TenantRows:
        return views.TenantRows(self._core, self._ledger)

    def tenants(self) -> list[Row]:
        """One row for each tenant and resource."""
        return self._tenant_rows().all()

    def tenant(self, name: str) -> Row | None:
        """All about one tenant."""
        return self._tenant_rows().one(name)

    def next_victims(self, tenant: str) -> Pieces:
        """One row for each resource."""
        return views.victims_view(self._core, self._ledger, tenant)

    def quota(self, cluster: str, pod: Pod, replicas: int) -> Row:
        """Whether pods like this are let pass."""
        homes = [cluster] if cluster else self.cluster_names()
        owners = {self._ledger.tenant_of(home, pod.namespace) for home in homes}
        if len(owners) > 1:
            told = ", ".join(sorted(one or "nobody" for one in owners))
            raise ValueError(
                f"namespace {pod.namespace} is of several tenants, by cluster ({told}): name the "
                "cluster that the pod is submitted in"
            )
        return self._tenant_rows().check(homes[0] if homes else "", pod, replicas)

    def queue(self, most: int) -> list[Row]:
        """One row a pod."""
        return views.queue_view(self._core, self._ledger, most)

    def queue_counts(self) -> Row:
        """By state."""
        return views.queue_counts(self._core)

    def place(self, namespace: str, name: str, cluster: str = "") -> Row | None:
        """One row."""
        return views.place_view(self._core, self._ledger, namespace, name, cluster)

    def rebalancing(self) -> list[Row] | None:
        """One row a pod."""
        return (
            self._core.rebalancing.rows() if self._core.rebalancing.mode is not Mode.OFF else None
        )

    def drain(self, cluster: str, *, leave: bool = False) -> Pieces:
        """One row a controller."""
        return views.drain_view(self._core, cluster, leave=leave)

    def explain(self, namespace: str, name: str, cluster: str = "") -> Row | None:
        """The whole record of one pod; `quota`: what would free quota for one that waits."""
        found = views.explain(self._core, namespace, name, cluster)
        if found is None:
            return None
        source = self._core.tracked.source_of((found["source"], found["uid"]))
        if source is None or source.node:
            return {**found, "quota": None}
        frees = self._tenant_rows().frees(PodInfo(source, found["source"]))
        return {**found, "quota": frees}

    def relay_objection(self, home: str, cluster: str, uid: str) -> str:
        """Why no stream about a pod (its UID) is passed from `home` to `cluster`: '' if it is, as
        `cluster` has shown a copy of it; or as it is a pod of `cluster`, and `home` has its copy,
        or is about to make it.
        """
        tracked = self._core.tracked.peek((home, uid))
        if tracked is not None and cluster in tracked.delegates:
            return ""
        other = self._core.tracked.peek((cluster, uid))
        if other is not None and other.goes_to(home):
            return ""
        return f'this dispatcher knows of no delegate of the pod in cluster "{cluster}"'

    def source_of(self, namespace: str, name: str) -> Row | None:
        """The source of a copy."""
        return views.source_of(self._core, namespace, name)
