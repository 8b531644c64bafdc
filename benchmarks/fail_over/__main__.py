"""Leaders are killed, one after the other, beside warm standbys over fake agents and under load:
how long nothing is decided each time. And leaders are paused until another leads: what they order
when they wake.
"""

import asyncio
import sys
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.fail_over.case import measure, under_load
from benchmarks.fleet.load import Load
from benchmarks.report.machine import this_machine
from benchmarks.report.table import heading, show

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(help=__doc__)
def main(
    *,
    kills: Annotated[int, typer.Option(min=1, help="Leaders that are killed.")] = 50,
    pauses: Annotated[int, typer.Option(min=0, help="Leaders that are paused, and go on.")] = 5,
    clusters: Annotated[int, typer.Option(min=1)] = 100,
    nodes: Annotated[int, typer.Option(min=1, help="Of each cluster.")] = 100,
    pods: Annotated[int, typer.Option(min=0, help="Of each cluster at the start.")] = 100,
    churn: Annotated[float, typer.Option(min=0, help="Pod changes a second in the fleet.")] = 200.0,
) -> None:
    """One command."""
    load, machine = Load(clusters=clusters, nodes=nodes, pods=pods, churn=churn), this_machine()
    rows = asyncio.run(
        measure(
            load, under_load(kills, pauses), lambda text: print(text, file=sys.stderr, flush=True)
        )
    )
    console = Console(width=200, highlight=False)
    console.print(heading(machine), "", sep="\n", highlight=False)
    show(rows, console)


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.fail_over")
