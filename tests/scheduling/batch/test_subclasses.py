"""Plugins that inherit another and replace part of it: a batch is decided as its pods would be one by one."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dispatcher.plugins.fault_domain_spread import FaultDomainSpread
from dispatcher.plugins.tenant_quota import TenantQuota
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.framework import FleetView, Floats, PluginUse, PodInfo, Profile
from dispatcher.scheduling.framework.domain_counts import CountRules, closed_domains, constant
from dispatcher.scheduling.framework.plugin import refuse
from dispatcher.scheduling.quota import QuotaLedger
from shared.model.names import SCHEDULER_NAME, ZONE
from shared.model.reasons import Reasons
from shared.model.tenant import Share, Tenant
from tests.builders import fleet, node, pod
from tests.compiled import compiled  # noqa: F401 - a fixture
from tests.scheduling.tiny_plugins import Fit

pytestmark = pytest.mark.usefixtures("compiled")


class Gathering(FaultDomainSpread):
    """The fuller the domain, the better."""

    name = "Gathering"

    def normalize(self, raw: Floats) -> Floats:
        return 100.0 - super().normalize(raw) if raw.any() else raw


class Dearer(FaultDomainSpread):
    """One zone is liked more than the others."""

    name = "Dearer"

    def rules(self, state: Any, fleet: FleetView) -> CountRules:
        rules = super().rules(state, fleet)
        zones = np.zeros(len(fleet.topology.domain_values("zone")))
        zones[0] = -5.0
        dearer = constant(fleet.topology.domain("zone"), zones)
        return replace(rules, score_terms=[*rules.score_terms, dearer], sized=False)


class Closed(FaultDomainSpread):
    """One zone takes nobody."""

    name = "Closed"

    def rules(self, state: Any, fleet: FleetView) -> CountRules:
        rules = super().rules(state, fleet)
        closed = np.arange(len(fleet.topology.domain_values("zone"))) == 0
        code = fleet.reasons.code(Reasons.POLICY, self.name)
        return replace(rules, refusals=[*rules.refusals, closed_domains(fleet.topology.domain("zone"), closed, code)])


class PaidQuota(TenantQuota):
    """Nobody has paid."""

    name = "PaidQuota"

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Any:
        return refuse(Reasons.POLICY, self.name)


class Doubting(TenantQuota):
    """Refuses at the last moment."""

    name = "Doubting"

    def reserve(self, cycle: Any, pod_info: PodInfo, row: int, fleet: FleetView) -> Any:
        return refuse(Reasons.POLICY, self.name)


def nodes_of(plugin: Any, *, together: bool) -> list[str]:
    state = fleet(a=[node(f"n{at}").cpu(64).memory("256Gi").label({ZONE: f"z{at % 3}"}) for at in range(9)])
    profile = Profile(SCHEDULER_NAME, (PluginUse("Fit", 0.01), PluginUse(plugin.name, 5.0)))
    scheduler = Scheduler(profile, [Fit(), plugin], state)
    one = pod().cpu("100m").memory("64Mi").labels(app="x").spread("zone", hard=False)
    items = [(("a", f"u{at}"), one.uid(f"u{at}").placed()) for at in range(12)]
    found = scheduler.schedule_class(items) if together else [scheduler.schedule(pod, id_) for id_, pod in items]
    return [getattr(one, "node", "refused") for one in found]


@pytest.mark.parametrize("kind", [FaultDomainSpread, Gathering, Dearer, Closed, TenantQuota, PaidQuota, Doubting])
def test_pods_of_a_batch_go_where_they_would_go_one_by_one(kind: Any) -> None:
    def make() -> Any:
        ledger = QuotaLedger([Tenant("t", ("a/*",), {"cpu": Share(absolute=100_000)})])
        return kind(ledger) if issubclass(kind, TenantQuota) else kind((), "List")

    assert nodes_of(make(), together=True) == nodes_of(make(), together=False)
