"""Observer and executor installed on real control planes: each works with the rights of its own account alone."""

import base64
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from dispatcher.service.gateway.authority import ensure
from localfleet.controlplane.binaries import selected_minor
from localfleet.controlplane.components import PlaneSpec
from localfleet.controlplane.plane import ControlPlane
from tests.charts.pods import run_container
from tests.charts.rendering import CHARTS, NAMESPACE, Helm, Object, containers, of_kind, write_mounted
from tests.charts.test_install import DEPLOYMENTS, PODS, deployment, policies
from tests.charts.test_split_agent import of_role
from tests.controlplane.fixtures import ControlPlanes
from tests.system.cluster_api import eventually
from tests.system.dialled import CLUSTERS, Dispatcher
from tests.system.ray_fleet import Process, free_ports

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]

ACCOUNTS = {"observer": "agent-observer", "executor": "agent"}
HOME, AWAY = CLUSTERS
READING = {"get", "list", "watch"}


@pytest.fixture(scope="module")
def planes(control_plane: ControlPlanes) -> dict[str, ControlPlane]:
    specs = [PlaneSpec(name, nodes=4, minor=selected_minor()) for name in CLUSTERS]
    return {plane.name: plane for plane in control_plane.together(*specs)}


def installed(helm: Helm, plane: ControlPlane, gateway: str) -> list[Object]:
    """helm install; the objects as the release has them."""
    plane.admin.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    config: Object = {"kubelet": {"interval_s": 2, "timeout_s": 1}}
    given = {"cluster": plane.name, "config": config, "gateway": {"urls": [gateway]}}
    where = ("-n", NAMESPACE)
    words = ("install", "agent", str(CHARTS / "agent"), *where, "-f", helm.values_file({**given, **RELAY}))
    helm(*words, KUBECONFIG=str(plane.kubeconfig))
    manifest = helm("get", "manifest", "agent", *where, KUBECONFIG=str(plane.kubeconfig))
    return [one for one in yaml.safe_load_all(manifest) if one]


RELAY: Object = {"relay": {"enabled": False}}  # the API server reaches no address of these pods


def start(
    objects: list[Object],
    plane: ControlPlane,
    role: str,
    folder: Path,
    certificates: Path,
    before: Sequence[str] = (),
) -> Process:
    """The container with the token of its service account, and the files that its Deployment mounts, no others."""
    files = write_mounted(objects, folder / f"{plane.name}-{role}")
    told: Any = yaml.safe_load((files / "agent.yaml").read_text())
    told |= {"kubeconfig": str(plane.kubeconfig_for(ACCOUNTS[role], NAMESPACE)), "context": plane.name}
    told["health"] = {"port": free_ports(1)[0]}
    told["key_file"] = str(certificates / f"{plane.name}.pem") if role == "executor" else "/nonexistent/key.pem"
    stem = certificates / f"cluster-{plane.name}.{role}"
    told["gateway"] |= {"cert_file": f"{stem}.crt", "key_file": f"{stem}.key", "ca_file": str(certificates / "ca.crt")}
    (files / "agent.yaml").write_text(yaml.safe_dump(told))
    (container,) = containers([of_role(objects, role)])
    log = folder / f"{plane.name}-{role}.log"
    return run_container(container, "127.0.0.1", {"/etc/global-dispatcher": files}, log, before)


@pytest.fixture(scope="module")
def fleet(helm: Helm, planes: dict[str, ControlPlane], tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("split")
    certificates = folder / "certificates"
    ensure(certificates, ["127.0.0.1"], CLUSTERS)
    with ExitStack() as stack:
        dispatcher = stack.enter_context(Dispatcher(folder, certificates))
        agents = []
        for name, plane in planes.items():
            objects = installed(helm, plane, f"wss://127.0.0.1:{dispatcher.gateway_port}")
            write_private_key(objects, certificates / f"{name}.pem")
            agents += [stack.enter_context(start(objects, plane, role, folder, certificates)) for role in ACCOUNTS]
        eventually(
            lambda: dispatcher.ready() == [True, True],
            90,
            lambda: "\n".join(one.tail() for one in (dispatcher, *agents)),
        )
        yield


def write_private_key(objects: list[Object], path: Path) -> None:
    """What the Secret of the chart holds, as a file that its owner alone reads."""
    (secret,) = [one for one in of_kind(objects, "Secret") if one["metadata"]["name"] == "agent-key"]
    path.write_bytes(base64.b64decode(secret["data"]["key.pem"]))
    path.chmod(0o600)


@pytest.mark.usefixtures("fleet")
def test_pods_run_elsewhere_and_the_observers_account_writes_nothing(planes: dict[str, ControlPlane]) -> None:
    home, away = planes[HOME], planes[AWAY]
    named = {} if policies(home) else {"schedulerName": "global-dispatcher"}
    home.admin.create(DEPLOYMENTS, deployment("far", 3, {"global-dispatcher.io/clusters": AWAY}, **named))

    def ready() -> bool:
        return bool(home.admin.get(f"{DEPLOYMENTS}/far")["status"].get("readyReplicas") == 3)

    eventually(ready, 90, lambda: json.dumps(home.admin.get(PODS)["items"])[-3000:])
    home.admin.delete(f"{DEPLOYMENTS}/far")
    eventually(lambda: not home.admin.get(PODS)["items"] and not away.admin.get(PODS)["items"], 60)
    for plane in planes.values():
        done = {
            role: [event for event in plane.audit.events() if event.user.username.endswith(f":{NAMESPACE}:{account}")]
            for role, account in ACCOUNTS.items()
        }
        refused = {(role, event.action) for role in done for event in done[role] if event.denied or event.code == 403}
        assert not refused
        assert {event.verb for event in done["observer"]} <= READING
        assert {event.verb for event in done["executor"]} > READING
        watched = {event.object_ref.resource for event in done["executor"] if event.verb == "watch"}
        assert watched == {"nodes", "pods", "namespaces", "poddisruptionbudgets"}
