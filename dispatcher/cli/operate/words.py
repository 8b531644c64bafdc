"""What an operator says of a cluster, written on its proxy node in another cluster, and read from
there.
"""

from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import quote

from dispatcher.cli.operate.members import Member, MemberError
from shared.kube.http import MERGE_PATCH
from shared.model import names
from shared.model.node import Taint, cluster_behind

Object = dict[str, Any]
NODES = "/api/v1/nodes"


class Standing(NamedTuple):
    """How the proxy node of a cluster stands; as text "absent", "open", "cordoned", "fenced" (which
    is cordoned).
    """

    there: bool
    cordoned: bool = False
    fenced: bool = False

    def __str__(self) -> str:
        """For people."""
        if self.fenced:
            return "fenced" if self.cordoned else "fenced, not cordoned"
        return "cordoned" if self.cordoned else "open" if self.there else "absent"


ABSENT = Standing(there=False)


class Word(NamedTuple):
    """A merge patch of a proxy node, and what is said of it, by how it stood before and how it
    stands now.
    """

    patch: Object
    result: Callable[[Standing, Standing], str]


def _cordoned(before: Standing, _now: Standing) -> str:
    return f"was {before} already" if before.cordoned else "cordoned"


def _uncordoned(before: Standing, _now: Standing) -> str:
    return "uncordoned" if before.cordoned else f"was {before}"


def _fenced(before: Standing, _now: Standing) -> str:
    return "was fenced already" if before.fenced and before.cordoned else "fenced and cordoned"


def _unfenced(before: Standing, now: Standing) -> str:
    still = f"still {now}" if now.cordoned else str(now)
    return f"unfenced, {still}" if before.fenced else f"was not fenced, {still}"


def _annotated(value: str | None) -> Object:
    return {"annotations": {names.CLOSED_BY_LEAVE: value}}


# A cordon that is said by itself stays when a cluster that was leaving comes back.
CORDON = Word({"spec": {"unschedulable": True}, "metadata": _annotated(None)}, _cordoned)
CLOSE = Word({"spec": {"unschedulable": True}, "metadata": _annotated("true")}, _cordoned)
UNCORDON = Word({"spec": {"unschedulable": None}, "metadata": _annotated(None)}, _uncordoned)
FENCE = Word(
    {"spec": {"unschedulable": True}, "metadata": {"labels": {names.FENCED: "true"}}}, _fenced
)
UNFENCE = Word({"metadata": {"labels": {names.FENCED: None}}}, _unfenced)


async def standing(member: Member, cluster: str) -> Standing:
    """How the proxy node of `cluster` stands in another cluster."""
    node = await node_of(member, names.proxy_node_name(cluster))
    return _standing_of(node) if node is not None and behind(node) else ABSENT


async def node_of(member: Member, name: str) -> Object | None:
    """The node of this name; None where there is none. MemberError."""
    try:
        node: Object = await member.call("GET", node_path(name))
    except MemberError as error:
        if error.status == 404:
            return None
        raise
    return node


def behind(node: Object) -> str:
    """The cluster that a node stands for, by our mark; "" for one of the cluster that has it,
    whatever its name.
    """
    meta = node["metadata"]
    given = node.get("spec", {}).get("taints") or ()
    taints = (Taint(one["key"], one.get("value", ""), one["effect"]) for one in given)
    return cluster_behind(meta["name"], meta.get("labels") or {}, taints)


async def say(member: Member, cluster: str, word: Word) -> tuple[str, Standing]:
    """Write it on the proxy node of `cluster`; what became of it, and how the node stands then.

    MemberError if it could not be written.
    """
    before = await standing(member, cluster)
    if before == ABSENT:
        return "has no proxy node of it", before
    now = _standing_of(
        await member.call(
            "PATCH", node_path(names.proxy_node_name(cluster)), word.patch, MERGE_PATCH
        )
    )
    return word.result(before, now), now


async def closed_by_leave(member: Member) -> list[str]:
    """The clusters whose proxy nodes in this cluster were cordoned because it leaves."""
    nodes = [
        node["metadata"] for node in await member.items(NODES, labelSelector=names.PROXY_LABEL)
    ]
    closed = [
        meta
        for meta in nodes
        if (meta.get("annotations") or {}).get(names.CLOSED_BY_LEAVE) == "true"
    ]
    return [meta["labels"][names.PROXY_LABEL] for meta in closed]


def node_path(node: str) -> str:
    """Where a node is on an API server."""
    return f"{NODES}/{quote(node, safe='')}"


def _standing_of(node: Object) -> Standing:
    fenced = node["metadata"].get("labels", {}).get(names.FENCED) == "true"
    return Standing(
        there=True, cordoned=bool(node.get("spec", {}).get("unschedulable")), fenced=fenced
    )
