"""The real side: a kube-scheduler on a control plane of its own, given cases and asked pod by pod.

What a case holds beside its nodes and pending pods is created before kube-scheduler starts, so that it knows it all;
nodes come and go between cases, and each coming is waited for in its log. No controller manager runs: nodes stay as
they are made, pods stay where they are bound.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from agents.controlplane.api import Api
from agents.controlplane.plane import ControlPlane, control_plane
from tests.parity.case import Case, Object, Verdict, key_of
from tests.parity.creatable import creatable, status_of
from tests.parity.kinds import KINDS
from tests.parity.log import SchedulerLog
from tests.parity.profile import CONFIGURATION, PREEMPTING, WEIGHTS

_IN_FLIGHT = 8
# Nodes are taken as they are written, pods without ServiceAccounts and with any overhead.
_API_FLAGS = (
    "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,RuntimeClass,DefaultStorageClass,"
    "StorageObjectInUseProtection,PersistentVolumeClaimResize",
)
_SCHEDULER_FLAGS = (
    "--vmodule=schedule_one=10,eventhandlers=3",
    # Its batches take over a former pod's node without scoring the others: nothing to compare.
    # Victims are deleted before the refusal is told.
    "--feature-gates=OpportunisticBatching=false,SchedulerAsyncPreemption=false",
)
# Laid over each profile: nobody binds volumes here, and every node is a candidate for preemption, none left to chance.
_ARGUMENTS = [
    {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 0}},
    {"name": "DefaultPreemption", "args": {"minCandidateNodesPercentage": 100, "minCandidateNodesAbsolute": 1000}},
]


@dataclass
class Played:
    """A case as the API server made it, and the verdict on each pending pod, in order."""

    case: Case
    verdicts: list[tuple[Object, Verdict]] = field(default_factory=list)


class KubeScheduler:
    """Made by `kube_scheduler`. `refused`: kind -> objects that the API server did not take."""

    def __init__(self, plane: ControlPlane) -> None:
        self._api: Api = plane.admin
        self._plane = plane
        self._created: dict[str, Case] = {}
        self._shared: dict[tuple[str, str], Object | None] = {}
        self._log = SchedulerLog(plane.directory / "kube-scheduler.log")
        self.refused: Counter[str] = Counter()
        self.refusals: list[str] = []

    def prepare(self, cases: Sequence[Case]) -> None:
        """Create what stands before kube-scheduler starts, then start it."""
        for case in cases:
            objects = [found for obj in case.objects if (found := self._create_shared(obj)) is not None]
            self._created[case.name] = Case(case.name, objects)
        with ThreadPoolExecutor(_IN_FLIGHT) as pool:
            for case, made in zip(cases, pool.map(lambda case: [*map(self._create, case.bound)], cases), strict=True):
                self._created[case.name].bound = [pod for pod in made if pod is not None]
        self._plane.begin("kube-scheduler")

    def play(self, case: Case) -> Played:
        """Give the case's nodes, then its pending pods one after the other; each stays where it is bound."""
        made = self._created[case.name]
        made.nodes = [found for node in case.nodes if (found := self._create(node)) is not None]
        names = {node["metadata"]["name"] for node in made.nodes}
        played = Played(made)
        try:
            self._log.follow(lambda: names <= self._log.nodes, f"nodes {sorted(names)} came")
            for pod in case.pending:
                found = self._create(pod)
                if found is not None:
                    made.pending.append(found)
                    played.verdicts.append((found, self._verdict(found, made)))
        finally:
            for name in names:
                self._api.delete(f"/api/v1/nodes/{name}")
            self._log.follow(lambda: not names & self._log.nodes, f"nodes {sorted(names)} went")
        return played

    def _verdict(self, pod: Object, case: Case) -> Verdict:
        key = key_of(pod)
        if pod["spec"].get("schedulingGates"):
            verdict = Verdict(key, message=_gated(pod))
        else:
            self._log.follow(lambda: key in self._log.verdicts, f"an answer about pod {key}")
            verdict = _unweighted(self._log.verdicts.pop(key), WEIGHTS[pod["spec"]["schedulerName"]])
        if pod["spec"]["schedulerName"] == PREEMPTING and not verdict.node:
            verdict.victims = self._victims(case)
        if not verdict.node:
            # Out of the way, so that it is not tried again among later pods.
            self._delete(pod, 0)
        return verdict

    def _victims(self, case: Case) -> frozenset[str]:
        """Pods that are terminating and were not before."""
        before = {key_of(pod) for pod in case.bound if "deletionTimestamp" in pod["metadata"]}
        spaces = [obj["metadata"]["name"] for obj in case.objects if obj["kind"] == "Namespace"]
        pods = [pod for space in spaces for pod in self._api.get(KINDS["Pod"].path.format(space))["items"]]
        return frozenset(key_of(pod) for pod in pods if "deletionTimestamp" in pod["metadata"]) - before

    # --- creating ----------------------------------------------------------------------------------------------------

    def _create_shared(self, obj: Object) -> Object | None:
        """Objects of cases may have the same name if they are the same."""
        name = (obj["kind"], key_of(obj))
        if name not in self._shared:
            self._shared[name] = self._create(self._linked(obj))
        return self._shared[name]

    def _linked(self, obj: Object) -> Object:
        """A volume that names its claim is given the claim's uid."""
        reference = obj["spec"].get("claimRef") if obj["kind"] == "PersistentVolume" else None
        if not reference:
            return obj
        claim = self._shared.get(("PersistentVolumeClaim", f"{reference['namespace']}/{reference['name']}"))
        uid = claim["metadata"]["uid"] if claim else reference.get("uid", "")
        return {**obj, "spec": {**obj["spec"], "claimRef": {**reference, "uid": uid}}}

    def _create(self, obj: Object) -> Object | None:
        """As the API server made it, with the status and the deletion that the manifest has; None if refused."""
        path = KINDS[obj["kind"]].path.format(obj["metadata"].get("namespace", "default"))
        try:
            made = self._api.create(path, creatable(obj))
            status = status_of(obj)
            if status:
                made = self._api.patch(f"{path}/{made['metadata']['name']}/status", {"status": status})
            if "deletionTimestamp" in obj["metadata"]:
                made = self._delete(made, 3600)
        except httpx.HTTPStatusError as error:
            if error.response.status_code == 409 and obj["kind"] in {"Namespace", "PriorityClass"}:
                # One that every API server has.
                return self._api.patch(f"{path}/{obj['metadata']['name']}", {"metadata": creatable(obj)["metadata"]})
            if error.response.status_code not in {400, 403, 409, 422}:
                raise
            self.refused[obj["kind"]] += 1
            self.refusals.append(str(error))
            return None
        return made | {"kind": obj["kind"], "apiVersion": obj["apiVersion"]}

    def _delete(self, pod: Object, grace_s: int) -> Object:
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        answer = self._api.http.request("DELETE", path, params={"gracePeriodSeconds": str(grace_s)})
        answer.raise_for_status()
        gone: Object = answer.json()
        return gone


def _unweighted(verdict: Verdict, weights: dict[str, int]) -> Verdict:
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
def kube_scheduler(cases: Sequence[Case], directory: Path | None = None, **more: Any) -> Iterator[KubeScheduler]:
    """A kube-scheduler that knows the cases. Its processes end with the block."""
    options: dict[str, Any] = {
        "scheduler": True,
        "scheduler_config": _configuration(),
        "api_flags": _API_FLAGS,
        "scheduler_flags": _SCHEDULER_FLAGS,
    }
    with control_plane("parity", **options, **more) as plane:
        plane.kill("kube-controller-manager")
        plane.kill("kube-scheduler")
        scheduler = KubeScheduler(plane)
        scheduler.prepare(cases)
        yield scheduler
