"""More than 20 kill -9 in the middle of 3,000 pods: nothing is lost, nothing runs or is bound twice."""

import os
import random
from collections import Counter

from tests.real import audit
from tests.real.blows import Blows
from tests.real.census import Census
from tests.real.fleet import CLUSTERS, RealFleet
from tests.saying import Say
from tests.system.cluster_api import deployment, eventually
from tests.system.harness import HOME, System

PODS = 3000
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
IN_FLIGHT = 16  # requests of one agent at once: as many lines of the log are lost with an API server
SEED = "GLOBAL_DISPATCHER_TEST_SEED"


def test_every_pod_runs_once_and_is_bound_once_after_kills_of_everything(
    system: System, fleet: RealFleet, say: Say
) -> None:
    seed = int(os.environ.get(SEED) or random.SystemRandom().randrange(2**32))
    blows = Blows(system, fleet, seed)
    say(f"{len(blows.order)} kills in the order of {SEED}={seed}")
    system.home.create(DEPLOYMENTS, deployment("waves", 0, requests={"cpu": "100m", "memory": "64Mi"}))
    for at, part in enumerate(blows.order, start=1):
        replicas = {"spec": {"replicas": PODS * at // len(blows.order)}}
        eventually(lambda wave=replicas: system.home.merge(f"{DEPLOYMENTS}/waves", wave), 60)  # type: ignore[misc]
        blows.moment(2.0)
        blows.strike(part)
    say(f"killed: {', '.join(blows.told)}")
    eventually(lambda: ready(system) == PODS, 300, lambda: f"{ready(system)} are ready\n{system.log}")

    def astray() -> list[str]:
        return Census(fleet.planes.values()).astray()

    eventually(lambda: not astray(), 60, lambda: "\n".join(astray()[:20]))
    census = Census(fleet.planes.values())
    assert len(census.sources) == PODS
    judge(fleet, census, blows)


def ready(system: System) -> int:
    count: int = system.home.get(f"{DEPLOYMENTS}/waves")["status"].get("readyReplicas", 0)
    return count


def judge(fleet: RealFleet, census: Census, blows: Blows) -> None:
    """The audit logs: one bind a pod and one delegate a source, ever, and nothing beyond the rights."""
    delegates: Counter[str] = Counter()
    surplus = audit.surplus(fleet.home)
    for name, plane in fleet.planes.items():
        done = audit.ours(plane)
        binds, bound = audit.bindings(done), census.bound(name)
        assert set(binds.values()) <= {1}, [pod for pod, count in binds.items() if count > 1]
        gone = {pod for pod in binds.keys() - bound if _source_of(pod) not in surplus}
        assert not gone, "\n".join(audit.story(fleet.planes.values(), _source_of(pod)) for pod in gone)
        # Its asker died meanwhile, or etcd did; done it was. What is not in the log at all, died with the server.
        cut_off = audit.bindings(done, code=audit.TIMED_OUT).keys()
        assert len(bound - binds.keys() - cut_off) <= IN_FLIGHT * blows.hits[name]
        assert {event.action for event in done if event.object_ref.resource} <= fleet.allowed
        delegates.update(binds if name != HOME else ())
    assert set(delegates.values()) <= {1}, "a pod was delegated to two clusters"
    assert {pod.plane for pod in census.delegates} == set(CLUSTERS) - {HOME}


def _source_of(pod: str) -> str:
    """The name of a pod of the one Deployment, also where only its delegate's namespace/name is known."""
    return "-".join(pod.partition("/")[2].split("-")[:3])
