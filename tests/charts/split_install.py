"""Observer and executor of the agent's chart, installed on a real control plane and run as processes."""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from localfleet.controlplane.plane import ControlPlane
from tests.charts.pods import run_container
from tests.charts.rendering import CHARTS, NAMESPACE, Helm, Object, containers, of_kind, write_mounted
from tests.charts.test_split_agent import of_role
from tests.system.ray_fleet import Process, free_ports

ACCOUNTS = {"observer": "agent-observer", "executor": "agent"}


def installed(helm: Helm, plane: ControlPlane, gateway: str, more: Object | None = None) -> list[Object]:
    """helm install, with `more` values; the objects as the release has them."""
    plane.admin.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    config: Object = {"kubelet": {"interval_s": 2, "timeout_s": 1}}
    given = {"cluster": plane.name, "config": config, "gateway": {"urls": [gateway]}}
    where = ("-n", NAMESPACE)
    words = ("install", "agent", str(CHARTS / "agent"), *where, "-f", helm.values_file({**given, **(more or RELAY)}))
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
    if told.get("relay", {}).get("port"):
        told["relay"] = {"port": free_ports(1)[0], "host": "127.0.0.1"}
    told["key_file"] = str(certificates / f"{plane.name}.pem") if role == "executor" else "/nonexistent/key.pem"
    stem = certificates / f"cluster-{plane.name}.{role}"
    told["gateway"] |= {"cert_file": f"{stem}.crt", "key_file": f"{stem}.key", "ca_file": str(certificates / "ca.crt")}
    (files / "agent.yaml").write_text(yaml.safe_dump(told))
    (container,) = containers([of_role(objects, role)])
    log = folder / f"{plane.name}-{role}.log"
    return run_container(container, "127.0.0.1", {"/etc/global-dispatcher": files}, log, before)


def write_private_key(objects: list[Object], path: Path) -> None:
    """What the Secret of the chart holds, as a file that its owner alone reads."""
    (secret,) = [one for one in of_kind(objects, "Secret") if one["metadata"]["name"] == "agent-key"]
    path.write_bytes(base64.b64decode(secret["data"]["key.pem"]))
    path.chmod(0o600)
