"""A day of a simulated fleet for each placement policy, and how hot its nodes became. See
docs/closed-loop.md.

FILE...: CPU use of machines over a day, in the form of the PlanetLab set: a line a machine, 288
numbers in percent with commas between; .gz is read as such. Rows of all files are drawn from
together.
"""

import json
import shutil
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table as RichTable

from benchmarks.closed_loop.measure import Measure, goal, report, runs
from benchmarks.closed_loop.ours import DEFAULT, read_profile
from benchmarks.closed_loop.policies import OURS, POLICIES
from benchmarks.closed_loop.readings import Quality
from benchmarks.closed_loop.traces import Table, TraceFileError, generated, read_traces
from benchmarks.closed_loop.workload import Guesses, Size
from dispatcher.config.problems import ConfigError


class Output(StrEnum):
    """The --output option."""

    TABLE = "table"
    JSON = "json"


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
_SIZE, _QUALITY = Size(), Quality()


@app.command(help=__doc__)
def main(  # noqa: PLR0913 - the options of a command
    *,
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="Traces, any number.")
    ] = None,
    generate: Annotated[
        bool, typer.Option("--generated", help="Generated traces in place of files.")
    ] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Days to run; each has its own pods.")] = 10,
    policies: Annotated[str, typer.Option(help="Some of the policies, a,b,c.")] = ",".join(
        POLICIES
    ),
    profile: Annotated[
        Path, typer.Option(help="Profile file for `ours`.", show_default=False)
    ] = DEFAULT,
    clusters: Annotated[int, typer.Option(min=1)] = _SIZE.clusters,
    nodes: Annotated[int, typer.Option(min=1, help="In all clusters together.")] = _SIZE.nodes,
    pods: Annotated[int, typer.Option(min=1, help="In the whole day.")] = _SIZE.pods,
    load: Annotated[
        float, typer.Option(min=0.01, help="Share of all CPU in use at the peak.")
    ] = _SIZE.load,
    guesses: Annotated[
        Guesses, typer.Option(help="How well requests are guessed.")
    ] = _SIZE.guesses,
    bursts: Annotated[
        int, typer.Option(min=1, help="How often an app's pods come together.")
    ] = _SIZE.bursts,
    shortest_s: Annotated[
        float, typer.Option(min=1, help="Shortest time between readings.")
    ] = _QUALITY.shortest_s,
    longest_s: Annotated[
        float, typer.Option(min=1, help="Longest time between readings.")
    ] = _QUALITY.longest_s,
    late_s: Annotated[
        float, typer.Option(min=0, help="Mean time a reading is on its way.")
    ] = _QUALITY.late_s,
    noise: Annotated[
        float, typer.Option(min=0, help="Deviation, as a share of the node.")
    ] = _QUALITY.noise,
    lost: Annotated[
        float, typer.Option(min=0, max=1, help="Share of readings that are lost.")
    ] = _QUALITY.lost,
    output: Annotated[Output, typer.Option("-o", "--output", help="How to print.")] = Output.TABLE,
) -> None:
    """One command; the exit code."""
    names = tuple(name.strip() for name in policies.split(","))
    unknown = [name for name in names if name not in POLICIES]
    if unknown:
        raise _fail(f"--policies: {unknown[0]!r} is none: choose among {', '.join(POLICIES)}")
    if longest_s < shortest_s:
        raise _fail(
            f"--longest-s ({longest_s:g}) must not be less than --shortest-s ({shortest_s:g})"
        )
    size = Size(clusters, nodes, pods, load, guesses, bursts)
    quality = Quality(shortest_s, longest_s, late_s, noise, lost)
    try:
        traces, source = _traces(files or [], generate=generate)
        measure = Measure(traces, source, seeds, size, quality, names, read_profile(profile))
        found = report(measure, list(runs(measure, _say)))
    except (TraceFileError, ConfigError) as error:
        raise _fail(str(error)) from None
    _print(found, output)


def _traces(files: list[Path], *, generate: bool) -> tuple[Table, str]:
    """The rows, and where they are from. TraceFileError."""
    if generate and files:
        raise TraceFileError("give either files or --generated")
    if generate:
        return generated(np.random.default_rng(0)), "generated"
    return read_traces(files), " ".join(file.name for file in files)


def _print(found: dict[str, Any], output: Output) -> None:
    if output is Output.JSON:
        print(json.dumps(found, indent=1))
        return
    terminal = sys.stdout.isatty()
    console = Console(
        width=shutil.get_terminal_size().columns if terminal else 120, highlight=False
    )
    console.print(
        ", ".join(f"{name} {value}" for name, value in found["world"].items()), "", sep="\n"
    )
    for title, key in (
        ("CPU", "policies"),
        ("Memory, generated", "memory"),
        ("Network, generated", "network"),
    ):
        console.print(_table(title, found[key], found["waited_minutes"]), "", sep="\n")
    most = goal(found["policies"])
    if most is not None:
        console.print(f"goal for {OURS}: {most:,.0f} hot minutes of CPU, or less")


def _table(
    title: str, policies: dict[str, dict[str, float]], waited: dict[str, float]
) -> RichTable:
    table = RichTable(box=None, pad_edge=False)
    table.add_column(title)
    heads = ("HOT MINUTES", "OVERLOAD", "P99", "DEVIATION", "UNSERVED %", "MOVES", "WAITED MINUTES")
    for head in heads:
        table.add_column(head, justify="right")
    for name, figures in policies.items():
        hot, overload, p99, deviation, unserved, moves = figures.values()
        shares = f"{p99:.3f}", f"{deviation:.3f}", f"{unserved:.3f}"
        table.add_row(
            name,
            f"{hot:,.0f}",
            f"{overload:,.1f}",
            *shares,
            f"{moves:,.0f}",
            f"{waited[name]:,.0f}",
        )
    return table


def _fail(text: str) -> typer.Exit:
    print(text, file=sys.stderr)
    return typer.Exit(2)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.closed_loop")
