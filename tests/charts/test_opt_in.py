"""A real API server gives the same pods our schedulerName, and keeps the same off proxy nodes, whatever the chart does
it by.
"""

import json
import signal
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from dispatcher.cli.joining.opt_in import OptIn, in_force
from dispatcher.cli.joining.target import Place, reached
from localfleet.controlplane import opt_in
from localfleet.controlplane.binaries import selected_minor
from localfleet.controlplane.plane import ControlPlane
from shared.model import names
from tests.agents.runtime.admission import proxy_node_cases
from tests.agents.runtime.admission.cases import ASKS, CASES, pod
from tests.agents.runtime.admission.proxy_node_cases import ALL, NOT_PLACED_BY_OTHERS, UNTOUCHED, daemon_set
from tests.charts.rendering import Helm, Object, of_kind, only
from tests.controlplane.fixtures import ControlPlanes
from tests.controlplane.test_plane import until

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
PODS = "/api/v1/namespaces/{}/pods?dryRun=All"
DAEMON_SETS = "/apis/apps/v1/namespaces/default/daemonsets"
REGISTRATION = "/apis/admissionregistration.k8s.io"
POLICY_KINDS = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
}


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlanes) -> ControlPlane:
    beta = "--runtime-config=admissionregistration.k8s.io/v1beta1=true"
    flags = (beta, "--feature-gates=MutatingAdmissionPolicy=true") if opt_in.version(selected_minor()) else ()
    return control_plane("east", nodes=1, api_flags=flags)


def scheduler_of(plane: ControlPlane, of: Object, namespace: str = "default") -> str:
    of = {**of, "metadata": {**of["metadata"], "namespace": namespace}}
    return str(plane.admin.create(PODS.format(namespace), of)["spec"]["schedulerName"])


def acts(plane: ControlPlane, namespace: str = "default") -> bool:
    return scheduler_of(plane, pod(ASKS), namespace) == "global-dispatcher"


def keeps_off(plane: ControlPlane) -> bool:
    made = plane.admin.create(PODS.format("default"), pod(None, **ALL))
    return names.PROXY_NODES in made["metadata"].get("annotations", {})


@contextmanager
def applied(
    plane: ControlPlane, version: str, kinds: dict[str, str], objects: list[Object], namespace: str = "default"
) -> Iterator[None]:
    """Objects of admissionregistration, by the plural of each kind, until they act; afterwards until they do not."""
    paths = [
        (f"{REGISTRATION}/{version}/{plural}", one) for kind, plural in kinds.items() for one in of_kind(objects, kind)
    ]
    for path, one in paths:
        plane.admin.create(path, one)
    try:
        until(lambda: acts(plane, namespace) and keeps_off(plane), 60)
        yield
    finally:
        for path, one in paths:
            plane.admin.delete(f"{path}/{one['metadata']['name']}")
        until(lambda: not acts(plane, namespace) and not keeps_off(plane), 60)


def policy(version: str) -> Callable[[ControlPlane, Helm, Path], AbstractContextManager[None]]:
    def by(plane: ControlPlane, helm: Helm, _: Path) -> AbstractContextManager[None]:
        if not plane.admin.answers(f"{REGISTRATION}/{version}/mutatingadmissionpolicies"):
            pytest.skip(f"this Kubernetes has no MutatingAdmissionPolicy {version}")
        return applied(plane, version, POLICY_KINDS, helm.template("agent", {"admissionPolicy": {"by": version}}))

    return by


@contextmanager
def webhook(plane: ControlPlane, helm: Helm, folder: Path) -> Iterator[None]:
    """The chart's container as a process; the server knows it by address, as no network leads to a Service here."""
    objects = helm.template("agent", {"admissionPolicy": {"by": "webhook"}})
    authority = trustme.CA()
    pair = authority.issue_cert("127.0.0.1")
    pair.cert_chain_pems[0].write_to_path(folder / "tls.crt")
    pair.private_key_pem.write_to_path(folder / "tls.key")
    (container,) = of_kind(objects, "Deployment")[1]["spec"]["template"]["spec"]["containers"]
    mounted = container["volumeMounts"][0]["mountPath"]
    command = [word.replace(mounted, str(folder)) for word in container["command"][1:]]
    command += ["--host=127.0.0.1", "--port=0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "dispatcher.cli.main", *command], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        url = json.loads(process.stderr.readline())["address"]
        trusted = b64encode(authority.cert_pem.bytes()).decode()
        for hook in only(objects, "MutatingWebhookConfiguration")["webhooks"]:
            path = hook["clientConfig"]["service"]["path"]
            hook["clientConfig"] = {"url": url.removesuffix("/admit") + path, "caBundle": trusted}
        with applied(plane, "v1", {"MutatingWebhookConfiguration": "mutatingwebhookconfigurations"}, objects):
            yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)
        process.stderr.close()


def test_a_webhook_that_is_gone_keeps_no_pod_out(plane: ControlPlane, helm: Helm, tmp_path: Path) -> None:
    hook: dict[str, Any] = only(
        helm.template("agent", {"admissionPolicy": {"by": "webhook"}}), "MutatingWebhookConfiguration"
    )
    for one in hook["webhooks"]:
        one["clientConfig"] = {"url": "https://127.0.0.1:1/admit"}
    path = f"{REGISTRATION}/v1/mutatingwebhookconfigurations"
    plane.admin.create(path, hook)
    try:
        assert scheduler_of(plane, pod(ASKS)) == "default-scheduler"
        assert not keeps_off(plane)
    finally:
        plane.admin.delete(f"{path}/{hook['metadata']['name']}")


async def told(plane: ControlPlane) -> OptIn:
    """As `doctor` and `install` ask it."""
    async with reached(Place("east", str(plane.kubeconfig)), dry_run=True) as target:
        return await in_force(target.member)


async def test_without_any_of_them_the_annotation_alone_is_not_enough(plane: ControlPlane) -> None:
    assert not acts(plane)
    assert (await told(plane)).acts is False


async def test_an_opt_in_for_some_namespaces_is_found_by_a_pod_in_one_of_them(plane: ControlPlane, helm: Helm) -> None:
    if not (version := opt_in.version(selected_minor())):
        pytest.skip(f"Kubernetes {selected_minor()} has no MutatingAdmissionPolicy")
    plane.admin.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    until(lambda: plane.admin.answers("/api/v1/namespaces/shop/serviceaccounts/default"), 60)
    values = {"admissionPolicy": {"by": version}, "namespaces": ["shop"]}
    with applied(plane, version, POLICY_KINDS, helm.template("agent", values), namespace="shop"):
        found = await told(plane)
    assert (found.acts, found.by.endswith(", in namespaces such as shop")) == (True, True), found


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(policy("v1"), id="v1"),
        pytest.param(policy("v1beta1"), id="v1beta1"),
        pytest.param(webhook, id="webhook"),
    ],
)
def opted_in(
    request: pytest.FixtureRequest, plane: ControlPlane, helm: Helm, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    with request.param(plane, helm, tmp_path_factory.mktemp("tls")):
        yield plane


@pytest.mark.parametrize(("annotations", "spec", "expected"), CASES)
def test_the_annotation_sets_the_scheduler_name_and_takes_no_pod_from_another(
    opted_in: ControlPlane, annotations: dict[str, str] | None, spec: dict[str, Any], expected: str
) -> None:
    assert scheduler_of(opted_in, pod(annotations, **spec)) == expected


@pytest.mark.parametrize(("spec", "affinity"), proxy_node_cases.CASES)
def test_what_tolerates_the_taint_of_proxy_nodes_is_kept_off_them(
    opted_in: ControlPlane, spec: Object, affinity: Any
) -> None:
    made = opted_in.admin.create(PODS.format("default"), pod(None, **spec))
    made_set = opted_in.admin.create(f"{DAEMON_SETS}?dryRun=All", daemon_set(spec))
    for one, its_spec in ((made, made["spec"]), (made_set, made_set["spec"]["template"]["spec"])):
        marks = one["metadata"].get("annotations", {})
        untouched = affinity == UNTOUCHED
        assert its_spec.get("affinity") == (None if untouched else affinity)
        assert marks.get(names.PROXY_NODES) == (None if untouched else "left-out")


@pytest.mark.parametrize(("metadata", "spec"), NOT_PLACED_BY_OTHERS)
def test_a_pod_that_others_do_not_place_is_left_alone(opted_in: ControlPlane, metadata: Object, spec: Object) -> None:
    one = pod({"team/a": "b"}, **{**ALL, **spec})
    one["metadata"].update(metadata)
    made = opted_in.admin.create(PODS.format("default"), one)
    assert (made["metadata"]["annotations"], made["spec"].get("affinity")) == ({"team/a": "b"}, None)


async def test_the_server_tells_what_is_in_force(opted_in: ControlPlane, request: pytest.FixtureRequest) -> None:
    found = await told(opted_in)
    # A server with both versions shows a policy of either in the better one.
    best = "v1" if opted_in.admin.answers(f"{REGISTRATION}/v1/mutatingadmissionpolicies") else "v1beta1"
    does = "webhook (" if request.node.callspec.id == "webhook" else f"MutatingAdmissionPolicy {best} ("
    assert (found.acts, found.by.startswith(does)) == (True, True), found
