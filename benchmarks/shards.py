"""Shards of rows: what each part costs, and decisions at half a million and a million nodes with and without them.

CPU of the driver is that of its one thread, so it means the same on a busy machine; wall time needs quiet cores.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from time import perf_counter, sleep, thread_time

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks.fleets import fleet_of, placed
from benchmarks.report.rows import Row
from dispatcher.config import DispatcherConfig
from dispatcher.model.pod import SpreadConstraint
from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.equivalence.rows import FullScan
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Floats, Placed
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.shards.coordinator import MOST_TOLD, Shards
from dispatcher.scheduling.shards.frames import Frame
from dispatcher.scheduling.shards.shard import Shard
from dispatcher.service.ray_runtime import RayOptions, RayRuntime
from dispatcher.service.shards.policy import name_of, plans_of, policy_of

NODES, SHARDS, ROUNDS = 5000, 2, 100
WARM_UP = 70  # decisions of each side before, so that classes use memory again
_PATIENCE_S = 120.0


class _Inside:
    """A shard in this very thread, whose work is timed apart."""

    life, ready, idle, state, seconds = 1, True, True, "up", 0.0

    def __init__(self, policy: bytes) -> None:
        self.shard = Shard()
        self.shard.configure(name_of(policy), plans_of(policy))
        self.told: Frame | None = None
        self.spent: list[float] = []

    def send(self, order: Frame) -> None:
        started = thread_time()
        self.told = self.shard.take(order)
        self.spent.append(thread_time() - started)

    def answer(self) -> Frame | None:
        return self.told


class _Timed:
    """Passes whose time in this thread is kept."""

    def __init__(self, fill: Callable[[FullScan, Callable[[slice], None]], None]) -> None:
        self._fill = fill
        self.spent: list[float] = []

    def fill(self, asked: FullScan, alone: Callable[[slice], None]) -> None:
        started = thread_time()
        self._fill(asked, alone)
        self.spent.append(thread_time() - started)


def _glanced(number: int) -> Placed:
    """A pod that plugins judge within bounds: no pass over all rows is needed."""
    return placed(10**7 + number, 1000 + number % 5000, 2**30 + number * 4096)


def _again(number: int) -> Placed:
    """One more pod of a template; its class is kept, but the clock has moved."""
    return placed(2 * 10**7 + number, 777, 2**30)


def _spread(number: int) -> Placed:
    """A pod of a class never seen before that spreads over zones."""
    one = placed(3 * 10**7 + number, 1000 + number % 5000, 2**30 + number * 4096)
    return Placed(msgspec.structs.replace(one.pod, spread=(SpreadConstraint("zone"),)), one.home)


def _scheduler(fleet: FleetState, parallel_scan: _Timed | None) -> Scheduler:
    return Scheduler(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext()), fleet, parallel_scan=parallel_scan)


@dataclass(frozen=True)
class _Spent:
    """[rounds] seconds of one side: `wall` of each decision, `cpu` of this thread in it."""

    wall: Floats
    cpu: Floats


def _in_turn(fleet: FleetState, sides: Sequence[Scheduler], kind: Callable[[int], Placed]) -> list[_Spent]:
    """Pods of a kind, one for each side in turn, the clock moving on; the first rounds are not counted."""
    wall, cpu = np.zeros((2, len(sides), WARM_UP + ROUNDS))
    for at in range(WARM_UP + ROUNDS):
        for number, side in enumerate(sides):
            fleet.now += 1.0
            one = kind(len(sides) * at + number)
            started, started_cpu = perf_counter(), thread_time()
            side.schedule(one, ("c000", one.pod.uid))
            cpu[number, at], wall[number, at] = thread_time() - started_cpu, perf_counter() - started
    return [_Spent(wall[number, WARM_UP:], cpu[number, WARM_UP:]) for number in range(len(sides))]


def costs_of_shards(share: int) -> list[Row]:
    """What each part costs for a row, in CPU time of one thread; 100 clusters x 5,000 nodes, default profile."""
    fleet, policy = fleet_of(100, NODES // share), policy_of(DispatcherConfig())
    n, link = fleet.n, _Inside(policy)
    shards = Shards(fleet, [link], policy=name_of(policy), least_rows=1)
    pack, unpack = _telling(fleet, shards, link)
    timed = _Timed(shards.parallel_scan(DEFAULT_PROFILE.scheduler_name).fill)
    sides = (_scheduler(fleet, None), _scheduler(fleet, timed))
    glance, _ = (median(one.cpu) for one in _in_turn(fleet, sides, _glanced))
    alone, shared = (median(one.cpu) for one in _in_turn(fleet, sides, _again))
    answer, filled = median(link.spent[-ROUNDS:]), median(timed.spent[-ROUNDS:])
    spread, spread_shared = (median(one.cpu) for one in _in_turn(fleet, sides, _spread))
    spread_rest = spread_shared - median(timed.spent[-ROUNDS:])
    rows = (
        ("glance_cost", glance, n, "a pod decided at a glance, without any pass"),
        ("pass_decision_cost", alone, n, "without shards: a decision that takes a pass over all rows"),
        ("spread_decision_cost", spread, n, "without shards: the same for a new class that spreads over zones"),
        ("shard_pass_cost", answer, n, "in the shard: a pass over its rows, and its answer"),
        ("shard_join_cost", filled - answer, n, "in the driver: an answer joined with what it knows itself"),
        ("shard_rest_cost", shared - filled, n, "in the driver: all else of a decision that takes a pass"),
        ("shard_rest_spread_cost", spread_rest, n, "in the driver: the same for a new class that spreads over zones"),
        ("shard_tell_cost", pack, 1, "in the driver, a changed row: packed into an order"),
        ("shard_told_cost", unpack, 1, "in the shard, a changed row: taken out of an order"),
    )
    return [Row(name, n, ROUNDS, 1e9 * cost / over, "ns", None, None, text) for name, cost, over, text in rows]


def _telling(fleet: FleetState, shards: Shards, link: _Inside) -> tuple[float, float]:
    """Seconds a row, in the driver and in the shard, to tell of all rows."""
    started, rows = thread_time(), 0
    while rows < fleet.n:
        shards.follow()
        rows += MOST_TOLD
    return (thread_time() - started - sum(link.spent)) / fleet.n, sum(link.spent) / fleet.n


def half_a_million_nodes_in_shards(share: int) -> list[Row]:
    """100 clusters x 5,000 nodes: decisions that take a pass, with two Ray actors as shards and without, in turn."""
    return _in_shards(100, share)


def a_million_nodes_in_shards(share: int) -> list[Row]:
    """200 clusters x 5,000 nodes."""
    return _in_shards(200, share)


def _in_shards(clusters: int, share: int) -> list[Row]:
    fleet = fleet_of(clusters, NODES // share)
    with _ray_shards(fleet) as (shards, loading):
        told = sum(counts.bytes_sent for counts in shards.counts_of_each)
        sides = (
            _scheduler(fleet, None),
            _scheduler(fleet, _Timed(shards.parallel_scan(DEFAULT_PROFILE.scheduler_name).fill)),
        )
        again, spread = _in_turn(fleet, sides, _again), _in_turn(fleet, sides, _spread)
        answered = sum(counts.answered for counts in shards.counts_of_each)
        missed = sum(counts.missed for counts in shards.counts_of_each)
        got = sum(counts.bytes_got for counts in shards.counts_of_each) / max(answered, 1) * SHARDS
    if missed > answered:
        raise RuntimeError(f"shards answered {answered} questions and missed {missed}: the machine is too busy")
    n = fleet.n
    rows = [
        *_rows("pass_in_shards", n, again, "a template"),
        *_rows("spread_in_shards", n, spread, "a new class, spread"),
    ]
    return [
        *rows,
        Row("shards_loaded", n, 0, loading, "s", None, None, "until the shards hold all rows"),
        Row("shards_loaded_mb", n, 0, told / 1e6, "MB", None, None, "sent until the shards hold all rows"),
        Row("shards_answer_mb", n, 1, got / 1e6, "MB", None, None, "answers of all shards to one question"),
    ]


def _rows(name: str, n: int, sides: Sequence[_Spent], what: str) -> list[Row]:
    alone, shared = sides
    ends = f"{what}, after the clock has moved; {SHARDS} shards as Ray actors on this machine"
    figures = (
        ("p50", np.quantile(shared.wall, 0.5), np.quantile(alone.wall, 0.5), "wall time"),
        ("p99", np.quantile(shared.wall, 0.99), np.quantile(alone.wall, 0.99), "wall time"),
        ("cpu", median(shared.cpu), median(alone.cpu), "CPU of the driver"),
    )
    return [
        Row(
            f"{name}_{end}",
            n,
            ROUNDS,
            1000 * float(one),
            "ms",
            None,
            1000 * float(other),
            f"{of}; {ends}",
            "no shards",
        )
        for end, one, other, of in figures
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


class _Echo:
    """An actor that answers as a shard of that many rows does, at once."""

    def __init__(self, rows: int) -> None:
        self._told = (b"", np.zeros(rows, dtype=np.int32), 0.0)

    def take(self, head: bytes, body: bytes) -> tuple[bytes, NDArray[np.int32], float]:
        return self._told


def message_to_a_shard(share: int) -> list[Row]:
    """One question to a Ray actor on this machine, and an answer about 250,000 rows, that takes it no time."""
    rows, rounds = 250_000, 600 // share
    runtime = RayRuntime.start([], RayOptions())
    try:
        import ray

        actor = ray.remote(_Echo).options(num_cpus=0).remote(rows)
        wall, cpu = np.zeros((2, rounds))
        for at in range(rounds):
            started, started_cpu = perf_counter(), thread_time()
            ray.get(actor.take.remote(b"x" * 400, b""))
            cpu[at], wall[at] = thread_time() - started_cpu, perf_counter() - started
    finally:
        runtime.stop()
    return [
        Row("shard_message", rows, 0, 1000 * float(wall.min()), "ms", None, None, "there and back: the least of 600"),
        Row("shard_message_cpu", rows, 0, 1000 * median(cpu), "ms", None, None, "CPU of the dispatcher: the median"),
    ]


CASES = (costs_of_shards, message_to_a_shard, half_a_million_nodes_in_shards, a_million_nodes_in_shards)
