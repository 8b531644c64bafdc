"""The main job of the embedded clusters' suite, case by case the same, and what only real planes can show."""

import json
import os
from collections import Counter
from itertools import pairwise

import pytest

from localfleet.controlplane.audit import AuditEvent
from localfleet.controlplane.plane import ControlPlane
from shared.model.names import CLUSTERS, STAY
from tests.charts.rendering import Helm
from tests.controlplane.fixtures import ControlPlanes
from tests.real.audit import BINDING, CREATED, TIMED_OUT, ours
from tests.real.census import Census, Seen
from tests.real.fleet import RealFleet, start
from tests.real.processes import Tree
from tests.saying import Say
from tests.system.cluster_api import deployment, eventually
from tests.system.harness import HOME, System
from tests.system.test_main_job import (
    DEPLOYMENTS,
    WEB,
    submit,
    test_a_deployment_of_one_cluster_runs_in_all_and_counts_as_ready_at_home,
    test_a_job_completes_with_pods_in_several_clusters,
    test_deleting_a_delegate_where_it_runs_makes_the_controller_replace_its_source,
    test_deleting_a_remote_pod_ends_its_delegate_and_its_controller_makes_another,
)

CPUS = 8  # of each node
THEIRS, OURS = 600, 190  # pods of one CPU, on 100 nodes of eight
__all__ = [
    "test_a_deployment_of_one_cluster_runs_in_all_and_counts_as_ready_at_home",
    "test_a_job_completes_with_pods_in_several_clusters",
    "test_deleting_a_delegate_where_it_runs_makes_the_controller_replace_its_source",
    "test_deleting_a_remote_pod_ends_its_delegate_and_its_controller_makes_another",
]


@pytest.fixture(scope="module")
def fleet(control_plane: ControlPlanes, helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> RealFleet:
    """In HOME a kube-scheduler runs beside us all the time."""
    return start(control_plane, helm, tmp_path_factory.mktemp("fleet"), lambda name: {"scheduler": name == HOME})


def test_a_change_of_a_remote_pod_is_made_where_it_runs(system: System, fleet: RealFleet) -> None:
    submit(system, "still", 1, **{CLUSTERS: "west"})
    kubectl = fleet.home.kubectl
    kubectl("rollout", "status", "deployment/still", "--timeout=180s")
    (pod,) = kubectl("get", "pods", "-l", "app=still", "-o", "name").split()
    change = {"activeDeadlineSeconds": 6000, "containers": [{"name": "main", "image": "example.invalid/app:2"}]}
    kubectl("patch", pod, "-p", json.dumps({"spec": change}))

    def there() -> tuple[int | None, str]:
        (spec,) = (one["spec"] for one in system.apis["west"].pods() if one["metadata"]["name"].startswith("still-"))
        return spec.get("activeDeadlineSeconds"), spec["containers"][0]["image"]

    eventually(lambda: there() == (6000, "example.invalid/app:2"), 60, lambda: system.log)
    kubectl("label", pod, "tier=one")
    kubectl("delete", "deployment", "still")


def test_kubectl_shows_remote_pods_where_they_were_submitted(system: System, fleet: RealFleet) -> None:
    kubectl = fleet.home.kubectl
    submit(system, "shop", 9, **{WEB: "cluster=1"})
    kubectl("rollout", "status", "deployment/shop", "--timeout=180s")
    assert "9/9" in kubectl("get", "deployment", "shop")
    pods = kubectl("get", "pods", "-o", "wide")
    assert pods.count("Running") == 9
    for away in ("north", "west"):
        assert pods.count(f"global-dispatcher-{away}") == 3
        assert fleet.planes[away].kubectl("get", "pods").count("Running") == 3
    assert kubectl("wait", "pods", "-l", "app=shop", "--for=condition=Ready", "--timeout=60s").count("met") == 9
    kubectl("scale", "deployment", "shop", "--replicas=0")
    eventually(lambda: not any(api.pods() for api in system.apis.values()), 60, lambda: system.log)
    kubectl("delete", "deployment", "shop")


def test_beside_a_kube_scheduler_on_the_same_nodes_nothing_is_over_committed_by_us(
    system: System, fleet: RealFleet, say: Say
) -> None:
    """Both at once fill HOME to 790 of its 800 CPUs: our pods that must stay there want what the others leave."""
    mark = fleet.home.audit.mark()
    apps = {
        "theirs": deployment("theirs", THEIRS, requests={"cpu": "1"}),
        "stay": deployment("stay", OURS, requests={"cpu": "1"}, annotations={STAY: "true"}),
        "away": deployment("away", 60, requests={"cpu": "1"}, annotations={CLUSTERS: "north,west"}),
    }
    del apps["theirs"]["spec"]["template"]["metadata"]["annotations"]
    want = {name: body["spec"]["replicas"] for name, body in apps.items()}
    for body in apps.values():
        assert system.home.create(DEPLOYMENTS, body).status_code == 201

    def ready() -> dict[str, int]:
        found = system.home.get(DEPLOYMENTS)["items"]
        return {one["metadata"]["name"]: one["status"].get("readyReplicas", 0) for one in found}

    eventually(lambda: ready() == want, 180, lambda: f"{ready()}\n{system.log}")
    census = Census(fleet.planes.values())
    assert not census.astray()
    binds = order_of_binds(fleet.home, census, mark)
    assert Counter(pod.ours for pod in binds) == {True: OURS, False: THEIRS}
    say(f"the two took turns {turns(binds)} times")
    assert turns(binds) > 1
    assert not over_committed(binds)
    for name in apps:
        system.home.delete(f"{DEPLOYMENTS}/{name}", propagationPolicy="Background")
    eventually(lambda: not any(api.pods() for api in system.apis.values()), 90, lambda: system.log)


def order_of_binds(plane: ControlPlane, census: Census, since: int) -> list[Seen]:
    """The pods that run on a plane's own nodes, in the order in which they were bound, whoever did it."""
    pods = {pod.name: pod for pod in census.pods if pod.plane == plane.name and pod.runs_here}
    asked = [e for e in plane.audit.events(since) if e.action == BINDING and e.code in {CREATED, TIMED_OUT}]
    # A busy server may do what its asker no longer waits for: then that answer alone stands in the log.
    first: dict[str, AuditEvent] = {}
    for event in sorted(asked, key=lambda e: (e.code == TIMED_OUT, stamp(e))):
        first.setdefault(event.object_ref.name, event)
    return [pods[e.object_ref.name] for e in sorted(first.values(), key=stamp) if e.object_ref.name in pods]


def stamp(event: AuditEvent) -> str:
    return event.stage_timestamp


def over_committed(binds: list[Seen]) -> list[str]:
    """Binds of ours after which a node holds more pods of one CPU than it has CPUs."""
    held: Counter[str] = Counter()
    wrong = []
    for pod in binds:
        held[pod.node] += 1
        if pod.ours and held[pod.node] > CPUS:
            wrong.append(f"{pod.name} is number {held[pod.node]} on {pod.node}")
    return wrong


def turns(binds: list[Seen]) -> int:
    """How often the two schedulers took turns: none would mean that they did not work at the same time."""
    return sum(before.ours != after.ours for before, after in pairwise(binds))


def test_agents_run_at_the_priority_of_what_they_look_after(system: System) -> None:
    agents = Tree(system.dispatcher.pid).named("ray::AgentActor")
    ours = os.getpriority(os.PRIO_PROCESS, system.dispatcher.pid)
    assert [os.getpriority(os.PRIO_PROCESS, pid) for pid in agents] == [ours] * 3


@pytest.mark.usefixtures("system")
def test_all_of_that_was_done_with_the_rights_of_the_roles(fleet: RealFleet) -> None:
    for plane in fleet.planes.values():
        done = ours(plane)
        assert not [event for event in done if event.denied or event.code == 403]
        assert {("create", "", "pods/binding"), ("patch", "", "nodes/status")} <= {event.action for event in done}
        assert {event.action for event in done if event.object_ref.resource} <= fleet.allowed
