"""Real kubectl's daily verbs that need controllers and kubelets; tests/contract has those that real servers pass."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator

import pytest
import yaml

from localfleet.embedded.fleet import ClusterSpec, EmbeddedFleet
from tests.controlplane.programs import KUBECTL, NO_KUBECTL
from tests.embedded.simulated import Object, behaviour, deployment, job, pod, template

pytestmark = pytest.mark.skipif(not KUBECTL, reason=NO_KUBECTL)
Kubectl = Callable[..., str]


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """Runs kubectl against one cluster of four nodes; answers its standard output, and fails when it does."""
    # What another server told at this port before is none of this one's.
    environment = {**os.environ, "KUBECACHEDIR": str(tmp_path_factory.mktemp("kubectl-cache"))}
    with EmbeddedFleet.start([ClusterSpec("east", nodes=4)], tmp_path_factory.mktemp("fleet")) as fleet:

        def run(*arguments: str, manifest: Object | None = None, fails: bool = False, reader: bool = False) -> str:
            who = fleet.reader_kubeconfig if reader else fleet.kubeconfig
            command = [KUBECTL, "--kubeconfig", str(who), *arguments]
            text = yaml.safe_dump(manifest) if manifest else None
            done = subprocess.run(
                command, input=text, capture_output=True, text=True, check=False, timeout=300, env=environment
            )
            assert (done.returncode != 0) is fails, done.stdout + done.stderr
            return done.stdout + done.stderr

        yield run


def on_node(body: Object, number: int) -> Object:
    """A pod or a template that names its node, as nothing schedules here."""
    body["spec"]["nodeName"] = f"east-node-{number:03d}"
    return body


def web(name: str, node: int, replicas: int = 2) -> Object:
    """A Deployment of its own label, on one node."""
    body = on_node(template(), node)
    body["metadata"]["labels"] = {"app": name}
    whole = deployment(replicas, name, template=body, selector={"matchLabels": {"app": name}})
    return {"apiVersion": "apps/v1", "kind": "Deployment", **whole}


def test_a_job_completes_and_its_log_tells_of_it(kubectl: Kubectl) -> None:
    whole = {"apiVersion": "batch/v1", "kind": "Job", **job(run_seconds="0.2", completions=2)}
    on_node(whole["spec"]["template"], 1)
    kubectl("apply", "-f", "-", manifest=whole)
    kubectl("wait", "--for=condition=complete", "job/work", "--timeout=180s")
    assert re.search(r"work\s+Complete\s+2/2", kubectl("get", "job", "work"))
    log = kubectl("logs", "job/work")
    assert "started on east-node-001" in log
    assert "ended with exit code 0" in log
    assert "Job completed" in kubectl("describe", "job", "work")
    kubectl("delete", "job", "work", "--timeout=180s")


def test_pods_and_nodes_show_where_they_are_and_what_they_use(kubectl: Kubectl) -> None:
    busy = pod("busy")
    busy["metadata"]["annotations"] = behaviour(cpu="500m", memory="256Mi")
    kubectl("apply", "-f", "-", manifest={"apiVersion": "v1", "kind": "Pod", **on_node(busy, 1)})
    kubectl("wait", "--for=condition=Ready", "pod/busy", "--timeout=180s")
    assert "east-node-001" in kubectl("get", "pod", "busy", "-o", "wide")
    assert "Started all containers" in kubectl("describe", "pod", "busy")
    assert "KubeletReady" in kubectl("describe", "node", "east-node-001")
    assert len(re.findall(r"east-node-\d+\s+\d+m\s+\d+%", kubectl("top", "nodes"))) == 4
    assert re.search(r"busy\s+\d+m\s+2\d\dMi", kubectl("top", "pods"))
    kubectl("delete", "pod", "busy", "--timeout=180s")
    assert "NotFound" in kubectl("get", "pod", "busy", fails=True)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("exec NAME -- id", "nothing can be executed in it"),
        ("cp /etc/hostname default/NAME:/tmp/x", "nothing can be executed in it"),
        ("attach NAME", "there is nothing to attach to"),
        ("port-forward NAME :80", "nothing listens on its ports"),
    ],
)
def test_a_pod_of_a_fake_kubelet_has_no_container_to_enter(kubectl: Kubectl, words: str, why: str) -> None:
    kubectl("apply", "-f", "-", manifest={"apiVersion": "v1", "kind": "Pod", **on_node(pod("played"), 3)})
    kubectl("wait", "--for=condition=Ready", "pod/played", "--timeout=180s")
    told = kubectl(*words.replace("NAME", "played").split(), fails=True)
    text = f"pod default/played is simulated by an embedded cluster, where no container really runs, so {why}"
    assert text in told
    assert isinstance(yaml.safe_load(text), str)  # of a mapping kubectl 1.32 makes an empty Status and shows nothing


def test_a_container_that_does_not_run_cannot_be_entered(kubectl: Kubectl) -> None:
    slow = pod("slow")
    slow["metadata"]["annotations"] = behaviour(start_seconds="600")
    kubectl("apply", "-f", "-", manifest={"apiVersion": "v1", "kind": "Pod", **on_node(slow, 3)})
    assert 'container not found ("' in kubectl("exec", "slow", "--", "id", fails=True)
    kubectl("delete", "pod", "slow", "played", "--now", "--ignore-not-found", "--timeout=180s")


def test_cordon_taint_and_back(kubectl: Kubectl) -> None:
    kubectl("cordon", "east-node-003")
    assert "SchedulingDisabled" in kubectl("get", "node", "east-node-003")
    kubectl("uncordon", "east-node-003")
    assert "SchedulingDisabled" not in kubectl("get", "node", "east-node-003")
    kubectl("apply", "-f", "-", manifest={"apiVersion": "v1", "kind": "Pod", **on_node(pod("guest"), 3)})
    kubectl("wait", "--for=condition=Ready", "pod/guest", "--timeout=180s")
    kubectl("taint", "node", "east-node-003", "broken=yes:NoExecute")
    kubectl("wait", "--for=delete", "pod/guest", "--timeout=180s")
    kubectl("taint", "node", "east-node-003", "broken=yes:NoExecute-")


def test_drain_waits_for_the_disruption_budget(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", manifest=web("guarded", 2))
    kubectl("rollout", "status", "deployment/guarded", "--timeout=180s")
    spec = {"minAvailable": 2, "selector": {"matchLabels": {"app": "guarded"}}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "guarded"}, "spec": spec}
    kubectl("apply", "-f", "-", manifest=budget)
    kubectl("wait", "--for=jsonpath={.status.currentHealthy}=2", "pdb/guarded", "--timeout=180s")
    refused = kubectl("drain", "east-node-002", "--timeout=1s", fails=True)
    assert "would violate the pod's disruption budget" in refused
    kubectl("delete", "deployment", "guarded", "--cascade=orphan")
    kubectl("delete", "pdb,replicaset", "--all", "--cascade=orphan")
    assert "drained" in kubectl("drain", "east-node-002", "--force", "--timeout=180s")


def test_who_may_only_look_is_refused_in_the_words_of_a_real_server(kubectl: Kubectl) -> None:
    whole = {"apiVersion": "v1", "kind": "Pod", **pod("watched", node="east-node-002")}
    kubectl("apply", "-f", "-", manifest=whole)
    kubectl("wait", "--for=condition=Ready", "pod/watched", "--timeout=180s")
    assert "embedded:reader" in kubectl("auth", "whoami", reader=True)
    assert "Running" in kubectl("get", "pod", "watched", reader=True)
    assert "started on east-node-002" in kubectl("logs", "watched", reader=True)
    assert kubectl("auth", "can-i", "list", "pods", reader=True) == "yes\n"
    assert kubectl("auth", "can-i", "create", "pods/exec", reader=True, fails=True).startswith("no")
    assert re.search(r"pods/log .*get list watch", kubectl("auth", "can-i", "--list", reader=True))
    pods, here = 'pods "watched" is forbidden: User "embedded:reader" cannot', 'in the namespace "default"'
    for words, why in (
        (("exec", "watched", "--", "id"), f'{pods} create resource "pods/exec" in API group "" {here}'),
        (("attach", "watched"), f'{pods} create resource "pods/attach" in API group "" {here}'),
        (("port-forward", "watched", ":80"), f'{pods} create resource "pods/portforward" in API group "" {here}'),
        (("delete", "pod", "watched"), f'{pods} delete resource "pods" in API group "" {here}'),
        (("get", "secrets"), 'secrets is forbidden: User "embedded:reader" cannot list resource "secrets"'),
        (
            ("label", "node", "east-node-002", "a=b"),
            'nodes "east-node-002" is forbidden: User "embedded:reader" cannot patch',
        ),
    ):
        assert why in kubectl(*words, reader=True, fails=True)
    kubectl("delete", "pod", "watched", "--timeout=180s")


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet", "CronJob"])
def test_what_no_controller_here_carries_out_is_not_served(kubectl: Kubectl, kind: str) -> None:
    group = "batch/v1" if kind == "CronJob" else "apps/v1"
    made = {"apiVersion": group, "kind": kind, "metadata": {"name": "one"}, "spec": {}}
    assert f'no matches for kind "{kind}" in version "{group}"' in kubectl(
        "apply", "-f", "-", manifest=made, fails=True
    )
    assert "the server doesn't have a resource type" in kubectl("get", f"{kind.lower()}s", fails=True)


def test_describe_tells_a_pod_without_the_annotation_what_would_place_it(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", manifest={"apiVersion": "v1", "kind": "Pod", **pod("plain")})
    kubectl("wait", "--for=create", "event", "--field-selector=reason=FailedScheduling", "--timeout=60s")
    told = kubectl("describe", "pod", "plain")
    assert "no kube-scheduler runs in an embedded cluster" in told
    assert 'global-dispatcher.io/schedule: "true"' in told
    kubectl("delete", "pod", "plain", "--timeout=180s")
