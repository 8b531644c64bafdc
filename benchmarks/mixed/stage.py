"""A core and the agent that is played for it: it answers every bind with success and reports the
pod bound.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import msgspec

from benchmarks.workloads.mixed import Mix
from benchmarks.workloads.volumes import provided_for, waiting_claim, waiting_class
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
from dispatcher.service.files.journal import Journal
from dispatcher.service.warm_up import collect_less_often
from shared.messages import BOUND, DONE, AnyIntent, Bind, Changes, Outcome, SelectNode
from shared.model.objects import AnyObject, PersistentVolumeClaim
from shared.model.pod import RUNNING, Pod

HOME, BATCH = "c000", 1000


@cache
def _as_in_a_dispatcher() -> None:
    compile_all()
    collect_less_often()


@dataclass
class Stage:
    """A core and the agent that is played for it. Steps are a tenth of a second apart; `journal`
    takes all records.
    """

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
        """A fleet that is known; nothing is queued yet. Kernels and garbage collection are as in a
        dispatcher.
        """
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
            full=True,
            nodes=self.mix.fleet(),
            readings=self.mix.loads(),
            pods=self.before,
            objects=self.objects,
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
        self._fold_on()
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

    def _fold_on(self) -> None:
        for cluster in tuple(self.core.folding):  # as the service does between rounds
            self._take(self.core.handle(events.FoldOn(cluster), self.now))

    def take_in(self) -> None:
        """All of the report that came last."""
        while self.core.folding:
            self._fold_on()

    def decide_all(self) -> None:
        """Steps, until no pod is to be decided now."""
        while self.core.queue.counts()["active"] or self.core.waking:
            self.step()

    def _share(self, more: int, percent: int) -> int:
        """So many of the pods that are shown next, none of which is lost where few are shown at a
        time.
        """
        return (self.shown + more) * percent // 100 - self.shown * percent // 100

    def _take(self, effects: Sequence[events.Effect]) -> None:
        if self.journal is not None:
            self.journal.write(
                tables_of(one.decision for one in effects if isinstance(one, events.Decided))
            )
        for effect in effects:
            if isinstance(effect, events.SendIntents):
                answers = tuple(self._answer(intent) for intent in effect.intents)
                self._take(self.core.handle(events.Answered(effect.cluster, answers), self.now))

    def _answer(self, intent: AnyIntent) -> Outcome:
        if isinstance(intent, Bind):
            pod = msgspec.structs.replace(
                self._pending.pop(intent.pod.uid), node=intent.node, phase=RUNNING
            )
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
        return sum(
            count for (what, _), count in self.core.counters.items() if what == "unschedulable"
        )

    def why(self, uid: str) -> str:
        """What a pod was refused for."""
        return self.core.log.summary((HOME, uid))
