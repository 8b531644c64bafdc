"""The real side: a kube-scheduler on a control plane of its own, given cases and asked pod by pod.

What a case holds beside its nodes and pending pods is created before kube-scheduler starts, so that it knows it all;
nodes come and go between cases, and each coming is waited for in its log. No controller manager runs: nodes stay as
they are made, pods stay where they are bound. What controllers must do before a pod can be bound is done here: claims
get the volumes that were chosen for them, and pods that were evicted go, so that the pod they went for is tried again.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from localfleet.controlplane.api import Api
from localfleet.controlplane.plane import ControlPlane, control_plane
from tests.parity.admission import admitted
from tests.parity.binder import Binder
from tests.parity.case import Case, Object, Verdict, key_of
from tests.parity.log import SchedulerLog
from tests.parity.profile import CONFIGURATION, PREEMPTING, WEIGHTS
from tests.parity.store import Store

_IN_FLIGHT = 8
# Nodes are taken as they are written, pods without ServiceAccounts and with any overhead.
_API_FLAGS = (
    "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,RuntimeClass,DefaultStorageClass,"
    "StorageObjectInUseProtection,PersistentVolumeClaimResize",
)
_VERBOSITY = "--vmodule=schedule_one=10,schedule_one_podgroup=10,eventhandlers=3"
_GATES = {
    # Its batches take over a former pod's node without scoring the others: nothing to compare.
    "OpportunisticBatching": False,
    # Victims are deleted before the refusal is told.
    "SchedulerAsyncPreemption": False,
}
# Laid over each profile: every node is a candidate for preemption, none left to chance.
_ARGUMENTS = [
    {"name": "DefaultPreemption", "args": {"minCandidateNodesPercentage": 100, "minCandidateNodesAbsolute": 1000}},
]
_MOST_TRIES = 8  # of a pod that evicts others each time
_DEVICES_S = 3.0
_AGAIN_S = 15.0  # for another try of a pod whose victims are gone


@dataclass
class Played:
    """A case as the API server made it, and the verdict on each pending pod, in order."""

    case: Case
    verdicts: list[tuple[Object, Verdict]] = field(default_factory=list)


class KubeScheduler:
    """Made by `kube_scheduler`. `store`: where its objects are, and what was refused."""

    def __init__(self, plane: ControlPlane) -> None:
        self._api: Api = plane.admin
        self._plane = plane
        self._created: dict[str, Case] = {}
        self._log = SchedulerLog(plane.directory / "kube-scheduler.log")
        self.store = Store(plane.admin)

    def prepare(self, cases: Sequence[Case]) -> None:
        """Create what stands before kube-scheduler starts, then start it."""
        for given in cases:
            case = admitted(given)
            objects = [found for obj in case.objects if (found := self.store.share(obj)) is not None]
            bound = self.store.create_all(case.bound)
            self._created[case.name] = Case(case.name, objects, [], bound, [])
        self._plane.begin("kube-scheduler")

    def play(self, case: Case, told: Callable[[int], None] = lambda done: None) -> Played:
        """Give the case's nodes, then its pending pods one after the other; each stays where it is bound.

        `told` hears after each pod how many are done.
        """
        made = self._created[case.name]
        made.nodes = self.store.create_all(case.nodes)
        names = {node["metadata"]["name"] for node in made.nodes}
        played = Played(made)
        try:
            self._log.follow(lambda: names <= self._log.nodes, f"nodes {sorted(names)[:5]} came")
            for done, pod in enumerate(admitted(case).pending, 1):
                going = self.store.terminating_pods() if pod["spec"].get("schedulerName") == PREEMPTING else frozenset()
                found = self.store.create(pod)
                if found is not None:
                    made.pending.append(found)
                    played.verdicts += self._verdicts(found, set(going))
                told(done)
        finally:
            with ThreadPoolExecutor(_IN_FLIGHT) as pool:
                list(pool.map(lambda name: self._api.delete(f"/api/v1/nodes/{name}"), names))
            self._log.follow(lambda: not names & self._log.nodes, f"nodes {sorted(names)[:5]} went")
        return played

    def _verdicts(self, pod: Object, gone: set[str]) -> Iterator[tuple[Object, Verdict]]:
        """The verdict on each try of a pod: it is tried again when those are gone that were evicted for it.

        `gone`: pods that were on their way out before it came.
        """
        key = key_of(pod)
        verdict = Verdict(key, message=_gated(pod)) if pod["spec"].get("schedulingGates") else self._first(pod)
        for _ in range(_MOST_TRIES):
            if pod["spec"]["schedulerName"] == PREEMPTING and not verdict.node:
                verdict.victims = self.store.terminating_pods() - gone
            yield pod, verdict
            gone |= verdict.victims
            again = self._tried_again(pod, verdict.victims) if verdict.victims else None
            if again is None:
                break
            pod, verdict = again
        if not verdict.node:
            # Out of the way, so that it is not tried again among later pods.
            self.store.delete(pod)

    def _first(self, pod: Object) -> Verdict:
        """What kube-scheduler says; of a pod whose claims of devices are not there it may say nothing at all."""
        if not pod["spec"].get("resourceClaims"):
            return self._answer(pod)
        with suppress(TimeoutError):
            return self._answer(pod, _DEVICES_S)
        return Verdict(key_of(pod), message="kube-scheduler does not say anything")

    def _answer(self, pod: Object, timeout_s: float = 180.0, without: Iterable[str] = ()) -> Verdict:
        """What kube-scheduler says of a pod once those are gone; claims get their volumes meanwhile."""
        key, binder, log = key_of(pod), Binder(self._api, pod), self._log

        found: list[Verdict] = []

        def answered() -> bool:
            taken = log.take(key, without)
            found[:] = [taken] if taken is not None else []
            if taken is None and not binder.done:
                binder.serve()
            return bool(found)

        log.follow(answered, f"an answer about pod {key}", timeout_s)
        verdict = unweighted(found[0], WEIGHTS[pod["spec"]["schedulerName"]])
        verdict.changed = binder.changed
        return verdict

    def _tried_again(self, pod: Object, victims: frozenset[str]) -> tuple[Object, Verdict] | None:
        """The pod as it is after its victims have gone, and what came of it; None if kube-scheduler does not try."""
        promised = self._promised(pod)
        for key in sorted(victims):
            namespace, name = key.split("/")
            self.store.delete({"kind": "Pod", "metadata": {"namespace": namespace, "name": name}})
        with suppress(TimeoutError):
            return promised, self._answer(promised, _AGAIN_S, victims)
        return None

    def _promised(self, pod: Object) -> Object:
        """The pod as soon as kube-scheduler has written which node it is promised."""
        found: list[Object] = []

        def written() -> bool:
            found[:] = [now] if (now := self.store.read(pod)) is not None else []
            return bool(found) and bool(found[0]["status"].get("nominatedNodeName"))

        self._log.follow(written, f"a promise to pod {key_of(pod)}")
        return found[0]


def unweighted(verdict: Verdict, weights: dict[str, int]) -> Verdict:
    if verdict.scores is not None:
        verdict.scores = {
            plugin: {node: score / weights.get(plugin, 1) for node, score in scores.items()}
            for plugin, scores in verdict.scores.items()
        }
    return verdict


def _configuration() -> Object:
    profiles = [
        {
            **profile,
            "percentageOfNodesToScore": 100,
            "pluginConfig": [*profile["pluginConfig"], *_ARGUMENTS],
        }
        for profile in CONFIGURATION["profiles"]
    ]
    return {**CONFIGURATION, "profiles": profiles}


def _gated(pod: Object) -> str:
    conditions = pod.get("status", {}).get("conditions") or []
    return next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled"), "")


@contextmanager
def kube_scheduler(cases: Sequence[Case]) -> Iterator[KubeScheduler]:
    """A kube-scheduler that knows the cases. Its processes end with the block."""
    with parity_plane() as plane:
        scheduler = KubeScheduler(plane)
        scheduler.prepare(cases)
        yield scheduler


@contextmanager
def parity_plane(gates: Sequence[str] = (), served: str = "") -> Iterator[ControlPlane]:
    """An API server, and a kube-scheduler that is not started yet. `gates`: switched on in both; `served`: an API."""
    for_api = [*_API_FLAGS]
    if gates:
        for_api.append(f"--feature-gates={','.join(f'{gate}=true' for gate in gates)}")
    if served:
        for_api.append(f"--runtime-config={served}=true")
    switched = {**_GATES, **dict.fromkeys(gates, True)}
    told = ",".join(f"{gate}={str(on).lower()}" for gate, on in switched.items())
    options: dict[str, Any] = {
        "scheduler": True,
        "scheduler_config": _configuration(),
        "api_flags": for_api,
        "scheduler_flags": (_VERBOSITY, f"--feature-gates={told}"),
    }
    with control_plane("parity", **options) as plane:
        plane.kill("kube-controller-manager")
        plane.kill("kube-scheduler")
        yield plane
