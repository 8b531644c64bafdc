"""ClusterProfiles on a real API server: read as an inventory, reached through a credential program, written to."""

import asyncio
import json
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
import yaml

from dispatcher.service.files.cluster_profiles import PREFIX, ClusterProfiles
from localfleet.controlplane.components import PlaneSpec
from localfleet.controlplane.plane import ControlPlane
from shared.kube.client import KubeClient
from shared.kube.session import Access
from tests.controlplane.fixtures import ControlPlanes
from tests.system.cluster_api import eventually
from tests.system.ray_fleet import environment

Object = dict[str, Any]
GROUP, NAMESPACE = "multicluster.x-k8s.io", "fleet-inventory"
FOLDER = f"/apis/{GROUP}/v1alpha1/namespaces/{NAMESPACE}/clusterprofiles"
_ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
CRD: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"clusterprofiles.{GROUP}", "annotations": {"api-approved.kubernetes.io": "unapproved"}},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"kind": "ClusterProfile", "plural": "clusterprofiles"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _ANY, "status": _ANY}}},
            }
        ],
    },
}
# Gives the token only to whom it is told of the right cluster, as a program of a cloud does.
PROGRAM = """#!/bin/sh
case "$KUBERNETES_EXEC_INFO" in *"$WANTED"*) ;; *) echo "told of no cluster" >&2; exit 1;; esac
echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "'"$TOKEN"'"}}'
"""


@pytest.fixture(scope="module")
def hub(control_plane: ControlPlanes) -> ControlPlane:
    (plane,) = control_plane.together(PlaneSpec("east"))
    plane.apply(CRD, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    plane.kubectl("create", "serviceaccount", "joiner", "-n", "default")
    plane.kubectl(
        "create", "clusterrolebinding", "joiner", "--clusterrole=cluster-admin", "--serviceaccount=default:joiner"
    )
    eventually(lambda: plane.admin.get(FOLDER)["items"] == [], 30, plane.tails)
    return plane


def profile(hub: ControlPlane, name: str, provider: str) -> None:
    """A profile of the hub itself, with that access provider."""
    config = yaml.safe_load(hub.kubeconfig.read_text())
    cluster = dict(config["clusters"][0]["cluster"])
    if file := cluster.pop("certificate-authority", None):
        cluster["certificate-authority-data"] = b64encode(Path(file).read_bytes()).decode()
    meta = {"name": name, "namespace": NAMESPACE}
    kind = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "ClusterProfile"}
    hub.admin.create(FOLDER, {**kind, "metadata": meta, "spec": {"clusterManager": {"name": "test"}}})
    status = {
        "accessProviders": [{"name": provider, "cluster": cluster}],
        "properties": [{"name": "theirs", "value": "1"}],
    }
    hub.kubectl("patch", "clusterprofile", name, "-n", NAMESPACE, "--subresource=status", "--type=merge",
                "-p", json.dumps({"status": status}))  # fmt: skip


def command(*words: str) -> "subprocess.CompletedProcess[str]":
    line = [sys.executable, "-m", "dispatcher.cli.main", *words]
    return subprocess.run(line, env=environment(), capture_output=True, text=True, check=False, timeout=120)


def test_the_inventory_becomes_a_kubeconfig_that_kubectl_and_our_commands_take(
    hub: ControlPlane, tmp_path: Path
) -> None:
    profile(hub, "west", "cloud")
    profile(hub, "odd", "unknown")
    program, providers, out = tmp_path / "get-token", tmp_path / "providers.json", tmp_path / "fleet.kubeconfig"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    server = yaml.safe_load(hub.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    env = {"TOKEN": hub.token_for("joiner"), "WANTED": server}
    wanted = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program), "provideClusterInfo": True}
    wanted["env"] = [{"name": name, "value": value} for name, value in env.items()]
    providers.write_text(json.dumps({"providers": [{"name": "cloud", "execConfig": wanted}]}))
    where = ["--kubeconfig", str(hub.kubeconfig), "--context", "east"]
    done = command(
        "inventory", NAMESPACE, *where, "--providers", str(providers), "--kubeconfig-out", str(out), "-o", "json"
    )
    assert done.returncode == 1, done.stderr  # of one profile there is no way in
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert (rows["west"]["context"], rows["west"]["problem"]) == ("west", "")
    assert "none of the providers file" in rows["odd"]["problem"]
    assert "kube-system" in hub.kubectl("--context", "west", "get", "namespaces", kubeconfig=out)
    made = command("install", "--context", "west", "--kubeconfig", str(out), "--dry-run")
    assert made.returncode == 0, made.stderr
    lacking = ["--providers", str(providers), "--kubeconfig-out", str(out)]
    before = out.read_text()
    nobody = command("inventory", "default", *where, *lacking)
    assert nobody.returncode == 1
    assert f"{out} stays as it is" in nobody.stderr
    providers.write_text(json.dumps({"providers": [{"name": "another", "execConfig": wanted}]}))
    assert command("inventory", NAMESPACE, *where, *lacking).returncode == 1
    assert out.read_text() == before, "a provider that is away takes no context away"
    again = command("inventory", NAMESPACE, *where)
    assert again.returncode == 0, again.stderr
    assert server in again.stdout


def test_readings_are_written_beside_what_others_say(hub: ControlPlane) -> None:
    profile(hub, "north", "cloud")

    async def publish(value: str) -> int:
        client = KubeClient(Access(str(hub.kubeconfig), "east"))
        try:
            ours = {"name": f"{PREFIX}allocatable.cpu", "value": value, "lastObservedTime": "2026-01-01T00:00:00Z"}
            return await ClusterProfiles(client, NAMESPACE).publish({"north": [ours]})
        finally:
            await client.close()

    assert [asyncio.run(publish(value)) for value in ("4", "8")] == [1, 1]
    told = {one["name"]: one["value"] for one in hub.admin.get(f"{FOLDER}/north")["status"]["properties"]}
    assert told == {"theirs": "1", f"{PREFIX}allocatable.cpu": "8"}


def test_where_there_are_no_profiles_it_is_said(hub: ControlPlane) -> None:
    done = command("inventory", "default", "--kubeconfig", str(hub.kubeconfig), "--context", "east")
    assert (done.returncode, done.stdout) == (0, "")
    assert "no ClusterProfile in namespace default" in done.stderr
