"""Quota that is lent and taken back in a world of trouble: pods run once, limits hold, and it comes to an end."""

import msgspec

from dispatcher.scheduling.core import CoreTiming, SchedulerCore
from dispatcher.scheduling.quota import QuotaLedger
from shared.model.tenant import ANY_PRIORITY, Share, Tenant
from tests.laws.cores import make_core
from tests.laws.examples import examples
from tests.laws.test_exactly_once import CLUSTERS, GRACE_S, Simulation, run_and_check

SEEDS = range(8000, 8000 + examples(40))
GIVEN = {"red": 5000, "blue": 2000}  # milli-CPU
TENANTS = (
    Tenant("all", (), {}, reclaim=ANY_PRIORITY),
    *(Tenant(name, (name,), {"cpu": Share(absolute=cpu)}, parent="all") for name, cpu in GIVEN.items()),
)


class Lending(Simulation):
    """The same trouble, on nodes with room for all, and two tenants that lend each other what they do not use."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        for cluster in self.world.clusters.values():
            cluster.nodes |= {
                name: msgspec.structs.replace(node, allocatable={"cpu": 40_000, "pods": 400})
                for name, node in cluster.nodes.items()
                if not node.proxy_for
            }

    def _boot(self) -> SchedulerCore:
        self.boots += 1
        self.mail.queue.clear()
        self.unseen = self.used(*GIVEN, unseen=True)
        timing = CoreTiming(absence_grace_s=GRACE_S)
        return make_core(CLUSTERS, boot_epoch=self.boots * 1_000_000, timing=timing, ledger=QuotaLedger(TENANTS))

    def _make_trouble(self) -> None:
        super()._make_trouble()
        home = self.world.clusters[self.dice.choice(CLUSTERS)]
        # blue comes first and takes what there is
        tenant = "blue" if self.now < 1015 else self.dice.choice(("red", "red", "blue"))
        home.submit(f"q{self.dice.randrange(10**9)}", self.dice.choice((500, 1000)), namespace=tenant)

    def step(self) -> None:
        """Limits hold whatever is lost, late, or begins anew, but for what no watch had shown when that began."""
        super().step()
        assert self.used(*GIVEN) <= sum(GIVEN.values()) + self.unseen

    def used(self, *tenants: str, unseen: bool = False) -> int:
        """Milli-CPU of their pods that run; of those alone that watches have not shown there yet."""
        return sum(
            pod.requests["cpu"]
            for cluster in self.world.clusters.values()
            for pod in cluster.pods.values()
            if pod.namespace in tenants and pod.node and not cluster.nodes[pod.node].proxy_for
            if not (unseen and pod.uid in cluster.cache and cluster.cache[pod.uid].node)
        )

    def least_that_waits(self, tenant: str) -> int:
        """Milli-CPU of the smallest of its pods without a place."""
        pods = (pod for cluster in self.world.clusters.values() for pod in cluster.sources())
        return min(pod.requests["cpu"] for pod in pods if pod.namespace == tenant and not pod.node)


def test_limits_hold_and_each_pod_runs_once_where_quota_is_taken_back() -> None:
    """And it ends, with all quota in use and each tenant's own its own."""
    taken = [len(lent(seed)) for seed in SEEDS]
    assert sum(taken) > 2 * len(taken)


def lent(seed: int) -> list[str]:
    """The pods that were evicted for what a tenant had lent."""
    sim = Lending(seed)
    run_and_check(sim)
    ended = len(sim.evicted)
    for _ in range(30):
        sim.step()
    assert len(sim.evicted) == ended
    red, blue = (sim.used(name) for name in GIVEN)
    assert red + blue + min(map(sim.least_that_waits, GIVEN)) > sum(GIVEN.values()), (seed, red, blue)
    assert red + sim.least_that_waits("red") > GIVEN["red"] or blue <= GIVEN["blue"], (seed, red, blue)
    return [one.pod.uid for one in sim.evicted if one.reclaimed]
