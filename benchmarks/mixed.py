"""Mixed work through the whole core: reports in, queue, quota, decisions, records, answers, and what the watch shows.

No API server and no Ray: an agent is played that answers every bind with success and reports the pod bound. Figures
are CPU time of one core; each has the same work with one template beside it, measured in the same run.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import msgspec

from benchmarks.report.rows import Row
from benchmarks.workloads.mixed import Mix
from benchmarks.workloads.volumes import provided_for, waiting_claim, waiting_class
from dispatcher.model.labels import LabelSelector
from dispatcher.model.messages import BOUND, DONE, AnyIntent, Bind, Changes, Outcome, SelectNode
from dispatcher.model.objects import AnyObject, PersistentVolumeClaim, PodDisruptionBudget
from dispatcher.model.pod import RUNNING, Pod
from dispatcher.plugins.registry import PluginContext, build, queue_sort
from dispatcher.scheduling import events
from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework.kernels import compile_all
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.queue import SchedulingQueue
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.scheduling.records.decision import tables_of
from dispatcher.service.journal import Journal
from dispatcher.service.warm_up import collect_less_often

HOME, BATCH = "c000", 1000
_THROUGH = "core with queue, quota, reports, answers and records, by CPU time"
_ENDED = "CPU time for each pod that ends while others wait for room"
_BESIDE = "one template in the same run"


@cache
def _as_in_a_dispatcher() -> None:
    compile_all()
    collect_less_often()


@dataclass
class Stage:
    """A core and the agent that is played for it. Steps are a tenth of a second apart; `journal` takes all records."""

    mix: Mix
    journal: Journal | None = None
    objects: tuple[AnyObject, ...] = ()
    before: tuple[Pod, ...] = ()
    budget: int = BATCH
    now: float = 1000.0
    bound: dict[str, Pod] = field(default_factory=dict)
    refusals: int = 0
    told: int = 0
    shown: int = 0

    def __post_init__(self) -> None:
        """A fleet that is known; nothing is queued yet. Kernels and garbage collection are as in a dispatcher."""
        _as_in_a_dispatcher()
        ledger, fleet = QuotaLedger(self.mix.owners()), FleetState()
        plugins = build(DEFAULT_PROFILE, PluginContext(quota=ledger))
        profiles = Profiles([Scheduler(DEFAULT_PROFILE, plugins, fleet)])
        queue = SchedulingQueue(queue_sort(plugins), profiles.classify, gates=profiles)
        self.core = SchedulerCore([HOME], fleet, queue, profiles, boot_epoch=1)
        self._revision = itertools.count(1)
        self._samples = self.mix.samples()
        self._claims: dict[str, PersistentVolumeClaim] = {}
        self._provided: list[AnyObject] = []
        self.objects += waiting_class(self.mix.nodes) if self.mix.claims else ()
        self._pending: dict[str, Pod] = {}
        self._unshown: list[Pod] = []
        self._report(
            full=True, nodes=self.mix.fleet(), readings=self.mix.loads(), pods=self.before, objects=self.objects
        )

    def _report(self, *, full: bool = False, **what: object) -> None:
        revision = next(self._revision)
        changes = Changes(HOME, "uid-c000", "life", revision - 1, revision, full, **what)  # type: ignore[arg-type]
        self._take(self.core.handle(events.ClusterChanged(changes), self.now))

    def arrive(self, pods: Sequence[Pod]) -> None:
        """Pods are submitted."""
        self._pending.update((pod.uid, pod) for pod in pods)
        named = (waiting_claim(pod.namespace, one.name) for pod in pods for one in pod.volumes)
        claims = {claim.key: claim for claim in named}
        self._claims |= claims
        self._report(pods=tuple(pods), objects=tuple(claims.values()))

    def end(self, uids: Sequence[str]) -> None:
        """Bound pods end."""
        for uid in uids:
            self.bound.pop(uid, None)
        self._report(pods_gone=tuple(uids))

    def step(self, budget: int | None = None) -> None:
        """A tick, then what the watch shows of it, and what else comes in meanwhile."""
        self.now += 0.1
        for cluster in tuple(self.core.folding):  # as the service does between rounds
            self._take(self.core.handle(events.FoldOn(cluster), self.now))
        self._take(self.core.handle(events.Tick(budget or self.budget), self.now))
        shown, self._unshown = tuple(self._unshown), []
        samples = tuple(itertools.islice(self._samples, self._share(len(shown), self.mix.readings)))
        leaving = self._share(len(shown), self.mix.churn)
        self.shown += len(shown)
        provided, self._provided = tuple(self._provided), []
        if shown or samples or provided:
            self._report(pods=shown, readings=samples, objects=provided)
        if leaving:
            self.end(list(itertools.islice(self.bound, leaving)))

    def decide_all(self) -> None:
        """Steps, until no pod is to be decided now."""
        while self.core.queue.counts()["active"]:
            self.step()

    def _share(self, more: int, percent: int) -> int:
        """So many of the pods that are shown next, none of which is lost where few are shown at a time."""
        return (self.shown + more) * percent // 100 - self.shown * percent // 100

    def _take(self, effects: Sequence[events.Effect]) -> None:
        if self.journal is not None:
            self.journal.write(tables_of(one.decision for one in effects if isinstance(one, events.Decided)))
        for effect in effects:
            if isinstance(effect, events.SendIntents):
                answers = tuple(self._answer(intent) for intent in effect.intents)
                self._take(self.core.handle(events.Answered(effect.cluster, answers), self.now))

    def _answer(self, intent: AnyIntent) -> Outcome:
        if isinstance(intent, Bind):
            pod = msgspec.structs.replace(self._pending.pop(intent.pod.uid), node=intent.node, phase=RUNNING)
            self.bound[pod.uid] = pod
            self._unshown.append(pod)
            return Outcome(intent.id, intent.pod.uid, intent.epoch, BOUND)
        if isinstance(intent, SelectNode):
            self._provided += provided_for(self._claims[intent.claim], intent.node)
        self.told += 1
        return Outcome(intent.id, intent.pod.uid, intent.epoch, DONE)

    def moving(self) -> int:
        """Pods that are to be decided now or soon, or have a place and wait for a volume."""
        counts = self.core.queue.counts()
        return counts["active"] + counts["backoff"] + counts["waiting"] + len(self.core.folding)

    def left(self) -> list[str]:
        """UIDs of pods that are not bound."""
        return list(self._pending)

    def withdraw(self, uids: Sequence[str]) -> None:
        """They are gone, bound or not."""
        for uid in uids:
            self._pending.pop(uid, None)
        self._unshown.clear()
        self.end(uids)

    def refused(self) -> int:
        """How often a pod was refused."""
        return sum(count for (what, _), count in self.core.counters.items() if what == "unschedulable")

    def why(self, uid: str) -> str:
        """What a pod was refused for."""
        return self.core.log.summary((HOME, uid))


class TooSmallError(RuntimeError):
    """Pods are left that the fleet has no room for."""


def bound_rate(mix: Mix, *, recorded: bool = False, burst: int | None = None) -> float:
    """Pods bound a second. `burst`: so many are submitted at once, else all. TooSmallError: not all can be bound."""
    with TemporaryDirectory() as folder:
        stage = Stage(mix, Journal(Path(folder) / "decisions") if recorded else None)
        _warm(stage, mix)
        arrivals = mix.arrivals()
        size = burst or len(arrivals)
        start = process_time()
        for at in range(0, len(arrivals), size):
            stage.arrive(arrivals[at : at + size])
            while stage.moving():
                stage.step()
        seconds = process_time() - start
    if left := stage.left():
        bound = len(arrivals) - len(left)
        text = f"{bound} of {len(arrivals)} pods are bound, {left[0]} is not: {stage.why(left[0])}"
        raise TooSmallError(f"the benchmark's fleet is too small: {text}")
    return len(arrivals) / seconds


def _warm(stage: Stage, mix: Mix) -> None:
    """A few pods of another class, gone again: compiled kernels are loaded, columns of nodes known."""
    few = replace(mix, pods=8, classes=1, tenants=0, cpu=mix.cpu - 1 if mix.cpu else 1, interleaved=False)
    pods = [msgspec.structs.replace(pod, uid=f"warm-{pod.uid}", namespace="warm") for pod in few.arrivals()]
    stage.arrive(pods)
    while stage.moving():
        stage.step()
    stage.withdraw([pod.uid for pod in pods])


def hopeless(mix: Mix) -> Mix:
    """The same work, none of which fits on any node."""
    return replace(mix, cpu=mix.node_cpu * 2)


def refusal_rate(mix: Mix) -> tuple[float, float]:
    """(first refusals, refusals when all are tried again after five minutes) a second, of pods that fit nowhere.
    RuntimeError: some were not refused each time.
    """
    stage = Stage(hopeless(mix))
    stage.arrive(stage.mix.arrivals())
    start = process_time()
    stage.decide_all()
    first, before = process_time() - start, stage.refused()
    stage.now += 301.0
    start = process_time()
    stage.step()
    stage.decide_all()
    again, more = process_time() - start, stage.refused() - before
    if min(before, more) < mix.pods:
        raise RuntimeError(f"of {mix.pods} pods {before} were refused at first, and {more} after five minutes")
    return before / first, more / again


def ended_pod_ms(mix: Mix, *, pods_each: int, at_a_time: int, ended: int) -> float:
    """Milliseconds for each of `ended` pods, `at_a_time` of which end every fifth of a second, until its room is taken
    by one of the `mix.pods` that wait. RuntimeError: some of it is free 20 seconds later.
    """
    full = mix.nodes * pods_each
    stage = Stage(replace(mix, pods=full + mix.pods, node_cpu=mix.cpu * pods_each))
    arrivals = stage.mix.arrivals()
    for some in (arrivals[:full], arrivals[full:]):
        stage.arrive(some)
        stage.decide_all()
    stage.step()
    stage.now += 60.0
    before, start = len(stage.left()), process_time()
    for _ in range(0, ended, at_a_time):
        stage.end(list(itertools.islice(stage.bound, at_a_time)))
        stage.step()
        stage.step()
    for _ in range(200):
        stage.step()
    seconds, taken = process_time() - start, before - len(stage.left())
    if taken < ended:
        raise RuntimeError(f"the room of {ended} pods was free, {taken} took it")
    return seconds / ended * 1000


def preemption_ms(nodes: int, pods_each: int, budgets: int, rounds: int = 5) -> float:
    """Milliseconds to decide one pod that fits nowhere while each node has `pods_each` pods of lower priority."""
    mix = Mix(nodes=nodes, node_cpu=1000 * pods_each)
    low = tuple(
        Pod(f"low-{n}-{k}", "default", f"low-{n}-{k}", {"app": f"app-{(n * pods_each + k) % max(budgets, 1)}"},
            requests={"cpu": 1000, "memory": 2**28}, node=f"n{n:05}", phase=RUNNING, started=float(k + 1),
            scheduler_name="global-dispatcher")
        for n in range(nodes) for k in range(pods_each)
    )  # fmt: skip
    kept = tuple(
        PodDisruptionBudget("default", f"pdb-{one}", LabelSelector({"app": f"app-{one}"}), allowed=one % 3)
        for one in range(budgets)
    )
    stage = Stage(mix, objects=kept, before=low)
    seconds = []
    for at in range(rounds + 1):
        stage.arrive([Pod(f"high-{at}", "default", f"high-{at}", requests={"cpu": 1000 + at}, priority=100,
                          scheduler_name="global-dispatcher")])  # fmt: skip
        start = process_time()
        stage.step(1)
        seconds.append(process_time() - start)
    if stage.core.counters["preemption_attempts", "nominated"] < rounds:
        raise RuntimeError("the preemptor found no victims")
    return sorted(seconds[1:])[rounds // 2] * 1000


# --- the rows --------------------------------------------------------------------------------------------------------


def _bound_row(name: str, mix: Mix, target: float | None, one: float, *, burst: int | None = None) -> Row:
    rate = bound_rate(mix, burst=burst)
    return Row(name, mix.nodes, mix.pods, rate, "bound/s", target, one, _THROUGH, _BESIDE)


def _one(share: int) -> tuple[Mix, float]:
    mix = Mix(pods=20_000 // share, nodes=max(5000 // share, 100))
    return mix, bound_rate(mix)


def mixed_classes(share: int) -> list[Row]:
    """200 and 1,000 templates in turn."""
    mix, one = _one(share)
    return [
        Row("mixed_one_template", mix.nodes, mix.pods, one, "bound/s", 100_000, None, _THROUGH),
        _bound_row("mixed_200_classes", replace(mix, classes=200), 20_000, one),
        _bound_row("mixed_1000_classes", replace(mix, classes=1000), 10_000, one),
    ]


def mixed_tenants(share: int) -> list[Row]:
    """200 templates of 50 tenants with ratio quotas, readings coming in, pods ending."""
    mix, one = _one(share)
    mix = replace(mix, classes=200, tenants=50)
    return [
        _bound_row("mixed_50_tenants", mix, None, one),
        _bound_row("mixed_50_tenants_readings", replace(mix, readings=50), 15_000, one),
        _bound_row("mixed_50_tenants_churn", replace(mix, churn=20), None, one),
    ]


def mixed_claims(share: int) -> list[Row]:
    """Pods with a claim each that waits for its pod: a node is written on it, its volume made, the pod bound."""
    mix, one = _one(share)
    return [_bound_row("mixed_claims_that_wait", replace(mix, pods=mix.pods // 4, claims=True), 5000, one)]


def mixed_small_pods(share: int) -> list[Row]:
    """Pods of 50m and 64Mi, of one template."""
    mix, one = _one(share)
    small = replace(mix, cpu=50, memory=64 * 2**20)
    return [_bound_row("mixed_small_pods", small, 100_000, one)]


def mixed_rules(share: int) -> list[Row]:
    """Templates that shun themselves by host, or spread softly over zones and hosts: all pods at once, then in bursts
    of about one pod a template, so that each is decided alone.
    """
    mix, one = _one(share)
    soft, few = replace(mix, soft_spread=100, classes=1000), mix.pods // 4
    return [
        _bound_row("mixed_500_classes_20_shun", replace(mix, classes=500, anti_affinity=20), 5000, one),
        _bound_row("mixed_200_soft_spread", replace(soft, classes=200), 8000, one),
        _bound_row("mixed_1000_soft_spread", soft, 4000, one),
        _bound_row("mixed_1000_soft_spread_alone", replace(soft, pods=few), None, one, burst=few // 5),
    ]


def mixed_refusals(share: int) -> list[Row]:
    """30,000 pods of 200 templates, none of which fits anywhere."""
    mix = Mix(pods=30_000 // share, nodes=max(5000 // share, 100), classes=200)
    one, one_again = refusal_rate(replace(mix, classes=1))
    first, again = refusal_rate(mix)
    return [
        Row("mixed_refusals", mix.nodes, mix.pods, first, "refusals/s", 50_000, one, _THROUGH, _BESIDE),
        Row("mixed_refusals_again", mix.nodes, mix.pods, again, "refusals/s", 50_000, one_again, _THROUGH, _BESIDE),
    ]


def mixed_full_queue(share: int) -> list[Row]:
    """30,000 pods of 200 templates wait for room, of which pods that end leave some: one at a time, or 20."""
    mix = Mix(pods=30_000 // share, nodes=max(1000 // share, 20), classes=200)
    rows = []
    for name, at_a_time, ended in (
        ("mixed_full_queue_ended_pod", 1, 400),
        ("mixed_full_queue_20_ended_pods", 20, 8000),
    ):
        one, cost = (
            ended_pod_ms(some, pods_each=8, at_a_time=at_a_time, ended=ended // share)
            for some in (replace(mix, classes=1), mix)
        )
        rows.append(Row(name, mix.nodes, mix.pods, cost, "ms", None, one, _ENDED, _BESIDE))
    return rows


def mixed_preemption(share: int) -> list[Row]:
    """One preemptor at a time, beside budgets."""
    nodes = 1000 // share
    none, *others = (preemption_ms(nodes, 4, budgets) for budgets in (0, 20, 200))
    counts, beside = "the tick that nominates, by CPU time, median of 5", "without budgets in the same run"
    return [
        Row("mixed_preemption_0_budgets", nodes, 4 * nodes, none, "ms", 10, None, counts),
        *(
            Row(f"mixed_preemption_{budgets}_budgets", nodes, 4 * nodes, one, "ms", 10, none, counts, beside)
            for budgets, one in zip((20, 200), others, strict=True)
        ),
    ]


def mixed_records(share: int) -> list[Row]:
    """What it costs more to journal the record of every decision."""
    mix, one = _one(share)
    recorded = bound_rate(mix, recorded=True)
    cost = (1 / recorded - 1 / one) * 1e6
    name, counts = "mixed_record_cost", "more CPU time a decision, made words and written to the journal"
    return [Row(name, mix.nodes, mix.pods, cost, "us", 15, None, counts)]


CASES = (
    mixed_classes,
    mixed_tenants,
    mixed_claims,
    mixed_small_pods,
    mixed_rules,
    mixed_refusals,
    mixed_full_queue,
    mixed_preemption,
    mixed_records,
)
