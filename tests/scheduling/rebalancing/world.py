"""A small fleet whose readings are the truth: each pod uses a share of what it requests, and nodes tell the sum."""

from typing import Any

import msgspec

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler
from dispatcher.scheduling.fleet.occupants import Occupant
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.scheduling.rebalancing.movable import stays
from dispatcher.scheduling.rebalancing.moves import Move
from dispatcher.scheduling.rebalancing.rebalancer import Look, Rebalancer
from dispatcher.scheduling.rebalancing.rules import RebalancingRules
from shared.model.names import SCHEDULER_NAME
from shared.model.objects import PodDisruptionBudget
from shared.model.pod import PodId
from tests.builders import PodBuilder, fleet, node, pod, put, reading, selector

RULES = RebalancingRules(signals=("cpu",), hot=0.8, cool=0.7, hot_s=180.0, gain=0.5)
OWNER = "ReplicaSet/web/uid-web"


def web(name: str, milli: int, **fields: Any) -> PodBuilder:
    """A pod that may be moved, of an app of its own."""
    made = pod(name).cpu(f"{milli}m").memory("16Mi").labels(app=name)
    return made.set(**{"owner": OWNER, "phase": "Running", "scheduler_name": SCHEDULER_NAME, **fields})


class World:
    """Cluster a with nodes of 4 CPU; `use` is what pods use of what they request."""

    def __init__(
        self, nodes: dict[str, list[PodBuilder]], *, rules: RebalancingRules = RULES, use: float = 1.0, stay: str = ""
    ) -> None:
        self.fleet = fleet(a=[node(name).cpu(4) for name in nodes])
        plugins = build(DEFAULT_PROFILE, PluginContext(quota=QuotaLedger(())))
        self.scheduler = Scheduler(DEFAULT_PROFILE, plugins, self.fleet)
        self.rules, self.use = rules, use
        self.rebalancer = Rebalancer(self.fleet, rules, self._would_go, lambda one: stays(one.pod_info.pod) or stay)
        self.silent: set[str] = set()
        for name, pods in nodes.items():
            for one in pods:
                put(self.fleet, one.set(node=name), "a", name)
        self.fleet.now += 2 * rules.rest_s

    def _would_go(self, occupant: Occupant) -> Decision | None:
        return self.scheduler.would_go(occupant.pod_id, occupant.pod_info)

    def budget(self, allowed: int, **labels: str) -> None:
        """A PodDisruptionBudget of cluster a."""
        found = PodDisruptionBudget("default", "budget", selector(**labels), allowed)
        self.fleet.kept.put("a", found)

    def load(self, name: str) -> float:
        """The CPU in use on a node, 0..1."""
        pods = self.fleet.occupants_on("a", name)
        return self.use * sum(one.pod_info.pod.requests["cpu"] for one in pods) / 4000

    def minute(self) -> Look:
        """A minute passes, nodes tell their load twice, and the rebalancer looks."""
        for _ in range(2):
            self.fleet.now += 30
            for name in self.fleet.node_names("a"):
                if name not in self.silent:
                    self.fleet.put_reading("a", reading(name, cpu=min(self.load(name), 1.0), memory=0.1, net=0.1))
        self.fleet.learn_usual()
        return self.rebalancer.look()

    def minutes(self, count: int) -> list[Look]:
        """So many, without that anything is moved."""
        return [self.minute() for _ in range(count)]

    def carry_out(self, move: Move) -> tuple[str, str]:
        """The pod is gone, and decided anew; where it is now."""
        self.scheduler.forget(move.pod_id)
        anew = msgspec.structs.replace(move.victim.pod_info.pod, node="")
        found = self.scheduler.schedule(PodInfo(anew, "a"), move.pod_id)
        assert isinstance(found, Decision)
        return found.cluster, found.node


def moved(looks: list[Look]) -> list[PodId]:
    """The pods of all moves."""
    return [move.pod_id for look in looks for move in look.moves]


def reasons(looks: list[Look]) -> dict[str, str]:
    """By pod, why it stayed at the last look."""
    return {one.victim.pod_info.pod.name: one.why for one in looks[-1].stays}
