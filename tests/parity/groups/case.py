"""What both sides are given of pod groups, and what each says of one."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.parity.case import Case, Object, Verdict

EVERYWHERE = ""  # the only domain of a group without a topology constraint


@dataclass
class Gang:
    """A PodGroup and its pods, in the order in which they are decided; `placed`: nodes of others that run already."""

    group: Object
    members: list[Object]
    placed: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        """namespace/name"""
        meta = self.group["metadata"]
        return f"{meta['namespace']}/{meta['name']}"

    @property
    def needed(self) -> int:
        """So many of those that wait start together, or none does."""
        gang = self.group["spec"]["schedulingPolicy"].get("gang", {"minCount": 1})
        return max(1, int(gang["minCount"]) - len(self.placed))

    @property
    def topology_key(self) -> str:
        """The label that all its nodes have one value of; "" if it does not say."""
        topology = self.group["spec"].get("schedulingConstraints", {}).get("topology")
        return str(topology[0]["key"]) if topology else ""

    def domains(self, nodes: list[Object]) -> dict[str, set[str]]:
        """Domain -> the names of its nodes; that alone where members run already."""
        found: dict[str, set[str]] = {}
        for node in nodes:
            labels = node["metadata"]["labels"]
            domain = labels.get(self.topology_key) if self.topology_key else EVERYWHERE
            if domain is not None:
                found.setdefault(domain, set()).add(node["metadata"]["name"])
        return {domain: names for domain, names in found.items() if names.issuperset(self.placed)}

    def all_objects(self) -> Iterator[Object]:
        """The group, then its pods."""
        yield self.group
        yield from self.members


@dataclass
class GroupCase:
    """A fleet, and the gangs that come one after the other. `running`: PodGroups of pods that run in the fleet."""

    fleet: Case
    gangs: list[Gang]
    running: list[Object] = field(default_factory=list)


@dataclass
class GroupVerdict:
    """What kube-scheduler says of one group.

    `placed`: pod -> node. `tables`: domain -> what it said of each member that it looked at there, in order: the nodes
    and their scores where there were at least two, and nothing else (`feasible` is None where there were fewer).
    `shares`: domain that holds as many as are needed -> of 100, how many it holds of the most that one holds (None
    where there is one such domain, which is not scored). `chosen`: the domain; None if the group waits.
    """

    gang: Gang
    placed: dict[str, str] = field(default_factory=dict)
    tables: dict[str, list[Verdict]] = field(default_factory=dict)
    shares: dict[str, int | None] = field(default_factory=dict)
    chosen: str | None = None
    message: str = ""
    emptied: "GroupVerdict | None" = None
    victims: frozenset[str] = frozenset()

    def record(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"placed": self.placed, "domain": self.chosen, "shares": self.shares, "message": self.message}
