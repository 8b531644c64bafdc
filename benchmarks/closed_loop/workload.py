"""Pods of one simulated day: which app each is of, when it comes and ends, what it asks for and
what it uses.

A pod's CPU use is a row of the traces, by time of day. An app's pods are alike: rows of nearly the
same mean use, one request. Requests are guesses: the 90th percentile of the app's use times a
lognormal factor of mean 1, sigma 1.2 for `bad` guesses, 0.1 for `good` ones; memory is guessed
better than CPU (half the sigma), since too little of it kills. A third of the apps is there within
the first half hour, the others come until noon. Of an app's pods two thirds come in one burst, a
second apart; the rest one by one in the hours after. Each pod lives for 3 to 24 hours. Memory and
network have no trace and are generated: memory fills up and stays; network follows CPU, with
bursts.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from benchmarks.closed_loop.traces import SAMPLE_S, SAMPLES, Table, wandering

RESOURCES = CPU, MEMORY, NETWORK = range(3)
MINUTES = SAMPLES * SAMPLE_S // 60
NODE_MEMORY = 64 * 2**30
# a pod that is placed in a minute uses nothing in that one, and starts up in the next
START_MINUTES = 2
_RAMP_MINUTES, _LAST_START = 30, 720
_TOGETHER = 2 / 3  # of an app's pods
_FULL = (
    0.75,
    0.6,
    0.5,
)  # share of all memory and network at the peak, beside CPU's `load` (scaled to it)


class Guesses(StrEnum):
    """How well users know what their pods use."""

    BAD = "bad"
    GOOD = "good"


_SIGMA = {Guesses.BAD: 1.2, Guesses.GOOD: 0.1}


@dataclass(frozen=True)
class Size:
    """How large the world is. `load`: share of all CPU in use at the peak of the day, which gives
    nodes their size.

    `bursts`: how often pods of one app come together, 1 to 4 hours apart: as jobs and releases do.
    """

    clusters: int = 3
    nodes: int = 100
    pods: int = 3200
    load: float = 0.6
    guesses: Guesses = Guesses.BAD
    bursts: int = 1


@dataclass(frozen=True)
class Workload:
    """[pods] each, in order of arrival; times in seconds since midnight. All nodes are alike.

    `use` is [3, pods, minutes], as a share of one node; `demand` what of it falls into a pod's
    life, in node-minutes.
    """

    size: Size
    node_cpu: int
    app: NDArray[np.int64]
    home: NDArray[np.int64]
    arrives: NDArray[np.float64]
    ends: NDArray[np.float64]
    requests: NDArray[np.int64]  # [2, pods] milli-CPU, bytes
    use: NDArray[np.float32]

    @property
    def allocatable(self) -> tuple[int, int]:
        """(milli-CPU, bytes) of a node."""
        return self.node_cpu, NODE_MEMORY

    def life(self, pod: int, since: float) -> slice:
        """The minutes in which a pod runs that is placed at `since`."""
        return slice(int(since // 60) + START_MINUTES, max(int(self.ends[pod] // 60), 0))


def make(traces: Table, size: Size, seed: int) -> Workload:
    """The pods of one day; equal arguments give equal pods."""
    rng = np.random.default_rng(seed)
    app = _apps(rng, size.pods)
    arrives = _arrivals(rng, app, size.bursts)
    order = np.argsort(arrives, kind="stable")
    app, arrives = app[order], arrives[order]
    ends = np.minimum(arrives + 60.0 * rng.integers(180, MINUTES, size.pods), 60.0 * MINUTES)
    cpu = traces[_rows(rng, traces, app)]
    series = np.stack([cpu, *_generated(rng, cpu, app)])
    scale = _capacities(series, arrives, ends, size)
    node_cpu = int(10 * scale[CPU])  # a trace's 100 % is one core
    levels = np.percentile(series, 90, axis=2)
    amounts = np.stack([10 * levels[CPU], levels[MEMORY] / scale[MEMORY] * NODE_MEMORY])
    requests = _guesses(rng, amounts, app, _SIGMA[size.guesses])
    requests[0] = np.clip(requests[0], 10, node_cpu // 2)
    requests[1] = np.clip(requests[1], 2**24, NODE_MEMORY // 2)
    home = rng.integers(0, size.clusters, app.max() + 1)[app]
    return Workload(
        size,
        node_cpu,
        app,
        home,
        arrives,
        ends,
        requests,
        _by_minute((series / scale[:, None, None]).astype(np.float32)),
    )


def _apps(rng: np.random.Generator, pods: int) -> NDArray[np.int64]:
    """The app of each pod: 8 pods on average, 40 at most."""
    sizes = np.minimum(rng.geometric(1 / 8, pods), 40)
    return np.repeat(np.arange(pods), sizes)[:pods].astype(np.int64)


def _arrivals(rng: np.random.Generator, app: NDArray[np.int64], bursts: int) -> NDArray[np.float64]:
    apps = int(app.max()) + 1
    early = rng.random(apps) < 1 / 3
    begin = np.where(
        early, rng.uniform(0, _RAMP_MINUTES, apps), rng.uniform(_RAMP_MINUTES, _LAST_START, apps)
    )
    nth = np.arange(len(app)) - np.searchsorted(app, app)
    together = rng.random(len(app)) < _TOGETHER
    later = np.where(together, 0.0, rng.exponential(7200.0, len(app)))
    if bursts > 1:
        starts = np.cumsum(rng.uniform(3600.0, 14_400.0, (apps, bursts)), axis=1) - 3600.0
        starts[:, 0] = 0.0
        later = np.where(together, starts[app, nth % bursts], later)
    found: NDArray[np.float64] = np.minimum(
        60.0 * begin[app] + nth + later, 60.0 * (_LAST_START + 120)
    )
    return found


def _rows(rng: np.random.Generator, traces: Table, app: NDArray[np.int64]) -> NDArray[np.int64]:
    """A row for each pod: an app's are neighbours in the order of mean use, half a percent of all
    to either side.
    """
    by_use = np.argsort(traces.mean(axis=1), kind="stable")
    about = rng.integers(0, len(traces), app.max() + 1)
    reach = max(len(traces) // 200, 1)
    near = about[app] + rng.integers(-reach, reach + 1, len(app))
    found: NDArray[np.int64] = by_use[np.clip(near, 0, len(traces) - 1)]
    return found


def _generated(rng: np.random.Generator, cpu: Table, app: NDArray[np.int64]) -> tuple[Table, Table]:
    """[pods, 288] memory and network, in any unit."""
    apps, samples = int(app.max()) + 1, np.arange(SAMPLES)
    filled = 0.6 + 0.4 * (1.0 - np.exp(-samples / 24.0))
    memory = (
        rng.lognormal(0.0, 0.8, (apps, 1))[app] * filled * np.exp(0.05 * wandering(rng, len(app)))
    )
    busy = 0.3 + cpu / np.maximum(cpu.mean(axis=1, keepdims=True), 1.0)
    network = (
        rng.lognormal(0.0, 1.0, (apps, 1))[app] * busy * np.exp(0.4 * wandering(rng, len(app)))
    )
    return memory.astype(np.float32), network.astype(np.float32)


def _capacities(
    series: Table, arrives: NDArray[np.float64], ends: NDArray[np.float64], size: Size
) -> NDArray[np.float32]:
    """[3] what a node has, in the units of the series, so that the fleet is as full at the peak as
    `size` says.
    """
    at = np.arange(SAMPLES) * SAMPLE_S
    lives = (at >= arrives[:, None]) & (at < ends[:, None])
    peaks = (series * lives).sum(axis=1).max(axis=1)
    full = size.load * np.asarray(_FULL) / _FULL[0]
    found: NDArray[np.float32] = (peaks / (size.nodes * full)).astype(np.float32)
    return found


def _guesses(
    rng: np.random.Generator, amounts: NDArray[np.float64], app: NDArray[np.int64], sigma: float
) -> NDArray[np.int64]:
    """[2, pods] requests: each app's mean amount times its guess."""
    sigmas = np.asarray([[sigma], [sigma / 2]])
    factor = rng.lognormal(-(sigmas**2) / 2, sigmas, (2, int(app.max()) + 1))
    members = np.bincount(app)
    mean = np.stack([np.bincount(app, weights=row) / members for row in amounts])
    return (mean * factor)[:, app].astype(np.int64)


def _by_minute(series: Table) -> NDArray[np.float32]:
    """[3, pods, minutes] in a straight line between samples."""
    step = SAMPLE_S // 60
    following = np.concatenate([series[..., 1:], series[..., -1:]], axis=2)
    part = (np.arange(step, dtype=np.float32) / step)[None, None, None, :]
    found = series[..., None] * (1 - part) + following[..., None] * part
    return found.reshape(*series.shape[:2], MINUTES).astype(np.float32)
