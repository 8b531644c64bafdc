"""How long the first pod of a tenant waits while another one's burst is decided."""

from dataclasses import dataclass
from statistics import median
from time import process_time

from msgspec import structs

from benchmarks.mixed.stage import Stage
from benchmarks.report.rows import Row
from benchmarks.workloads.mixed import Mix
from dispatcher.scheduling import events
from dispatcher.service.timing import ServiceTiming, Slice
from shared.messages import Bind
from shared.model.pod import Pod

_TIMES = 9
_BESIDE = "the same without the burst, in turn"
_MS = "core, from the report of the pod to the order to bind it, by CPU time"
_OTHERS = "pods of the burst that are bound before it, once it has come"


@dataclass
class _Burst(Stage):
    """Rounds of decisions as the service has them, each of one slice. `ours`: the pod that is
    waited for; `others`: how many were bound before it since it came.
    """

    ours: str = ""
    others: int = 0

    def round(self) -> bool:
        """One round; whether the pod is sent to its node."""
        self.now += 0.02
        enough = Slice(ServiceTiming.slice_s, process_time)
        decide = events.Decide(self.budget, enough, process_time, in_rounds=True)
        effects = self.core.handle(decide, self.now)
        sent = [
            intent.pod.uid
            for effect in effects
            if isinstance(effect, events.SendIntents)
            for intent in effect.intents
            if isinstance(intent, Bind)
        ]
        self.others += len(sent) - (self.ours in sent)
        found = self.ours in sent
        self._take(effects)
        return found


def first_pods(share: int) -> list[Row]:
    """20,000 pods of 200 templates of one tenant wait; a pod of another one comes, some times; in
    turn with the same where none wait, each after a round of the burst: so caches of the CPU are
    as cold for both.
    """
    mix = Mix(pods=20_000 // share, nodes=max(5000 // share, 100), classes=200, tenants=2)
    theirs = [structs.replace(pod, namespace="team-0") for pod in mix.arrivals()]
    alone = _Burst(mix)
    burst = _Burst(mix, budget=mix.pods // (3 * _TIMES))
    burst.arrive(theirs)
    times: list[tuple[float, float]] = []
    others = 0
    for number in range(_TIMES + 1):
        pair = []
        for stage in (alone, burst):
            burst.round()
            pair.append(_timed(stage, structs.replace(theirs[0], uid=f"ours-{number}")))
        times.append((pair[0], pair[1]))
        others = max(others, burst.others)
    without, beside = (median(some) * 1000 for some in zip(*times[1:], strict=True))
    return [
        Row("first_pod_in_a_burst", mix.nodes, mix.pods, beside, "ms", None, without, _MS, _BESIDE),
        Row("others_before_it", mix.nodes, mix.pods, others, "pods", 0, None, _OTHERS),
    ]


def _timed(stage: _Burst, like: Pod) -> float:
    ours = structs.replace(like, name=like.uid, namespace="team-1")
    stage.ours = ours.uid
    stage.others = 0
    start = process_time()
    stage.arrive([ours])
    while not stage.round():
        pass
    return process_time() - start


CASES = (first_pods,)
