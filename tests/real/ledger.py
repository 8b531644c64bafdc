"""Which pods were seen to run, and which of them may be gone for a reason that is no fault."""

import random

import httpx

from shared.model.names import PROXY_NODE_PREFIX
from tests.real.census import Census, Seen
from tests.real.fleet import RealFleet
from tests.system.cluster_api import eventually
from tests.system.harness import HOME, System

PODS = "/api/v1/namespaces/default/pods"
REPLICASETS = "system:serviceaccount:kube-system:replicaset-controller"


class Ledger:
    """Told what the user and a restored etcd did, it knows which pods must run to the end.

    A pod may go when its user deletes it, or when its cluster, or its source's, went back to a time at which it was not
    yet there or did not run; and a ReplicaSet may delete as many as came back from the dead. All others stay.
    """

    def __init__(self, system: System, fleet: RealFleet, seed: int) -> None:
        self._system, self._fleet = system, fleet
        self._random = random.Random(seed)
        self._ran: dict[str, Seen] = {}
        self._names: dict[str, str] = {}
        self._sources: set[str] = set()
        self._excused: set[str] = set()
        self.taken: set[str] = (
            set()
        )  # UIDs of sources that a restore took: their delegates run on for a while, by design
        self._resurrected = 0

    def look(self) -> Census:
        """Remember what runs now."""
        census: Census = eventually(lambda: Census(self._fleet.planes.values()), 30)
        self._ran |= {pod.uid: pod for pod in census.pods if pod.runs_here and pod.ours}
        self._names |= {pod.name: uid for uid, pod in census.sources.items()}
        self._sources = set(census.sources)
        return census

    def delete_some(self, count: int) -> None:
        """As a user: delete running pods of HOME, wherever they run."""
        sources = self.look().sources
        running = sorted(uid for uid, pod in sources.items() if pod.phase == "Running" and not pod.ending)
        for uid in self._random.sample(running, min(count, len(running))):
            self._excused.add(uid)
            try:
                self._system.home.delete(f"{PODS}/{sources[uid].name}")
            except httpx.HTTPError:
                continue  # then it goes on, or not: both are right

    def restored(self, plane: str) -> None:
        """A plane has gone back in time."""
        known, census = self._sources, Census(self._fleet.planes.values())
        there = {pod.uid for pod in census.pods if pod.plane == plane}
        delegates = {pod.source for pod in census.delegates if pod.plane == plane}
        self._excused |= {
            pod.source or uid for uid, pod in self._ran.items() if pod.plane == plane and uid not in there
        }
        self._excused |= {
            pod.source or pod.uid
            for pod in census.pods
            if pod.plane == plane and (pod.phase != "Running" or pod.ending)
        }
        # Sources that are gone at HOME now; or were before, and their delegates are back from the dead.
        self.taken |= {pod.source for pod in census.delegates} - census.sources.keys()
        if plane == HOME:
            self._excused |= self.taken
            self._resurrected += len(census.sources.keys() - known)
        else:
            bound = {uid for uid, pod in census.sources.items() if pod.node == f"{PROXY_NODE_PREFIX}{plane}"}
            self._excused |= bound - delegates

    def lost(self) -> list[str]:
        """Pods that ran, run no more, and had no reason to end."""
        runs = {pod.uid for pod in self.look().pods if pod.runs_here}
        surplus = {
            self._names.get(event.object_ref.name, "")
            for event in self._fleet.home.audit.events()
            if event.user.username == REPLICASETS and event.action == ("delete", "", "pods") and event.code == 200
        } - self._excused
        excused = self._excused | (surplus if len(surplus) <= self._resurrected else set())
        return [
            f"{pod.plane}/{pod.name} ({uid}) on {pod.node}"
            for uid, pod in self._ran.items()
            if uid not in runs and (pod.source or uid) not in excused
        ]
