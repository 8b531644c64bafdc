"""Deployments and ReplicaSets: rollouts, scaling, replacement."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from localfleet.embedded.apiserver.deletion import Options
from localfleet.embedded.controllers import deployment as decide
from localfleet.embedded.controllers.deployment import Family
from localfleet.embedded.meta import condition
from tests.embedded.simulated import Object, SimulatedCluster, deployment, template

DEPLOYMENTS, REPLICASETS = "deployments.apps", "replicasets.apps"


def status(cluster: SimulatedCluster) -> Object:
    found: Object = cluster.api.get(DEPLOYMENTS, "web", "default")["status"]
    return found


def change_image(cluster: SimulatedCluster, image: str = "app:2") -> None:
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}
    cluster.api.patch(DEPLOYMENTS, "web", "default", patch, kind="strategic")


def images(cluster: SimulatedCluster) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in cluster.pods()}


def test_a_rolling_update_never_has_fewer_available_nor_more_pods_than_allowed() -> None:
    cluster = SimulatedCluster()
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    cluster.api.create(DEPLOYMENTS, deployment(4, strategy=rolling), "default")
    cluster.advance(2)
    change_image(cluster)
    for _ in range(40):
        cluster.advance(0.1, step=0.1)
        living = [pod for pod in cluster.pods() if not pod["metadata"].get("deletionTimestamp")]
        ready = [pod for pod in living if condition(pod, "Ready")["status"] == "True"]
        assert len(living) <= 5
        assert len(ready) >= 3
    assert images(cluster) == {"app:2"}
    assert status(cluster)["updatedReplicas"] == 4


def test_recreate_stops_all_old_pods_before_it_starts_a_new_one() -> None:
    cluster = SimulatedCluster()
    cluster.api.create(DEPLOYMENTS, deployment(3, strategy={"type": "Recreate"}), "default")
    cluster.advance(2)
    change_image(cluster)
    cluster.settle()
    for _ in range(20):
        cluster.advance(0.1, step=0.1)
        active = {
            pod["spec"]["containers"][0]["image"]
            for pod in cluster.pods()
            if not pod["metadata"].get("deletionTimestamp")
        }
        assert len(active) <= 1
    assert images(cluster) == {"app:2"}
    assert status(cluster)["availableReplicas"] == 3


def test_old_replicasets_beyond_the_history_limit_are_removed() -> None:
    cluster = SimulatedCluster()
    cluster.api.create(DEPLOYMENTS, deployment(1, revisionHistoryLimit=1), "default")
    for number in range(2, 6):
        change_image(cluster, f"app:{number}")
        cluster.advance(3)
    assert len(cluster.api.list(REPLICASETS)) == 2


def test_a_rollout_that_does_not_get_on_says_so_after_its_deadline() -> None:
    cluster = SimulatedCluster(scheduled=False)
    cluster.api.create(DEPLOYMENTS, deployment(1, progressDeadlineSeconds=20), "default")
    cluster.advance(40, step=5)
    assert condition({"status": status(cluster)}, "Progressing")["reason"] == "ProgressDeadlineExceeded"


def test_a_pod_that_cannot_be_made_is_reported_and_tried_again() -> None:
    cluster = SimulatedCluster()
    body = template()
    body["spec"]["priorityClassName"] = "later"
    cluster.api.create(DEPLOYMENTS, deployment(1, template=body), "default")
    cluster.advance(1)
    failure = condition({"status": status(cluster)}, "ReplicaFailure")
    assert "no PriorityClass with name later was found" in failure["message"]
    cluster.api.create("priorityclasses.scheduling.k8s.io", {"metadata": {"name": "later"}, "value": 5})
    cluster.advance(10)
    assert cluster.phases() == ["Running"]


def test_pods_that_fail_at_once_do_not_pile_up() -> None:
    cluster = SimulatedCluster(1, cpu="1")
    body = template()
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    cluster.api.create(DEPLOYMENTS, deployment(1, template=body), "default")
    cluster.advance(60)
    assert len(cluster.pods()) <= 8
    assert {pod["status"]["reason"] for pod in cluster.pods() if pod["status"]["phase"] == "Failed"} == {"OutOfcpu"}


def test_scaling_down_takes_pods_that_do_not_run_first() -> None:
    cluster = SimulatedCluster(scheduled=False)
    cluster.api.create(DEPLOYMENTS, deployment(3), "default")
    cluster.settle()
    lucky = cluster.pods()[1]
    cluster.bind(lucky, "a-node-000")
    cluster.advance(1)
    cluster.api.patch(DEPLOYMENTS, "web", "default", {"spec": {"replicas": 1}}, kind="merge")
    cluster.advance(1)
    assert [pod["metadata"]["name"] for pod in cluster.pods()] == [lucky["metadata"]["name"]]


def test_replicasets_left_behind_by_an_orphaning_delete_are_taken_up_again() -> None:
    cluster = SimulatedCluster()
    cluster.api.create(DEPLOYMENTS, deployment(2), "default")
    cluster.advance(2)
    before = {pod["metadata"]["uid"] for pod in cluster.pods()}
    cluster.api.delete(DEPLOYMENTS, "web", "default", Options(propagation="Orphan"))
    cluster.settle()
    assert cluster.api.list(DEPLOYMENTS) == []
    cluster.api.create(DEPLOYMENTS, deployment(2), "default")
    cluster.advance(2)
    assert {pod["metadata"]["uid"] for pod in cluster.pods()} == before
    assert status(cluster)["availableReplicas"] == 2


def replicaset(name: str, image: str, size: int, available: int) -> Object:
    meta = {"name": name, "creationTimestamp": None, "uid": name}
    counts = {"replicas": size, "availableReplicas": available}
    return {"metadata": meta, "spec": {"replicas": size, "template": template(image)}, "status": counts}


@st.composite
def rollouts(draw: st.DrawFn) -> tuple[Object, list[Object]]:
    replicas = draw(st.integers(0, 12))
    bound = st.one_of(st.integers(0, 12), st.integers(0, 100).map(lambda percent: f"{percent}%"))
    rolling: dict[str, Any] = {"maxSurge": draw(bound), "maxUnavailable": draw(bound)}
    whole = deployment(replicas, strategy={"type": "RollingUpdate", "rollingUpdate": rolling})
    sizes = draw(st.lists(st.integers(0, 8), min_size=1, max_size=4))
    sets = []
    for number, size in enumerate(sizes):
        available = draw(st.integers(0, size))
        sets.append(replicaset(str(number), f"app:{len(sizes) - number}", size, available))
    return whole, sets


@given(rollouts())
@settings(max_examples=300)
def test_a_rollout_step_grows_only_within_the_surge_and_shrinks_only_what_can_be_spared(
    rollout: tuple[Object, list[Object]],
) -> None:
    whole, sets = rollout
    of = decide.family(whole, sets)
    assert of.new is not None
    limits, steps = decide.bounds(whole), decide.sizes(whole, of)
    before = {one["metadata"]["name"]: one["spec"]["replicas"] for one in sets}
    available = {one["metadata"]["name"]: one["status"]["availableReplicas"] for one in sets}
    after = {**before, **steps}
    new = of.new["metadata"]["name"]
    if after[new] > before[new]:
        assert sum(before.values()) - before[new] + after[new] <= limits.most
    assert after[new] <= max(before[new], decide.replicas_of(whole))
    assert all(after[name] <= before[name] for name in before if name != new)
    surely = sum(max(0, available[name] - (before[name] - after[name])) for name in before if name != new)
    kept_available = surely + min(available[new], after[new])
    shrunk_old = any(after[name] < before[name] and available[name] == before[name] for name in before if name != new)
    if shrunk_old and after[new] >= before[new]:
        assert kept_available >= min(limits.least, sum(available.values())) - _not_available(before, available)


def _not_available(before: dict[str, int], available: dict[str, int]) -> int:
    # A ReplicaSet deletes its sick pods first, so this many fewer healthy ones may go.
    return sum(before[name] - available[name] for name in before)


@given(rollouts())
@settings(max_examples=200)
def test_a_rollout_ends_with_exactly_the_wanted_pods_when_pods_become_available(
    rollout: tuple[Object, list[Object]],
) -> None:
    whole, sets = rollout
    for _ in range(60):
        steps = decide.sizes(whole, decide.family(whole, sets))
        sets = [_grown(one, steps) for one in sets]
    sizes = {one["metadata"]["name"]: one["spec"]["replicas"] for one in sets}
    new = decide.family(whole, sets).new
    assert new is not None
    assert sizes[new["metadata"]["name"]] == decide.replicas_of(whole)
    assert sum(sizes.values()) == decide.replicas_of(whole)


def _grown(one: Object, steps: dict[str, int]) -> Object:
    size = steps.get(one["metadata"]["name"], one["spec"]["replicas"])
    spec = {**one["spec"], "replicas": size}
    return {**one, "spec": spec, "status": {"replicas": size, "availableReplicas": size}}


def test_the_template_hash_ignores_the_hash_label_itself() -> None:
    plain, marked = template(), template()
    marked["metadata"]["labels"]["pod-template-hash"] = "abc"
    assert decide.template_hash(plain) == decide.template_hash(marked)
    assert decide.template_hash(plain) != decide.template_hash(template("app:9"))


def test_without_any_replicaset_there_is_nothing_to_size() -> None:
    assert decide.sizes(deployment(3), Family(None, ())) == {}
