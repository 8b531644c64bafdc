"""What agents would learn of single pods and tell, by the product's own code: one observer a
cluster.

A node's sample brings those of its pods, so they come as late, and as many are lost. Their noise
adds up to that of the node. An app is the owner of its pods.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from agents.observer.changes import ChangeLog
from agents.observer.owner_uses import LOOK_S, USES, OwnerUses, PodUse
from benchmarks.closed_loop.readings import Batch
from benchmarks.closed_loop.workload import CPU, MEMORY, Workload
from shared.model.owner_use import OwnerUse
from shared.model.pod import Pod

_NOISE = 0.02  # deviation of all pods of a node together, as a share of it


class _Agent:
    def __init__(self, running: Mapping[str, Pod]) -> None:
        self._log, self._told = ChangeLog(), 0
        self._uses = OwnerUses(self._log, lambda namespace, name: running.get(name))

    def news(self, samples: Sequence[PodUse], at: float) -> tuple[OwnerUse, ...]:
        """What it tells after these samples."""
        self._uses.add(samples, at)
        keys = [key for kind, key in self._log.changed(self._told) if kind == USES]
        self._told = self._log.revision
        return tuple(use for key in keys if (use := self._uses.use(key, at)) is not None)


class PodReadings:
    """`running`: pods by name; `on`: the pods of each node, by number."""

    def __init__(self, workload: Workload, rng: np.random.Generator, clusters: int) -> None:
        self.running: dict[str, Pod] = {}
        self.on: list[dict[int, str]] = [{} for _ in range(workload.size.nodes)]
        self._workload, self._rng = workload, rng
        self._agents = [_Agent(self.running) for _ in range(clusters)]
        self._due = np.full(workload.size.nodes, -np.inf)

    def read(self, batch: Batch) -> Iterator[tuple[int, tuple[OwnerUse, ...]]]:
        """(cluster, what it tells) of samples that have arrived."""
        for node, at in zip(batch.node.tolist(), batch.sampled_at.tolist(), strict=True):
            if at >= self._due[node] and self.on[node]:
                self._due[node] = at + LOOK_S
                cluster = node % len(self._agents)
                if told := self._agents[cluster].news(self._samples(node, at), at):
                    yield cluster, told

    def _samples(self, node: int, at: float) -> list[PodUse]:
        names = self.on[node]
        pods, (milli, size) = np.fromiter(names, dtype=np.int64), self._workload.allocatable
        use = self._workload.use[CPU : MEMORY + 1, pods, int(at // 60)]
        noisy = use + self._rng.normal(0.0, _NOISE / np.sqrt(len(pods)), use.shape)
        cores, memory = np.maximum(noisy, 0.0) * [[milli / 1000.0], [size]]
        return [
            PodUse("default", *one, at)
            for one in zip(names.values(), cores.tolist(), memory.tolist(), strict=True)
        ]
