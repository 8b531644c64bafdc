"""What an operator says of a cluster, written on its proxy node in another cluster, and read from there."""

from typing import Any, NamedTuple
from urllib.parse import quote

from agents.executor.http import MERGE_PATCH
from dispatcher.model import names
from dispatcher.runtime.operate.members import Member, MemberError

Object = dict[str, Any]
NODES = "/api/v1/nodes"


class Word(NamedTuple):
    """A merge patch of a proxy node, and how it is told."""

    patch: Object
    told: str


CORDON = Word({"spec": {"unschedulable": True}}, "cordoned")
UNCORDON = Word({"spec": {"unschedulable": None}}, "uncordoned")
FENCE = Word({**CORDON.patch, "metadata": {"labels": {names.FENCED: "true"}}}, "fenced and cordoned")
UNFENCE = Word({"metadata": {"labels": {names.FENCED: None}}}, "unfenced, still cordoned")


async def standing(member: Member, cluster: str) -> str:
    """How the proxy node of `cluster` stands in another cluster: "open", "cordoned", "fenced", "absent"."""
    try:
        node = await member.call("GET", _path(names.proxy_node_name(cluster)))
    except MemberError as error:
        if error.status == 404:
            return "absent"
        raise
    if node["metadata"].get("labels", {}).get(names.FENCED) == "true":
        return "fenced"
    return "cordoned" if node.get("spec", {}).get("unschedulable") else "open"


async def say(member: Member, cluster: str, word: Word) -> str:
    """Write it on the proxy node of `cluster`; what became of it. MemberError if it could not be written."""
    try:
        await member.call("PATCH", _path(names.proxy_node_name(cluster)), word.patch, MERGE_PATCH)
    except MemberError as error:
        if error.status == 404:
            return "has no proxy node of it"
        raise
    return word.told


def _path(node: str) -> str:
    return f"{NODES}/{quote(node, safe='')}"
