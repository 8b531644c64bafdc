"""`--server kubectl:` with the real kubectl, API server and kubelet: the cases of tests/cli/test_kubectl_forward.py."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dispatcher.cli.api_client import ApiClient
from dispatcher.service.errors import CommandError, ExitCode
from localfleet.controlplane.binaries import selected_minor
from localfleet.controlplane.plane import ControlPlane
from tests.controlplane.fixtures import ControlPlanes
from tests.controlplane.realnode_config import IMAGE
from tests.controlplane.realnode_fixtures import RealNodes, real_node
from tests.system.cluster_api import eventually

__all__ = ["real_node"]
pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
Object = dict[str, Any]
LABELS = {"app.kubernetes.io/part-of": "global-dispatcher", "app.kubernetes.io/component": "dispatcher"}
SCRIPT = (
    'mkdir -p /tmp/www/v1; echo \'{"clusters": [{"name": "alpha"}]}\' > /tmp/www/v1/clusters; '
    "exec httpd -f -p 7480 -h /tmp/www"
)


def pod(name: str, node: str) -> Object:
    main: Object = {"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", SCRIPT]}
    main = {**main, "ports": [{"name": "http", "containerPort": 7480}]}
    spec = {"nodeName": node, "schedulerName": "nobody", "terminationGracePeriodSeconds": 1, "containers": [main]}
    return {"metadata": {"name": name, "labels": {"app": name}}, "spec": {key: one for key, one in spec.items() if one}}


def service(name: str, of: str, labels: Object) -> Object:
    ports = [{"name": "other", "port": 8000, "targetPort": 9}, {"name": "http", "port": 8001, "targetPort": "http"}]
    return {"metadata": {"name": name, "labels": labels}, "spec": {"selector": {"app": of}, "ports": ports}}


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlanes, real_node: RealNodes) -> Iterator[ControlPlane]:
    """Namespaces gd and later, each with a Service; one's pod runs, the other's waits for a node."""
    made = control_plane("east", nodes=0, minor=selected_minor())
    node = real_node(made)
    for namespace, where in (("gd", node.name), ("later", "")):
        made.admin.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        eventually(lambda: made.admin.answers(f"/api/v1/namespaces/{namespace}/serviceaccounts/default"), 60)  # noqa: B023
        made.admin.create(f"/api/v1/namespaces/{namespace}/pods", pod("dispatcher", where))
    made.admin.create("/api/v1/namespaces/gd/services", service("dispatcher", "dispatcher", LABELS))
    made.admin.create("/api/v1/namespaces/later/services", service("dispatcher", "dispatcher", {}))
    path = "/api/v1/namespaces/gd/pods/dispatcher"
    eventually(lambda: made.admin.get(path)["status"].get("phase") == "Running", 120, lambda: node.tails(8))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{made.programs['kubectl'].parent}{os.pathsep}{os.environ['PATH']}")
        patch.setenv("KUBECONFIG", str(made.kubeconfig))
        yield made


def test_the_dispatcher_of_the_current_context_is_found_by_its_labels_and_asked_at_its_port_of_http(
    plane: ControlPlane,
) -> None:
    assert ApiClient("kubectl:").rows("clusters") == [{"name": "alpha"}]


def test_another_context_and_a_service_by_name_are_what_is_asked(plane: ControlPlane) -> None:
    assert ApiClient("kubectl:east#gd/dispatcher").rows("clusters") == [{"name": "alpha"}]


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["clusters", "--context", "east"], id="context after the command"),
        pytest.param(["--context=east", "clusters"], id="context before it"),
        pytest.param(["clusters", "--kubeconfig", "FILE"], id="kubeconfig"),
    ],
)
def test_kubectl_passes_its_flags_on_to_the_plugin_which_asks_that_cluster(
    plane: ControlPlane, words: list[str]
) -> None:
    given = [str(plane.kubeconfig) if word == "FILE" else word for word in words]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    usual = "/nonexistent/kubeconfig" if "FILE" in words else str(plane.kubeconfig)
    told = subprocess.run(
        ["kubectl", "dispatch", *given, "-o", "json"],
        env={**os.environ, "PATH": path, "KUBECONFIG": usual},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (told.returncode, told.stderr) == (0, "")
    assert [one["name"] for one in json.loads(told.stdout)] == ["alpha"]


def test_a_second_service_that_claims_to_be_a_dispatchers_is_told(plane: ControlPlane) -> None:
    plane.admin.create("/api/v1/namespaces/default/services", service("pretender", "nobody", LABELS))
    try:
        with pytest.raises(CommandError, match="several Services claim to be a dispatcher's") as raised:
            ApiClient("kubectl:").rows("clusters")
    finally:
        plane.admin.delete("/api/v1/namespaces/default/services/pretender")
    assert raised.value.code == ExitCode.USAGE


def test_without_a_service_of_a_dispatcher_the_error_says_so(plane: ControlPlane) -> None:
    plane.admin.patch(
        "/api/v1/namespaces/gd/services/dispatcher", {"metadata": {"labels": {"app.kubernetes.io/part-of": "x"}}}
    )
    try:
        with pytest.raises(CommandError, match="no Service of a dispatcher"):
            ApiClient("kubectl:").rows("clusters")
    finally:
        plane.admin.patch("/api/v1/namespaces/gd/services/dispatcher", {"metadata": {"labels": LABELS}})


@pytest.mark.parametrize(
    ("server", "words"),
    [
        pytest.param("kubectl:nowhere", "context was not found for specified context: nowhere", id="no such context"),
        pytest.param(
            "kubectl:#gd/nothing", 'get service nothing.*Error from server.*"nothing" not found', id="no such Service"
        ),
        pytest.param("kubectl:#later/dispatcher", "port-forward.*failed: error: .*", id="pod not running"),
    ],
)
def test_what_keeps_kubectl_from_it_is_told(plane: ControlPlane, server: str, words: str) -> None:
    with pytest.raises(CommandError, match=words) as raised:
        ApiClient(server).rows("clusters")
    assert raised.value.code == ExitCode.UNREACHABLE


def test_a_user_without_the_right_to_list_services_is_told_what_the_server_said(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig_for("default", "gd")))
    with pytest.raises(CommandError, match=r"get services.* failed: Error from server .Forbidden"):
        ApiClient("kubectl:").rows("clusters")
