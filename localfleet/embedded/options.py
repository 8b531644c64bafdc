"""What the command line of one embedded cluster says."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from localfleet.embedded.controllers.roster import Tempo
from localfleet.embedded.kubelet.kubelets import Pace
from localfleet.embedded.kubelet.shapes import Shape, ShapeError, parse_shape, read_shapes

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Options:
    """What one cluster process is told. `state_dir` None: a temporary one, gone with the process."""

    name: str
    shapes: tuple[Shape, ...]
    region: str
    zones: tuple[str, ...]
    state_dir: Path | None
    port: int
    kubeconfig: Path | None
    seed: int
    exit_with_parent: bool
    log_level: str
    tempo: Tempo
    pace: Pace
    metric_resolution_s: float

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return sum(shape.count for shape in self.shapes)


def checked_name(text: str) -> str:
    """A cluster's name; BadParameter for another."""
    if not _NAME.fullmatch(text):
        why = f"{text!r} is not up to 40 lower-case letters, digits and dashes, such as east-1"
        raise typer.BadParameter(why, param_hint="--name")
    return text


def zones_of(text: str) -> tuple[str, ...]:
    """a,b,c; BadParameter for none."""
    zones = tuple(filter(None, text.split(",")))
    if not zones:
        raise typer.BadParameter("give at least one zone, such as a,b,c", param_hint="--zones")
    return zones


def shapes_of(
    equal: Mapping[str, Any], nodes: int | None, texts: Sequence[str], table: Path | None, part: str
) -> tuple[Shape, ...]:
    """The nodes, by shape: `nodes` equal ones (None: 10, or none beside others), and those of texts
    and a table.
    """
    which, of = _part(part)
    try:
        shapes = [parse_shape(text) for text in texts]
        if table is not None:
            shapes += read_shapes(table, which, of)
        count = nodes if nodes is not None else 0 if shapes else 10
        if count:
            shapes.append(Shape(**equal, count=count))
    except (ShapeError, OSError) as error:
        raise typer.BadParameter(str(error)) from None
    return tuple(shapes)


def _part(text: str) -> tuple[int, int]:
    part, separator, parts = text.partition("/")
    if not (separator and part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts)):
        raise typer.BadParameter(
            f"{text!r} is not I/N with 1 <= I <= N, such as 2/3", param_hint="--nodes-part"
        )
    return int(part), int(parts)
