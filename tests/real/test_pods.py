"""Both charts as a whole, with a standby: their pods' containers in namespaces, users and read-only roots
of their own, beside a real control plane; names, NetworkPolicies, Services and probes are those of the release.
"""

import shutil
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
from tests.charts.split_install import RELAY, installed
from tests.charts.test_install import PODS, pod, policies
from tests.controlplane.fixtures import ControlPlanes
from tests.real.cluster.kubelet import Pod, Secrets, of_size
from tests.real.cluster.network import Network
from tests.saying import Say
from tests.system.cluster_api import eventually
from tests.system.ray_fleet import loads_ray


def unavailable() -> str:
    """Why there is no pod network here; empty if there is."""
    if missing := [name for name in ("ip", "unshare", "nsenter", "iptables-restore") if shutil.which(name) is None]:
        return f"no pod network: {', '.join(missing)} not installed"
    veth = "ip link add one type veth peer name two && iptables -A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT"
    tried = subprocess.run(["unshare", "--net", "sh", "-c", veth], capture_output=True, text=True, check=False)
    return f"no pod network: {tried.stderr.strip()}" if tried.returncode else ""


pytestmark = [pytest.mark.skipif(bool(unavailable()), reason=unavailable()), pytest.mark.timeout(900)]

CLUSTER = "east"
DISPATCHERS = ("dispatcher-0", "dispatcher-1")
SERVICES = dict(zip(DISPATCHERS, ("10.96.0.10", "10.96.0.11"), strict=True))  # of the gateway of each
URLS = [f"wss://{address}:7443" for address in SERVICES.values()]
AGENTS = ("agent-observer", "agent-executor")
VALUES: Object = {
    "replicas": 2,
    "config": {
        "clusters": [{"name": CLUSTER, "via": "gateway"}],
        # Shorter than the defaults, for a short test.
        "leader_election": {"lease_s": 4, "renew_deadline_s": 3, "retry_s": 0.5},
        "timing": {"peers_s": 1},
    },
    "networkPolicy": {"enabled": True, "http": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]},
}


class Site:
    """The cluster in which all runs."""

    def __init__(self, plane: ControlPlane, objects: list[Object], secrets: Secrets, folder: Path) -> None:
        self.plane, self.objects, self._secrets, self._folder = plane, objects, secrets, folder
        self.network = Network(folder)
        self.pods: dict[str, Pod] = {}
        self.hosts = folder / "hosts"
        self._made = 0
        self.begun_again: list[tuple[str, str]] = []
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
        led = {address: self.pods[name].place.address for name, address in SERVICES.items() if name in self.pods}
        self.network.lead(led, 7443)
        self.network.obey(of_kind(self.objects, "NetworkPolicy"))

    def _follow(self) -> None:
        """As a kubelet: what has ended begins again."""
        while not self._stop.wait(0.5):
            with self._lock:
                pods = [one for one in self.pods.values() if one.running]
                for one in pods:
                    for name in one.ended():
                        self.begun_again.append((one.name, name))
                        one.start(name, self.hosts)

    def start(self, name: str, container: str) -> None:
        """A container, also one that was killed."""
        with self._lock:
            self.pods[name].start(container, self.hosts)

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

    def leader(self) -> str:
        """The pod whose name is in the Lease."""
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/dispatcher"
        return str(self.plane.admin.get(lease)["spec"]["holderIdentity"]).partition("_")[0]

    def logs(self) -> list[Path]:
        """Of all containers."""
        return [one for one in self._folder.glob("life-*/*/*.log") if one.is_file()]

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


def given_secrets(folder: Path) -> Secrets:
    """What users make before they install the charts."""
    certificates = folder / "certificates"
    ensure(certificates, SERVICES.values(), [CLUSTER])

    def of(stem: str) -> dict[str, bytes]:
        files = {"tls.crt": f"{stem}.crt", "tls.key": f"{stem}.key", "ca.crt": "ca.crt"}
        return {key: (certificates / name).read_bytes() for key, name in files.items()}

    agents = {f"global-dispatcher-{name}": of(f"cluster-{CLUSTER}.{name.partition('-')[2]}") for name in AGENTS}
    return {
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
    objects = installed(helm, plane, URLS[0], {**RELAY, "gateway": {"urls": URLS}})
    objects += release(helm, plane, "install", VALUES)
    one = Site(plane, objects, given_secrets(folder), folder)
    try:
        one.open()
        for name in DISPATCHERS:
            one.start(name, "dispatcher")
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
    assert len(every) == 2 * 3 + 2 * 3
    eventually(
        lambda: all(pod.probe(name, kind) for pod, name, kind in every),
        30,
        lambda: str([(pod.name, name, kind, pod.problem(name, kind)) for pod, name, kind in every]),
    )


def test_an_annotated_pod_runs(site: Site) -> None:
    site.run_pod("first")


def test_a_dispatcher_has_its_own_secrets_and_no_ray(site: Site) -> None:
    for name in DISPATCHERS:
        (first, *_) = sorted(site.pods[name].processes("dispatcher"))
        root = Path(f"/proc/{first}/root")
        secrets = {one.name for at in ("run/secrets", "var/run/secrets") for one in root.glob(f"{at}/*")}
        assert secrets == {"gateway", "signing", "kubernetes.io"}
        assert not any(map(loads_ray, site.pods[name].processes("dispatcher")))


def test_a_policy_lets_agents_reach_nothing_but_the_gateways(site: Site) -> None:
    agent = site.pods["agent-executor"].place.space
    assert [agent.connect(address, 7443) for address in SERVICES.values()] == ["", ""]
    http = [(site.pods[name].place.address, 7480) for name in DISPATCHERS]
    assert {agent.connect(*one) for one in http} == {"ConnectionRefusedError"}
    assert {site.pods[DISPATCHERS[0]].place.space.connect(*one) for one in http} == {""}


def test_each_container_has_the_memory_that_it_asks_for(site: Site, say: Say) -> None:
    for held in site.pods.values():
        for name, one in held.containers.items():
            used, asked = held.memory(name), one["resources"]
            say(f"{held.name}/{name}: {used >> 20} MiB in {len(held.processes(name))} processes, {asked}")
            assert used < of_size(asked["limits"]["memory"])


def test_an_upgrade_that_replaces_a_dispatchers_pod_keeps_what_runs(site: Site, helm: Helm, say: Say) -> None:
    before = named(site.objects, "StatefulSet", "dispatcher")
    upgraded = release(helm, site.plane, "upgrade", {**VALUES, "podAnnotations": {"example.com/build": "2"}})
    workload = named(upgraded, "StatefulSet", "dispatcher")
    assert workload["spec"]["template"] != before["spec"]["template"]
    for name in reversed(DISPATCHERS):
        began = time.monotonic()
        site.replace(name, workload)
        site.run_pod(f"without-{name}")
        site.start(name, "dispatcher")
        eventually(partial(site.pods[name].probe, "dispatcher", "readinessProbe"), 60, site.tails)
        say(f"{name} is Ready again {time.monotonic() - began:.1f} s after its pod went")


def test_the_standby_leads_when_the_leader_is_killed(site: Site, say: Say) -> None:
    leader = site.leader()
    site.kill(leader, "dispatcher")
    began = time.monotonic()
    site.run_pod("next-leader")
    say(f"a pod runs {time.monotonic() - began:.1f} s after the leader went")
    assert site.leader() != leader
    site.start(leader, "dispatcher")
    eventually(lambda: site.pods[leader].probe("dispatcher", "readinessProbe"), 60, site.tails)


def test_nobody_has_wanted_to_write_where_nothing_is_mounted(site: Site) -> None:
    words = ("Read-only file system", "Permission denied", "PermissionError")
    logs = site.logs()
    assert len(logs) > 4
    assert [
        (file.name, line)
        for file in logs
        for line in file.read_text(errors="replace").splitlines()
        if any(word in line for word in words)
    ] == []


def test_nothing_has_begun_again_by_itself(site: Site) -> None:
    assert site.begun_again == []
