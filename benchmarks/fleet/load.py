"""How large the fleet is and what happens in it; and its nodes and pods, made from these numbers
alone.
"""

from dataclasses import dataclass, replace
from random import Random

from shared.model.names import HOSTNAME, REGION, SCHEDULER_NAME, ZONE
from shared.model.node import Node, Reading
from shared.model.pod import RUNNING, Pod
from shared.model.resources import PODS
from shared.model.tenant import Share, Tenant

NODE = {"cpu": 32_000, "memory": 128 * 2**30, "ephemeral-storage": 2**40, "pods": 250}


@dataclass(frozen=True)
class Load:
    """The arguments of a run. Counts, seconds, shares of 1.

    `nodes`, `pods`: of one cluster. `ours`: the share of pods that were submitted to us.
    `templates`, `namespaces`: of pods, in each cluster. `tenants`: clusters belong to so many in
    turn, 0: to nobody. `sweep_s`: every node has a new reading that often. `churn`: pod changes a
    second in the whole fleet. `burst`, `remote`: pods that are submitted at once, to be bound at
    home or elsewhere, of `burst_templates` templates mixed. `last_s`: how long readings and changes
    last. `coalesce_s`: an agent gathers changes for that long, as real ones do; a bound pod runs
    after `start_s`.
    """

    clusters: int = 100
    nodes: int = 5_000
    pods: int = 1_500
    ours: float = 0.5
    templates: int = 200
    namespaces: int = 50
    tenants: int = 100
    sweep_s: float = 15.0
    churn: float = 1_000.0
    burst: int = 5_000
    burst_templates: int = 1
    remote: int = 500
    last_s: float = 15.0
    coalesce_s: float = 0.1
    start_s: float = 0.3
    seed: int = 1

    @property
    def names(self) -> list[str]:
        """Of all clusters."""
        return [f"c{number:03}" for number in range(self.clusters)]

    @property
    def owners(self) -> tuple[Tenant, ...]:
        """Each with limits that its clusters' pods do not reach."""
        nominal = {"cpu": Share(ratio=0.9), "memory": Share(ratio=0.9), PODS: Share(absolute=10**6)}
        owned = {
            number: self.names[number :: self.tenants]
            for number in range(min(self.tenants, self.clusters))
        }
        return tuple(
            Tenant(f"tenant-{number}", tuple(f"{name}/*" for name in names), nominal)
            for number, names in owned.items()
        )

    @property
    def usual(self) -> bool:
        """Whether it is the load that targets are for, with whatever seed."""
        return replace(self, seed=Load.seed) == Load()

    @property
    def all_nodes(self) -> int:
        """In the whole fleet."""
        return self.clusters * self.nodes

    @property
    def all_pods(self) -> int:
        """In the whole fleet, before anything is submitted."""
        return self.clusters * self.pods


def node_of(cluster: int, number: int, disk: str = "") -> Node:
    """A node of 32 CPU and 128 GiB in one of three zones; every cluster is a region."""
    name, zone = node_name(number), "abc"[number % 3]
    labels = {
        HOSTNAME: name,
        REGION: f"r{cluster}",
        ZONE: f"r{cluster}{zone}",
        "disk": disk or ("ssd", "hdd")[number % 2],
    }
    return Node(
        name, f"c{cluster}-{number}", labels, ready=True, allocatable=NODE, bandwidth=1_250_000_000
    )


def node_name(number: int) -> str:
    """Of the node of that number in any cluster."""
    return f"n{number:04}"


def reading_of(number: int, chance: Random) -> Reading:
    """What a node does now."""
    cpu = chance.random() / 2
    return Reading(node_name(number), cpu, cpu / 2, cpu / 4, None, None, 1.0, 1.0, 1.0, "kubelet")


def pod_of(load: Load, uid: str, template: int, *, ours: bool, node: str = "") -> Pod:
    """A pod of that template; with `node` it runs there."""
    return Pod(
        uid,
        f"team-{template % load.namespaces}",
        f"app-{template}-{uid}",
        {"app": f"app-{template}", "pod-template-hash": f"{template:08x}"},
        {},
        {"cpu": 50 + 10 * (template % 20), "memory": (64 + 16 * (template % 16)) * 2**20},
        scheduler_name=SCHEDULER_NAME if ours else "",
        node=node,
        phase=RUNNING if node else "Pending",
        ready=bool(node),
        owner=f"owner-{template}",
    )
