"""The harness itself: what a real control plane of ours does, before other suites lean on it."""

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from localfleet.controlplane import opt_in
from localfleet.controlplane.api import Object
from localfleet.controlplane.binaries import selected_minor
from localfleet.controlplane.components import PlaneSpec
from localfleet.controlplane.nodes import NOT_READY, NodeSpec
from localfleet.controlplane.plane import ControlPlane, KubectlError
from localfleet.embedded.kubelet.behaviour import EXIT_CODE, RUN_SECONDS
from tests.controlplane.fixtures import ControlPlanes

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]

NODES = [
    NodeSpec("big", cpu="16", zone="a", resources={"nvidia.com/gpu": "8"}),
    NodeSpec("small", cpu="2", memory="4Gi", pods="20", zone="b"),
    NodeSpec("tainted", zone="b", taints=[{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]),
]
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def east(control_plane: ControlPlanes) -> ControlPlane:
    # Soon enough for the test of lost nodes, and no node is lost because the machine has other work.
    return control_plane("east", nodes=NODES, scheduler=True, node_grace_s=12)


def pod(name: str, annotations: dict[str, str] | None = None, **spec: object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"containers": [{"name": "main", "image": "none"}], "restartPolicy": "Never", **spec},
    }


def deployment(name: str, replicas: int) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def until(what: Callable[[], bool], seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def phase(plane: ControlPlane, name: str) -> str:
    return str(plane.admin.get(f"{PODS}/{name}")["status"].get("phase", ""))


def node_ready(plane: ControlPlane, name: str) -> str:
    conditions = plane.admin.get(f"/api/v1/nodes/{name}")["status"]["conditions"]
    return next(str(one["status"]) for one in conditions if one["type"] == "Ready")


def pod_ready(plane: ControlPlane, name: str) -> str:
    conditions = plane.admin.get(f"{PODS}/{name}")["status"].get("conditions", ())
    return next((str(one["status"]) for one in conditions if one["type"] == "Ready"), "")


def test_nodes_are_ready_with_their_capacity_zone_and_lease(east: ControlPlane) -> None:
    nodes = {node["metadata"]["name"]: node for node in east.admin.get("/api/v1/nodes")["items"]}

    assert {name: node["status"]["allocatable"]["cpu"] for name, node in nodes.items()} == {
        "big": "16",
        "small": "2",
        "tainted": "8",
    }
    assert nodes["big"]["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert nodes["small"]["metadata"]["labels"]["topology.kubernetes.io/zone"] == "b"
    assert [taint["key"] for taint in nodes["tainted"]["spec"]["taints"]] == ["dedicated"]
    leases = east.admin.get("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases")["items"]
    assert {lease["metadata"]["name"] for lease in leases} == set(nodes)


def test_kubectl_names_the_context_after_the_plane_and_both_versions_agree(east: ControlPlane) -> None:
    versions = json.loads(east.kubectl("version", "-o", "json"))

    assert east.kubectl("config", "current-context").strip() == "east"
    assert versions["serverVersion"]["gitVersion"] == versions["clientVersion"]["gitVersion"]
    assert versions["serverVersion"]["gitVersion"].startswith(f"v{selected_minor()}.")
    assert (versions["serverVersion"]["major"], versions["serverVersion"]["minor"]) == tuple(
        selected_minor().split(".")
    )


def test_kubectl_error_carries_its_words(east: ControlPlane) -> None:
    with pytest.raises(KubectlError, match='pods "nobody" not found'):
        east.kubectl("get", "pod", "nobody")


def test_an_unbound_service_account_is_denied_and_the_audit_log_says_so(east: ControlPlane) -> None:
    east.kubectl("create", "serviceaccount", "stranger")
    mark = east.audit.mark()

    with pytest.raises(KubectlError, match=r"stranger.*cannot list resource .*pods"):
        east.kubectl("get", "pods", kubeconfig=east.kubeconfig_for("stranger"))

    (denied, *_) = east.audit.wait_for(lambda event: event.denied, since=mark)
    assert denied.user.username == "system:serviceaccount:default:stranger"
    assert (denied.action, denied.code) == (("list", "", "pods"), 403)


def test_a_bound_service_account_may_what_its_role_says_and_no_more(east: ControlPlane) -> None:
    east.kubectl("create", "serviceaccount", "reader")
    east.kubectl("create", "clusterrole", "read-pods", "--verb=get,list", "--resource=pods")
    east.kubectl("create", "clusterrolebinding", "reader", "--clusterrole=read-pods", "--serviceaccount=default:reader")
    api = east.api_for("reader")
    until(lambda: api.answers(PODS))

    with pytest.raises(httpx.HTTPStatusError, match="403"):
        api.create(PODS, pod("refused"))
    api.close()


def test_a_deployments_pods_run_on_kwok_nodes_where_the_scheduler_put_them(east: ControlPlane) -> None:
    east.apply(deployment("web", 12))

    east.kubectl("rollout", "status", "deployment/web", "--timeout=180s")

    pods = east.admin.get(PODS, labelSelector="app=web")["items"]
    assert {one["status"]["phase"] for one in pods} == {"Running"}
    assert {one["spec"]["nodeName"] for one in pods} <= {"big", "small"}
    bound = east.audit.wait_for(lambda event: event.action == ("create", "", "pods/binding") and event.code == 201)
    assert {event.user.username for event in bound} == {"system:kube-scheduler"}
    east.kubectl("delete", "deployment", "web", "--cascade=foreground", "--timeout=180s")
    assert east.admin.get(PODS, labelSelector="app=web")["items"] == []


@pytest.mark.parametrize(
    ("exit_code", "end"), [("0", "Succeeded"), ("3", "Failed")], ids=["succeeds with 0", "fails with 3"]
)
def test_a_pod_ends_after_its_run_seconds_and(east: ControlPlane, exit_code: str, end: str) -> None:
    name = f"short-{exit_code}"
    east.admin.create(PODS, pod(name, {RUN_SECONDS: "0.5", EXIT_CODE: exit_code}))

    until(lambda: phase(east, name) == end)

    (container,) = east.admin.get(f"{PODS}/{name}")["status"]["containerStatuses"]
    assert container["state"]["terminated"]["exitCode"] == int(exit_code)


def test_an_unschedulable_pod_has_the_schedulers_reasons(east: ControlPlane) -> None:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "100"}}}
    east.admin.create(PODS, pod("huge", containers=[container]))

    def reason() -> str:
        conditions = east.admin.get(f"{PODS}/huge")["status"].get("conditions", ())
        return next((str(one["message"]) for one in conditions if one["type"] == "PodScheduled"), "")

    until(lambda: "0/3 nodes are available" in reason())
    assert "2 Insufficient cpu" in reason()


def test_a_node_is_not_ready_while_its_annotation_says_so(east: ControlPlane) -> None:
    east.kubectl("annotate", "node", "small", f"{NOT_READY}=true")
    until(lambda: node_ready(east, "small") == "False")

    east.kubectl("annotate", "node", "small", f"{NOT_READY}-")

    until(lambda: node_ready(east, "small") == "True")


def test_nodes_turn_unknown_when_kwok_is_gone_and_come_back_with_it_and_so_do_their_pods(east: ControlPlane) -> None:
    uid = east.admin.create(PODS, pod("stays"))["metadata"]["uid"]
    until(lambda: pod_ready(east, "stays") == "True")
    east.kill("kwok")
    until(lambda: {node_ready(east, node.name) for node in NODES} == {"Unknown"})
    until(lambda: pod_ready(east, "stays") == "False")

    east.begin("kwok")

    until(lambda: east.ready_nodes() == len(NODES))
    until(lambda: pod_ready(east, "stays") == "True")
    assert east.admin.get(f"{PODS}/stays")["metadata"]["uid"] == uid


def test_a_running_pod_that_somebody_calls_not_ready_for_a_reason_stays_so(east: ControlPlane) -> None:
    for name in ("told", "marked"):
        east.admin.create(PODS, pod(name))
        until(lambda name=name: pod_ready(east, name) == "True")  # type: ignore[misc]
    said = {"type": "Ready", "status": "False"}
    strategic = "application/strategic-merge-patch+json"
    for name, why in (("told", {"reason": "ReadinessGatesNotReady"}), ("marked", {})):
        body = {"status": {"conditions": [{**said, **why}]}}
        east.admin.patch(f"{PODS}/{name}/status", body, strategic)

    until(lambda: pod_ready(east, "marked") == "True")

    assert pod_ready(east, "told") == "False"


@pytest.mark.parametrize("component", ["kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler"])
def test_kill_9_and_restart_keeps_the_data_and_the_work_goes_on(east: ControlPlane, component: str) -> None:
    before = f"before-{component}"
    uid = east.admin.create(PODS, pod(before))["metadata"]["uid"]

    east.restart(component)

    until(lambda: east.admin.answers("/readyz"))
    assert east.admin.get(f"{PODS}/{before}")["metadata"]["uid"] == uid
    east.apply(deployment(f"after-{component}", 2))
    east.kubectl("rollout", "status", f"deployment/after-{component}", "--timeout=180s")


def test_the_audit_log_is_whole_after_a_kill(east: ControlPlane) -> None:
    east.kill("kube-apiserver")
    with east.audit.path.open("ab") as log:
        log.write(b'{"kind":"Event","auditID":"torn')
    mark = east.audit.mark()

    east.begin("kube-apiserver")
    east.kubectl("get", "namespaces")

    east.audit.wait_for(lambda event: event.action == ("list", "", "namespaces"), since=mark)


def test_old_versions_are_gone_when_history_is_forgotten(east: ControlPlane) -> None:
    first = east.admin.get("/api/v1/nodes", limit="1")["metadata"]
    east.kubectl("create", "configmap", "newer")

    east.forget_history()

    with pytest.raises(httpx.HTTPStatusError, match="410"):
        east.admin.get("/api/v1/nodes", limit="1", **{"continue": first["continue"]})
    with east.admin.http.stream("GET", f"/api/v1/nodes?watch=1&resourceVersion={first['resourceVersion']}") as watch:
        status = json.loads(next(watch.iter_lines()))["object"]
    assert (status["code"], status["reason"]) == (410, "Expired")


def test_the_admission_policy_turns_our_annotation_into_the_scheduler_name(east: ControlPlane) -> None:
    if not (version := opt_in.version(selected_minor())):
        pytest.skip(f"Kubernetes {selected_minor()} has no MutatingAdmissionPolicy")
    expression = 'Object{spec: Object.spec{schedulerName: "global-dispatcher"}}'
    asked = "object.metadata.?annotations[?'global-dispatcher.io/schedule'].orValue('') == 'true'"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    policy = {
        "apiVersion": f"admissionregistration.k8s.io/{version}",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "global-dispatcher"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": [{"name": "asked-for", "expression": asked}],
            "failurePolicy": "Ignore",
            "reinvocationPolicy": "IfNeeded",
            "mutations": [
                {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}},
            ],
        },
    }
    binding = {
        "apiVersion": policy["apiVersion"],
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": "global-dispatcher"},
        "spec": {"policyName": "global-dispatcher"},
    }
    east.apply(policy, binding)

    def scheduler(annotations: dict[str, str]) -> str:
        made = east.admin.create(f"{PODS}?dryRun=All", pod("dry", annotations))
        return str(made["spec"]["schedulerName"])

    until(lambda: scheduler({"global-dispatcher.io/schedule": "true"}) == "global-dispatcher")
    assert scheduler({}) == "default-scheduler"
    assert scheduler({"global-dispatcher.io/schedule": "false"}) == "default-scheduler"


def test_several_planes_run_at_once_apart_and_nothing_is_left_of_them(control_plane: ControlPlanes) -> None:
    specs = [PlaneSpec(name, nodes=2, minor=selected_minor()) for name in ("north", "south")]
    planes = control_plane.together(*specs)
    north, south = planes
    north.admin.create(PODS, pod("only-here"))

    assert [node["metadata"]["name"] for node in south.admin.get("/api/v1/nodes")["items"]] == [
        "south-0000",
        "south-0001",
    ]
    with pytest.raises(httpx.HTTPStatusError, match="404"):
        south.admin.get(f"{PODS}/only-here")

    pids = [component.pid for plane in planes for component in plane.components.values()]
    for plane in planes:
        plane.stop()
    assert all(pids)
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_a_frozen_api_server_answers_again_when_it_is_let_go(east: ControlPlane) -> None:
    east.components["kube-apiserver"].signal(signal.SIGSTOP)
    try:
        with pytest.raises(httpx.TimeoutException):
            east.admin.http.get("/readyz", timeout=0.5)
    finally:
        east.components["kube-apiserver"].signal(signal.SIGCONT)

    until(lambda: east.admin.answers("/readyz"))
