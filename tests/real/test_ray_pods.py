"""The dispatcher's chart with gateway actors as a whole: its pods' containers in namespaces, users and read-only roots
of their own, beside a real control plane; names, NetworkPolicies, Services and probes are those of the release.
"""

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest
import yaml

from dispatcher.service.gateway.authority import ensure
from localfleet.controlplane.binaries import selected_minor
from localfleet.controlplane.components import PlaneSpec
from localfleet.controlplane.plane import ControlPlane
from tests.charts.rendering import CHARTS, NAMESPACE, Helm, Object, of_kind
from tests.charts.split_install import installed
from tests.charts.test_install import PODS, pod, policies
from tests.controlplane.fixtures import ControlPlanes
from tests.real.cluster.kubelet import Pod, Secrets, of_size
from tests.real.cluster.network import Network
from tests.saying import Say
from tests.system.cluster_api import eventually
from tests.system.ray_fleet import TOKEN, loads_ray


def unavailable() -> str:
    """Why there is no pod network here; empty if there is."""
    if missing := [name for name in ("ip", "unshare", "nsenter", "iptables-restore") if shutil.which(name) is None]:
        return f"no pod network: {', '.join(missing)} not installed"
    veth = "ip link add one type veth peer name two && iptables -A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT"
    tried = subprocess.run(["unshare", "--net", "sh", "-c", veth], capture_output=True, text=True, check=False)
    return f"no pod network: {tried.stderr.strip()}" if tried.returncode else ""


pytestmark = [pytest.mark.skipif(bool(unavailable()), reason=unavailable()), pytest.mark.timeout(900)]

CLUSTER = "east"
SERVICE = "10.96.0.10"
HEAD, GATEWAYS, DISPATCHERS = (
    "dispatcher-ray-head-0",
    ("dispatcher-ray-gateway-0", "dispatcher-ray-gateway-1"),
    ("dispatcher-0", "dispatcher-1"),
)
AGENTS = ("agent-observer", "agent-executor")
VALUES: Object = {
    "replicas": 2,
    "config": {
        "clusters": [{"name": CLUSTER, "via": "gateway"}],
        "gateway": {"actors": 2},
        # Shorter than the defaults, for a short test.
        "leader_election": {"lease_s": 4, "renew_deadline_s": 3, "retry_s": 0.5},
        "timing": {"peers_s": 1},
    },
    "ray": {"tls": {"existingSecret": "ray-tls"}},
    "networkPolicy": {"enabled": True},
}
RAY_NAMES = ("*.dispatcher-ray.global-dispatcher.svc", "*.dispatcher-peers.global-dispatcher.svc")


class Site:
    """The cluster in which all runs."""

    def __init__(self, plane: ControlPlane, objects: list[Object], secrets: Secrets, folder: Path) -> None:
        self.plane, self.objects, self._secrets, self._folder = plane, objects, secrets, folder
        self.network = Network(folder)
        self.pods: dict[str, Pod] = {}
        self.hosts = folder / "hosts"
        self._made = 0
        self._led: list[tuple[str, int]] | None = None
        self.begun_again: list[tuple[str, str]] = []
        self._unready: dict[Pod, float] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._proxy = threading.Thread(target=self._follow, daemon=True)

    def open(self) -> None:
        """Every pod is there, nothing runs in it yet."""
        for one in self.objects:
            if one["kind"] in ("Deployment", "StatefulSet"):
                for number in range(one["spec"]["replicas"]):
                    self._add(one, number)
        self._tell()
        self._proxy.start()

    def _add(self, workload: Object, number: int) -> Pod:
        self._made += 1
        folder = self._folder / f"life-{self._made}"
        folder.mkdir()
        made = Pod(workload, number, self.objects, self._secrets, (self.network, self.plane), folder, self._folder)
        self.pods[made.name] = made
        return made

    def _tell(self) -> None:
        lines = [
            "127.0.0.1 localhost",
            *(f"{one.place.address} {' '.join(one.names)}" for one in self.pods.values() if one.names),
        ]
        self.hosts.write_text("\n".join(lines) + "\n")
        self.network.obey(of_kind(self.objects, "NetworkPolicy"))

    def _follow(self) -> None:
        """As kubelet and kube-proxy: what has ended begins again, and the Service leads to gateways that are Ready."""
        while not self._stop.wait(0.5):
            with self._lock:
                pods = [one for one in self.pods.values() if one.running]
                for one in pods:
                    for name in one.ended():
                        self.begun_again.append((one.name, name))
                        one.start(name, self.hosts)
            ready = [one for one in pods if one.name in GATEWAYS and one.probe("ray-gateway", "readinessProbe")]
            self._begin_overdue([one for one in pods if one.name in GATEWAYS], ready)
            if (led := [(one.place.address, 7443) for one in ready]) != self._led:
                self.network.lead(SERVICE, 7443, led)
                self._led = led

    def _begin_overdue(self, gateways: list[Pod], ready: list[Pod]) -> None:
        """Their liveness probe asks what their readiness probe does, and has more patience."""
        for one in gateways:
            told = one.containers["ray-gateway"]["livenessProbe"]
            since = self._unready.setdefault(one, time.monotonic())
            if one in ready:
                del self._unready[one]
            elif time.monotonic() - since > told["periodSeconds"] * told["failureThreshold"]:
                with self._lock:
                    if one.running:
                        one.kill("ray-gateway")
                        one.start("ray-gateway", self.hosts)
                        self.begun_again.append((one.name, "ray-gateway"))
                del self._unready[one]

    def start(self, name: str, container: str) -> None:
        """A container, also one that was killed."""
        with self._lock:
            self.pods[name].start(container, self.hosts)

    def up(self, name: str, container: str) -> None:
        """Wait for a container's startup probe."""
        eventually(lambda: self.pods[name].probe(container, "startupProbe"), 60, self.tails)

    def kill(self, name: str, container: str) -> None:
        """All processes of a container, which begins again after a while, as with a kubelet."""
        with self._lock:
            self.pods[name].kill(container)

    def replace(self, name: str, workload: Object | None = None) -> None:
        """The pod is gone, and made anew by its StatefulSet as it is now: another address, the same name and claim."""
        with self._lock:
            old = self.pods[name]
            old.close()
            self.network.remove(old.place)
            self._add(workload or old.workload, int(name.rpartition("-")[2]))
            self._tell()

    def run_pod(self, name: str) -> None:
        """An annotated pod is submitted, and runs."""
        named = {} if policies(self.plane) else {"schedulerName": "global-dispatcher"}
        self.plane.admin.create(PODS, pod(name, {"global-dispatcher.io/schedule": "true"}, **named))
        eventually(lambda: self.plane.admin.get(f"{PODS}/{name}")["status"].get("phase") == "Running", 30, self.tails)

    def actors(self) -> dict[str, list[int]]:
        """The processes of gateway actors in each pod."""
        return {name: self.pods[name].named("ray-gateway", "ray::GatewayActor") for name in GATEWAYS}

    def serving(self) -> list[str]:
        """The gateways to which agents are connected, by what the kernel says."""
        here, established = f":{7443:04X}", "01"

        def connected(name: str) -> bool:
            net = Path(f"/proc/{self.pods[name].place.space.pid}/net")
            rows = [line.split() for file in ("tcp", "tcp6") for line in (net / file).read_text().splitlines()[1:]]
            return any(row[1].endswith(here) and row[3] == established for row in rows)

        return [name for name in GATEWAYS if connected(name)]

    def await_gateways(self) -> None:
        """Until both are Ready."""
        eventually(
            lambda: all(self.pods[name].probe("ray-gateway", "readinessProbe") for name in GATEWAYS), 60, self.tails
        )

    def leader(self) -> str:
        """The pod whose name is in the Lease."""
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/dispatcher"
        return str(self.plane.admin.get(lease)["spec"]["holderIdentity"]).partition("_")[0]

    def logs(self) -> list[Path]:
        """Of all containers, and what Ray's processes have written in their folder."""
        return [
            one
            for pattern in (
                "life-*/*/*.log",
                "life-*/*/volume-ray-tmp/ray/session_2*/logs/**/*.*",
                "life-*/*/volume-ray-tmp/session_2*/logs/**/*.*",
            )
            for one in self._folder.glob(pattern)
            if one.is_file()
        ]

    def clusters(self) -> list[bool]:
        """Whether each is Ready, as the leader says; empty while nobody leads."""
        for name in DISPATCHERS:
            one = self.pods[name]
            if "dispatcher" in one.running:
                url = f"http://{one.place.address}:7480/v1/clusters"
                try:
                    answer = self.network.ask(partial(httpx.get, url, timeout=2, trust_env=False))
                except httpx.HTTPError:
                    continue
                if answer.status_code == 200:
                    return [row["ready"] for row in answer.json()["clusters"]]
        return []

    def tails(self) -> str:
        return "\n---\n".join(
            f"{name}/{container}: {process.tail()[-1500:]}"
            for name, one in self.pods.items()
            for container, process in one.running.items()
        )

    def close(self) -> None:
        self._stop.set()
        if self._proxy.is_alive():
            self._proxy.join()
        for one in self.pods.values():
            one.close()
        self.network.close()


def ray_secret(folder: Path) -> dict[str, bytes]:
    """As docs/connectivity.md has it made: an authority for Ray alone, one certificate for the names of all pods."""
    folder.mkdir()
    (folder / "ext").write_text(
        f"subjectAltName={','.join(f'DNS:{name}' for name in RAY_NAMES)}\nextendedKeyUsage=serverAuth,clientAuth\n"
    )
    new = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
    for words in (
        f"req -x509 {new} -days 3650 -subj /CN=ray-authority -keyout ca.key -out ca.crt",
        f"req {new} -subj /CN=ray -keyout tls.key -out tls.csr",
        "x509 -req -in tls.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -out tls.crt -extfile ext",
    ):
        subprocess.run(["openssl", *words.split()], check=True, cwd=folder, capture_output=True)
    return {name: (folder / name).read_bytes() for name in ("tls.crt", "tls.key", "ca.crt")}


def given_secrets(folder: Path) -> Secrets:
    """What users make before they install the charts."""
    certificates = folder / "certificates"
    ensure(certificates, [SERVICE], [CLUSTER])

    def of(stem: str) -> dict[str, bytes]:
        files = {"tls.crt": f"{stem}.crt", "tls.key": f"{stem}.key", "ca.crt": "ca.crt"}
        return {key: (certificates / name).read_bytes() for key, name in files.items()}

    agents = {f"global-dispatcher-{name}": of(f"cluster-{CLUSTER}.{name.partition('-')[2]}") for name in AGENTS}
    return {
        "global-dispatcher-ray": {"token": TOKEN.encode()},
        "ray-tls": ray_secret(folder / "ray"),
        "global-dispatcher-gateway": of("gateway"),
        "global-dispatcher-signing": of("signing"),
        **agents,
    }


def release(helm: Helm, plane: ControlPlane, how: str, values: Object) -> list[Object]:
    """helm install or upgrade of the dispatcher's chart; the objects as the release has them."""
    where, config = ("-n", NAMESPACE), str(plane.kubeconfig)
    helm(how, "dispatcher", str(CHARTS / "dispatcher"), *where, "-f", helm.values_file(values), KUBECONFIG=config)
    manifest = helm("get", "manifest", "dispatcher", *where, KUBECONFIG=config)
    return [one for one in yaml.safe_load_all(manifest) if one]


def named(objects: list[Object], kind: str, name: str) -> Object:
    """One of them."""
    (found,) = [one for one in of_kind(objects, kind) if one["metadata"]["name"] == name]
    return found


@pytest.fixture(scope="module")
def site(helm: Helm, control_plane: ControlPlanes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("pods")
    (plane,) = control_plane.together(PlaneSpec(CLUSTER, nodes=4, minor=selected_minor()))
    objects = installed(helm, plane, f"wss://{SERVICE}:7443")
    objects += release(helm, plane, "install", VALUES)
    one = Site(plane, objects, given_secrets(folder), folder)
    try:
        one.open()
        one.start(HEAD, "ray-head")
        one.up(HEAD, "ray-head")
        for name in (*GATEWAYS, *DISPATCHERS):
            one.start(name, next(iter(one.pods[name].containers)))
        for name in DISPATCHERS:  # which wait for no Ray node
            one.start(name, "dispatcher")
        one.await_gateways()
        for name in AGENTS:
            one.start(name, "agent")
        eventually(lambda: one.clusters() == [True], 90, one.tails)
        yield one
    finally:
        one.close()


def test_every_probe_of_every_container_is_answered(site: Site) -> None:
    kinds = ("startupProbe", "livenessProbe", "readinessProbe")
    every = [
        (pod, name, kind)
        for pod in site.pods.values()
        for name, one in pod.containers.items()
        for kind in kinds
        if kind in one
    ]
    assert len(every) == 2 + 2 * 3 + 2 * (2 + 3) + 2 * 3
    eventually(
        lambda: all(pod.probe(name, kind) for pod, name, kind in every),
        30,
        lambda: str([(pod.name, name, kind, pod.problem(name, kind)) for pod, name, kind in every]),
    )


def test_an_annotated_pod_runs(site: Site) -> None:
    site.run_pod("first")


def test_what_runs_in_ray_sees_neither_the_dispatchers_processes_nor_its_keys(site: Site) -> None:
    secrets = {
        "ray-node": {"ray"},
        "dispatcher": {"gateway", "signing", "kubernetes.io"},
    }
    for name in DISPATCHERS:
        spaces = []
        for container, expected in secrets.items():
            (first, *_) = sorted(site.pods[name].processes(container))
            root = Path(f"/proc/{first}/root")
            assert {one.name for at in ("run/secrets", "var/run/secrets") for one in root.glob(f"{at}/*")} == expected
            spaces.append(os.stat(f"/proc/{first}/ns/pid").st_ino)
        assert len(set(spaces)) == 2
        assert not any(map(loads_ray, site.pods[name].processes("dispatcher")))


def test_a_policy_lets_agents_reach_nothing_but_the_gateway(site: Site) -> None:
    agent = site.pods["agent-executor"].place.space
    assert agent.connect(SERVICE, 7443) == ""
    gateway, head = (site.pods[name].place.address for name in (GATEWAYS[0], HEAD))
    refused = {
        (gateway, 6380),
        (head, 6379),
        (head, 6380),
        *((site.pods[name].place.address, 6380) for name in DISPATCHERS),
    }
    assert {agent.connect(*one) for one in refused} == {"ConnectionRefusedError"}
    assert {site.pods[DISPATCHERS[0]].place.space.connect(*one) for one in refused} == {""}


def test_each_container_has_the_memory_that_it_asks_for(site: Site, say: Say) -> None:
    for held in site.pods.values():
        for name, one in held.containers.items():
            used, asked = held.memory(name), one["resources"]
            say(f"{held.name}/{name}: {used >> 20} MiB in {len(held.processes(name))} processes, {asked}")
            assert used < of_size(asked["limits"]["memory"])


def test_without_the_head_pods_run_and_its_container_comes_back_to_what_it_knew(site: Site, say: Say) -> None:
    actors = site.actors()
    assert [len(of) for of in actors.values()] == [1, 1]
    site.kill(HEAD, "ray-head")
    site.run_pod("without-head")
    began = time.monotonic()
    site.start(HEAD, "ray-head")
    site.up(HEAD, "ray-head")
    say(f"the head listens {time.monotonic() - began:.1f} s after its container began again")
    site.run_pod("after-head")
    assert site.actors() == actors
    os.kill(actors[GATEWAYS[0]][0], signal.SIGKILL)  # only the head has it made again
    began = time.monotonic()
    eventually(lambda: len(site.actors()[GATEWAYS[0]]) == 1 and site.actors() != actors, 60, site.tails)
    say(f"the head has an actor that was killed made again after {time.monotonic() - began:.1f} s")
    assert site.actors()[GATEWAYS[1]] == actors[GATEWAYS[1]]
    site.await_gateways()


def test_an_upgrade_that_replaces_the_heads_pod_keeps_its_claim_its_actors_and_what_runs(
    site: Site, helm: Helm, say: Say
) -> None:
    actors, before = site.actors(), named(site.objects, "StatefulSet", "dispatcher-ray-head")
    upgraded = release(helm, site.plane, "upgrade", {**VALUES, "podAnnotations": {"example.com/build": "2"}})
    workload = named(upgraded, "StatefulSet", "dispatcher-ray-head")
    assert workload["spec"]["template"] != before["spec"]["template"]
    assert workload["spec"]["volumeClaimTemplates"] == before["spec"]["volumeClaimTemplates"]
    site.replace(HEAD, workload)
    site.run_pod("while-the-head-is-replaced")
    began = time.monotonic()
    site.start(HEAD, "ray-head")
    site.up(HEAD, "ray-head")
    say(f"an upgraded head listens at another address {time.monotonic() - began:.1f} s after its pod began")
    site.run_pod("after-the-upgrade")
    assert site.actors() == actors
    os.kill(actors[GATEWAYS[0]][0], signal.SIGKILL)  # only a head that knows it has it made again
    eventually(lambda: len(site.actors()[GATEWAYS[0]]) == 1 and site.actors() != actors, 60, site.tails)
    site.await_gateways()


def test_agents_of_a_gateway_pod_that_goes_are_taken_by_the_other_at_once(site: Site, say: Say) -> None:
    went = site.serving()[0]
    began = time.monotonic()
    site.replace(went)
    site.run_pod("without-a-gateway")
    say(f"a pod runs {time.monotonic() - began:.1f} s after the gateway of the agents went")
    assert went not in site.serving()
    site.start(went, "ray-gateway")
    site.await_gateways()
    say(f"made anew, it is Ready {time.monotonic() - began:.1f} s after it went")


def test_the_next_leader_takes_the_actors_as_they_are(site: Site, say: Say) -> None:
    actors, leader = site.actors(), site.leader()
    site.kill(leader, "dispatcher")
    began = time.monotonic()
    site.run_pod("next-leader")
    say(f"a pod runs {time.monotonic() - began:.1f} s after the leader went")
    assert site.leader() != leader
    assert site.actors() == actors
    site.start(leader, "dispatcher")
    eventually(lambda: site.pods[leader].probe("dispatcher", "readinessProbe"), 60, site.tails)


def test_nobody_has_wanted_to_write_where_nothing_is_mounted(site: Site) -> None:
    words = ("Read-only file system", "Permission denied", "PermissionError")
    logs = site.logs()
    assert len(logs) > 20
    assert [
        (file.name, line)
        for file in logs
        for line in file.read_text(errors="replace").splitlines()
        if any(word in line for word in words)
    ] == []


def test_nothing_but_a_ray_that_a_busy_machine_starved_has_begun_again(site: Site, say: Say) -> None:
    say(f"began again by themselves: {site.begun_again}")
    assert [one for one in site.begun_again if not one[1].startswith("ray-")] == []
