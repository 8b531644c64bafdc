"""Placement policies of others as small scorers: the formula of each and where it is from.

All take the node of the highest score among those with room for the pod's requests (CPU, memory and
250 pods), a random one of equals; so does the product's NodeResourcesFit. Where no reading has come
yet, all place by requests. r: requests on the node with the pod, u: the newest CPU reading, p: the
pod's request, all as shares of the node.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.closed_loop.policy import Setting
from benchmarks.closed_loop.readings import Batch
from benchmarks.closed_loop.workload import CPU, MEMORY, RESOURCES

MOST_PODS = 250
Scores = NDArray[np.float64]


class Requests:
    """kube-scheduler's defaults: NodeResourcesFit (LeastAllocated) and
    NodeResourcesBalancedAllocation, weight 1 each.

    100 * (1 - mean(r of CPU, r of memory)) + 100 * (1 - |r of CPU - r of memory| / 2)
    """

    def __init__(self, setting: Setting) -> None:
        self.workload, self.rng = setting.workload, setting.rng
        nodes = self.workload.size.nodes
        self.room = np.asarray(self.workload.allocatable, dtype=np.int64)[:, None]
        self.requested = np.zeros((2, nodes), dtype=np.int64)
        self.pods = np.zeros(nodes, dtype=np.int64)
        self.used = np.full((len(RESOURCES), nodes), np.nan)
        self.sampled_at = np.full(nodes, -np.inf)
        self._node: dict[int, int] = {}

    def read(self, batch: Batch, now: float) -> None:
        """Keep the newest of each node."""
        newer = batch.sampled_at >= self.sampled_at[batch.node]
        nodes = batch.node[newer]
        self.sampled_at[nodes] = batch.sampled_at[newer]
        self.used[:, nodes] = batch.shares[:, newer]

    def place(self, pod: int, now: float) -> int | None:
        """The best of the nodes with room."""
        more = self.workload.requests[:, pod, None]
        fits = np.flatnonzero(
            (self.requested + more <= self.room).all(axis=0) & (self.pods < MOST_PODS)
        )
        if not len(fits):
            return None
        scores = (self.score if np.isfinite(self.sampled_at).any() else self.by_requests)(pod, now)[
            fits
        ]
        node = int(self.rng.choice(fits[scores == scores.max()]))
        self._book(pod, node, 1)
        self._node[pod] = node
        return node

    def ended(self, pod: int, now: float) -> None:
        """Its requests are free again."""
        self._book(pod, self._node.pop(pod), -1)

    def rebalance(self, now: float) -> Sequence[tuple[int, int]]:
        """None of them moves pods."""
        return ()

    def _book(self, pod: int, node: int, sign: int) -> None:
        self.requested[:, node] += sign * self.workload.requests[:, pod]
        self.pods[node] += sign

    def score(self, pod: int, now: float) -> Scores:
        """[nodes] the most is best."""
        return self.by_requests(pod, now)

    def by_requests(self, pod: int, now: float) -> Scores:
        """[nodes] the class's formula."""
        share = (self.requested + self.workload.requests[:, pod, None]) / self.room
        scores: Scores = 100 * (1 - share.mean(axis=0)) + 100 * (
            1 - np.abs(share[CPU] - share[MEMORY]) / 2
        )
        return scores

    def share_of(self, pod: int, resource: int) -> float:
        """A pod's request as a share of a node."""
        return float(self.workload.requests[resource, pod] / self.room[resource, 0])


class Seed(Requests):
    """The formula that this project began with: 100 - 100 * x / max(x), x the CPU reading.

    A node without a reading scores 0. What was placed since is not seen.
    """

    def score(self, pod: int, now: float) -> Scores:
        """The formula."""
        used = self.used[CPU]
        most = float(np.nanmax(used))
        return np.nan_to_num(100.0 - 100.0 * used / most if most else np.zeros(len(used)), nan=0.0)


class TargetLoadPacking(Requests):
    """Trimaran's plugin of that name (kubernetes-sigs/scheduler-plugins 903da7df,
    pkg/trimaran/targetloadpacking).

    U = 100 * (u + 1.5 * p + 1.5 * requests placed later than 60 s before the reading); X = 40 U <=
    X: (100 - X) * U / X + X;  X < U <= 100: X * (100 - U) / (100 - X);  above, or without a
    reading: 0; rounded. It is told every reading at once, where the original asks for them every 30
    s.
    """

    TARGET, FACTOR, REPORTED_AFTER_S = 40.0, 1.5, 60.0

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._recent: list[tuple[float, int, float]] = []  # placed at, node, request

    def score(self, pod: int, now: float) -> Scores:
        """The formula."""
        self._recent = [
            one for one in self._recent if one[0] > self.sampled_at[one[1]] - self.REPORTED_AFTER_S
        ]
        missing = np.zeros(len(self.sampled_at))
        for _, node, share in self._recent:
            missing[node] += share
        target = self.TARGET
        load = 100.0 * (self.used[CPU] + self.FACTOR * (self.share_of(pod, CPU) + missing))
        packed = (100.0 - target) * load / target + target
        over = target * (100.0 - load) / (100.0 - target)
        scores: Scores = np.round(
            np.select([np.isnan(load) | (load > 100.0), load > target], [0.0, over], packed)
        )
        return scores

    def place(self, pod: int, now: float) -> int | None:
        """And remember it until a reading shows it."""
        node = super().place(pod, now)
        if node is not None:
            self._recent.append((now, node, self.share_of(pod, CPU)))
        return node


class LoadVariation(Requests):
    """Trimaran's LoadVariationRiskBalancing (the same commit,
    pkg/trimaran/loadvariationriskbalancing).

    risk = (min(mean + p, 1) + min(margin * deviation ** (1 / sensitivity), 1)) / 2 of the readings
    of the last 15 min score = 100 * (1 - risk), rounded; the lesser of CPU's and memory's. Without
    a reading 0. margin 1, sensitivity 1.
    """

    WINDOW_S, MARGIN, SENSITIVITY = 900.0, 1.0, 1.0

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        nodes = setting.workload.size.nodes
        self._times = np.full((64, nodes), -np.inf)
        self._shares = np.zeros((2, 64, nodes))
        self._next = np.zeros(nodes, dtype=np.int64)

    def read(self, batch: Batch, now: float) -> None:
        """Keep 64 of each node, more than 15 minutes have at 15 s."""
        super().read(batch, now)
        for node, sampled_at, cpu, memory in zip(*batch[:2], *batch.shares[:2], strict=True):
            at = self._next[node] % 64
            self._next[node] += 1
            self._times[at, node] = sampled_at
            self._shares[:, at, node] = cpu, memory

    def score(self, pod: int, now: float) -> Scores:
        """The formula."""
        inside = self._times >= now - self.WINDOW_S
        count = inside.sum(axis=0)
        known = np.maximum(count, 1)
        mean = (self._shares * inside).sum(axis=1) / known
        square = (self._shares**2 * inside).sum(axis=1) / known
        deviation = np.sqrt(np.maximum(square - mean**2, 0.0))
        demand = np.asarray([[self.share_of(pod, at)] for at in (CPU, MEMORY)])
        spread = np.minimum(self.MARGIN * deviation ** (1 / self.SENSITIVITY), 1.0)
        risk = (np.minimum(mean + demand, 1.0) + spread) / 2
        return np.where(count > 0, np.round(100.0 * (1.0 - risk)).min(axis=0), 0.0)


class BestOfTwo(Requests):
    """Two random nodes with room, of these the one with the lower CPU reading (Mitzenmacher, TPDS
    2000).

    With old readings it does not send everything to one node, which "the least loaded" does.
    """

    def score(self, pod: int, now: float) -> Scores:
        """Two random nodes with room stand out; without a reading a node counts as full."""
        more = self.workload.requests[:, pod, None]
        fits = np.flatnonzero(
            (self.requested + more <= self.room).all(axis=0) & (self.pods < MOST_PODS)
        )
        two = self.rng.choice(fits, min(2, len(fits)), replace=False)
        scores = np.full(len(self.pods), -1.0)
        scores[two] = 1.0 - np.nan_to_num(self.used[CPU][two], nan=1.0)
        return scores


class Oracle(Requests):
    """Knows what each pod will use until its end, and places it greedily: no bound, but hard to
    come near.

    Least is best: 10 * what nodes carry above 75 % while the pod lives + their peak + a hundredth
    of their mean, of CPU, every five minutes.
    """

    STEP, LIMIT = 5, 0.75

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._load = setting.world.load

    def place(self, pod: int, now: float) -> int | None:
        """By the load to come; readings are not waited for."""
        self.sampled_at[:] = now
        return super().place(pod, now)

    def score(self, pod: int, now: float) -> Scores:
        """The formula of the class, negative."""
        life = self.workload.life(pod, now)
        when = slice(life.start, max(life.stop, life.start + 1), self.STEP)
        load = self._load[CPU, :, when] + self.workload.use[CPU, pod, when]
        if not load.shape[1]:
            return np.zeros(len(load))
        above = np.maximum(load - self.LIMIT, 0.0).sum(axis=1)
        scores: Scores = -(10.0 * above + load.max(axis=1) + 0.01 * load.mean(axis=1)).astype(
            np.float64
        )
        return scores
