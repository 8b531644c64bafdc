"""What pods of each owner use, learnt from samples of single pods, and told where it has become
another.

An owner (`owner_of`) has a decaying histogram of CPU and one of memory: a sample counts by the time
since the one before it of the same pod, and half as much a day later, so one number says what its
pods use over their lives and not just now. Source: the recommender of Kubernetes' Vertical Pod
Autoscaler (kubernetes/autoscaler, vertical-pod-autoscaler/pkg/recommender/util,
decaying_histogram.go and histogram_options.go: exponential buckets, a half-life of 24 h). Buckets
here are wider, a quarter of a factor of two, which is as fine as placement goes by.

Samples of a pod's first START_S do not count: it starts. Nothing can make this grow: MAX_OWNERS are
kept, those seen last, and of pods no more than the cluster has.
"""

import math
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from agents.observer.changes import ChangeLog
from shared.model.owner_use import OwnerName, OwnerUse, owner_of
from shared.model.pod import RUNNING, Pod

USES = "uses"
START_S = 120.0
HALF_LIFE_S = 86_400.0
MAX_OWNERS = 5000
LOOK_S = 170.0  # between two samples of a pod that count: its use over hours is asked for
MAX_GAP_S = 300.0  # between two samples of a pod; more is not known, and does not count
TELL_S = 30.0  # between two looks at what is to be told of an owner
KEPT_S = 600.0  # since the last sample of a pod, until it is taken for gone
PERCENTILE = 0.75
STEPS = 4  # buckets in a factor of two
# milli-CPU and bytes: all below is one bucket
LEAST_CPU = 1.0
LEAST_MEMORY = 2.0**20
_BUCKETS = 1 + 20 * STEPS  # up to a million times the least
_MOST_HALVES = 100.0
_ABSURD = 1e15  # cores, or bytes, of one pod
_ENOUGH_MINUTES = 64.0  # of which every doubling is told until then


@dataclass(frozen=True, slots=True)
class PodUse:
    """One look at a running pod: cores and bytes, None unknown; `time`: of the sample, by its
    source's clock.
    """

    namespace: str
    name: str
    cores: float | None
    memory: float | None
    time: float = 0.0


class Histogram:
    """Weights by bucket, which halve every HALF_LIFE_S. Bucket 0 ends at `least`, each other one is
    2^(1/4) wide.

    Old weights are left as they are and new ones count more, which is the same but for a common
    factor.
    """

    __slots__ = ("_least", "_since", "_weights")

    def __init__(self, least: float, now: float) -> None:
        self._least = least
        self._since = now
        self._weights = array("d", bytes(8 * _BUCKETS))

    def _grown(self, now: float) -> float:
        """What a weight counts that is given now."""
        if now - self._since > _MOST_HALVES * HALF_LIFE_S:  # long before numbers end
            part = 0.5 ** ((now - self._since) / HALF_LIFE_S)
            self._weights = array("d", [weight * part for weight in self._weights])
            self._since = now
        return float(2.0 ** ((now - self._since) / HALF_LIFE_S))

    def add(self, value: float, weight: float, now: float) -> None:
        """Count a value; ones above the last bucket count there."""
        step = (
            math.ceil(STEPS * math.log2(value / self._least) - 1e-9) if value > self._least else 0
        )
        counted = weight * self._grown(now)
        self._weights[min(step, _BUCKETS - 1)] += counted

    def total(self, now: float) -> float:
        """All weights, as of `now`."""
        part = self._grown(now)
        return sum(self._weights) / part

    def percentile(self, share: float) -> float | None:
        """The end of the bucket in which that share of all weights is reached; None without any."""
        total = sum(self._weights)
        found = 0.0
        for at, weight in enumerate(self._weights):
            found += weight
            if weight and found >= share * total * (1.0 - 1e-9):
                return float(self._least * 2.0 ** (at / STEPS))
        return None


class _Owner:
    """What is learnt of one owner, and what was told of it."""

    __slots__ = ("cpu", "looked_at", "memory", "told")

    def __init__(self, now: float) -> None:
        self.cpu = Histogram(LEAST_CPU, now)
        self.memory = Histogram(LEAST_MEMORY, now)
        self.looked_at = -math.inf
        self.told: tuple[float | None, float | None, int] = (None, None, -1)

    def numbers(self, now: float) -> tuple[float | None, float | None, float]:
        """(milli-CPU, bytes, minutes)."""
        return (
            self.cpu.percentile(PERCENTILE),
            self.memory.percentile(PERCENTILE),
            self.cpu.total(now),
        )


@dataclass(slots=True)
class _Track:
    """A pod that is looked at: its owner, when first, when last, and the sample's own time then."""

    owner: OwnerName | None
    since: float
    at: float
    time: float


class OwnerUses:
    """Of all owners whose pods run here. `pod`: the pod of a namespace and name as it is known,
    None: it is not.

    `dropped`: owners that were given up for others.
    """

    def __init__(self, log: ChangeLog, pod: Callable[[str, str], Pod | None]) -> None:
        self._log = log
        self._pod = pod
        self._owners: dict[OwnerName, _Owner] = {}  # those seen last at the end
        self._tracks: dict[str, _Track] = {}  # by UID
        self._pruned_at = -math.inf
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._owners)

    def add(self, samples: Iterable[PodUse], now: float, node: str = "") -> None:
        """Samples of running pods, `now` on the clock of whoever asks; what says nothing new or
        absurd is passed by.

        `node`: whose kubelet says so, and it is believed of the pods bound there alone; "": who
        knows all nodes.
        """
        touched: dict[OwnerName, _Owner] = {}
        for sample in samples:
            pod = self._pod(sample.namespace, sample.name)
            if pod is None or pod.phase != RUNNING or (node and pod.node != node):
                continue
            if sample.cores is None or sample.memory is None:
                continue
            if not (0.0 <= sample.cores <= _ABSURD and 0.0 <= sample.memory <= _ABSURD):
                continue
            name, weight = self._since_last(pod, sample, now)
            if name is not None and weight > 0.0:
                owner = touched[name] = self._owner(name, now)
                owner.cpu.add(1000.0 * sample.cores, weight, now)
                owner.memory.add(sample.memory, weight, now)
        for name, owner in touched.items():
            self._tell(name, owner, now)
        if now - self._pruned_at > KEPT_S:
            self._pruned_at = now
            self._tracks = {
                uid: track for uid, track in self._tracks.items() if now - track.at <= KEPT_S
            }

    def _since_last(self, pod: Pod, sample: PodUse, now: float) -> tuple[OwnerName | None, float]:
        """Whose the pod is, and minutes since its last sample: 0 while it starts, and for the same
        sample again.
        """
        track = self._tracks.get(pod.uid)
        if track is None:
            self._tracks[pod.uid] = _Track(owner_of(pod), now, now, sample.time)
            return None, 0.0
        if now - track.at < LOOK_S or (sample.time and sample.time <= track.time):
            return None, 0.0
        since = min(now - max(track.at, track.since + START_S), MAX_GAP_S)
        track.at = now
        track.time = sample.time
        return track.owner, since / 60.0

    def _owner(self, name: OwnerName, now: float) -> _Owner:
        owner = self._owners.pop(name, None) or _Owner(now)
        self._owners[name] = owner
        if len(self._owners) > MAX_OWNERS:
            oldest = next(iter(self._owners))
            del self._owners[oldest]
            self._log.forget(USES, _key(oldest))
            self.dropped += 1
        return owner

    def _tell(self, name: OwnerName, owner: _Owner, now: float) -> None:
        if now - owner.looked_at < TELL_S:
            return
        owner.looked_at = now
        cpu, memory, minutes = owner.numbers(now)
        told = cpu, memory, math.floor(math.log2(min(max(minutes, 0.5), _ENOUGH_MINUTES)))
        if told != owner.told and name in self._owners:
            owner.told = told
            self._log.touch(USES, _key(name))

    def keys(self) -> Iterator[str]:
        """Of all owners, as the log has them."""
        return map(_key, self._owners)

    def use(self, key: str, now: float) -> OwnerUse | None:
        """What is known of an owner as of `now`."""
        namespace, _, name = key.partition("/")
        owner = self._owners.get((namespace, name))
        cpu, memory, minutes = owner.numbers(now) if owner is not None else (None, None, 0.0)
        if cpu is None or memory is None:
            return None
        return OwnerUse(namespace, name, cpu, memory, minutes)


def _key(name: OwnerName) -> str:
    return "/".join(name)
