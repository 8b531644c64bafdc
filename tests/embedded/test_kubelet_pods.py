"""What fake kubelets do with the pods of their nodes."""

from itertools import pairwise

import pytest

from localfleet.embedded.apiserver.deletion import Options
from localfleet.embedded.kubelet.shapes import Shape, node_objects
from localfleet.embedded.meta import is_ready
from tests.embedded.simulated import Object, SimulatedCluster, container, pod


def state_of(obj: Object) -> Object:
    entry: Object = obj["status"]["containerStatuses"][0]
    return entry


def test_a_pod_on_a_node_of_others_is_left_alone() -> None:
    cluster = SimulatedCluster(scheduled=False)
    cluster.api.create("nodes", {"metadata": {"name": "global-dispatcher-b"}})
    cluster.bind(cluster.api.create("pods", pod(), "default"), "global-dispatcher-b")
    cluster.advance(5)
    assert cluster.pod("p")["status"]["phase"] == "Pending"


@pytest.mark.parametrize(
    ("policy", "exit_code", "phase", "restarted"),
    [
        ("Never", "0", "Succeeded", False),
        ("Never", "3", "Failed", False),
        ("OnFailure", "0", "Succeeded", False),
        ("OnFailure", "3", "Running", True),
        ("Always", "0", "Running", True),
    ],
)
def test_a_container_that_ends_follows_the_restart_policy(
    policy: str, exit_code: str, phase: str, restarted: bool
) -> None:
    cluster = SimulatedCluster()
    cluster.api.create("pods", pod(policy=policy, run_seconds="2", exit_code=exit_code), "default")
    cluster.advance(3.5)
    ended = cluster.pod("p")
    assert ended["status"]["phase"] == phase
    assert (state_of(ended)["restartCount"] > 0) is restarted
    if not restarted:
        assert state_of(ended)["state"]["terminated"]["exitCode"] == int(exit_code)


def test_a_container_that_keeps_failing_is_restarted_ever_later() -> None:
    cluster = SimulatedCluster()
    cluster.api.create("pods", pod(run_seconds="1", exit_code="1"), "default")
    restarts = []
    for _ in range(8):
        cluster.advance(10)
        restarts.append(state_of(cluster.pod("p"))["restartCount"])
    gains = [after - before for before, after in pairwise(restarts)]
    assert restarts[-1] >= 3
    assert sum(gains[:4]) > sum(gains[4:])
    assert state_of(cluster.pod("p"))["lastState"]["terminated"]["exitCode"] == 1


def test_a_deleted_pod_ends_after_its_stop_time_and_is_gone() -> None:
    cluster = SimulatedCluster()
    cluster.api.create("pods", pod(stop_seconds="3"), "default")
    cluster.advance(1)
    cluster.api.delete("pods", "p", "default")
    cluster.advance(2)
    assert cluster.pod("p")["metadata"]["deletionTimestamp"]
    cluster.advance(2)
    assert cluster.pods() == []


def test_the_grace_period_bounds_the_stop_time() -> None:
    cluster = SimulatedCluster()
    cluster.api.create("pods", pod(stop_seconds="500"), "default")
    cluster.advance(1)
    cluster.api.delete("pods", "p", "default", Options(grace_seconds=2))
    cluster.advance(3)
    assert cluster.pods() == []


def test_a_shorter_second_grace_period_bounds_the_stop_time() -> None:
    cluster = SimulatedCluster()
    cluster.api.create("pods", pod(stop_seconds="500"), "default")
    cluster.advance(1)
    for grace in (300, 2):
        cluster.api.delete("pods", "p", "default", Options(grace_seconds=grace))
        cluster.advance(1)
    cluster.advance(2)
    assert cluster.pods() == []


def test_a_finalizer_keeps_an_ended_pod_and_its_release_lets_it_go() -> None:
    cluster = SimulatedCluster()
    held = pod()
    held["metadata"]["finalizers"] = ["example.com/hold"]
    cluster.api.create("pods", held, "default")
    cluster.advance(1)
    cluster.api.delete("pods", "p", "default")
    cluster.advance(2)
    assert cluster.pod("p")["status"]["phase"] == "Failed"
    cluster.api.patch("pods", "p", "default", {"metadata": {"finalizers": None}}, kind="merge")
    assert cluster.pods() == []


def test_an_over_committed_node_rejects_in_the_kubelets_words() -> None:
    cluster = SimulatedCluster(1, cpu="4")
    cluster.api.create("pods", pod("first", cpu="3500m"), "default")
    cluster.advance(1)
    cluster.api.create("pods", pod("second", cpu="1"), "default")
    cluster.advance(1)
    refused = cluster.pod("second")["status"]
    assert (refused["phase"], refused["reason"]) == ("Failed", "OutOfcpu")
    assert refused["message"] == (
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 1000, used: 3500, capacity: 4000"
    )


def test_an_ended_pod_gives_its_room_back() -> None:
    cluster = SimulatedCluster(1, cpu="4")
    cluster.api.create("pods", pod("first", cpu="4", policy="Never", run_seconds="1"), "default")
    cluster.advance(3)
    cluster.api.create("pods", pod("second", cpu="4"), "default")
    cluster.advance(1)
    assert cluster.pod("second")["status"]["phase"] == "Running"


def test_a_full_node_rejects_by_number_of_pods() -> None:
    cluster = SimulatedCluster(0, scheduled=False)
    (node,) = node_objects("a", [Shape(pods="1", name="tiny")], "local", ["a"])
    cluster.api.create("nodes", node)
    for name in ("first", "second"):
        cluster.bind(cluster.api.create("pods", pod(name), "default"), "tiny")
        cluster.advance(1)
    assert cluster.pod("second")["status"]["reason"] == "OutOfpods"


def test_restarted_kubelets_go_on_with_what_runs() -> None:
    cluster = SimulatedCluster()
    cluster.api.create("pods", pod(policy="Never", run_seconds="10"), "default")
    cluster.advance(4)
    before = cluster.pod("p")
    cluster.restart_kubelets()
    cluster.advance(4)
    after = cluster.pod("p")
    assert after["status"] == before["status"]
    cluster.advance(4)
    assert cluster.pod("p")["status"]["phase"] == "Succeeded"


def test_restarted_kubelets_hand_out_no_address_twice() -> None:
    cluster = SimulatedCluster()
    cluster.api.create("pods", pod("first"), "default")
    cluster.advance(1)
    cluster.restart_kubelets()
    cluster.api.create("pods", pod("second"), "default")
    cluster.advance(1)
    assert cluster.pod("first")["status"]["podIP"] != cluster.pod("second")["status"]["podIP"]


def test_the_load_of_a_running_pod_follows_its_annotations() -> None:
    cluster = SimulatedCluster(1)
    cluster.api.create("pods", pod(), "default")
    cluster.advance(1)
    node = cluster.kubelets.nodes["a-node-000"]
    (before,) = node.load.rates(cluster.clock.now)[1].values()
    notes = {"metadata": {"annotations": {"embedded.global-dispatcher.io/cpu": "2"}}}
    cluster.api.patch("pods", "p", "default", notes, kind="merge")
    cluster.settle()
    (after,) = node.load.rates(cluster.clock.now)[1].values()
    assert before.cpu < 0.1
    assert after.cpu > 1.7


def test_an_unreadable_annotation_is_named_in_an_event_and_left_at_its_default() -> None:
    cluster = SimulatedCluster()
    cluster.api.create("pods", pod(run_seconds="soon"), "default")
    cluster.advance(2)
    assert cluster.pod("p")["status"]["phase"] == "Running"
    messages = [event["message"] for event in cluster.api.list("events") if event["reason"] == "InvalidSimulation"]
    assert len(messages) == 1
    assert "embedded.global-dispatcher.io/run-seconds" in messages[0]
    assert "'soon' is not a number of seconds" in messages[0]


def test_init_containers_are_done_before_the_pod_is_ready() -> None:
    cluster = SimulatedCluster()
    body = pod(start_seconds="2")
    body["spec"]["initContainers"] = [{**container(), "name": "setup"}]
    cluster.api.create("pods", body, "default")
    cluster.advance(1)
    waiting = cluster.pod("p")
    assert not is_ready(waiting)
    assert state_of(waiting)["state"]["waiting"]["reason"] == "ContainerCreating"
    cluster.advance(2)
    (done,) = cluster.pod("p")["status"]["initContainerStatuses"]
    assert done["state"]["terminated"]["reason"] == "Completed"


def test_a_node_whose_kubelet_is_down_neither_starts_nor_stops_pods_until_it_is_back() -> None:
    cluster = SimulatedCluster(1)
    down = {"metadata": {"annotations": {"embedded.global-dispatcher.io/kubelet": "down"}}}
    up = {"metadata": {"annotations": {"embedded.global-dispatcher.io/kubelet": None}}}
    cluster.api.patch("nodes", "a-node-000", "", down, kind="merge")
    cluster.settle()
    cluster.api.create("pods", pod(), "default")
    cluster.advance(5)
    assert cluster.pod("p")["status"]["phase"] == "Pending"
    cluster.api.patch("nodes", "a-node-000", "", up, kind="merge")
    cluster.advance(1)
    assert cluster.pod("p")["status"]["phase"] == "Running"


def test_a_debug_container_runs_as_soon_as_it_is_added() -> None:
    cluster = SimulatedCluster()
    cluster.api.create("pods", pod(), "default")
    cluster.advance(5)
    added = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "b"}]}}
    cluster.api.patch("pods", "p", "default", added, kind="strategic", subresource="ephemeralcontainers")
    cluster.advance(1)
    (told,) = cluster.pod("p")["status"]["ephemeralContainerStatuses"]
    assert (told["name"], "running" in told["state"]) == ("debug", True)
    assert "running" in state_of(cluster.pod("p"))["state"]
