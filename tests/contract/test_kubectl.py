"""Real kubectl against both: its daily verbs, and the words that users see."""

import json
import re

import pytest

from tests.contract.client import Body, config_map, deployment, pod, template
from tests.contract.conftest import Kubectl


@pytest.fixture
def place(kubectl: Kubectl) -> str:
    """A node that plays pods."""
    names = kubectl("get", "nodes", "-o", "name").split()
    return next(name for name in names if "node-of-" not in name).removeprefix("node/")


def shop(place: str, replicas: int = 2) -> Body:
    return deployment(replicas=replicas, template=template("shop", nodeName=place))


def test_apply_creates_leaves_and_configures(kubectl: Kubectl) -> None:
    both = {"apiVersion": "v1", "kind": "List", "items": [config_map(), deployment()]}
    assert kubectl("apply", "-f", "-", manifest=both) == "configmap/settings created\ndeployment.apps/shop created\n"
    assert (
        kubectl("apply", "-f", "-", manifest=both) == "configmap/settings unchanged\ndeployment.apps/shop unchanged\n"
    )
    both["items"] = [config_map(), deployment(replicas=1)]
    assert (
        kubectl("apply", "-f", "-", manifest=both) == "configmap/settings unchanged\ndeployment.apps/shop configured\n"
    )
    less = config_map() | {"data": {}}
    kubectl("apply", "-f", "-", manifest=less)
    assert "data" not in json.loads(kubectl("get", "configmap", "settings", "-o", "json"))


def test_apply_on_the_server(kubectl: Kubectl) -> None:
    for _ in range(2):
        assert (
            kubectl("apply", "--server-side", "-f", "-", manifest=config_map())
            == "configmap/settings serverside-applied\n"
        )
    kubectl("patch", "configmap", "settings", "--type=merge", "-p", '{"data":{"a":"2"}}')
    refused = kubectl("apply", "--server-side", "-f", "-", manifest=config_map(), fails=True)
    assert 'Apply failed with 1 conflict: conflict with "kubectl-patch" using v1: .data.a' in refused
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", manifest=config_map())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("get pod none", 'Error from server (NotFound): pods "none" not found'),
        ("get unheardof", "the server doesn't have a resource type \"unheardof\""),
        ("get pods -l =x", "found '=', expected: !, identifier, or 'end of string'"),
        ("delete pod none", 'Error from server (NotFound): pods "none" not found'),
        pytest.param(
            "scale deployment none --replicas=1",
            'deployments.apps "none" not found',
            marks=pytest.mark.since("1.32"),
        ),
        ("create namespace default", 'Error from server (AlreadyExists): namespaces "default" already exists'),
        ("run Bad --image=a", 'The Pod "Bad" is invalid: \n* metadata.name: Invalid value: "Bad": a lowercase'),
        ("create deployment x --image=a --replicas=-2", "spec.replicas: Invalid value: -2: must be greater than"),
        ("label node none a=b", 'Error from server (NotFound): nodes "none" not found'),
        ("logs none", 'pods "none" not found'),
    ],
)  # fmt: skip
def test_what_kubectl_says_of_what_cannot_be_done(kubectl: Kubectl, arguments: str, words: str) -> None:
    assert words in kubectl(*arguments.split(), fails=True)


def test_the_server_validates_what_is_applied(kubectl: Kubectl) -> None:
    refused = kubectl("apply", "-f", "-", manifest=pod(spec={"colour": "red"}), fails=True)
    assert 'strict decoding error: unknown field "spec.colour"' in refused
    many = kubectl("create", "-f", "-", manifest=pod("Bad", spec={"restartPolicy": "X"}), fails=True)
    assert 'The Pod "Bad" is invalid: \n* metadata.name: Invalid value: "Bad"' in many
    assert '* spec.restartPolicy: Unsupported value: "X": supported values: "Always", "OnFailure", "Never"' in many


def test_a_deployment_rolls_out_scales_and_rolls_back(kubectl: Kubectl, place: str) -> None:
    kubectl("apply", "-f", "-", manifest=shop(place))
    for change in ([], ["set", "image", "deployment/shop", "main=app:2"], ["rollout", "undo", "deployment/shop"]):
        if change:
            kubectl(*change)
        assert "successfully rolled out" in kubectl("rollout", "status", "deployment/shop", "--timeout=180s")
    assert "app:1" in kubectl("get", "deployment", "shop", "-o", "wide")
    assert kubectl("scale", "deployment/shop", "--replicas=3") == "deployment.apps/shop scaled\n"
    kubectl("rollout", "status", "deployment/shop", "--timeout=180s")
    assert re.search(r"shop\s+3/3\s+3\s+3", kubectl("get", "deployment", "shop"))
    described = kubectl("describe", "deployment", "shop")
    assert "Scaled up replica set" in described
    assert "3 desired | 3 updated | 3 total | 3 available | 0 unavailable" in described
    assert re.findall(r"^\d", kubectl("rollout", "history", "deployment/shop"), re.MULTILINE) == ["2", "3"]
    kubectl("rollout", "restart", "deployment/shop")
    kubectl("rollout", "status", "deployment/shop", "--timeout=180s")
    kubectl("delete", "deployment", "shop", "--cascade=foreground", "--timeout=180s")
    assert "No resources found" in kubectl("get", "pods,replicasets", "-l", "app=shop")


def test_labels_and_annotations(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", manifest=config_map())
    assert kubectl("label", "configmap", "settings", "a=b") == "configmap/settings labeled\n"
    assert kubectl("label", "configmap", "settings", "a=b") == "configmap/settings not labeled\n"
    assert "already has a value (b), and --overwrite is false" in kubectl(
        "label", "configmap", "settings", "a=c", fails=True
    )
    assert kubectl("get", "configmaps", "-l", "a=b", "-o", "name") == "configmap/settings\n"
    assert kubectl("label", "configmap", "settings", "a-") == "configmap/settings unlabeled\n"
    assert kubectl("annotate", "configmap", "settings", "note=hello") == "configmap/settings annotated\n"
    assert "note:" in kubectl("describe", "configmap", "settings")


def test_a_node_is_cordoned_and_tainted(kubectl: Kubectl, place: str) -> None:
    assert kubectl("cordon", place) == f"node/{place} cordoned\n"
    assert "Ready,SchedulingDisabled" in kubectl("get", "node", place)
    assert kubectl("uncordon", place) == f"node/{place} uncordoned\n"
    assert kubectl("taint", "node", place, "a=b:NoSchedule") == f"node/{place} tainted\n"
    assert re.search(r"Taints:\s+a=b:NoSchedule", kubectl("describe", "node", place))
    assert kubectl("taint", "node", place, "a-") == f"node/{place} untainted\n"


def test_a_pod_is_waited_for_described_and_deleted(kubectl: Kubectl, place: str) -> None:
    kubectl("apply", "-f", "-", manifest=pod(spec={"nodeName": place}))
    assert kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=180s") == "pod/web condition met\n"
    wide = kubectl("get", "pod", "web", "-o", "wide")
    assert re.search(rf"web\s+1/1\s+Running\s+0\s+\S+\s+\d+\.\d+\.\d+\.\d+\s+{place}\s+<none>\s+<none>", wide)
    described = kubectl("describe", "pod", "web")
    assert re.search(rf"Node:\s+{place}/", described)
    assert re.search(r"Service Account:\s+default", described)
    assert kubectl("get", "pod", "web", "-o", "jsonpath={.status.phase}") == "Running"
    kubectl("delete", "pod", "web", "--timeout=180s")
    assert kubectl("get", "pods") == f"No resources found in {namespace(kubectl)} namespace.\n"


def namespace(kubectl: Kubectl) -> str:
    """The case's namespace."""
    return kubectl("get", "serviceaccount", "default", "-o", "jsonpath={.metadata.namespace}")


def test_waiting_for_a_pod_that_does_not_come(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", manifest=pod())
    late = kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=1s", fails=True)
    assert "timed out waiting for the condition on pods/web" in late


def test_events_are_shown_with_what_they_are_about(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", manifest=pod())
    uid = kubectl("get", "pod", "web", "-o", "jsonpath={.metadata.uid}")
    about = {"kind": "Pod", "namespace": namespace(kubectl), "name": "web", "uid": uid}
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": about, "count": 2}
    kubectl(
        "create", "-f", "-", manifest=event | {"type": "Warning", "reason": "FailedScheduling", "message": "0/3 nodes"}
    )
    assert re.search(r"Warning\s+FailedScheduling\s+.*0/3 nodes", kubectl("describe", "pod", "web"))
    assert re.search(r"Warning\s+FailedScheduling\s+Pod/web\s+0/3 nodes", kubectl("events"))
    assert re.search(r"Warning\s+FailedScheduling\s+pod/web\s+0/3 nodes", kubectl("get", "events"))


@pytest.mark.parametrize(
    ("arguments", "made"),
    [
        ("create deployment x --image=busybox --replicas=0", "deployment.apps/x created"),
        ("create configmap x --from-literal=a=b", "configmap/x created"),
        ("create secret generic x --from-literal=a=b", "secret/x created"),
        ("create serviceaccount x", "serviceaccount/x created"),
        ("create poddisruptionbudget x --selector=app=x --min-available=1", "poddisruptionbudget.policy/x created"),
        ("create job x --image=busybox", "job.batch/x created"),
        ("run x --image=busybox", "pod/x created"),
    ],
)
def test_create_and_run(kubectl: Kubectl, arguments: str, made: str) -> None:
    assert kubectl(*arguments.split()) == made + "\n"
    kind = made.partition(" ")[0]
    assert kubectl("get", kind, "-o", "name") == kind + "\n"
    shown = kubectl("delete", kind, "--now" if kind.startswith("pod") else "--wait=true")
    assert " deleted" in shown


def test_patch_replace_and_diff(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", manifest=config_map())
    assert kubectl("patch", "configmap", "settings", "-p", '{"data":{"b":"2"}}') == "configmap/settings patched\n"
    assert (
        kubectl("patch", "configmap", "settings", "-p", '{"data":{"b":"2"}}')
        == "configmap/settings patched (no change)\n"
    )
    changed = kubectl("diff", "-f", "-", manifest=config_map() | {"data": {"a": "9"}}, fails=True)
    assert '+  a: "9"' in changed
    assert kubectl("replace", "-f", "-", manifest=config_map()) == "configmap/settings replaced\n"


def test_a_server_is_discovered(kubectl: Kubectl) -> None:
    names = set(kubectl("api-resources", "-o", "name").split())
    assert {"pods", "nodes", "deployments.apps", "jobs.batch", "leases.coordination.k8s.io"} <= names
    assert "Server Version: v1." in kubectl("version")
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert kubectl("get", "--raw", "/readyz") == "ok"
