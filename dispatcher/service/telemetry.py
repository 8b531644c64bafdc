"""How the sources of live load do in each cluster, asked of the agents when somebody wants to know."""

import asyncio
import math
from collections.abc import Iterable
from itertools import chain
from typing import Any

import msgspec

from dispatcher.service.links.link import AgentLink, LinkError
from shared.messages import SourceReport, Telemetry

TIMEOUT_S = 5.0

Row = dict[str, Any]


async def ask_all(links: Iterable[AgentLink]) -> list[Row]:
    """One row a cluster, by name: what its agent tells (shared/messages/telemetry.py), or `problem`
    why it does not.
    """
    rows = await asyncio.gather(*map(_ask, links))
    return sorted(rows, key=lambda row: str(row["cluster"]))


def _possible(one: SourceReport) -> bool:
    """Whether an agent can have found that: whoever reads it counts on numbers, and on a name where
    something fails.
    """
    numbers = (one.lag_s, one.answered_s or 0.0, *chain.from_iterable(one.ages.values()))
    return all(map(math.isfinite, numbers)) and not (one.failing and not one.failing_names)


async def _ask(link: AgentLink) -> Row:
    try:
        told = await link.telemetry(timeout_s=TIMEOUT_S)
    except LinkError as error:
        return _row(Telemetry(link.cluster), str(error))
    if not all(map(_possible, told.sources)):
        return _row(Telemetry(link.cluster), "its agent tells of its sources what cannot be")
    return _row(told)


def _row(told: Telemetry, problem: str = "") -> Row:
    return {
        "cluster": told.cluster,
        "problem": problem,
        "nodes": told.nodes,
        "stale_s": told.stale_s,
        "sources": [msgspec.structs.asdict(one) for one in told.sources],
        "unread": [msgspec.structs.asdict(one) for one in told.unread],
    }
