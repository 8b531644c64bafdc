"""Faults planted into the product on purpose: each has to be found, or the simulation proves nothing.

To add one, write a function that patches the product through `Patches`, and decorate it with `plant`: what it breaks,
and the themes of faults under which that shows. It is found where a story that holds without it breaks with it.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from tests.simulation.faults import Story, draw
from tests.simulation.judges.court import Violation
from tests.simulation.telling import Told, tell

SEEDS = 60  # tried for each planted fault


class Patches:
    """Attributes of the product that are others for a while."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, Any, Any]] = []

    def set(self, where: Any, name: str, value: Any) -> Any:
        """Replace an attribute; what it was is returned."""
        was = getattr(where, name)
        self._before.append((where, name, where.__dict__.get(name, was) if isinstance(where, type) else was))
        setattr(where, name, value)
        return was

    def item(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        """Replace an entry of a table."""
        self._before.append((table, None, (key, table[key])))
        table[key] = value

    def undo(self) -> None:
        """All as it was."""
        for where, name, value in reversed(self._before):
            if name is None:
                where[value[0]] = value[1]
            else:
                setattr(where, name, value)


@dataclass(frozen=True)
class Planted:
    """A planted fault."""

    name: str
    what: str
    themes: tuple[str, ...]
    patch: Callable[[Patches], None]


PLANTED: dict[str, Planted] = {}
# Planted faults that no story shows within `SEEDS`: why. They are tried and counted, and do not fail the run.
NOT_CAUGHT: dict[str, str] = {}


class Hunted(NamedTuple):
    """How many planted faults were found, of how many; `missed`: not found, and not known to hide so well."""

    caught: int = 0
    every: int = 0
    missed: int = 0


def plant(what: str, *themes: str) -> Callable[[Callable[[Patches], None]], Callable[[Patches], None]]:
    """An entry of the table, named after the function."""

    def add(patch: Callable[[Patches], None]) -> Callable[[Patches], None]:
        name = patch.__name__.strip("_").replace("_", "-")
        PLANTED[name] = Planted(name, what, themes, patch)
        return patch

    return add


@contextmanager
def in_place(name: str) -> Iterator[None]:
    """With this fault in the product; '' none."""
    patches = Patches()
    try:
        if name:
            PLANTED[name].patch(patches)
        yield
    finally:
        patches.undo()


def crash(error: Exception) -> Violation:
    """A story that ended by an exception."""
    return Violation("Crash", 0.0, type(error).__name__, str(error)[:300])


def told_with(name: str, story: Story) -> Told:
    """A story with a planted fault."""
    with in_place(name):
        try:
            return tell(story)
        except Exception as error:
            return Told(story, [crash(error)])


def search(name: str, until: float = float("inf"), most: int = SEEDS) -> tuple[str, int, str]:
    """(name, seeds that it took, 0 for never and -1 where the time was over, what was found) of one planted fault."""
    for tried, seed in enumerate(range(5_001, 5_001 + most), 1):
        if time.monotonic() > until:
            return name, -1, ""
        story = draw(seed, PLANTED[name].themes)
        told = told_with(name, story)
        if told.violations:
            known = {one.judge for one in told_with("", story).violations}
            new = [one for one in told.violations if one.judge not in known]
            if new:
                return name, tried, str(new[0])
    return name, 0, ""


def hunt(which: str, spread: Callable[..., Iterator[Any]], until: float = float("inf"), most: int = SEEDS) -> Hunted:
    """Look for them all, or for those named in `which`. What the time did not suffice for is said, and not counted."""
    wanted: Sequence[str] = [*PLANTED] if which == "all" else which.split(",")
    seeds = {}
    for name, tried, found in spread(partial(search, until=until, most=most), wanted):
        seeds[name] = tried
        told = {0: f"NOT FOUND in {most} seeds", -1: "not found before the time was over"}
        print(f"sim: planted {name}: {told.get(tried, f'found after {tried} seeds: {found[:160]}')}", flush=True)
    for name, why in NOT_CAUGHT.items():
        if seeds.get(name) == 0:
            print(f"sim: planted {name} is known not to be caught: {why}")
    left = [name for name in wanted if seeds.get(name, -1) < 0]
    if left:
        print(f"sim: no time was left for {len(left)} planted faults: {', '.join(left)}")
    missed = sum(tried == 0 and name not in NOT_CAUGHT for name, tried in seeds.items())
    return Hunted(sum(tried > 0 for tried in seeds.values()), len(wanted) - len(left), missed)
