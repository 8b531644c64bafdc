"""What a command is about to touch, cluster by cluster: read first, shown, and only then acted
upon.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dispatcher.cli.operate.census import Census, PodAt, census, namespaces_of
from dispatcher.cli.operate.members import Member, MemberError
from dispatcher.cli.operate.words import behind, node_of, standing
from dispatcher.cli.output import Column
from shared.model import names

NOBODY = Census((), (), ())


@dataclass
class Sight:
    """One cluster as it was found, and what was done there. `problem`: why it could not be, "" if
    it could.
    """

    name: str
    proxy: str = ""  # how the proxy node of the cluster in question stands there
    found: Census = NOBODY
    # whether `found` was counted there; without it nobody knows how many pods there are
    counted: bool = False
    did: list[str] = field(default_factory=list)
    closed: list[str] = field(
        default_factory=list
    )  # clusters whose proxy nodes `leave` has cordoned there
    note: str = ""  # what else there is to know before the command is agreed to
    problem: str = ""

    def row(self) -> dict[str, Any]:
        """For people and programs; None for numbers that nobody could count."""
        pods = (*self.found.bound, *self.found.copies)
        return {
            "cluster": self.name,
            "proxy": self.proxy,
            "pods": len(self.found.bound) if self.counted else None,
            "copies": len(self.found.copies) if self.counted else None,
            "namespaces": namespaces_of(pods) if self.counted else None,
            "did": "; ".join(self.did),
            "problem": self.problem,
            **({"note": self.note} if self.note else {}),
        }


def _number(row: Mapping[str, Any], key: str) -> str:
    return "?" if row[key] is None else str(row[key])


COLUMNS = (
    Column("CLUSTER", lambda row: row["cluster"]),
    Column("PROXY NODE", lambda row: row["proxy"] or "-"),
    Column("PODS", lambda row: _number(row, "pods"), right=True),
    Column("COPIES", lambda row: _number(row, "copies"), right=True),
    Column("DONE", lambda row: row["did"] or "-"),
    Column("PROBLEM", lambda row: row["problem"] or "-", lambda row: "bold red"),
)


async def survey(members: Mapping[str, Member], cluster: str, *, whole: bool) -> list[Sight]:
    """All clusters but, unless `whole`, the one in question; `whole` also looks for copies and
    marks that are left.
    """
    wanted = [name for name in members if whole or name != cluster]
    return list(
        await asyncio.gather(*(_see(members[name], cluster, whole=whole) for name in wanted))
    )


async def _see(member: Member, cluster: str, *, whole: bool) -> Sight:
    sight = Sight(member.name)
    try:
        query = (
            {} if whole else {"fieldSelector": f"spec.nodeName={names.proxy_node_name(cluster)}"}
        )
        pods = await member.items("/api/v1/pods", **query)
        sight.found = census(member.name, cluster, pods, await _own_nodes(member, pods))
        sight.counted = True
        sight.proxy = "" if member.name == cluster else str(await standing(member, cluster))
    except MemberError as error:
        sight.problem = str(error)
    return sight


async def _own_nodes(member: Member, pods: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Nodes of these pods that are named as proxy nodes are, and are none."""
    on = {str(pod.get("spec", {}).get("nodeName") or "") for pod in pods}
    named = sorted(name for name in on if name.startswith(names.PROXY_NODE_PREFIX))
    nodes = await asyncio.gather(*(node_of(member, name) for name in named))
    return frozenset(
        node["metadata"]["name"] for node in nodes if node is not None and not behind(node)
    )


def how_many(pods: Sequence[PodAt], sights: Sequence[Sight]) -> str:
    """Their number, as far as the clusters that they are in could be asked."""
    if all(sight.counted for sight in sights):
        return str(len(pods))
    return f"at least {len(pods)}" if pods else "an unknown number of"


def bound(sights: list[Sight]) -> list[PodAt]:
    """All pods that are on proxy nodes."""
    return [pod for sight in sights for pod in sight.found.bound]


def copies(sights: list[Sight]) -> list[PodAt]:
    """All copies."""
    return [pod for sight in sights for pod in sight.found.copies]
