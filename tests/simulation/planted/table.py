"""Faults planted into the product on purpose: each has to be found, or the simulation proves nothing.

To add one, write a function that patches the product through `Patches`, and decorate it with `plant`: what it breaks,
and the themes of faults under which that shows in few seeds. Where chance shows it too seldom, a `Hint` tells a small
story instead, each time with other chances of the network. It is found where a story that holds without it breaks with
it, by the same judges as any story; with it a story ends at the first violation.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from tests.simulation.faults import Story, draw
from tests.simulation.judges.court import CRASH, Violation
from tests.simulation.planted.scripted import Hint, Scene
from tests.simulation.telling import Teller, Told
from tests.simulation.world.fleet import Judgeable
from tests.simulation.world.loop import live
from tests.simulation.world.processes import sim_client

SEEDS = 60  # tried for each planted fault
FIRST = 5_001  # of these seeds


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
    hint: Hint | None = None

    def teller(self, seed: int) -> Callable[[], Teller]:
        """Who tells the story of a seed in which it may show; to be called in its world."""
        hint = self.hint
        if hint is not None:
            return lambda: Scene(hint, seed)
        return lambda: Teller(draw(seed, self.themes))


PLANTED: dict[str, Planted] = {}
# Planted faults that no story shows within `SEEDS`: why. They are tried and counted, and do not fail the run.
NOT_CAUGHT: dict[str, str] = {}


class Hunted(NamedTuple):
    """How many planted faults were found, of how many; `missed`: not found, and not known to hide so well."""

    caught: int = 0
    every: int = 0
    missed: int = 0


class Search(NamedTuple):
    """How one was sought. `seeds` that it took, 0 for never and -1 where the time was over; what was `found`.

    `problem`: how a story ended by an exception.
    """

    name: str
    seeds: int
    found: Violation | None = None
    seconds: float = 0.0
    problem: str = ""


def plant(
    what: str, *themes: str, hint: Hint | None = None
) -> Callable[[Callable[[Patches], None]], Callable[[Patches], None]]:
    """An entry of the table, named after the function. It shows under `themes`, or in the story of `hint`."""

    def add(patch: Callable[[Patches], None]) -> Callable[[Patches], None]:
        name = patch.__name__.strip("_").replace("_", "-")
        PLANTED[name] = Planted(name, what, themes, patch, hint)
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
    return Violation(CRASH, 0.0, type(error).__name__, str(error)[:300])


class _EnoughError(Exception):
    """A violation was found: the rest of the story shows nothing new."""


class _Hasty(Judgeable):
    """Ends a story with the second in which a judge has found something."""

    def __init__(self, teller: Teller) -> None:
        self._judges = teller.judges

    def tick(self, now: float) -> None:
        if any(judge.found for judge in self._judges):
            raise _EnoughError


def told_with(name: str, story: Story) -> Told:
    """A drawn story with a planted fault, to its end."""
    return _told(name, lambda: Teller(story), story, hasty=False)


def _told(name: str, teller: Callable[[], Teller], story: Story, *, hasty: bool) -> Told:
    async def tell() -> Told:
        made = teller()
        if hasty:
            made.fleet.ears = [*made.fleet.ears, _Hasty(made)]
        try:
            return await made.tell()
        except _EnoughError:
            return made.told()

    try:
        with sim_client(), in_place(name):
            return live(tell, story.seed)
    except Exception as error:
        return Told(story, [crash(error)])


def search(name: str, until: float = float("inf"), most: int = SEEDS) -> Search:
    """Tell one story after the other with a planted fault, until one breaks that holds without it.

    A story that ends by an exception proves nothing: the planted fault may be no fault but nonsense.
    """
    planted, began, problem = PLANTED[name], time.monotonic(), ""
    for tried, seed in enumerate(range(FIRST, FIRST + most), 1):
        if time.monotonic() > until:
            return Search(name, -1, seconds=time.monotonic() - began)
        story = draw(seed, planted.themes)
        told = _told(name, planted.teller(seed), story, hasty=True)
        if told.violations:
            known = {one.judge for one in _told("", planted.teller(seed), story, hasty=False).violations}
            new = [one for one in told.violations if one.judge not in known | {CRASH}]
            if new:
                return Search(name, tried, new[0], time.monotonic() - began)
            problem = next((str(one) for one in told.violations if one.judge == CRASH), problem)
    return Search(name, 0, None, time.monotonic() - began, problem)


def hunt(which: str, spread: Callable[..., Iterator[Any]], until: float = float("inf"), most: int = SEEDS) -> Hunted:
    """Look for them all, or for those named in `which`. What the time did not suffice for is said, and not counted."""
    wanted: Sequence[str] = [*PLANTED] if which == "all" else which.split(",")
    done: dict[str, Search] = {}
    for one in spread(partial(search, until=until, most=most), wanted):
        done[one.name] = one
        print(f"sim: planted {_line(one, most)}", flush=True)
    for line in _table([done[name] for name in wanted if name in done], most):
        print(f"sim: {line}")
    for name, why in NOT_CAUGHT.items():
        if name in done and done[name].seeds == 0:
            print(f"sim: planted {name} is known not to be caught: {why}")
    left = [name for name in wanted if name not in done or done[name].seeds < 0]
    if left:
        print(f"sim: no time was left for {len(left)} planted faults: {', '.join(left)}")
    missed = sum(one.seeds == 0 and name not in NOT_CAUGHT for name, one in done.items())
    return Hunted(sum(one.seeds > 0 for one in done.values()), len(wanted) - len(left), missed)


def _line(one: Search, most: int) -> str:
    told = {0: f"NOT FOUND in {most} seeds {one.problem}".rstrip(), -1: "not found before the time was over"}
    found = f"found after {one.seeds} seeds in {one.seconds:.1f} s: {str(one.found)[:200]}"
    return f"{one.name}: {told.get(one.seeds, found)}"


def _table(rows: Sequence[Search], most: int) -> Iterator[str]:
    """Name, what was broken, seeds, and the judge who saw it."""
    if len(rows) < 2:
        return
    yield f"{'planted fault':34} {'seeds':>5} {'judge':28} what was broken"
    for one in rows:
        seeds = {0: f">{most}", -1: "-"}.get(one.seeds, str(one.seeds))
        judge = one.found.judge if one.found else "-"
        yield f"{one.name:34} {seeds:>5} {judge:28} {PLANTED[one.name].what}"
