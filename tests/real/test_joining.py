"""A plain cluster made ready by one command, joined by one, revoked by one: real API servers, Helm, a real gateway.

The agent and the dispatcher are processes as the charts deploy them, with the files that the commands have made.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
import yaml

from dispatcher.config.certificates import ROLES
from localfleet.controlplane.components import PlaneSpec
from localfleet.controlplane.plane import ControlPlane, KubectlError
from tests.agents.runtime.admission.cases import ASKS, CASES, pod
from tests.charts.rendering import CHARTS, KUBELET_ACCOUNT, NAMESPACE, Helm
from tests.controlplane.fixtures import ControlPlanes
from tests.system.cluster_api import eventually
from tests.system.ray_fleet import JoinedAgent, Process, environment, free_ports

Object = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods?dryRun=All"
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
ACCOUNTS = {"observer": "agent-observer", "executor": "agent"}  # as the chart names them
CUT_S, OUT_S, WAIT_S = 60.0, 15.0, 120.0


def command(*words: str, path: str = "") -> "subprocess.CompletedProcess[str]":
    env = {**environment(), "PATH": f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"]}
    line = [sys.executable, "-m", "dispatcher.cli.main", *words]
    return subprocess.run(line, env=env, capture_output=True, text=True, check=False, timeout=300)


def told(*words: str) -> Object:
    done = command(*words, "-o", "json")
    assert done.returncode == 0, done.stderr + done.stdout
    found: Object = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlanes) -> ControlPlane:
    (plane,) = control_plane.together(PlaneSpec("east"))
    return plane


# --- install ---------------------------------------------------------------------------------------------------------


def installing(plane: ControlPlane, *words: str) -> Object:
    return told("install", "--context", "east", "--kubeconfig", str(plane.kubeconfig), "--user", "alice", *words)


def may(plane: ControlPlane, *words: str) -> bool:
    try:
        return plane.kubectl("auth", "can-i", *words, "--as=alice").strip() == "yes"
    except KubectlError:
        return False


def scheduler_of(plane: ControlPlane, annotations: dict[str, str] | None, spec: Object) -> str:
    return str(plane.admin.create(PODS, pod(annotations, **spec))["spec"]["schedulerName"])


def test_install_gives_a_plain_cluster_the_opt_in_and_the_roles_and_takes_them_back(plane: ControlPlane) -> None:
    assert all("would be made" in step for step in installing(plane, "--dry-run")["steps"])
    assert not may(plane, "create", "pods/binding")
    first = installing(plane)
    assert {step.rpartition(": ")[2] for step in first["steps"]} == {"made"}
    assert first["opt_in"]["by"] == "MutatingAdmissionPolicy v1 (global-dispatcher)"
    for one in CASES:
        annotations, spec, expected = cast("tuple[dict[str, str] | None, Object, str]", one.values)
        assert scheduler_of(plane, annotations, spec) == expected
    assert may(plane, "create", "pods/binding")
    assert may(plane, "get", "leases/global-dispatcher", "-n", "kube-node-lease")
    assert not may(plane, "get", "secrets")
    again = installing(plane)
    assert {step.rpartition(": ")[2] for step in again["steps"]} == {"is as it should be"}
    installing(plane, "--may", "secrets")
    assert may(plane, "get", "secrets")
    less = installing(plane, "--may", "secrets", "--secrets-in", "default")
    assert "ClusterRoleBinding global-dispatcher-run-secrets: removed" in less["steps"]
    assert [may(plane, "get", "secrets", "-n", one) for one in ("default", "kube-system")] == [True, False]
    installing(plane)
    assert not may(plane, "get", "secrets", "-n", "default")
    gone = installing(plane, "--uninstall")
    removed = {step.rpartition(": ")[0] for step in gone["steps"] if step.endswith(": removed")}
    assert removed == {step.rpartition(": ")[0] for step in first["steps"]}  # what --may gives was never there
    eventually(lambda: scheduler_of(plane, ASKS, {}) == "default-scheduler", WAIT_S, plane.tails)
    assert not may(plane, "create", "pods/binding")


def test_who_lacks_rights_is_told_which_before_anything_is_made(plane: ControlPlane, tmp_path: Path) -> None:
    plane.kubectl("create", "clusterrole", "reader", "--verb=get", "--resource=namespaces")
    plane.kubectl("create", "clusterrolebinding", "reader", "--clusterrole=reader", "--user=bob")
    bob = str(plane.kubeconfig_as("bob"))
    fleet = tmp_path / "fleet"
    done = command("join", "--context", "east", "--kubeconfig", bob, "--folder", str(fleet), "--gateway", "gw.example")
    assert done.returncode == 1
    assert "you may not get secrets, create secrets, patch secrets in namespace global-dispatcher" in done.stderr
    assert not fleet.exists()
    done = command("install", "--context", "east", "--kubeconfig", bob)
    assert "ClusterRole global-dispatcher-run" in done.stderr
    assert "forbidden" in done.stderr


# --- join and revoke -------------------------------------------------------------------------------------------------


class Dispatcher(Process):
    """`global-dispatcher run` with the file to which `join` has added its cluster."""

    def __init__(self, folder: Path, config: Path, port: int) -> None:
        self.port = port
        words = [sys.executable, "-m", "dispatcher.cli.main", "run", "--config", str(config)]
        super().__init__(words, folder / "dispatcher.log", environment())

    def ready(self) -> list[bool]:
        assert self.code is None, f"ended with {self.code}:\n{self.tail()}"
        answer = httpx.get(f"http://127.0.0.1:{self.port}/v1/clusters", timeout=5, trust_env=False)
        return [row["ready"] for row in answer.json()["clusters"]]


class Site:
    """A folder with the fleet's authority, a dispatcher.yaml, and what the agent's pod would have mounted."""

    def __init__(self, plane: ControlPlane, helm: Helm, folder: Path) -> None:
        self.plane, self.helm, self.folder, self.fleet = plane, helm, folder, folder / "fleet"
        self.port, self.gateway_port = free_ports(2)
        self.config, self.values = folder / "dispatcher.yaml", folder / "east.yaml"
        gateway = {"port": self.gateway_port, "cert_file": "fleet/gateway.crt", "key_file": "fleet/gateway.key"}
        settings = {
            "clusters": [],
            "gateway": {**gateway, "client_ca_file": "fleet/ca.crt"},
            "signing": {"cert_file": "fleet/signing.crt", "key_file": "fleet/signing.key"},
            "http": {"port": self.port},
            "leader_election": {"enabled": False},
        }
        self.config.write_text(yaml.safe_dump(settings))

    def join(self) -> None:
        """One command; then the agent's files are what its Secrets say."""
        kubeconfig = ["--kubeconfig", str(self.plane.kubeconfig), "--folder", str(self.fleet)]
        out = ["--config", str(self.config), "--values-out", str(self.values), "--helm", str(CHARTS / "agent")]
        where = ["--gateway", f"127.0.0.1:{self.gateway_port}"]
        helm = str(Path(self.helm.program).parent)
        done = command("join", "--context", "east", *kubeconfig, *where, *out, path=helm)
        assert done.returncode == 0, done.stderr + done.stdout
        for role in ROLES:
            (self.folder / role).mkdir(exist_ok=True)
            for name in (f"global-dispatcher-agent-{role}", "global-dispatcher-key"):
                for key, text in self.plane.admin.get(f"{SECRETS}/{name}")["data"].items():
                    (self.folder / role / key).write_bytes(b64decode(text))

    @contextlib.contextmanager
    def agent(self) -> Iterator[Callable[[], str]]:
        """Its two processes, with the values, the Secrets and the rights that they have in the cluster; their logs."""
        with contextlib.ExitStack() as stack:
            running = [stack.enter_context(self.half(role)) for role in ROLES]
            yield lambda: "\n".join(one.tail() for one in running)

    def half(self, role: str) -> JoinedAgent:
        """One of them."""
        values, folder = yaml.safe_load(self.values.read_text()), self.folder / role
        files = {"cert_file": "tls.crt", "key_file": "tls.key", "ca_file": "ca.crt"}
        gateway = {key: str(folder / file) for key, file in files.items()}
        settings = {
            "cluster": values["cluster"],
            "role": role,
            "kubeconfig": str(self.plane.kubeconfig_for(ACCOUNTS[role], NAMESPACE, 3600)),
            "context": "east",
            **({"key_file": str(folder / "key.pem")} if role == "executor" else {}),
            "kubelet": {"interval_s": 60, "account": KUBELET_ACCOUNT},
            "gateway": {"urls": values["gateway"]["urls"], "longest_pause_s": 1, **gateway},
        }
        return JoinedAgent(folder, settings, ip="127.0.0.1")


@pytest.fixture
def site(plane: ControlPlane, helm: Helm, tmp_path: Path) -> Site:
    return Site(plane, helm, tmp_path)


def test_a_cluster_joins_by_one_command_and_a_revoked_one_is_cut_and_kept_out_until_it_joins_again(site: Site) -> None:
    site.join()
    assert told("config", "check", str(site.config))["ok"]
    with Dispatcher(site.folder, site.config, site.port) as dispatcher:
        with site.agent() as tails:
            eventually(lambda: dispatcher.ready() == [True], WAIT_S, lambda: dispatcher.tail() + tails())
            revoked = told("revoke", "east", "--folder", str(site.fleet))
            assert len(revoked["revoked"]) == 3  # of the whole agent, and of its two halves
            begun = time.monotonic()
            eventually(lambda: dispatcher.ready() == [False], CUT_S, dispatcher.tail)
            print(f"cut after {time.monotonic() - begun:.1f} s")
        with site.agent() as tails:  # with the certificate of before
            until = time.monotonic() + OUT_S
            while time.monotonic() < until:
                assert dispatcher.ready() == [False], dispatcher.tail()
                time.sleep(0.5)
            site.join()
            eventually(lambda: dispatcher.ready() == [True], WAIT_S, lambda: dispatcher.tail() + tails())
    assert site.config.read_text().count("east") == 1
