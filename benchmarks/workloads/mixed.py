"""Work as fleets have it: many templates arriving mixed, of many tenants, while pods end.
Everything is an argument.

Nothing here is random but by `seed`, so two runs with the same arguments are of the same work.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from shared.model.labels import LabelSelector
from shared.model.names import HOSTNAME, SCHEDULER_NAME, ZONE
from shared.model.node import Node, Reading
from shared.model.pod import CLAIM, Pod, PodAffinity, PodAffinityTerm, SpreadConstraint, Volume
from shared.model.tenant import Share, Tenant

_MI = 2**20
_TO_A_BRANCH = 10
_LITTLE = 25  # one part in so many of all is given to tenants of a tree, the rest is at its top
_MANY = 10**15  # bytes or milli-CPU; 1,000 times as much is still below 2^63


class MixError(ValueError):
    """An argument that no work can be made of; `argument` names it."""

    def __init__(self, argument: str, problem: str) -> None:
        """`problem`: what it has to be, and what it is."""
        super().__init__(f"{argument}: {problem}")
        self.argument, self.problem = argument, problem


def _number(default: float, least: float, most: float, meaning: str) -> Any:
    return field(default=default, metadata={"least": least, "most": most, "meaning": meaning})


def _flag(default: bool, meaning: str) -> Any:
    return field(default=default, metadata={"meaning": meaning})


@dataclass(frozen=True)
class Mix:
    """What arrives: pods of many templates in turn, for one cluster. MixError: a value is not
    within its limits.

    Template k requests (1 + k % `sizes`) times `cpu` and `memory`, and k * 4096 bytes more, so that
    no two are of one class. All its pods are of one tenant, k % `tenants`: tenants beyond the
    templates have none.
    """

    nodes: int = _number(5000, 1, 10**6, "nodes of the cluster")
    pods: int = _number(20_000, 1, 10**7, "pods that arrive")
    classes: int = _number(1, 1, 10**6, "templates, each of which is a class of its own")
    tenants: int = _number(
        0, 0, 10**5, "tenants, each with a quota of --ratio of the fleet's CPU and memory"
    )
    ratio: float = _number(0.5, 0, 1, "share of the fleet that a tenant's quota is")
    tree: bool = _flag(
        False,
        "tenants are in a tree of three levels, ten to a branch: each is given little, and borrows "
        "the rest from the top",
    )
    cpu: int = _number(500, 0, _MANY, "milli-CPU that the smallest template requests")
    memory: int = _number(512 * _MI, 0, _MANY, "bytes that the smallest template requests")
    sizes: int = _number(
        1, 1, 1000, "templates request 1, 2 ... so many times as much as the smallest, in turn"
    )
    interleaved: bool = _flag(
        True, "the pods of all templates arrive mixed, else one template after the other"
    )
    churn: int = _number(0, 0, 1000, "pods that end for each hundred that are bound")
    anti_affinity: int = _number(
        0, 0, 100, "percent of the templates, rounded up, with anti-affinity by hostname"
    )
    soft_spread: int = _number(
        0, 0, 100, "percent of the templates, rounded up, that prefer to spread by zone and host"
    )
    readings: int = _number(
        0, 0, 10**5, "readings of nodes that come in for each hundred pods that are bound"
    )
    claims: bool = _flag(
        False, "each pod has a claim of its own, which waits for its first consumer"
    )
    node_cpu: int = _number(32_000, 1, _MANY // 2, "milli-CPU of each node")
    seed: int = _number(1, -math.inf, math.inf, "of the order of pods, and of readings")

    def __post_init__(self) -> None:
        """Refuse what no work can be made of."""
        for one in fields(self):
            least, most = one.metadata.get("least", False), one.metadata.get("most", True)
            if not least <= (value := getattr(self, one.name)) <= most:
                raise MixError(one.name, f"must be from {least:,} to {most:,}, and is {value:,}")

    def arrivals(self) -> list[Pod]:
        """The pods in the order in which they come."""
        dice = random.Random(self.seed)
        kinds = [self._template(kind) for kind in range(self.classes)]
        order = [at % self.classes for at in range(self.pods)]
        if self.interleaved and self.classes > 1:
            dice.shuffle(order)
        elif not self.interleaved:
            order.sort()
        return [self._pod(at, kind, kinds[kind]) for at, kind in enumerate(order)]

    def _template(self, kind: int) -> Pod:
        times, app = 1 + kind % self.sizes, {"app": f"app-{kind}"}
        selector = LabelSelector(app)
        apart = kind * 100 < self.anti_affinity * self.classes
        spreads = kind * 100 < self.soft_spread * self.classes
        namespace = self.namespace(kind)
        own = PodAffinityTerm(HOSTNAME, selector, (namespace,))
        return Pod(
            "",
            namespace,
            "",
            labels=app,
            requests={"cpu": self.cpu * times, "memory": self.memory * times + kind * 4096},
            scheduler_name=SCHEDULER_NAME,
            pod_anti_affinity=PodAffinity((own,)) if apart else None,
            spread=tuple(SpreadConstraint(key, 1, False, selector) for key in ("zone", "host"))
            if spreads
            else (),
        )

    def namespace(self, kind: int) -> str:
        """Where the pods of a template are."""
        return f"team-{kind % self.tenants}" if self.tenants else "default"

    def _pod(self, at: int, kind: int, like: Pod) -> Pod:
        return Pod(
            f"uid-{at:07}",
            like.namespace,
            f"app-{kind}-{at}",
            labels=like.labels,
            requests=like.requests,
            scheduler_name=like.scheduler_name,
            pod_anti_affinity=like.pod_anti_affinity,
            spread=like.spread,
            owner=f"replicaset-{kind}",
            volumes=(Volume(CLAIM, f"data-{at}"),) if self.claims else (),
        )

    def fleet(self) -> tuple[Node, ...]:
        """Nodes of 128 GiB in three zones."""
        room = {
            "cpu": self.node_cpu,
            "memory": 128 * 2**30,
            "ephemeral-storage": 2**40,
            "pods": 1000,
        }
        return tuple(
            Node(
                f"n{n:05}",
                f"u-{n}",
                {HOSTNAME: f"n{n:05}", ZONE: f"z{n % 3}"},
                ready=True,
                allocatable=room,
            )
            for n in range(self.nodes)
        )

    def loads(self) -> tuple[Reading, ...]:
        """A first reading of every node."""
        return tuple(self._reading(n, n * 7919) for n in range(self.nodes))

    def samples(self) -> Iterator[Reading]:
        """Readings that come in later, of nodes by chance; it does not end."""
        dice = random.Random(self.seed + 1)
        while True:
            yield self._reading(dice.randrange(self.nodes), dice.randrange(1000))

    def _reading(self, n: int, step: int) -> Reading:
        load = (step % 1000) / 2500
        return Reading(f"n{n:05}", cpu=load, memory=load / 2, net=load / 4, source="kubelet")

    def owners(self) -> tuple[Tenant, ...]:
        """Tenants with a ratio of CPU and of memory each, or at the top of their tree."""
        if self.tree:
            return tuple(self._tree())
        nominal = {"cpu": Share(ratio=self.ratio), "memory": Share(ratio=self.ratio)}
        return tuple(
            Tenant(f"team-{one}", (f"team-{one}",), nominal) for one in range(self.tenants)
        )

    def _tree(self) -> Iterator[Tenant]:
        whole = {"cpu": Share(ratio=self.ratio), "memory": Share(ratio=self.ratio)}
        little = Share(ratio=self.ratio / (_LITTLE * max(self.tenants, 1)))
        given = {"cpu": little, "memory": little}
        yield Tenant("top", (), whole)
        for one in range(self.tenants):
            branch = f"branch-{one // _TO_A_BRANCH}"
            if one % _TO_A_BRANCH == 0:
                yield Tenant(branch, (), {}, parent="top", borrowing_limit=whole)
            name = f"team-{one}"
            yield Tenant(name, (name,), given, branch, whole, {"cpu": little}, 1000 * (1 + one % 3))
