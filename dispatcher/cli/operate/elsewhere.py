"""Whether the pods that a command evicts have another place: the running dispatcher knows."""

import asyncio
from typing import Any, NamedTuple

from dispatcher.cli.api_client import ApiClient
from dispatcher.service.errors import CommandError

Row = dict[str, Any]
_NAMED = 10  # controllers in one line
_ALL = "its pods have other places, those of each controller looked at as if they alone went"


class Elsewhere(NamedTuple):
    """Rows of `/v1/drain` some of whose pods would go nowhere, and those of which it is not known (None: of
    all); and the same in words.
    """

    nowhere: list[Row] | None
    unknown: list[Row] | None
    words: list[str]


async def ask_elsewhere(server: str, cluster: str, *, leave: bool) -> Elsewhere:
    """Ask the dispatcher where the pods would go that run in a cluster for others; `leave`: and in
    others for it.
    """
    query = {"cluster": cluster, "leave": "true" if leave else ""}
    try:
        rows = await asyncio.to_thread(ApiClient(server).rows, "drain", **query)
    except CommandError as error:
        return Elsewhere(None, None, [f"whether its pods have another place is not known: {error}"])
    unknown = [row for row in rows if row.get("unknown")]
    nowhere = [row for row in rows if row["waiting"]]
    words = []
    if nowhere:
        words.append(
            f"{_pods(nowhere, 'waiting')} would wait, as no other place is free for them now: "
            f"{_such(nowhere, 'waiting')}"
        )
    if unknown:
        why = unknown[0]["unknown"]
        words.append(
            f"of {_pods(unknown, 'pods')} it is not known whether they have another place: "
            f"{_such(unknown, 'pods')}: {why}"
        )
    return Elsewhere(nowhere, unknown, words or [_ALL])


def _pods(rows: list[Row], count: str) -> str:
    return f"{sum(row[count] for row in rows)} pods"


def _such(rows: list[Row], count: str) -> str:
    such = ", ".join(
        f"{row['source']}: {row['namespace']}/{row['name']} ({row[count]})" for row in rows[:_NAMED]
    )
    return such + (f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else "")
