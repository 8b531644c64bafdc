"""How the sources of live load do in each cluster, asked of the agents when somebody wants to know."""

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

from dispatcher.service.link import AgentLink, LinkError

TIMEOUT_S = 5.0

Row = dict[str, Any]


async def ask_all(links: Iterable[AgentLink]) -> list[Row]:
    """One row a cluster, by name: what its agent tells (model/messages/telemetry.py), or `problem` why it does not."""
    rows = await asyncio.gather(*map(_ask, links))
    return sorted(rows, key=lambda row: str(row["cluster"]))


async def _ask(link: AgentLink) -> Row:
    try:
        told = await link.telemetry(timeout_s=TIMEOUT_S)
    except LinkError as error:
        return {"cluster": link.cluster, "problem": str(error), "nodes": 0, "stale_s": 0.0, "sources": [], "unread": []}
    return {
        "cluster": link.cluster,
        "problem": "",
        "nodes": told.nodes,
        "stale_s": told.stale_s,
        "sources": [msgspec.structs.asdict(one) for one in told.sources],
        "unread": [msgspec.structs.asdict(one) for one in told.unread],
    }
