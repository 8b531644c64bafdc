"""The chart's policy that reserves the marks of agents, as a real API server judges it."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from localfleet.controlplane.plane import ControlPlane
from tests.charts.policies import wait_for_policies
from tests.charts.rendering import CHARTS, NAMESPACE, Helm, Object
from tests.controlplane.fixtures import ControlPlanes

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

PODS = "/api/v1/namespaces/default/pods"
MERGE = {"Content-Type": "application/merge-patch+json"}
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
KEYS = ("claim", "cluster", "node", "epoch", "decision", "delegate-proof", "source-cluster", "carries")
CLAIM = {"annotations": {"global-dispatcher.io/claim": "x"}}
FILE = {"annotations": {"global-dispatcher.io/downward-0123456789": "x"}}
LABEL = {"labels": {"global-dispatcher.io/delegate": "true"}}
COVER = {"labels": {"global-dispatcher.io/budget": "x"}}
FINALIZER = {"finalizers": ["global-dispatcher.io/delegate"]}
# Whom a namespace belongs to; who may bind besides is a scheduler of theirs.
RULES = [
    {"apiGroups": [""], "resources": ["pods", "pods/status", "pods/resize"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["pods/ephemeralcontainers"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]},
]


@pytest.fixture(scope="module")
def plane(helm: Helm, control_plane: ControlPlanes) -> ControlPlane:
    """A cluster with the agent's chart, and a tenant who owns the namespace default."""
    plane = control_plane("reserved")
    values = ("-f", str(CHARTS / "agent" / "ci" / "example-values.yaml"))
    where = ("-n", NAMESPACE, "--create-namespace")
    helm("install", "agent", str(CHARTS / "agent"), *where, *values, KUBECONFIG=str(plane.kubeconfig))
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    named = {"metadata": {"name": "tenant"}}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"}
    who = [{"kind": "ServiceAccount", "name": "tenant", "namespace": "default"}]
    plane.admin.create("/api/v1/namespaces/default/serviceaccounts", named)
    plane.admin.create(f"{rbac}/roles", {**named, "rules": RULES})
    plane.admin.create(f"{rbac}/rolebindings", {**named, "roleRef": role, "subjects": who})
    return plane


@pytest.fixture(scope="module")
def tenant(plane: ControlPlane) -> Iterator[httpx.Client]:
    """The owner of the namespace."""
    wait_for_policies(plane)
    api = plane.api_for("tenant")
    yield api.http
    api.close()


def pod(name: str, metadata: Object | None = None, **spec: Any) -> Object:
    """A pod that nobody places."""
    main = {"name": "main", "image": "example.invalid/app:1"}
    spec = {"schedulerName": "nobodys", "terminationGracePeriodSeconds": 1, "containers": [main], **spec}
    return {"metadata": {"name": name, **(metadata or {})}, "spec": spec}


def test_nobody_else_writes_the_marks_of_agents(plane: ControlPlane, tenant: httpx.Client) -> None:
    own = f"{PODS}/own"
    plane.admin.create(PODS, pod("own"))
    bind = {"metadata": {"name": "own", **CLAIM}, "target": {"kind": "Node", "name": "any"}}
    as_key = {key: pod("thief", {"annotations": {f"global-dispatcher.io/{key}": ""}}) for key in KEYS}
    answers = {
        **{f"annotation {key}": tenant.post(PODS, json=body) for key, body in as_key.items()},
        "a file": tenant.post(PODS, json=pod("thief", FILE)),
        "the label": tenant.post(PODS, json=pod("thief", LABEL)),
        "the label of budgets": tenant.post(PODS, json=pod("thief", COVER)),
        "the finalizer": tenant.post(PODS, json=pod("thief", FINALIZER)),
        "the scheduler": tenant.post(PODS, json=pod("thief", schedulerName="global-dispatcher.io/delegate")),
        "a proxy node": tenant.post(PODS, json=pod("thief", nodeName="global-dispatcher-west")),
        "an annotation later": tenant.patch(own, json={"metadata": CLAIM}, headers=MERGE),
        "an annotation beside the status": tenant.patch(f"{own}/status", json={"metadata": CLAIM}, headers=MERGE),
        "a file later": tenant.patch(own, json={"metadata": FILE}, headers=MERGE),
        "a file of a binding": tenant.post(f"{own}/binding", json={**bind, "metadata": {"name": "own", **FILE}}),
        "the label later": tenant.patch(own, json={"metadata": LABEL}, headers=MERGE),
        "the label of budgets later": tenant.patch(own, json={"metadata": COVER}, headers=MERGE),
        "the finalizer later": tenant.patch(own, json={"metadata": FINALIZER}, headers=MERGE),
        "an annotation of a binding": tenant.post(f"{own}/binding", json=bind),
    }
    told = {what: (answer.status_code, "Global Dispatcher" in answer.text) for what, answer in answers.items()}
    assert told == dict.fromkeys(answers, (422, True)), {what: answer.text for what, answer in answers.items()}
    assert "annotation global-dispatcher.io/cluster is written" in answers["annotation cluster"].text
    assert tenant.delete(own).is_success


def test_a_marked_pod_is_used_and_deleted_by_its_owner_and_freed_by_an_admin(
    plane: ControlPlane, tenant: httpx.Client
) -> None:
    path = f"{PODS}/held"
    marks = {"annotations": {**CLAIM["annotations"], **FILE["annotations"]}}
    plane.admin.create(PODS, pod("held", {**marks, **FINALIZER}))
    steps = [
        tenant.patch(path, json={"metadata": {"labels": {"a": "b"}}}, headers=MERGE),
        tenant.patch(f"{path}/status", json={"status": {"message": "still here"}}, headers=MERGE),
        tenant.patch(path, json={"metadata": {"annotations": {"c": "d"}}}, headers=MERGE),
        tenant.patch(path, json={"metadata": {"annotations": dict.fromkeys(CLAIM["annotations"])}}, headers=MERGE),
        tenant.patch(path, json={"metadata": {"annotations": dict.fromkeys(FILE["annotations"])}}, headers=MERGE),
        tenant.patch(path, json={"metadata": {"annotations": dict.fromkeys(FILE["annotations"], "y")}}, headers=MERGE),
        tenant.patch(path, json={"metadata": {"finalizers": None}}, headers=MERGE),
        tenant.delete(path),
        tenant.patch(path, json={"metadata": {"finalizers": None}}, headers=MERGE),
    ]
    assert [answer.status_code for answer in steps] == [200, 200, 200, 422, 422, 422, 422, 200, 422], [
        one.text for one in steps
    ]
    assert "deletionTimestamp" in plane.admin.get(path)["metadata"]
    plane.admin.patch(path, {"metadata": {"finalizers": None}})
    assert not plane.admin.answers(path)


def test_a_marked_pod_is_changed_at_home_and_where_nothing_runs_any_more(
    plane: ControlPlane, tenant: httpx.Client
) -> None:
    proxy = {"nodeName": "global-dispatcher-west"}
    plane.admin.create(PODS, pod("abroad", CLAIM, **proxy))
    plane.admin.create(PODS, pod("at-home", CLAIM, nodeName="machine"))
    plane.admin.create(PODS, pod("ended", CLAIM, **proxy))
    plane.admin.patch(f"{PODS}/ended/status", {"status": {"phase": "Failed"}})
    plane.admin.create(PODS, pod("ending", {**CLAIM, "finalizers": ["example.com/held"]}, **proxy))
    assert tenant.delete(f"{PODS}/ending").is_success
    other = {"spec": {"containers": [{"name": "main", "image": "example.invalid/app:2"}]}}
    answers = {
        name: tenant.patch(f"{PODS}/{name}", json=other, headers=STRATEGIC)
        for name in ("abroad", "at-home", "ended", "ending")
    }
    codes = {name: answer.status_code for name, answer in answers.items()}
    assert codes == {"abroad": 422, "at-home": 200, "ended": 200, "ending": 200}, answers["at-home"].text
    assert "runs in another cluster" in answers["abroad"].text


def test_the_agents_account_writes_its_marks(plane: ControlPlane, tenant: httpx.Client) -> None:
    plane.admin.create(PODS, pod("source", schedulerName="global-dispatcher"))
    agent = plane.api_for("agent", NAMESPACE)
    delegate = {"schedulerName": "global-dispatcher.io/delegate", "automountServiceAccountToken": False}
    answers = [
        agent.http.patch(f"{PODS}/source", json={"metadata": {**CLAIM, **FINALIZER}}, headers=MERGE),
        agent.http.patch(f"{PODS}/source", json={"metadata": FILE}, headers=MERGE),
        agent.http.patch(f"{PODS}/source", json={"metadata": {"finalizers": None}}, headers=MERGE),
        agent.http.post(PODS, json=pod("copy", {**CLAIM, **LABEL}, **delegate)),
    ]
    assert [answer.is_success for answer in answers] == [True] * 4, [answer.text for answer in answers]
    for name in ("source", "copy"):
        assert agent.http.delete(f"{PODS}/{name}").is_success
    agent.close()


def test_no_job_adopts_a_delegate_whose_labels_its_selector_means(plane: ControlPlane, tenant: httpx.Client) -> None:
    labels = {"labels": {**LABEL["labels"], "app": "batch"}}
    plane.admin.create(PODS, pod("chosen", labels, schedulerName="global-dispatcher.io/delegate"))
    plane.admin.create(PODS, pod("orphan", {"labels": {"app": "batch"}}))
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "batch", "uid": "u-1", "blockOwnerDeletion": True}
    adopted = {"metadata": {"ownerReferences": [{**owner, "controller": True}]}}
    answers = {
        "a delegate": tenant.patch(f"{PODS}/chosen", json=adopted, headers=STRATEGIC),
        "a pod of its own": tenant.patch(f"{PODS}/orphan", json=adopted, headers=STRATEGIC),
        "a label": tenant.patch(f"{PODS}/chosen", json={"metadata": {"labels": {"a": "b"}}}, headers=MERGE),
    }
    codes = {what: answer.status_code for what, answer in answers.items()}
    assert codes == {"a delegate": 422, "a pod of its own": 200, "a label": 200}, [one.text for one in answers.values()]
    assert "no Job here may adopt it" in answers["a delegate"].text


def test_what_reaches_the_running_copy_may_be_changed_by_those_writes_alone(
    plane: ControlPlane, tenant: httpx.Client
) -> None:
    image = {"spec": {"containers": [{"name": "main", "image": "example.invalid/app:2"}]}}
    debug = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "example.invalid/debug:1"}]}}
    more = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}}
    writes = {"": image, "/ephemeralcontainers": debug, "/resize": more}
    room = {"status": {"allocatable": {"cpu": "8", "memory": "8Gi"}, "capacity": {"cpu": "8", "memory": "8Gi"}}}
    plane.admin.create("/api/v1/nodes", {"metadata": {"name": "global-dispatcher-west"}})  # whose room a resize needs
    plane.admin.patch("/api/v1/nodes/global-dispatcher-west/status", room)
    followed = {"": set(), "pods": {""}, "pods,ephemeralcontainers": {"", "/ephemeralcontainers"}}
    followed |= {"pods,ephemeralcontainers,resize": set(writes)}
    for number, (words, open_to) in enumerate(followed.items()):
        path = f"{PODS}/follows-{number}"
        marks = {**CLAIM["annotations"], **({"global-dispatcher.io/carries": words} if words else {})}
        main = {"name": "main", "image": "example.invalid/app:1", "resources": {"requests": {"cpu": "1"}}}
        made = pod(f"follows-{number}", {"annotations": marks}, nodeName="global-dispatcher-west", containers=[main])
        plane.admin.create(PODS, made)
        answers = {part: tenant.patch(f"{path}{part}", json=body, headers=STRATEGIC) for part, body in writes.items()}
        codes = {part: answer.status_code for part, answer in answers.items()}
        assert codes == {part: 200 if part in open_to else 422 for part in writes}, (
            words,
            [one.text for one in answers.values()],
        )


def test_the_agent_adds_debug_containers_to_delegates_and_to_nothing_else(
    plane: ControlPlane, tenant: httpx.Client
) -> None:
    plane.admin.create(PODS, pod("own-source", schedulerName="global-dispatcher"))
    agent = plane.api_for("agent", NAMESPACE)
    delegate = {"schedulerName": "global-dispatcher.io/delegate", "automountServiceAccountToken": False}
    assert agent.http.post(PODS, json=pod("followed", {**CLAIM, **LABEL}, **delegate)).is_success
    debug = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "example.invalid/debug:1"}]}}
    answers = {
        name: agent.http.patch(f"{PODS}/{name}/ephemeralcontainers", json=debug, headers=STRATEGIC)
        for name in ("own-source", "followed")
    }
    assert [one.status_code for one in answers.values()] == [422, 200], [one.text for one in answers.values()]
    for name in answers:
        assert agent.http.delete(f"{PODS}/{name}").is_success
