"""Nodes with the fewest pods of the tenant are better, where the tenants file says so.

raw = -(pods of the tenant on the node, with those of tenants that are part of it); score = 100 for
the fewest, 0 for the most, whole numbers, rounded down; 0 everywhere if all have as many. So what
one node that fails takes with it is as small a part of a tenant as can be; within a tenant, apps
are spread by FaultDomainSpread.
"""

from collections.abc import Hashable
from typing import ClassVar

from dispatcher.scheduling.framework import SKIP, CountedPlugin, FleetView, PodInfo, Skip
from dispatcher.scheduling.framework.domain_counts import (
    CountRules,
    RuleCount,
    Scale,
    ScoreTerm,
)
from dispatcher.scheduling.framework.pod_sets import LabelsOf, PodSet
from dispatcher.scheduling.quota import QuotaLedger
from shared.model.pod import Pod
from shared.model.topology import HOST_LEVEL


class TenantSpread(CountedPlugin[CountRules]):
    """Prefers nodes with the fewest pods of the pod's tenant."""

    name: ClassVar[str] = "TenantSpread"
    keyed_by_template = True
    scale = Scale.RANGE

    def __init__(self, ledger: QuotaLedger) -> None:
        self._ledger = ledger

    def _counted(self, pod_info: PodInfo) -> frozenset[str]:
        ledger = self._ledger
        tenant = None
        if ledger.places.any_spread:
            tenant = ledger.tenant_of_pod(pod_info)
        return frozenset() if tenant is None else ledger.places.spread(tenant)

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """The tenants whose pods are counted; None if none are."""
        return self._counted(pod_info) or None

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> CountRules | Skip:
        """The fewer on a node the better; SKIP for tenants that do not ask for it."""
        tenants = self._counted(pod_info)
        if not tenants:
            return SKIP
        count = RuleCount(
            fleet.topology.domain(HOST_LEVEL),
            fleet.affinity.count_in(self._pods_of(tenants), HOST_LEVEL),
            more=1,
            by_host=True,
        )
        return CountRules([], score_terms=[ScoreTerm(count, -1.0)], scale=self.scale)

    def _pods_of(self, tenants: frozenset[str]) -> PodSet:
        owner = self._ledger.owners.of  # stays as it is when others hold

        def matches(pod: Pod, home: str, _: LabelsOf) -> bool:
            return owner(home, pod.namespace) in tenants

        name = ("tenants", self._ledger.generation, tenants)
        return PodSet(name, matches, None, terminating=False)
