"""`global-dispatcher queue`: which pods are decided next, and where one of them stands."""

import sys
from typing import Annotated

import typer

from dispatcher.cli.options import DEFAULT_SERVER, Out, Server
from dispatcher.cli.output import Column, Output
from dispatcher.cli.queries import client_of, pod_name
from dispatcher.cli.tables import age, share

_COLUMNS = (
    Column("PLACE", lambda row: "-" if row["place"] is None else str(row["place"]), right=True),
    Column("NAMESPACE", lambda row: row["namespace"]),
    Column("NAME", lambda row: row["name"]),
    Column("SOURCE", lambda row: row["source"]),
    Column("PRIORITY", lambda row: str(row.get("priority", "-")), right=True),
    Column("TENANT", lambda row: row.get("tenant") or "-"),
    Column("SHARE", lambda row: share(row.get("share")), right=True),
    Column("WAITS", lambda row: age(row.get("waits_s")), right=True),
    Column("WHY", lambda row: row["why"], lambda row: "dim"),
)
_OTHERS = {
    "backoff": "back off",
    "unschedulable": "wait for something that may help them",
    "gated": "may not enter the queue yet",
    "waiting": "have a place and wait for what holds them up",
}


def queue(
    pod: Annotated[
        str,
        typer.Argument(metavar="[NAMESPACE/POD]", help="Where this one stands, and why."),
    ] = "",
    of_namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="Namespace of the pod.")
    ] = "",
    cluster: Annotated[
        str, typer.Option(help="The cluster it was submitted in, if several have one.")
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Only so many.")] = 50,
    output: Out = Output.TABLE,
    server: Server = DEFAULT_SERVER,
) -> None:
    """List the pods that are decided next, in order, and why in that order.

    The order is that of now, if each finds a place: tenants take turns by SHARE, what they have
    borrowed of what they could, by weight. How many wait for other things is said below.
    """
    from dispatcher.cli.output import print_table, print_value

    if pod:
        namespace, name = pod_name(pod, of_namespace)
        row = client_of(server).place(namespace, name, cluster)
        if output is Output.TABLE:
            print_table(_COLUMNS, [row])
        else:
            print_value(row, output)
        return
    found = client_of(server).queue(limit)
    if output is not Output.TABLE:
        print_value(found, output)
        return
    if found["queue"]:
        print_table(_COLUMNS, found["queue"])
    sys.stderr.write(_rest(found["counts"], len(found["queue"])) + "\n")


def _rest(counts: dict[str, int], shown: int) -> str:
    parts = [f"{counts[state]} {words}" for state, words in _OTHERS.items() if counts.get(state)]
    active = counts.get("active", 0)
    head = (
        f"{shown} of {active} pods that are to be decided" if active else "no pod is to be decided"
    )
    return "; ".join([head, *parts])
