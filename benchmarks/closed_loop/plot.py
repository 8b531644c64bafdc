"""Hot minutes of each policy as a picture: a bar is the mean, a dot is a seed. See
docs/closed-loop.md.

    python -m benchmarks.closed_loop.plot FILE.json... > picture.svg

FILE: what `python -m benchmarks.closed_loop -o json` printed. Policies of several files stand in
one picture, so they must be of the same world; the axis is logarithmic.
"""

import json
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Annotated, Any

import typer

_NAMES, _AXIS, _RIGHT, _TOP, _LINE, _FOOT = 170, 600, 70, 34, 30, 30  # pixels
_SAME = (
    "trace",
    "nodes",
    "pods",
    "load",
    "guesses",
    "bursts",
)  # of two worlds that may be in one picture
_OURS, _OTHERS = "#2a6fb0", "#d08a3c"

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(help=__doc__)
def main(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="JSON of runs, any number.")
    ],
) -> None:
    """One command; the exit code."""
    try:
        found = joined([json.loads(file.read_text()) for file in files])
    except (OSError, ValueError, KeyError) as error:
        print(f"{', '.join(map(str, files))}: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    print(picture(*found))


def joined(reports: Sequence[Mapping[str, Any]]) -> tuple[str, dict[str, list[float]]]:
    """What the world was, in words, and the hot minutes of each seed by policy. ValueError: the
    worlds differ.
    """
    worlds = [{key: report["world"][key] for key in _SAME} for report in reports]
    if any(world != worlds[0] for world in worlds):
        raise ValueError("these are days of different worlds: draw each by itself")
    by_policy = {
        name: seeds for report in reports for name, seeds in report["hot_minutes_by_seed"].items()
    }
    world = worlds[0]
    words = (
        f"{world['trace']}, {world['guesses']} guesses: minutes above 80 % CPU, of all nodes in a "
        "day"
    )
    return words, by_policy


def picture(title: str, seeds: Mapping[str, Sequence[float]]) -> str:
    """SVG, the most hot minutes at the top."""
    order = sorted(seeds, key=lambda name: -statistics.fmean(seeds[name]))
    top = max((value for name in order for value in seeds[name]), default=1.0)
    decades = max(math.ceil(math.log10(max(top, 10.0))), 1)
    height = _TOP + _LINE * len(order) + _FOOT
    parts = [_text(8, 20, title, weight="bold")]
    for power in range(decades + 1):
        x = _NAMES + _AXIS * power / decades
        parts.append(
            f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{height - _FOOT}" stroke="#cccccc"/>'
        )
        parts.append(_text(x, height - 10, f"{10**power:,}", anchor="middle"))
    for at, name in enumerate(order):
        parts += _row(name, seeds[name], _TOP + _LINE * at, decades)
    width = _NAMES + _AXIS + _RIGHT
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}"'
    )
    style = (
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
    )
    return "\n".join([f"{head} {style}", *parts, "</svg>"])


def _row(name: str, seeds: Sequence[float], y: float, decades: int) -> list[str]:
    mean, middle = statistics.fmean(seeds), y + _LINE / 2
    colour = _OURS if name.startswith("ours") else _OTHERS
    end = _at(mean, decades)
    bar = (
        f'<rect x="{_NAMES}" y="{y + 6}" width="{end - _NAMES:.1f}" height="{_LINE - 12}" '
        f'fill="{colour}"/>'
    )
    dots = [
        f'<circle cx="{_at(one, decades):.1f}" cy="{middle}" r="3" fill="none" stroke="black"/>'
        for one in seeds
    ]
    furthest = max(end, *(_at(one, decades) for one in seeds))
    label, number = (
        _text(_NAMES - 8, middle + 4, name, anchor="end"),
        _text(furthest + 8, middle + 4, f"{mean:,.0f}"),
    )
    return [label, bar, *dots, number]


def _at(value: float, decades: int) -> float:
    """Where a number is on the axis; all below 1 at its beginning."""
    return _NAMES + _AXIS * math.log10(max(value, 1.0)) / decades


def _text(x: float, y: float, text: str, anchor: str = "start", weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.closed_loop.plot")
