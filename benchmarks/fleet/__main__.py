"""One fleet of any size: a dispatcher (service, pollers, core) beside fake agents, measured from
outside.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.fleet.case import measure
from benchmarks.fleet.load import NODE, Load
from benchmarks.fleet.phases import TooSlow
from benchmarks.report.machine import Machine, this_machine
from benchmarks.report.rows import Row
from benchmarks.report.table import heading, show


class Output(StrEnum):
    """The --output option."""

    TABLE = "table"
    JSON = "json"


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
_LOAD = Load()


@app.command(help=__doc__)
def main(  # noqa: PLR0913 - the options of a command
    *,
    clusters: Annotated[int, typer.Option(min=1)] = _LOAD.clusters,
    nodes: Annotated[int, typer.Option(min=1, help="Of each cluster.")] = _LOAD.nodes,
    pods: Annotated[int, typer.Option(min=0, help="Of each cluster at the start.")] = _LOAD.pods,
    ours: Annotated[
        float, typer.Option(min=0, max=1, help="Share of them submitted to us.")
    ] = _LOAD.ours,
    templates: Annotated[int, typer.Option(min=1, help="Templates of pods.")] = _LOAD.templates,
    namespaces: Annotated[int, typer.Option(min=1)] = _LOAD.namespaces,
    tenants: Annotated[
        int, typer.Option(min=0, help="Clusters belong to them in turn; 0: no quota.")
    ] = _LOAD.tenants,
    sweep_s: Annotated[
        float, typer.Option(min=0.1, help="Every node has a new reading so often.")
    ] = _LOAD.sweep_s,
    churn: Annotated[
        float, typer.Option(min=0, max=10**5, help="Pod changes a second in the fleet.")
    ] = _LOAD.churn,
    burst: Annotated[
        int, typer.Option(min=1, help="Pods that are submitted at once.")
    ] = _LOAD.burst,
    burst_templates: Annotated[
        int, typer.Option(min=1, help="Of so many templates.")
    ] = _LOAD.burst_templates,
    remote: Annotated[
        int, typer.Option(min=0, help="The same, for another cluster than their own.")
    ] = _LOAD.remote,
    last_s: Annotated[
        float, typer.Option(min=0.5, max=3600, help="How long readings and changes last.")
    ] = _LOAD.last_s,
    coalesce_s: Annotated[
        float, typer.Option(min=0, max=60, help="Agents gather changes for so long.")
    ] = _LOAD.coalesce_s,
    start_s: Annotated[
        float, typer.Option(min=0, max=60, help="A bound pod runs after so long.")
    ] = _LOAD.start_s,
    seed: Annotated[int, typer.Option()] = _LOAD.seed,
    profile: Annotated[
        bool, typer.Option("--profile", help="Where time goes, by phase, to standard error.")
    ] = False,
    output: Annotated[Output, typer.Option("-o", "--output", help="How to print.")] = Output.TABLE,
) -> None:
    """One command."""
    load = Load(
        clusters,
        nodes,
        pods,
        ours,
        templates,
        namespaces,
        tenants,
        sweep_s,
        churn,
        burst,
        burst_templates,
        remote,
        last_s,
        coalesce_s,
        start_s,
        seed,
    )
    _check(load)
    machine = this_machine()
    try:
        rows = asyncio.run(measure(load, profile=profile, say=_say))
    except TooSlow as error:
        _say(
            f"{error}: is there room? A node has 32 CPU and takes 250 pods; --remote is all of "
            "one cluster"
        )
        raise typer.Exit(1) from None
    _print(rows, machine, output)


def _check(load: Load) -> None:
    """Exits where the nodes cannot take all pods; says so where no pod can be remote."""
    wanted, room = load.all_pods + 2 * load.burst + load.remote, load.all_nodes * NODE["pods"]
    if wanted > room:
        each = f"{load.pods} in each cluster, --burst twice and --remote"
        _say(f"{wanted:,} pods are {each}; all nodes take {room:,} at most")
        raise typer.Exit(2)
    if load.clusters == 1 and load.remote:
        _say("there is no other cluster: no figures of remote pods")


def _print(rows: Sequence[Row], machine: Machine, output: Output) -> None:
    if output is Output.JSON:
        print(json.dumps([{**asdict(row), **asdict(machine)} for row in rows], indent=1))
        return
    console = Console(width=200, highlight=False)
    console.print(heading(machine), "", sep="\n", highlight=False)
    show(rows, console)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.fleet")
