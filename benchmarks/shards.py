"""Shards of rows: what each part costs, and one odd pod at half a million and a million nodes with and without them.

CPU of the driver is that of its one thread, so it means the same on a busy machine; wall time needs quiet cores.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from time import perf_counter, sleep, thread_time

import numpy as np

from benchmarks.fleets import fleet_of, placed
from benchmarks.report.rows import Row
from dispatcher.plugins.registry import PluginContext, build
from dispatcher.runtime.ray_runtime import RayOptions, RayRuntime
from dispatcher.runtime.settings import DispatcherConfig
from dispatcher.runtime.shards.policy import name_of, plans_of, policy_of
from dispatcher.scheduling.classes.rows import Pass
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Floats, Placed
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.shards.crew import MOST_TOLD, Shards
from dispatcher.scheduling.shards.orders import Parcel
from dispatcher.scheduling.shards.shard import Shard

NODES, SHARDS, ROUNDS = 5000, 2, 100
WARM_UP = 70  # decisions of each side before, so that classes use memory again
_PATIENCE_S = 120.0


class _Inside:
    """A shard in this very thread, whose work is timed apart."""

    life, ready, idle, state, seconds = 1, True, True, "up", 0.0

    def __init__(self, policy: bytes) -> None:
        self.shard = Shard()
        self.shard.configure(name_of(policy), plans_of(policy))
        self.told: Parcel | None = None
        self.spent: list[float] = []

    def send(self, order: Parcel) -> None:
        started = thread_time()
        self.told = self.shard.take(order)
        self.spent.append(thread_time() - started)

    def answer(self) -> Parcel | None:
        return self.told


class _Timed:
    """Passes whose time in this thread is kept."""

    def __init__(self, fill: Callable[[Pass], Sequence[slice]]) -> None:
        self._fill = fill
        self.spent: list[float] = []

    def fill(self, asked: Pass) -> Sequence[slice]:
        started = thread_time()
        left = self._fill(asked)
        self.spent.append(thread_time() - started)
        return left


def _odd(number: int) -> Placed:
    return placed(10**7 + number, 1000 + number, 2**30 + number * 4096)


def _scheduler(fleet: FleetState, passes: _Timed | None) -> Scheduler:
    return Scheduler(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext()), fleet, passes=passes)


def costs_of_shards(share: int) -> list[Row]:
    """What each part costs for a row, in CPU time of one thread; 100 clusters x 5,000 nodes, default profile."""
    fleet, policy = fleet_of(100, NODES // share), policy_of(DispatcherConfig())
    n, link = fleet.n, _Inside(policy)
    shards = Shards(fleet, [link], policy=name_of(policy), least_rows=1)
    pack, unpack = _telling(fleet, shards, link)
    timed = _Timed(shards.passes(DEFAULT_PROFILE.scheduler_name).fill)
    shared, alone = _scheduler(fleet, timed), _scheduler(fleet, None)
    for number, one in enumerate((alone, shared)):
        _warm_up(one, number)
    whole = [[_cpu(one, _odd(2 * at + number)) for at in range(ROUNDS)] for number, one in enumerate((alone, shared))]
    answer = median(link.spent[-ROUNDS:])
    join = median(timed.spent) - answer
    rest = median(whole[1]) - median(timed.spent)
    rows = (
        ("decision_cost", median(whole[0]), n, "the whole decision of one odd pod, without shards"),
        ("shard_pass_cost", answer, n, "in the shard: a pass over its rows, and its answer"),
        ("shard_join_cost", join, n, "in the driver: an answer joined with what it knows itself"),
        ("shard_rest_cost", rest, n, "in the driver: all else of the decision of one odd pod"),
        ("shard_tell_cost", pack, 1, "in the driver, a changed row: packed into an order"),
        ("shard_told_cost", unpack, 1, "in the shard, a changed row: taken out of an order"),
    )
    return [Row(name, n, ROUNDS, 1e9 * cost / over, "ns", None, None, text) for name, cost, over, text in rows]


def _warm_up(scheduler: Scheduler, side: int) -> None:
    for at in range(WARM_UP):
        scheduler.schedule(_odd(-1 - 2 * at - side), ("c000", f"warm-{side}-{at}"))


def _telling(fleet: FleetState, shards: Shards, link: _Inside) -> tuple[float, float]:
    """Seconds a row, in the driver and in the shard, to tell of all rows."""
    started, rows = thread_time(), 0
    while rows < fleet.n:
        shards.follow()
        rows += MOST_TOLD
    return (thread_time() - started - sum(link.spent)) / fleet.n, sum(link.spent) / fleet.n


def _cpu(scheduler: Scheduler, one: Placed) -> float:
    started = thread_time()
    scheduler.schedule(one, ("c000", one.pod.uid))
    return thread_time() - started


def half_a_million_nodes_in_shards(share: int) -> list[Row]:
    """100 clusters x 5,000 nodes: one odd pod with two Ray actors as shards, and without, in turn."""
    return _in_shards(100, share)


def a_million_nodes_in_shards(share: int) -> list[Row]:
    """200 clusters x 5,000 nodes."""
    return _in_shards(200, share)


def _in_shards(clusters: int, share: int) -> list[Row]:
    fleet = fleet_of(clusters, NODES // share)
    with _ray_shards(fleet) as (shards, loading):
        passes = _Timed(shards.passes(DEFAULT_PROFILE.scheduler_name).fill)
        sides = (_scheduler(fleet, None), _scheduler(fleet, passes))
        told = sum(tally.bytes_sent for tally in shards.tallies)
        for number, side in enumerate(sides):
            _warm_up(side, number)
        wall, cpu = np.zeros((2, ROUNDS)), np.zeros((2, ROUNDS))
        for at in range(ROUNDS):
            for number, side in enumerate(sides):
                started = perf_counter()
                cpu[number, at] = _cpu(side, _odd(2 * at + number))
                wall[number, at] = perf_counter() - started
        answered = sum(tally.answered for tally in shards.tallies)
        got = sum(tally.bytes_got for tally in shards.tallies) / max(answered, 1) * SHARDS
        if answered < ROUNDS:
            raise RuntimeError(f"the shards answered {answered} questions only: the machine is too busy")
    n, words = fleet.n, f"{SHARDS} shards as Ray actors on this machine; a class never seen before"

    def row(name: str, values: Floats, quantile: float, what: str) -> Row:
        alone, shared = (1000 * float(np.quantile(one, quantile)) for one in values)
        return Row(name, n, ROUNDS, shared, "ms", None, alone, f"{what}; {words}", "no shards")

    return [
        row("odd_pod_in_shards_p50", wall, 0.5, "wall time"),
        row("odd_pod_in_shards_p99", wall, 0.99, "wall time"),
        row("odd_pod_in_shards_cpu", cpu, 0.5, "CPU of the driver"),
        Row("shards_loaded", n, 0, loading, "s", None, None, "until the shards hold all rows"),
        Row("shards_loaded_mb", n, 0, told / 1e6, "MB", None, None, "sent until the shards hold all rows"),
        Row("shards_answer_mb", n, 1, got / 1e6, "MB", None, None, "answers of all shards to one question"),
    ]


@contextmanager
def _ray_shards(fleet: FleetState) -> Iterator[tuple[Shards, float]]:
    """Shards that hold the whole fleet, and the seconds until they did."""
    policy = policy_of(DispatcherConfig())
    ray = RayRuntime.start([], RayOptions(shards=SHARDS))
    try:
        links = ray.shards(SHARDS, policy)
        until = perf_counter() + _PATIENCE_S
        _wait(lambda: all(link.up for link in links), until)
        shards, started = Shards(fleet, links, policy=name_of(policy), least_rows=1), perf_counter()

        def loaded() -> bool:
            shards.follow()
            return shards.due == 0 and all(link.idle for link in links)

        _wait(loaded, until)
        yield shards, perf_counter() - started
    finally:
        ray.stop()


def _wait(condition: Callable[[], bool], until: float) -> None:
    while not condition():
        if perf_counter() > until:
            raise RuntimeError("the shards do not come up")
        sleep(0.001)


CASES = (costs_of_shards, half_a_million_nodes_in_shards, a_million_nodes_in_shards)
