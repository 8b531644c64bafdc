"""kubectl logs, exec, attach, cp, port-forward and top, said to one embedded cluster of a pod that runs in another.

First on the fake kubelet there, which runs nothing; then at the same node with a kubelet that acts.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from dispatcher.service.gateway.authority import ensure
from localfleet.embedded.fleet import ClusterSpec, EmbeddedFleet
from tests.controlplane.programs import KUBECTL, NO_KUBECTL
from tests.system.acting_kubelet import acting_kubelet
from tests.system.cluster_api import ClusterApi, eventually
from tests.system.dialled import CLUSTERS, Dispatcher, pod, running, settings
from tests.system.ray_fleet import JoinedAgent, free_ports

pytestmark = pytest.mark.skipif(not KUBECTL, reason=NO_KUBECTL)
HOME, TARGET = CLUSTERS
WAIT_S = 60.0
SIZE = 4 * 1024 * 1024


@dataclass
class World:
    """Pod default/web of east runs in west, on the fake kubelet of its one node."""

    folder: Path
    fleet: EmbeddedFleet
    agents: dict[str, JoinedAgent] = field(default_factory=dict)

    def command(self, *words: str, cluster: str = HOME) -> list[str]:
        return [KUBECTL, f"--kubeconfig={self.fleet.kubeconfig}", f"--context={cluster}", *words]

    def top(self, cluster: str) -> list[list[str]]:
        """Name, CPU and memory of each pod; none before there are figures."""
        command = self.command("top", "pod", "--no-headers", cluster=cluster)
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        return [line.split() for line in done.stdout.splitlines()]

    def kubectl(self, *words: str, code: int = 0, stdin: str = "") -> str:
        return self.kubectl_at(HOME, *words, code=code, stdin=stdin)

    def kubectl_at(self, cluster: str, *words: str, code: int = 0, stdin: str = "") -> str:
        command = self.command(*words, cluster=cluster)
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    @contextmanager
    def beside(self, *words: str) -> Iterator["subprocess.Popen[bytes]"]:
        """kubectl, beside the test."""
        pipe = subprocess.PIPE
        with subprocess.Popen(self.command(*words), stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT) as process:
            try:
                yield process
            finally:
                process.kill()

    def start_agent(self, cluster: str, certificates: Path, port: int) -> JoinedAgent:
        folder = self.folder / f"agent-{cluster}"
        folder.mkdir()
        given = settings(self.fleet, cluster, certificates, port)
        relay: dict[str, Any] = {"host": "127.0.0.1", "port": free_ports(1)[0]}
        given |= {"executor": {"relay": "all"}, "relay": relay}
        self.agents[cluster] = JoinedAgent(folder, given, ip="127.0.0.1")
        return self.agents[cluster]

    def tails(self) -> str:
        return "\n".join(agent.tail() for agent in self.agents.values())


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("remote-kubectl")
    certificates = folder / "certificates"
    ensure(certificates, ["127.0.0.1"], CLUSTERS)
    specs = [ClusterSpec(name, nodes=1, options=("--metric-resolution-s", "2")) for name in CLUSTERS]
    with ExitStack() as stack:
        world = World(folder, stack.enter_context(EmbeddedFleet.start(specs, folder / "fleet")))
        dispatcher = stack.enter_context(Dispatcher(folder, certificates))
        for name in CLUSTERS:
            stack.enter_context(world.start_agent(name, certificates, dispatcher.gateway_port))
        eventually(lambda: dispatcher.ready() == [True, True], WAIT_S, dispatcher.tail)
        east = ClusterApi(world.fleet.kubeconfig, HOME)
        stack.callback(east.close)
        east.create("/api/v1/namespaces/default/pods", pod("web", TARGET))
        eventually(lambda: running(east, "web"), WAIT_S, dispatcher.tail)
        yield world


@pytest.fixture(scope="module")
def acting(world: World) -> Iterator[World]:
    """West's node has a kubelet that acts, from now on."""
    west = ClusterApi(world.fleet.kubeconfig, TARGET)
    with acting_kubelet() as port:
        addresses = [{"type": "InternalIP", "address": "127.0.0.1"}]
        status = {"addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}
        west.merge("/api/v1/nodes/west-node-000/status", {"status": status})
        yield world
    west.close()


def test_the_log_is_that_of_the_kubelet_there(world: World) -> None:
    assert re.match("main started on west-node-000; this container is simulated", world.kubectl("logs", "web"))


def test_describe_tells_what_the_kubelet_there_says_of_the_containers(world: World) -> None:
    told = re.compile(rf"Normal +Started .*in cluster {TARGET}: Started all containers")
    eventually(lambda: told.search(world.kubectl("describe", "pod", "web")), WAIT_S, world.tails)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["exec", "web", "--", "id"], "nothing can be executed in it"),
        (["cp", "/etc/hostname", "default/web:/tmp/x"], "nothing can be executed in it"),
        (["attach", "web"], "there is nothing to attach to"),
        (["port-forward", "web", ":80"], "nothing listens on its ports"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_kubelet_that_runs_nothing_says_so(world: World, words: list[str], why: str) -> None:
    told = f"pod default/web is simulated by an embedded cluster, where no container really runs, so {why}"
    assert told in world.kubectl(*words, code=1)


def test_top_shows_what_the_kubelet_there_tells(world: World) -> None:
    eventually(lambda: bool(world.top(HOME)), WAIT_S, world.tails)
    ((name, cpu, memory),), ((delegate, cpu_there, memory_there),) = world.top(HOME), world.top(TARGET)
    assert (name, delegate.startswith("web-")) == ("web", True)
    assert abs(_number(cpu) - _number(cpu_there)) <= 2
    assert abs(_number(memory) - _number(memory_there)) <= 1


def copy_of(world: World, name: str = "web") -> dict[str, Any]:
    """The pod as it is where it runs."""
    every = json.loads(world.kubectl_at(TARGET, "get", "pods", "-o", "json"))["items"]
    (found,) = (one for one in every if one["metadata"]["name"].startswith(f"{name}-"))
    copy: dict[str, Any] = found
    return copy


def test_what_changes_of_the_pod_reaches_the_copy_that_runs(world: World) -> None:
    world.kubectl("label", "pod", "web", "tier=front")
    world.kubectl("set", "image", "pod/web", "main=example.invalid/app:2")
    more = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "250m"}}}]}}
    world.kubectl("patch", "pod", "web", "--subresource=resize", "-p", json.dumps(more))

    def arrived() -> bool:
        found = copy_of(world)
        (main,) = found["spec"]["containers"]
        label = found["metadata"]["labels"].get("tier")
        return (label, main["image"], main["resources"].get("requests")) == (
            "front",
            "example.invalid/app:2",
            {"cpu": "250m"},
        )

    eventually(arrived, WAIT_S, world.tails)
    world.kubectl("label", "pod", "web", "tier-")
    eventually(lambda: "tier" not in copy_of(world)["metadata"]["labels"], WAIT_S, world.tails)
    assert {"global-dispatcher.io/delegate", "topology.kubernetes.io/zone"} <= copy_of(world)["metadata"][
        "labels"
    ].keys()


def test_a_debug_container_runs_where_the_pod_does_and_shows_at_home(world: World) -> None:
    east = ClusterApi(world.fleet.kubeconfig, HOME)
    east.create("/api/v1/namespaces/default/pods", pod("probed", TARGET))
    eventually(lambda: running(east, "probed"), WAIT_S, world.tails)
    east.close()
    tools = ("--image=example.invalid/tools:1", "--container=tools", "--profile=baseline")
    world.kubectl("debug", "probed", *tools, "--", "sleep", "60")

    def shown() -> bool:
        status = json.loads(world.kubectl("get", "pod", "probed", "-o", "json"))["status"]
        told = status.get("ephemeralContainerStatuses") or ()
        return [(one["name"], "running" in one["state"]) for one in told] == [("tools", True)]

    eventually(shown, WAIT_S, world.tails)
    assert [one["name"] for one in copy_of(world, "probed")["spec"]["ephemeralContainers"]] == ["tools"]
    assert "tools started on west-node-000" in world.kubectl("logs", "probed", "-c", "tools")


def _number(quantity: str) -> int:
    return int(re.sub(r"\D", "", quantity))


def test_exec_has_output_input_and_exit_codes(acting: World) -> None:
    assert acting.kubectl("exec", "web", "--", "sh", "-c", "echo $((6 * 7))") == "42\n"
    assert acting.kubectl("exec", "-i", "web", "--", "cat", stdin="from home\n") == "from home\n"
    assert "exit code 7" in acting.kubectl("exec", "web", "--", "sh", "-c", "exit 7", code=7)


def test_exec_reaches_a_debug_container_by_its_name(acting: World) -> None:
    assert acting.kubectl("exec", "probed", "-c", "tools", "--", "sh", "-c", "echo $((6 * 7))") == "42\n"


def test_attach_passes_input_and_output(acting: World) -> None:
    with acting.beside("attach", "-i", "web") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"hello\n")
        process.stdin.flush()
        while (line := process.stdout.readline()) != b"heard hello\n":
            assert line, "it ended"


def test_cp_brings_files_both_ways(acting: World) -> None:
    here, there, back = (acting.folder / name for name in ("here", "there", "back"))
    here.write_bytes(os.urandom(SIZE))
    acting.kubectl("cp", str(here), f"default/web:{there}")
    acting.kubectl("cp", f"default/web:{there}", str(back))
    assert there.read_bytes() == back.read_bytes() == here.read_bytes()


def test_port_forward_passes_bytes_both_ways(acting: World) -> None:
    with acting.beside("port-forward", "web", ":80") as process:
        assert process.stdout is not None
        found = re.search(rb"Forwarding from 127.0.0.1:(\d+)", process.stdout.readline())
        assert found is not None
        with httpx.Client(trust_env=False, timeout=20) as client:
            pages = [client.get(f"http://127.0.0.1:{int(found[1])}/").text for _ in range(5)]
    assert pages == ["a page\n"] * 5


def test_exec_fails_when_the_agent_there_dies_and_says_why_afterwards(acting: World) -> None:
    with acting.beside("exec", "web", "--", "sh", "-c", "echo begun; sleep 30") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        acting.agents[TARGET].terminate()
        assert process.wait(WAIT_S) == 1
    assert f'the pod runs in cluster "{TARGET}", which cannot be asked' in acting.kubectl(
        "exec", "web", "--", "id", code=1
    )
