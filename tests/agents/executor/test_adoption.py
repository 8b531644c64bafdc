"""No delegate is made where a controller of the target would take it for a pod of its own."""

from typing import Any

import msgspec
import pytest

from agents.executor.objects.adoption import MOST_CLAUSES
from shared.messages import BOUND, OF_CLUSTER, REFUSED, Outcome, PodRef
from shared.model import names
from tests.agents.executor.world import World, order_for, pod_object

CONTROLLER = "/api/v1/namespaces/default/replicationcontrollers/web"
REPLICA_SET = "/apis/apps/v1/namespaces/default/replicasets/web"
DAEMON_SET = "/apis/apps/v1/namespaces/default/daemonsets/web"
WEB = {"app": "web"}


def world(path: str, selector: dict[str, Any], namespace: str = "default") -> World:
    """Cluster b, where a controller with this selector is."""
    made = World(cluster="b")
    made.api.put(path, {"metadata": {"name": "web", "namespace": namespace}, "spec": {"selector": selector}})
    made.sync()
    return made


def asked(there: World) -> Outcome:
    pod = pod_object()
    pod["metadata"]["labels"] = {**WEB, "tier": "front", "pod-template-hash": "1"}
    return there.do(order_for(PodRef("default", "web", "source-uid"), 1, "n1", msgspec.json.encode(pod)))


@pytest.mark.parametrize(
    ("path", "selector", "what"),
    [
        (CONTROLLER, WEB, "ReplicationController"),
        (REPLICA_SET, {"matchLabels": WEB}, "ReplicaSet"),
        (DAEMON_SET, {"matchLabels": WEB}, "DaemonSet"),
        (REPLICA_SET, {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, "ReplicaSet"),
    ],
)
def test_a_pod_that_a_controller_there_would_adopt_is_refused_by_that_cluster(
    path: str, selector: dict[str, Any], what: str
) -> None:
    there = world(path, selector)
    outcome = asked(there)
    assert (outcome.verdict, outcome.scope) == (REFUSED, OF_CLUSTER)
    assert outcome.message == (
        f'{what} "default/web" of cluster "b" selects the pod\'s labels (spec.selector) and would take it for its own: '
        "let a Deployment make its pods, whose hash label stays at home, or keep this pod at home with annotation "
        f'{names.STAY}: "true"'
    )
    assert not there.api.pods()


@pytest.mark.parametrize(
    ("path", "selector", "namespace"),
    [
        pytest.param(CONTROLLER, {"app": "db"}, "default", id="of other labels"),
        pytest.param(CONTROLLER.replace("default", "team"), WEB, "team", id="of another namespace"),
        pytest.param(REPLICA_SET, {"matchLabels": {**WEB, "pod-template-hash": "1"}}, "default", id="of a Deployment"),
    ],
)
def test_other_controllers_there_are_no_obstacle(path: str, selector: dict[str, Any], namespace: str) -> None:
    assert asked(world(path, selector, namespace)).verdict == BOUND


def test_a_controller_whose_selector_is_too_large_to_be_read_may_mean_any_pod() -> None:
    outcome = asked(world(REPLICA_SET, {"matchLabels": {"app": "x" * 70_000}}))
    assert (outcome.verdict, outcome.scope) == (REFUSED, OF_CLUSTER)
    assert outcome.message.startswith(
        'what ReplicaSet "default/web" of cluster "b" selects is not known: its spec.selector is too large or cannot be'
    )


def test_as_many_controllers_as_somebody_likes_to_make_cost_a_pod_no_more_than_so_many_clauses() -> None:
    there = world(REPLICA_SET, {"matchLabels": {"app": "db"}})
    clauses = [{"key": "app", "operator": "Exists"}] * 20 + [{"key": "app", "operator": "DoesNotExist"}]
    for at in range(MOST_CLAUSES // 20):
        path = f"/apis/apps/v1/namespaces/default/replicasets/db-{at}"
        metadata = {"name": f"db-{at}", "namespace": "default"}
        there.api.put(path, {"metadata": metadata, "spec": {"selector": {"matchExpressions": clauses}}})
    there.sync()
    outcome = asked(there)
    assert (outcome.verdict, outcome.scope) == (REFUSED, OF_CLUSTER)
    assert outcome.message == (
        'the ReplicaSets, ReplicationControllers and DaemonSets of namespace "default" in cluster "b" have more than '
        "2048 clauses in spec.selector, so that who would take the pod for its own is not looked for: "
        "delete those that are not used"
    )


@pytest.mark.parametrize("gone", [True, False])
@pytest.mark.parametrize(
    ("path", "selectors"),
    [(CONTROLLER, (WEB, {"a": "b"})), (DAEMON_SET, ({"matchLabels": WEB}, {"matchLabels": {"a": "b"}}))],
)
def test_a_controller_that_is_gone_or_selects_others_now_is_no_obstacle(
    path: str, selectors: tuple[Any, Any], gone: bool
) -> None:
    there = world(path, selectors[0])
    if gone:
        del there.api.objects[path]
    else:
        there.api.put(path, {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": selectors[1]}})
    there.sync()
    assert asked(there).verdict == BOUND


def test_a_delegate_that_runs_already_stays_when_such_a_controller_is_made() -> None:
    there = World(cluster="b")
    assert asked(there).verdict == BOUND
    there.api.put(CONTROLLER, {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": WEB}})
    there.sync()
    assert asked(there).verdict == BOUND
