"""`make sim`: stories of many seeds, enumerated plans, and planted faults that have to be found.

    python -m tests.simulation [--seeds N] [--first S] [--seed S] [--themes a,b] [--planted NAME|none] [--no-plans]
                               [--most-plans N] [--minutes M]

When its share of the minutes is over, no new seed (plan, planted fault) is begun: so a run ends on a slow machine, too,
and says how many it did. The last line is
`sim: seeds=N plans=N violations=N planted=CAUGHT/ALL seconds=N`; the exit code says whether all held.
"""

import argparse
import gc
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import TypeVar

from dispatcher.service import warm_up
from tests.simulation import plans, planted
from tests.simulation.faults import NOT_MENDED, Story, draw
from tests.simulation.minimise import minimised
from tests.simulation.telling import Told, tell

T = TypeVar("T")
R = TypeVar("R")
SEEDS, PLANS = 0.5, 0.65  # the share of the minutes after which no new one of them is begun
SHOWN = 5  # failing seeds that are made smaller and printed in full


def tried(story: Story) -> Told:
    """Tell a story; a fault that ends it counts as a violation of its own."""
    try:
        return tell(story)
    except Exception as error:  # the product must not be able to break its judge
        return Told(story, [planted.crash(error)], lines=[])


def told_seed(what: tuple[int, tuple[str, ...] | None]) -> Told:
    """A seed, told in a worker; without the lines of a good one."""
    told = tried(draw(*what))
    told.lines = told.lines if told.violations else []
    return told


def spread(call: Callable[[T], R], items: Iterable[T], workers: int, until: float) -> Iterator[R]:
    """Results as they come, from all cores, until the time is over."""
    todo = iter(items)
    if workers <= 1:
        yield from (call(item) for item in todo if time.monotonic() < until)
        return
    with ProcessPoolExecutor(workers) as pool:
        running: set[Future[R]] = {pool.submit(call, item) for _, item in zip(range(workers * 2), todo, strict=False)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for one in done:
                yield one.result()
                if time.monotonic() < until and (item := next(todo, None)) is not None:
                    running.add(pool.submit(call, item))


def collect_seldom() -> None:
    """A world is much garbage that all dies at its end: to look for it all the time takes a fifth of the time.

    And a dispatcher looks once at the end of each term, which takes a quarter: worlds have many and short terms.
    """
    warm_up.collect_ended_terms = _collect_nothing
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 20)


def _collect_nothing() -> None:
    pass


class Progress:
    """One line a few seconds apart."""

    def __init__(self, what: str, of: int) -> None:
        self._what, self._of, self._done, self._said = what, of, 0, time.monotonic()

    def step(self, more: str = "") -> None:
        """One is done."""
        self._done += 1
        if time.monotonic() - self._said > 5.0 or self._done == self._of:
            self._said = time.monotonic()
            print(f"sim: {self._what} {self._done}/{self._of} {more}", flush=True)


def timeline(told: Told) -> Iterator[str]:
    """What happened to each object that a violation names, and to all else that faults touched."""
    named = " ".join(f"{one.objects} {one.text}" for one in told.violations)
    by_object: dict[str, list[str]] = {}
    for at, of, what in told.lines:
        by_object.setdefault(of, []).append(f"    {at:7.2f} s {what}")
    for of, lines in by_object.items():
        name = of.rpartition("/")[2]
        if of == "fault" or (name and name in named):
            yield f"  {of}"
            yield from lines[:60]


def show(told: Told, *, small: bool, until: float = float("inf")) -> None:
    """A failing seed: what broke, the smallest story that still breaks it, and its timeline."""
    first = told.violations[0]
    print(f"sim: seed {told.story.seed} themes {','.join(told.story.themes)}: {len(told.violations)} violations")
    for one in told.violations[:8]:
        print(f"  {one}"[:400])
    if small:

        def breaks(story: Story) -> bool:
            return time.monotonic() < until and any(one.judge == first.judge for one in tried(story).violations)

        story = minimised(told.story, breaks)
        told = tried(story)
        print(f"  smallest: {len(story.faults)} faults, {len(story.work)} submissions, hash {told.digest}")
        for fault in (*story.faults, *story.work):
            print(f"    {fault}")
        for line in timeline(told):
            print(line[:300])
    print(f"  replay: python -m tests.simulation --seed {told.story.seed}", flush=True)


def seeds(args: argparse.Namespace, until: float) -> tuple[int, int]:
    """(seeds told, violations)."""
    themes = tuple(args.themes.split(",")) if args.themes else None
    progress, bad, done = Progress("seeds", args.seeds), 0, 0
    failing: list[Told] = []
    numbers = range(args.first, args.first + args.seeds)
    for told in spread(told_seed, [(seed, themes) for seed in numbers], args.workers, until):
        done += 1
        if told.violations:
            bad += 1
            failing.append(told)
            print(f"sim: seed {told.story.seed}: {told.violations[0]}"[:300], flush=True)
        progress.step(f"failing {bad}")
    for told in sorted(failing, key=lambda one: one.story.seed)[:SHOWN]:
        show(told, small=not args.quick, until=until)
    return done, sum(len(one.violations) for one in failing)


def replay(args: argparse.Namespace) -> int:
    """One seed, with its timeline."""
    themes = tuple(args.themes.split(",")) if args.themes else None
    told = tried(draw(args.seed, themes))
    print(f"sim: seed {args.seed} themes {','.join(told.story.themes)} hash {told.digest} to {told.seconds:.0f} s")
    if told.violations:
        show(told, small=not args.quick)
    return len(told.violations)


def main(argv: Sequence[str]) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--themes", default="", help="only these themes of faults")
    parser.add_argument("--planted", default="all", help="a name, all, or none")
    parser.add_argument("--plans", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--most-plans", type=int, default=100_000, help="a sample of them, the same each time")
    parser.add_argument("--quick", action="store_true", help="do not make failing stories smaller")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float, default=30.0, help="at most so long")
    args = parser.parse_args(argv)
    collect_seldom()
    started = time.monotonic()

    def until(share: float) -> float:
        return started + 60 * float(args.minutes) * share

    told = broken = planned = 0
    found = planted.Hunted()
    if args.seed is not None:
        told, broken = 1, replay(args)
    else:
        told, broken = seeds(args, until(SEEDS)) if args.seeds else (0, 0)
        if args.plans:
            planned, more = plans.check(
                lambda call, items: spread(call, items, args.workers, until(PLANS)), Progress, args.most_plans
            )
            broken += more
        if args.planted != "none":
            found = planted.hunt(
                args.planted, lambda call, items: spread(call, items, args.workers, until(1.0)), until(1.0)
            )
    for theme, why in NOT_MENDED.items():
        print(f"sim: theme {theme} is left out, it shows a fault not mended yet: {why}")
    spent = round(time.monotonic() - started)
    print(f"sim: seeds={told} plans={planned} violations={broken} planted={found.caught}/{found.every} seconds={spent}")
    return int(broken > 0 or found.missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
