"""Pods with ConfigMaps that follow them to three other clusters, beside pods without: how much later
they are shown Running, and what that costs the dispatcher.
"""

import asyncio
import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.followers.case import Size, measure
from benchmarks.report.machine import this_machine
from benchmarks.report.table import heading, show

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(help=__doc__)
def main(
    *,
    pods: Annotated[int, typer.Option(min=1, help="All at once.")] = 5_000,
    objects: Annotated[int, typer.Option(min=2, help="ConfigMaps that they share.")] = 50,
    singles: Annotated[int, typer.Option(min=1, help="Pods one by one, of each kind.")] = 20,
) -> None:
    """One command; JSON goes to standard output, the table to standard error."""
    rows = asyncio.run(measure(Size(pods, objects, singles)))
    console = Console(width=200, highlight=False, stderr=True)
    console.print(heading(this_machine()), "", sep="\n", highlight=False)
    show(rows, console)
    json.dump([asdict(row) for row in rows], sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.followers")
