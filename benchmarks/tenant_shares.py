"""Three tenants with weights 5:3:2 and endless demand, in virtual time: their shares while pods end
and come, and how soon quota that one of them leaves is lent, and is back.

A closed loop: the whole core with an agent that obeys at once. Pods run for a random time and are
replaced when they end or are evicted, as by a ReplicaSet, so that each tenant always has more than
its part of pods. Pods ask for 250m, 500m or 1 CPU by chance, all tenants alike. Shares are means
over windows of five minutes; Jain's index is of share by weight, (sum x)^2 / (n sum x^2) (Jain,
Chiu, Hawe 1984). All times are virtual, so the figures are the same on every machine.
"""

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from benchmarks.report.rows import Row
from dispatcher.plugins.registry import PluginContext, build, queue_sort
from dispatcher.scheduling import events
from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.queue import SchedulingQueue
from dispatcher.scheduling.quota import QuotaLedger
from shared.messages import BOUND, DONE, AnyIntent, Bind, Changes, Evict, Outcome
from shared.model.names import SCHEDULER_NAME
from shared.model.node import Node
from shared.model.pod import RUNNING, Pod
from shared.model.tenant import ANY_PRIORITY, Share, Tenant

WEIGHTS = {"red": 5, "green": 3, "blue": 2}
GRACE_S = 30.0  # the pods' terminationGracePeriodSeconds
_PARTS = sum(WEIGHTS.values())
_CLUSTER = "east"
SIZES = (250, 500, 1000)  # milli-CPU
_NODE = {"cpu": 32_000, "memory": 128 * 2**30, "pods": 500}
_STEP_S = 0.03  # not in step with the pauses of the queue, of 100 ms
_LEAST_S, _MORE_S = 20.0, 100.0  # a pod runs so long at least, and so much longer in the mean
_WINDOW_S, _WINDOWS = 300.0, 2
_CPUS = 80
_SEEDS = 2


@dataclass(frozen=True)
class Window:
    """Mean milli-CPU of each tenant over a window, while `cpu` could be used."""

    used: Mapping[str, float]
    cpu: int

    @property
    def jain(self) -> float:
        """Of what each uses by its weight; 1 if these are equal."""
        return jain([self.used[name] / weight for name, weight in WEIGHTS.items()])

    @property
    def furthest(self) -> float:
        """How far the worst of the shares is from its due, as a part of its due."""
        whole = sum(self.used.values())
        return max(
            abs(self.used[name] / whole * _PARTS / weight - 1) for name, weight in WEIGHTS.items()
        )

    @property
    def busy(self) -> float:
        """How much of the quota of all is used."""
        return sum(self.used.values()) / self.cpu


def jain(amounts: Sequence[float]) -> float:
    """Jain's index of fairness: 1 if all are equal, 1/n if one has everything."""
    return sum(amounts) ** 2 / (len(amounts) * sum(one * one for one in amounts))


def due(cpu: int, name: str) -> int:
    """A tenant's part by weight, in milli-CPU."""
    return cpu * WEIGHTS[name] // _PARTS


def copies(cpu: int) -> int:
    """How many pods ask for twice as much, about."""
    return 2 * cpu * len(SIZES) // sum(SIZES)


class Loop:
    """A core and three tenants below one, who share `cpus`. `given`: each tenant was given its part
    of that itself, else it borrows all of it. Whatever was borrowed is taken back (`reclaim: any`).
    """

    def __init__(
        self, seed: int, cpus: int = _CPUS, *, given: bool, step_s: float = _STEP_S
    ) -> None:
        self.now = 1000.0
        self.cpu = 1000 * cpus
        self.evicted = 0
        self.endless = False  # from then on no pod ends by itself
        self._step_s = step_s
        self._dice = random.Random(seed)
        self._numbers = itertools.count()
        self._revision = itertools.count(1)
        self._pods: dict[str, Pod] = {}
        self._ends: list[tuple[float, str]] = []  # a heap
        self._unshown: dict[str, Pod] = {}
        self._used = Counter[str]()
        self._copies: dict[str, int] = {}
        ledger = QuotaLedger(tuple(self._tenants(given=given)))
        fleet = FleetState()
        plugins = build(DEFAULT_PROFILE, PluginContext(quota=ledger))
        profiles = Profiles([Scheduler(DEFAULT_PROFILE, plugins, fleet)])
        queue = SchedulingQueue(queue_sort(plugins), profiles.classify, gates=profiles)
        self._core = SchedulerCore([_CLUSTER], fleet, queue, profiles, boot_epoch=1, ledger=ledger)
        nodes = tuple(_node(number) for number in range(_nodes(self.cpu)))
        self._report(full=True, nodes=nodes)

    def _tenants(self, *, given: bool) -> Iterable[Tenant]:
        top = {} if given else {"cpu": Share(absolute=self.cpu)}
        yield Tenant("all", (), top, reclaim=ANY_PRIORITY)
        for name, weight in WEIGHTS.items():
            own = {"cpu": Share(absolute=self.due(name))} if given else {}
            yield Tenant(name, (name,), own, parent="all", weight=1000 * weight)

    def due(self, name: str) -> int:
        """A tenant's part by weight, in milli-CPU."""
        return due(self.cpu, name)

    def used(self, *names: str) -> int:
        """Milli-CPU of pods that are bound and not gone."""
        return sum(self._used[name] for name in names)

    def demand(self, name: str) -> None:
        """From now on a tenant has pods for twice all that there is."""
        self._copies[name] = copies(self.cpu)
        self._submit([self._pod(name) for _ in range(self._copies[name])])

    def leave(self, name: str) -> None:
        """All pods of a tenant are gone, and no more come."""
        self._copies[name] = 0
        self._gone([uid for uid, pod in self._pods.items() if pod.namespace == name])

    def run(self, seconds: float) -> Window:
        """Time passes."""
        integral = Counter[str]()
        steps = round(seconds / self._step_s)
        for _ in range(steps):
            self._step()
            integral.update(self._used)
        return Window({name: integral[name] / steps for name in WEIGHTS}, self.cpu)

    def seconds_until(self, amount: int, *names: str, most: float = 600.0) -> float:
        """Until these tenants use so much, but for the largest pod; TimeoutError after `most`."""
        start = self.now
        while self.used(*names) <= amount - max(SIZES):
            if self.now - start > most:
                raise TimeoutError(f"{self.used(*names)} of {amount}m is used after {most:.0f} s")
            self._step()
        return self.now - start

    # --- the fleet

    def _step(self) -> None:
        self.now += self._step_s
        ended = []
        while self._ends and self._ends[0][0] <= self.now:
            ended.append(heapq.heappop(self._ends)[1])
        there = [self._pods[uid] for uid in dict.fromkeys(ended) if uid in self._pods]
        self._gone([pod.uid for pod in there if pod.terminating or not self.endless])
        while self._core.folding:
            self._take(self._core.handle(events.FoldOn(_CLUSTER), self.now))
        self._take(self._core.handle(events.Tick(1000), self.now))
        shown = tuple(self._unshown.values())
        self._unshown.clear()
        if shown:
            self._report(pods=shown)

    def _gone(self, uids: Sequence[str]) -> None:
        """Pods are no more; those that were not evicted are replaced now."""
        left = [self._pods.pop(uid) for uid in uids]
        for pod in left:
            self._unshown.pop(pod.uid, None)
            self._used[pod.namespace] -= pod.requests["cpu"] if pod.node else 0
        if left:
            self._report(pods_gone=tuple(uids))
        self._submit(
            [
                self._pod(pod.namespace)
                for pod in left
                if self._copies[pod.namespace] and not pod.terminating
            ]
        )

    def _submit(self, pods: Sequence[Pod]) -> None:
        self._pods |= {pod.uid: pod for pod in pods}
        if pods:
            self._report(pods=tuple(pods))

    def _pod(self, name: str) -> Pod:
        number = next(self._numbers)
        return Pod(
            f"uid-{number:07}",
            name,
            f"{name}-{number}",
            labels={"app": name},
            requests={"cpu": self._dice.choice(SIZES)},
            scheduler_name=SCHEDULER_NAME,
            owner=f"replicaset-{name}",
        )

    def _report(self, *, full: bool = False, **what: object) -> None:
        revision = next(self._revision)
        changes = Changes(_CLUSTER, "uid-east", "life", revision - 1, revision, full, **what)  # type: ignore[arg-type]
        self._take(self._core.handle(events.ClusterChanged(changes), self.now))

    def _take(self, effects: Sequence[events.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, events.SendIntents):
                answers = tuple(self._obey(intent) for intent in effect.intents)
                self._take(self._core.handle(events.Answered(effect.cluster, answers), self.now))

    def _obey(self, intent: AnyIntent) -> Outcome:
        pod = self._pods[intent.pod.uid]
        if isinstance(intent, Bind):
            self._show(msgspec.structs.replace(pod, node=intent.node, phase=RUNNING))
            self._used[pod.namespace] += pod.requests["cpu"]
            runs_s = _LEAST_S + self._dice.expovariate(1 / _MORE_S)
            heapq.heappush(self._ends, (self.now + runs_s, pod.uid))
            return Outcome(intent.id, pod.uid, intent.epoch, BOUND)
        if isinstance(intent, Evict):
            self.evicted += 1
            self._show(msgspec.structs.replace(pod, terminating=True))
            heapq.heappush(self._ends, (self.now + GRACE_S, pod.uid))
            new = self._pod(pod.namespace)  # a ReplicaSet does not wait
            self._pods[new.uid] = new
            self._unshown[new.uid] = new
        return Outcome(intent.id, pod.uid, intent.epoch, DONE)

    def _show(self, pod: Pod) -> None:
        self._pods[pod.uid] = pod
        self._unshown[pod.uid] = pod


def _nodes(cpu: int) -> int:
    return 2 * cpu // _NODE["cpu"] + 1  # there is always room


def _node(number: int) -> Node:
    name = f"n{number:03}"
    return Node(name, f"uid-{name}", ready=True, allocatable=_NODE)


class Sharing(Protocol):
    """A `Loop`, or the same on real clusters (`tenants_on_planes.Demand`)."""

    cpu: int
    evicted: int
    endless: bool

    def due(self, name: str) -> int:
        """As `Loop.due`."""

    def demand(self, name: str) -> None:
        """As `Loop.demand`."""

    def leave(self, name: str) -> None:
        """As `Loop.leave`."""

    def run(self, seconds: float) -> Window:
        """As `Loop.run`."""

    def seconds_until(self, amount: int, *names: str) -> float:
        """As `Loop.seconds_until`."""


def steady(
    loop: Sharing, windows: int, window_s: float = _WINDOW_S, settle_s: float = _WINDOW_S
) -> list[Window]:
    """All ask for more than there is; what they use once it has settled."""
    for name in WEIGHTS:
        loop.demand(name)
    loop.run(settle_s)
    return [loop.run(window_s) for _ in range(windows)]


@dataclass(frozen=True)
class Lending:
    """Virtual seconds until the quota of a tenant that left is used by others; and since it is back
    until it uses what it was given, by so many evictions alone.
    """

    lent_s: float
    back_s: float
    evicted: int


def lend(loop: Sharing, settle_s: float = _WINDOW_S) -> Lending:
    """`red` leaves, and comes back when all it had is lent. No pod ends by itself from then on."""
    others = [name for name in WEIGHTS if name != "red"]
    for name in WEIGHTS:
        loop.demand(name)
    loop.run(settle_s)
    loop.leave("red")
    lent_s = loop.seconds_until(loop.cpu, *others)
    loop.run(settle_s)
    before = loop.evicted
    loop.endless = True
    loop.demand("red")
    back_s = loop.seconds_until(loop.due("red"), "red")
    return Lending(lent_s, back_s, loop.evicted - before)


def tenant_shares(share: int) -> list[Row]:
    """80 CPUs, about 140 pods that run at a time: all of it borrowed by weight; then each tenant
    given its part, of which others borrow what its next pod is too large for, and give it back.
    """
    seeds = range(max(1, _SEEDS // share))
    borrowed = [one for seed in seeds for one in steady(Loop(seed, given=False), _WINDOWS)]
    given = [one for seed in seeds for one in steady(Loop(seed, given=True), _WINDOWS)]
    lent = [lend(Loop(seed, given=True)) for seed in seeds]
    of = f"{len(seeds)} seeds, {_WINDOWS} windows of five minutes each, the worst"
    pods = 3 * copies(1000 * _CPUS)
    return [
        _row("tenant_shares_off", pods, _off(borrowed), "% off", 2, of),
        _row("tenant_shares_off_given", pods, _off(given), "% off", None, of),
        _row("tenant_jain", pods, 100 * _least(borrowed), "%", 99, of),
        _row("tenant_jain_given", pods, 100 * _least(given), "%", 99, of),
        _row("quota_lent", pods, max(one.lent_s for one in lent), "s", 1, "virtual, the worst"),
        _row(
            "quota_back",
            pods,
            max(one.back_s for one in lent) - GRACE_S,
            "s",
            10,
            "virtual, beyond the grace of 30 s of those that are evicted, the worst",
        ),
    ]


def _off(windows: Sequence[Window]) -> float:
    return 100 * max(one.furthest for one in windows)


def _least(windows: Sequence[Window]) -> float:
    return min(one.jain for one in windows)


def _row(name: str, pods: int, value: float, unit: str, target: float | None, counts: str) -> Row:
    return Row(name, _nodes(1000 * _CPUS), pods, value, unit, target, None, counts)


CASES = (tenant_shares,)
