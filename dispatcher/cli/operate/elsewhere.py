"""Whether the pods that a command evicts have another place: the running dispatcher knows."""

import asyncio
from typing import Any, NamedTuple

from dispatcher.cli.api_client import ApiClient
from dispatcher.service.errors import CommandError

_NAMED = 10  # controllers in one line


class Elsewhere(NamedTuple):
    """Rows of `/v1/drain` whose pods would go nowhere, None if that is not known; and the same in words."""

    nowhere: list[dict[str, Any]] | None
    words: str


async def ask_elsewhere(server: str, cluster: str) -> Elsewhere:
    """Ask the dispatcher where the pods would go that run in a cluster for others."""
    try:
        rows = await asyncio.to_thread(ApiClient(server).rows, "drain", cluster=cluster)
    except CommandError as error:
        return Elsewhere(None, f"whether its pods have another place is not known: {error}")
    nowhere = [row for row in rows if row["to"] is None]
    if not nowhere:
        return Elsewhere([], "its pods have other places, each looked at as if it was the only one to go")
    pods = sum(row["pods"] for row in nowhere)
    such = ", ".join(f"{row['source']}: {row['namespace']}/{row['name']} ({row['pods']})" for row in nowhere[:_NAMED])
    more = f" and {len(nowhere) - _NAMED} more" if len(nowhere) > _NAMED else ""
    return Elsewhere(nowhere, f"{pods} pods would wait, as no other place is free for them now: {such}{more}")
