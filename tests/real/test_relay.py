"""kubectl logs, exec, attach, cp, port-forward and top in east of pods in west, on a real kubelet; and their ends.

Agents and dispatcher are processes as the charts deploy them: the agents dial out, with the chart's rights. The API
server of east believes no kubelet whose certificate its authority has not signed, so the agent there asks for one.
"""

import contextlib
import os
import pty
import re
import ssl
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from localfleet.controlplane.binaries import ensure as ensure_programs
from localfleet.controlplane.binaries import selected_minor
from localfleet.controlplane.components import PlaneSpec
from localfleet.controlplane.plane import KubectlError
from localfleet.controlplane.process import Component
from tests.charts.rendering import NAMESPACE, Helm
from tests.controlplane.fixtures import ControlPlanes
from tests.controlplane.realnode_config import IMAGE
from tests.controlplane.realnode_fixtures import RealNodes, real_node
from tests.real.metrics_server import front_proxy, metrics_server
from tests.real.two_planes import HOME, TARGET, WAIT_S, TwoPlanes, dispatching, grant
from tests.system.cluster_api import eventually
from tests.system.dialled import CLUSTERS
from tests.system.ray_fleet import free_ports

__all__ = ["real_node"]
Object = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
DELEGATED = "web-"  # how the name of web's delegate begins
SIZE = 8 * 1024 * 1024
# The kubectl of the users in east, by its name in `binaries`.
KUBECTL = os.environ.get("GLOBAL_DISPATCHER_TEST_KUBECTL", "kubectl")
# Says something, answers, serves a page, and is sometimes started again.
SCRIPT = """
mkdir -p /tmp/www; echo a page > /tmp/www/index.html; httpd -p 8080 -h /tmp/www
[ -e /keep/again ] || { touch /keep/again; echo first life; exit 3; }
for i in 1 2 3 4 5; do echo "line $i"; done
while read line; do echo "heard $line"; done
sleep 3600
"""


@dataclass
class World(TwoPlanes):
    """Two planes, a real node in the second, and pod default/web of the first, which runs there."""

    unapproved: str = ""  # what kubectl logs said before the serving certificate was approved

    def command(self, *words: str, kubeconfig: Path | None = None) -> list[str]:
        """Of kubectl, in east."""
        return [str(self.home.programs["kubectl"]), f"--kubeconfig={kubeconfig or self.home.kubeconfig}", *words]

    @contextlib.contextmanager
    def running(self, *words: str) -> Iterator["subprocess.Popen[bytes]"]:
        """kubectl, beside the test."""
        env = {"HOME": str(self.folder), "PATH": "/usr/bin:/bin"}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        with subprocess.Popen(self.command(*words), env=env, **pipes) as process:  # type: ignore[call-overload]
            try:
                yield process
            finally:
                process.kill()

    def page(self) -> str:
        """What west's proxy node tells of its pods' usage, to an admin of east."""
        node = self.home.admin.get(f"/api/v1/nodes/global-dispatcher-{TARGET}")
        port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
        path = node["metadata"]["annotations"]["metrics.k8s.io/resource-metrics-path"]
        admin = self.home.authority.client("reader", "system:masters")
        trust = ssl.create_default_context()
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
        trust.load_cert_chain(admin.certificate, admin.key)
        with httpx.Client(verify=trust, trust_env=False, timeout=20) as client:
            return client.get(f"https://127.0.0.1:{port}{path}").raise_for_status().text

    def logs(self, *words: str) -> str:
        return self.home.kubectl("logs", "web", *words)


def web() -> Object:
    container = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", SCRIPT],
        "stdin": True,
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        "volumeMounts": [{"name": "keep", "mountPath": "/keep"}],
    }
    spec = {
        "schedulerName": "global-dispatcher",
        "terminationGracePeriodSeconds": 0,
        "dnsPolicy": "Default",
        "containers": [container],
        "volumes": [{"name": "keep", "emptyDir": {}}],
    }
    return {"metadata": {"name": "web", "annotations": {"global-dispatcher.io/clusters": TARGET}}, "spec": spec}


@pytest.fixture(scope="module")
def world(
    control_plane: ControlPlanes, real_node: RealNodes, helm: Helm, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("relay")
    front = front_proxy(folder / "front-proxy")
    specs = [
        PlaneSpec(name, minor=selected_minor(), api_flags=front, verify_kubelets=name == HOME) for name in CLUSTERS
    ]
    planes = {plane.name: plane for plane in control_plane.together(*specs)}
    if KUBECTL != "kubectl":
        planes[HOME].programs |= {"kubectl": ensure_programs((KUBECTL,))[KUBECTL]}
    nodes = {TARGET: real_node(planes[TARGET])}
    for plane in planes.values():
        grant(plane, helm, "csr", {})
    with dispatching(folder) as (certificates, dispatcher):
        world = World(planes, nodes, folder, certificates, dispatcher, "csr")
        with world.with_agents():
            world.home.admin.create(PODS, web())
            eventually(lambda: second_life(world), WAIT_S, world.told)
            approve(world)
            yield world


def approve(world: World) -> None:
    """The serving certificate that the agent of east waits for, as an admin does it."""
    with pytest.raises(KubectlError) as refused:
        world.logs()
    world.unapproved = str(refused.value)
    (name,) = world.home.kubectl("get", "csr", "-o", "name").split()
    world.home.kubectl("certificate", "approve", name.rpartition("/")[2])
    eventually(lambda: said(world), WAIT_S, world.told)


def second_life(world: World) -> bool:
    status = world.home.admin.get(f"{PODS}/web")["status"]
    return any(one["restartCount"] == 1 and "running" in one["state"] for one in status.get("containerStatuses", ()))


def said(world: World) -> bool:
    """Whether logs come: an agent that has just started may not have read whom it trusts."""
    try:
        return "line 5" in world.logs()
    except KubectlError:
        return False


def test_an_api_server_that_verifies_kubelets_gets_logs_once_the_certificate_is_approved(world: World) -> None:
    assert "certificate signed by unknown authority" in world.unapproved
    assert "line 5" in world.logs()
    (request,) = world.home.admin.get("/apis/certificates.k8s.io/v1/certificatesigningrequests")["items"]
    assert request["spec"]["username"] == f"system:serviceaccount:{NAMESPACE}:agent"
    assert world.home.kubectl("certificate", "approve", request["metadata"]["name"])
    account = world.home.api_for("agent", NAMESPACE)
    asked = {**request["spec"], "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}
    told = {"metadata": {"name": "another"}, "spec": asked}
    assert account.http.post("/apis/certificates.k8s.io/v1/certificatesigningrequests", json=told).status_code == 422


def test_logs_with_all_that_kubectl_asks(world: World) -> None:
    lines = [f"line {number}" for number in range(1, 6)]
    assert world.logs().splitlines() == lines
    assert world.logs("--tail=2").splitlines() == lines[-2:]
    assert world.logs("--previous").splitlines() == ["first life"]
    assert world.logs("--since=1h", "--limit-bytes=6") == "line 1"
    assert world.logs("--timestamps", "--tail=1").split()[1:] == ["line", "5"]
    assert world.logs("--since-time=2100-01-01T00:00:00Z") == ""
    with pytest.raises(KubectlError, match="container other is not valid for pod web"):
        world.logs("-c", "other")


def test_a_followed_log_comes_as_it_is_written(world: World) -> None:
    with world.running("logs", "-f", "--tail=1", "web") as log, world.running("attach", "-i", "web") as attached:
        assert log.stdout is not None
        assert attached.stdin is not None
        assert attached.stdout is not None
        assert log.stdout.readline() == b"line 5\n"
        time.sleep(1)
        attached.stdin.write(b"hello\n")
        attached.stdin.flush()
        assert log.stdout.readline() == b"heard hello\n"
        said = b""
        while b"heard hello\n" not in said:
            said += attached.stdout.readline()


def test_exec_has_exit_codes_and_input(world: World) -> None:
    kubectl = world.home.kubectl
    assert kubectl("exec", "web", "--", "sh", "-c", "echo $((6 * 7))") == "42\n"
    assert kubectl("exec", "-i", "web", "--", "cat", stdin="from home\n") == "from home\n"
    done = subprocess.run(world.command("exec", "web", "--", "sh", "-c", "exit 7"), capture_output=True, check=False)
    assert done.returncode == 7
    with pytest.raises(KubectlError, match=r"no such file or directory|not found"):
        kubectl("exec", "web", "--", "/none")


def test_exec_has_a_terminal(world: World) -> None:
    ours, theirs = pty.openpty()
    subprocess.run(["stty", "rows", "33", "cols", "99"], stdin=theirs, check=True)
    with subprocess.Popen(
        world.command("exec", "-it", "web", "--", "sh", "-c", "sleep 1; stty size; tty"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        said = b""
        with contextlib.suppress(OSError):  # the end of a terminal
            while piece := os.read(ours, 1024):
                said += piece
        assert process.wait(WAIT_S) == 0
    os.close(ours)
    assert b"33 99" in said
    assert b"/dev/pts" in said


def test_cp_brings_files_both_ways(world: World) -> None:
    there, back = world.folder / "there", world.folder / "back"
    there.write_bytes(os.urandom(SIZE))
    begun = time.monotonic()
    world.home.kubectl("cp", str(there), "default/web:/tmp/file")
    world.home.kubectl("cp", "default/web:/tmp/file", str(back))
    print(f"{2 * SIZE / (time.monotonic() - begun) / 1e6:.1f} MB/s")
    assert back.read_bytes() == there.read_bytes()


def test_port_forward_passes_bytes_both_ways(world: World) -> None:
    (port,) = free_ports(1)
    with world.running("port-forward", "web", f"{port}:8080") as process:
        assert process.stdout is not None
        assert b"Forwarding" in process.stdout.readline()
        with httpx.Client(trust_env=False, timeout=20) as client:
            pages = [client.get(f"http://127.0.0.1:{port}/").text for _ in range(20)]
    assert pages == ["a page\n"] * 20


def test_who_has_no_right_at_home_gets_nothing(world: World) -> None:
    alice = world.home.kubeconfig_as("alice")
    for words in (("logs", "web"), ("exec", "web", "--", "id"), ("port-forward", "web", "8080")):
        with pytest.raises(KubectlError, match="Forbidden"):
            world.home.kubectl(*words, kubeconfig=alice)


def test_who_may_only_look_at_home_reads_logs_and_is_refused_exec_and_the_rest(world: World) -> None:
    world.home.kubectl("create", "rolebinding", "reader", "--clusterrole=view", "--user=bob")
    bob = world.home.kubeconfig_as("bob")
    assert "line 5" in world.home.kubectl("logs", "web", kubeconfig=bob)
    for words, verb in ((("exec", "web", "--", "id"), "exec"), (("attach", "web"), "attach"),
                        (("port-forward", "web", ":8080"), "portforward")):  # fmt: skip
        refused = f'pods "web" is forbidden: User "bob" cannot create resource "pods/{verb}" in API group ""'
        with pytest.raises(KubectlError, match=re.escape(refused)):
            world.home.kubectl(*words, kubeconfig=bob)


def test_an_admin_cannot_reach_it_by_the_nodes_proxy(world: World) -> None:
    with pytest.raises(KubectlError):
        world.home.kubectl(
            "get", "--raw", f"/api/v1/nodes/global-dispatcher-{TARGET}/proxy/containerLogs/default/web/main"
        )


def test_describe_shows_what_the_kubelet_there_says_of_a_pod_that_cannot_start(world: World) -> None:
    stuck = web()
    stuck["metadata"]["name"] = "stuck"
    stuck["spec"]["containers"][0]["image"] = "example.invalid/not-there:1"
    world.home.admin.create(PODS, stuck)
    eventually(lambda: "is not present with pull policy of Never" in described(world, "stuck"), WAIT_S, world.told)
    assert f"in cluster {TARGET}" in described(world, "stuck")
    world.home.kubectl("delete", "pod", "stuck")


def described(world: World, name: str) -> str:
    return world.home.kubectl("describe", "pod", name).partition("Events:")[2]


@pytest.fixture(scope="module")
def topped(world: World) -> Iterator[Component]:
    with metrics_server(world.home, world.folder / "metrics-server") as server:
        yield server


def test_top_shows_what_a_remote_pod_uses(world: World, topped: Component) -> None:
    """Its CPU while it works, the name of its container, and its memory as its own kubelet tells it."""
    with world.running("exec", "web", "--", "timeout", "100", "sh", "-c", "while :; do :; done"):
        eventually(lambda: cpu(world) >= 50, WAIT_S, lambda: f"{topped.tail(20)}\n{world.told()}")
    (row,) = eventually(lambda: rows(world, "--containers"), WAIT_S, lambda: topped.tail(20))
    assert row[:2] == ["web", "main"]
    (listed,) = world.home.admin.get("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods")["items"]
    (container,) = listed["containers"]
    memory = samples(world.page())["container_memory_working_set_bytes"]
    assert 0.5 < int(container["usage"]["memory"].removesuffix("Ki")) * 1024 / memory < 2
    with pytest.raises(KubectlError, match="Forbidden"):
        world.home.kubectl("top", "pod", kubeconfig=world.home.kubeconfig_as("alice"))


def rows(world: World, *words: str) -> list[list[str]]:
    try:
        return [line.split() for line in world.home.kubectl("top", "pod", "--no-headers", *words).splitlines()]
    except KubectlError:  # "metrics not available yet"
        return []


def cpu(world: World) -> int:
    """Thousandths of a core."""
    return sum(int(row[1].removesuffix("m")) for row in rows(world))


def test_the_page_of_a_proxy_node_says_what_the_kubelet_there_says(world: World) -> None:
    """The same families and labels, types included; numbers and times between two looks at the kubelet itself."""
    path = f"/api/v1/nodes/{world.nodes[TARGET].name}/proxy/metrics/resource"
    before = theirs(world, path)
    pages: list[str] = []

    def newer() -> bool:
        """What several ask for is some seconds old."""
        pages.append(world.page())
        found, earlier = taken(pages[-1], "web"), taken(before, DELEGATED)
        return all(found[kind] >= earlier[kind] for kind in found)

    eventually(newer, WAIT_S, world.told)
    page, after = pages[-1], theirs(world, path)
    found, first, last = (families(one) for one in (page, before, after))
    assert set(found) == {
        *(f"container_{what}" for what in ("cpu_usage_seconds", "memory_working_set_bytes", "start_time_seconds")),
        *(f"pod_{what}" for what in ("cpu_usage_seconds", "memory_working_set_bytes")),
        "resource_scrape_error",
    }
    assert {name: one.type for name, one in found.items()} == {name: first[name].type for name in found}
    assert samples(page).pop("resource_scrape_error") == 0
    for name in found.keys() - {"resource_scrape_error"}:
        (ours,) = found[name].samples
        (low,), (high,) = ([one for one in of[name].samples if DELEGATED in one.labels["pod"]] for of in (first, last))
        assert ours.labels == {**low.labels, "pod": "web"}
        if "memory" not in name:
            assert low.value - 1e-6 <= ours.value <= high.value + 1e-6
        assert (ours.timestamp is None) == (low.timestamp is None)
        assert float(low.timestamp or 0) <= float(ours.timestamp or 0) <= float(high.timestamp or 0)


def taken(page: str, pod: str) -> dict[str, float]:
    """When the CPU of a pod and of its container were read, by the kubelet's clock; 0: not yet."""
    return {kind: _read_at(samples_of(page, f"{kind}_cpu_usage_seconds"), pod) for kind in ("container", "pod")}


def _read_at(samples: list[Sample], pod: str) -> float:
    named = [one for one in samples if one.labels["pod"].startswith(pod)]
    return float(named[0].timestamp or 0) if named else 0.0


def samples_of(page: str, family: str) -> list[Sample]:
    found = families(page).get(family)
    return list(found.samples) if found is not None else []


def theirs(world: World, path: str) -> str:
    return world.planes[TARGET].kubectl("get", "--raw", path)


def families(page: str) -> dict[str, Metric]:
    return {one.name: one for one in text_string_to_metric_families(page)}


def samples(page: str) -> dict[str, float]:
    return {one.name: one.value for family in families(page).values() for one in family.samples}


def test_logs_of_a_pod_whose_cluster_is_away_say_so_and_exec_that_loses_it_fails(world: World) -> None:
    with world.running("exec", "-i", "web", "--", "sh", "-c", "echo begun; sleep 600") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        world.agents[TARGET].__exit__(None, None, None)
        assert process.wait(60) != 0
    with pytest.raises(KubectlError, match='runs in cluster "west", which cannot be asked'):
        world.logs()
    world.started(TARGET).wait_ready()
    eventually(lambda: said(world), WAIT_S, world.told)
