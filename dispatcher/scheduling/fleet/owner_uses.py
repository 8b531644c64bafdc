"""What pods of each owner are known to use, of all clusters together, and the request that a pod
counts as by that.

    learnt = sum(minutes * use) / sum(minutes)                  over clusters, each of 60 minutes at most
    factor = (minutes * learnt / usual + 10 * request) / (minutes + 10) / request       of CPU, and of memory

`ExpectedLoad` expects `usual` times what a pod requests (`usual.py`), so a pod whose like use
`learnt` counts as one that requests learnt / usual, once that is known from more than a few
minutes. The factor is rounded to a quarter of a power of two: pods that differ by less are of one
equivalence class, and classes stay while readings waver.

Agents and users are not trusted: `learnt` is never less than 1/8 of the request, nor more than 4
times it (of pods that request little or nothing: kube-scheduler's default). Of each cluster
MAX_OWNERS are kept, those told of last.

Worked example: pods request 1000m and use 200m each, and the fleet uses half of what it requests.
After 30 minutes factor = (30 * 200 / 0.5 + 10 * 1000) / 40 / 1000 = 0.55, rounded to 2 ** -0.75 =
0.595: the next pod counts as 595m.
"""

import math
from collections.abc import Hashable, Iterable, Sequence

from dispatcher.scheduling.fleet.usual import HIGHEST, LOWEST
from dispatcher.scheduling.rules.requests import DEFAULT_CPU, DEFAULT_MEMORY, nonzero_request
from shared.model.owner_use import MAX_NAME, OwnerName, OwnerUse, owner_key, owner_of
from shared.model.pod import Pod
from shared.model.resources import MAX_QUANTITY

MAX_OWNERS = 5000  # of one cluster
ENOUGH_MINUTES = 60.0  # more of one cluster count no more
TRUST_MINUTES = 10.0  # what the request counts beside what was learnt
STEPS = 4  # of a factor of two
_LEAST = 2.0**-10  # of what a pod requests; it matters for those that request 0
_DEFAULTS = (DEFAULT_CPU, DEFAULT_MEMORY)
Amounts = tuple[int, int]


class OwnerUses:
    """By owner, the last reports of agents of several clusters. `dropped`: reports that were
    absurd, or too many.
    """

    def __init__(self) -> None:
        self._reports: dict[OwnerName, dict[str, OwnerUse]] = {}
        self._names: dict[
            str, dict[OwnerName, None]
        ] = {}  # by cluster, those reported last at the end
        self.dropped = 0
        self._found: dict[tuple[Hashable, Amounts], Amounts | None] = {}  # until the next report
        self._usual: Sequence[float] = ()

    def __len__(self) -> int:
        return len(self._reports)

    def put(self, cluster: str, uses: Iterable[OwnerUse]) -> None:
        """Take over what an agent reports, each in place of its earlier report of that owner."""
        names = self._names.setdefault(cluster, {})
        self._found.clear()
        for use in uses:
            if not _is_sane(use):
                self.dropped += 1
                continue
            names.pop(use.name, None)
            names[use.name] = None
            self._reports.setdefault(use.name, {})[cluster] = use
            if len(names) > MAX_OWNERS:
                self.dropped += 1
                self._drop(cluster, next(iter(names)))

    def _drop(self, cluster: str, name: OwnerName) -> None:
        del self._names[cluster][name]
        by_cluster = self._reports[name]
        del by_cluster[cluster]
        if not by_cluster:
            del self._reports[name]

    def counts_as(self, pod: Pod, usual: Sequence[float]) -> Amounts | None:
        """(milli-CPU, bytes) that the pod counts as requesting; None: what it requests. `usual`: of
        CPU, of memory.
        """
        if not self._reports:
            return None
        if usual != self._usual or len(self._found) > MAX_OWNERS:
            self._found = {}
            self._usual = usual
        asked = nonzero_request(pod)
        key = owner_key(pod), asked
        if key not in self._found:  # a controller is asked about as often as it makes pods
            self._found[key] = self._counts_as(owner_of(pod), asked)
        return self._found[key]

    def _counts_as(self, name: OwnerName | None, asked: Amounts) -> Amounts | None:
        by_cluster = self._reports.get(name) if name is not None else None
        if not by_cluster:
            return None
        reports = [use for _, use in sorted(by_cluster.items())]
        weights = [min(use.minutes, ENOUGH_MINUTES) for use in reports]
        minutes = sum(weights)
        found = []
        for at in (0, 1):
            # Each report by itself: one that lies moves the mean no farther than these bounds.
            uses = (_within((use.cpu, use.memory)[at], asked[at], at) for use in reports)
            learnt = sum(weight * use for weight, use in zip(weights, uses, strict=True)) / minutes
            found.append(_counted(learnt, (asked[at], _DEFAULTS[at], self._usual[at]), minutes))
        return (found[0], found[1]) if tuple(found) != asked else None


def _within(use: float, request: int, at: int) -> float:
    return min(max(use, LOWEST * request), HIGHEST * max(request, _DEFAULTS[at]))


def _counted(learnt: float, asked: tuple[int, int, float], minutes: float) -> int:
    """The request that it counts as; `asked`: what it requests, what one without requests counts
    as, and `usual`.
    """
    request, default, usual = asked
    counted = (minutes * learnt / usual + TRUST_MINUTES * request) / (minutes + TRUST_MINUTES)
    of = request or default
    step = round(STEPS * math.log2(max(counted / of, _LEAST)))
    return (
        min(max(round(of * 2.0 ** (step / STEPS)), 1), MAX_QUANTITY)
        if step or not request
        else request
    )


def _is_sane(use: OwnerUse) -> bool:
    """Whether these can be uses; not whether they are true."""
    numbers = use.cpu, use.memory, use.minutes
    named = 0 < len(use.owner) <= 2 * MAX_NAME and 0 < len(use.namespace) <= MAX_NAME
    return named and all(map(math.isfinite, numbers)) and min(numbers) >= 0.0 and use.minutes > 0.0
