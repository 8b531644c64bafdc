"""Both charts installed on real control planes, and their containers run as processes with the rights they were given.

The audit log is the judge: nothing that an agent does is refused to it, and it does nothing that its roles do not name.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from dispatcher.service.gateway.authority import ensure
from localfleet.controlplane import opt_in
from localfleet.controlplane.binaries import selected_minor
from localfleet.controlplane.components import PlaneSpec
from localfleet.controlplane.plane import ControlPlane
from tests.charts.pods import run_container
from tests.charts.rendering import CHARTS, NAMESPACE, Helm, Object, containers, of_kind, write_key, write_mounted
from tests.charts.test_agent_chart import EXECUTOR, LEASES, OBSERVER, PROXY_NODES, TOKENS
from tests.charts.used_rights import granted, unused, used
from tests.controlplane.fixtures import ControlPlanes
from tests.system.cluster_api import eventually
from tests.system.ray_fleet import Process, free_ports

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]

HOME, AWAY = "east", "west"
NODE_IP = "127.0.0.9"  # of the dispatcher's pod
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BINDS = ("create", "", "pods/binding")
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:agent"


def _changed(word: str, change: dict[str, str]) -> str:
    for there, here in change.items():
        word = word.replace(there, here)
    return word


class Install:
    """The releases: the dispatcher in HOME, an agent in each plane."""

    def __init__(self, helm: Helm, planes: dict[str, ControlPlane], folder: Path) -> None:
        self.planes, self.folder = planes, folder
        self._helm = helm
        self.gateway, self.http, *self.health = free_ports(2 + len(planes))
        self.certificates = folder / "certificates"
        ensure(self.certificates, ["127.0.0.1"], list(planes))
        self.notes: dict[tuple[str, str], str] = {}
        self.dispatcher: list[Object] = []
        # Pods with more rights than the strictest of the Pod Security Standards allows would not be made there.
        strict = {"pod-security.kubernetes.io/enforce": "restricted"}
        for plane in planes.values():
            plane.admin.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": strict}})

    def values(self, chart: str, cluster: str) -> Object:
        """What a user of this machine would set: names, the gateway, and ports that are free here."""
        if chart == "agent":
            port = self.health[list(self.planes).index(cluster)]
            config = {"kubelet": {"interval_s": 2, "timeout_s": 1}, "executor": {"relay": "none"}}
            return {
                "cluster": cluster,
                "config": config,
                "gateway": {"urls": [f"wss://127.0.0.1:{self.gateway}"], "split": False},
                "relay": {"enabled": False},  # the API server reaches no address of these pods
                "health": {"port": port},
            }
        clusters = [{"name": name, "via": "gateway"} for name in self.planes]
        return {"config": {"clusters": clusters, "http": {"port": self.http}, "gateway": {"port": self.gateway}}}

    def install(self, chart: str, cluster: str) -> list[Object]:
        """helm install; the objects as the release has them."""
        config = str(self.planes[cluster].kubeconfig)
        where = ("-n", NAMESPACE)
        values = self._helm.values_file(self.values(chart, cluster))
        words = ("install", chart, str(CHARTS / chart), *where, "-f", values)
        self.notes[chart, cluster] = self._helm(*words, KUBECONFIG=config)
        manifest = self._helm("get", "manifest", chart, *where, KUBECONFIG=config)
        return [one for one in yaml.safe_load_all(manifest) if one]

    def run_dispatcher(self, objects: list[Object], stack: ExitStack) -> Process:
        """With the rights of the service account that the release has, and the files that kubelets mount."""
        self.dispatcher = objects
        files = write_mounted(objects, self.folder / "dispatcher")
        told = yaml.safe_load((files / "dispatcher.yaml").read_text())
        told["gateway"] |= {
            "host": "127.0.0.1",
            "cert_file": str(self.certificates / "gateway.crt"),
            "key_file": str(self.certificates / "gateway.key"),
            "client_ca_file": str(self.certificates / "ca.crt"),
        }
        signing = self.certificates / "signing"
        told["signing"] = {"cert_file": f"{signing}.crt", "key_file": f"{signing}.key"}
        (files / "dispatcher.yaml").write_text(yaml.safe_dump(told))
        (dispatcher,) = containers(of_kind(objects, "Deployment"))
        access = {
            "GLOBAL_DISPATCHER_LEADER_ELECTION__KUBECONFIG": str(
                self.planes[HOME].kubeconfig_for("dispatcher", NAMESPACE)
            ),
            "GLOBAL_DISPATCHER_LEADER_ELECTION__CONTEXT": HOME,
            "GLOBAL_DISPATCHER_HTTP__HOST": "127.0.0.1",
        }
        others = [one for one in dispatcher["env"] if one["name"] not in access]
        dispatcher["env"] = [*others, *({"name": name, "value": value} for name, value in access.items())]
        paths: dict[str, Path | str] = {"/etc/global-dispatcher": files}
        return stack.enter_context(run_container(dispatcher, NODE_IP, paths, self.folder / "dispatcher.log"))

    def run_agent(self, objects: list[Object], cluster: str, ip: str, stack: ExitStack) -> Process:
        """The agent with the bound token of its service account, and no other credentials."""
        files = write_mounted(objects, self.folder / cluster)
        key = write_key(objects, self.folder / cluster / "keys")
        settings = yaml.safe_load((files / "agent.yaml").read_text())
        stem = self.certificates / f"cluster-{cluster}"
        certificate = {"cert_file": f"{stem}.crt", "key_file": f"{stem}.key"}
        settings["gateway"] |= {"ca_file": str(self.certificates / "ca.crt"), **certificate}
        access = {
            "key_file": str(key),
            "kubeconfig": str(self.planes[cluster].kubeconfig_for("agent", NAMESPACE)),
            "context": cluster,
        }
        (files / "agent.yaml").write_text(yaml.safe_dump({**settings, **access}))
        agent = next(containers(of_kind(objects, "Deployment")))  # the webhook's comes after it, where there is one
        log = self.folder / f"{cluster}.log"
        return stack.enter_context(run_container(agent, ip, {"/etc/global-dispatcher": files}, log))

    def tested(self, chart: str, cluster: str, change: dict[str, str]) -> tuple[int | None, str]:
        """The release's test pod, run as a process: exit code, and what it said. `change`: words of its command."""
        config = str(self.planes[cluster].kubeconfig)
        hooks = self._helm("get", "hooks", chart, "-n", NAMESPACE, KUBECONFIG=config)
        (one,) = containers([hook for hook in yaml.safe_load_all(hooks) if hook])
        one = {"env": [], **one, "command": [_changed(word, change) for word in one["command"]]}
        files = {"/etc/global-dispatcher": self.folder / cluster}
        log = self.folder / f"test-{chart}-{cluster}.log"
        log.unlink(missing_ok=True)
        with run_container(one, "127.0.0.1", files, log) as process:
            eventually(lambda: process.code is not None, 60, process.tail)
            return process.code, process.tail()

    def cluster_rows(self) -> list[Object]:
        """What the dispatcher says of its clusters."""
        answer = httpx.get(f"http://127.0.0.1:{self.http}/v1/clusters", trust_env=False)
        rows: list[Object] = answer.raise_for_status().json()["clusters"]  # 503 until it leads
        return rows


@pytest.fixture(scope="module")
def planes(control_plane: ControlPlanes) -> dict[str, ControlPlane]:
    """Two clusters."""
    if not opt_in.version(selected_minor()):
        pytest.skip(f"with Kubernetes {selected_minor()} the chart has a webhook, whose Service no server reaches here")
    specs = [PlaneSpec(name, nodes=10, minor=selected_minor()) for name in (HOME, AWAY)]
    return {plane.name: plane for plane in control_plane.together(*specs)}


@pytest.fixture(scope="module")
def installed(
    helm: Helm, planes: dict[str, ControlPlane], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Install]:
    """All releases installed, all their containers run, both clusters Ready."""
    install = Install(helm, planes, tmp_path_factory.mktemp("pods"))
    with ExitStack() as stack:
        dispatcher = install.run_dispatcher(install.install("dispatcher", HOME), stack)
        agents = [
            install.run_agent(install.install("agent", cluster), cluster, f"127.0.0.{3 + at}", stack)
            for at, cluster in enumerate(planes)
        ]

        def tails() -> str:
            return "\n".join(one.tail() for one in (dispatcher, *agents))

        def all_ready() -> bool:
            assert [one.code for one in (dispatcher, *agents)] == [None] * (1 + len(agents)), tails()
            return all(row["ready"] for row in install.cluster_rows())

        eventually(all_ready, 120, tails)
        yield install


def policies(plane: ControlPlane) -> str:
    """The version of MutatingAdmissionPolicy that the server has; '' if none."""
    path = "/apis/admissionregistration.k8s.io/{}/mutatingadmissionpolicies"
    return next((version for version in ("v1", "v1beta1") if plane.admin.answers(path.format(version))), "")


def pod(name: str, annotations: Object | None = None, **spec: Any) -> Object:
    main = {"name": "main", "image": "example.invalid/app:1", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [main], **spec},
    }


def deployment(name: str, replicas: int, annotations: Object, **spec: Any) -> Object:
    template = pod("", {"global-dispatcher.io/schedule": "true", **annotations}, **spec)
    template["metadata"] = {"labels": {"app": name}, "annotations": template["metadata"]["annotations"]}
    selector = {"matchLabels": {"app": name}}
    return {"metadata": {"name": name}, "spec": {"replicas": replicas, "selector": selector, "template": template}}


def test_notes_say_how_to_go_on(installed: Install) -> None:
    assert "The dispatcher of 2 clusters is on its way: east, west." in installed.notes["dispatcher", HOME]
    for cluster in installed.planes:
        assert f"The agent of cluster {cluster} dials out to" in installed.notes["agent", cluster]
        by = f"MutatingAdmissionPolicy {policies(installed.planes[cluster])}"
        assert f"get our schedulerName by {by}" in installed.notes["agent", cluster]
        assert "no ValidatingAdmissionPolicy" not in installed.notes["agent", cluster]


def test_the_test_pods_say_what_is_wrong_with_the_rights_that_they_have(installed: Install) -> None:
    """Nodes without kubelets tell no load, and that is all that is wrong."""

    def tested() -> tuple[int | None, str]:
        return installed.tested("dispatcher", HOME, {"dispatcher:7480": f"127.0.0.1:{installed.http}"})

    eventually(lambda: "not asked yet" not in tested()[1], 60)  # an agent asks kubelets once it has listed the nodes
    code, said = tested()
    problems = [line for line in said.splitlines() if line.startswith("problem: ")]
    assert (code, len(problems)) == (1, 4), said
    assert all(": kubelet: " in one or "no source tells" in one for one in problems), said
    code, said = installed.tested("agent", HOME, {})
    assert code == 1, said
    assert "problem: kubelet" in said, said
    assert "east: 10 nodes" in said, said


def test_the_pods_pass_the_strictest_pod_security_standard(installed: Install) -> None:
    def made(plane: ControlPlane) -> set[str]:
        pods = plane.admin.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
        return {one["metadata"]["labels"]["app.kubernetes.io/name"] for one in pods}

    webhook = set() if policies(installed.planes[HOME]) else {"agent-webhook"}
    home = {"dispatcher", "agent"}
    eventually(lambda: made(installed.planes[HOME]) == home | webhook, 30)
    eventually(lambda: made(installed.planes[AWAY]) == {"agent"} | webhook, 30)


@pytest.mark.parametrize(
    ("annotations", "spec", "expected"),
    [
        pytest.param({"global-dispatcher.io/schedule": "true"}, {}, "global-dispatcher", id="asks"),
        pytest.param({"global-dispatcher.io/schedule": "false"}, {}, "default-scheduler", id="asks not"),
        pytest.param({}, {}, "default-scheduler", id="says nothing"),
        pytest.param({"global-dispatcher.io/schedule": "true"}, {"schedulerName": "other"}, "other", id="foreign"),
    ],
)
def test_the_annotation_sets_the_scheduler_name_and_takes_no_pod_from_another(
    installed: Install, annotations: Object, spec: Object, expected: str
) -> None:
    plane = installed.planes[HOME]
    made = plane.admin.create(f"{PODS}?dryRun=All", pod("probe", annotations, **spec))
    assert made["spec"]["schedulerName"] == expected


def test_pods_run_here_and_there_with_the_rights_of_the_roles_alone(installed: Install) -> None:
    home, away = (installed.planes[name] for name in (HOME, AWAY))
    named = {} if policies(home) else {"schedulerName": "global-dispatcher"}
    for name, annotations in (
        ("near", {"global-dispatcher.io/stay": "true"}),
        ("far", {"global-dispatcher.io/clusters": AWAY}),
    ):
        home.admin.create(DEPLOYMENTS, deployment(name, 6, annotations, **named))

    def ready() -> bool:
        found = {one["metadata"]["name"]: one["status"] for one in home.admin.get(DEPLOYMENTS)["items"]}
        return [found[name].get("readyReplicas") for name in ("near", "far")] == [6, 6]

    eventually(ready, 90, lambda: json.dumps(home.admin.get(PODS)["items"])[-3000:])
    assert len(away.admin.get(PODS)["items"]) == 6
    for name in ("near", "far"):
        home.admin.delete(f"{DEPLOYMENTS}/{name}")
    eventually(lambda: not home.admin.get(PODS)["items"] and not away.admin.get(PODS)["items"], 60)

    expected_in = {
        HOME: {("patch", "", "pods"), ("patch", "", "pods/status"), ("patch", "", "nodes/status"), BINDS},
        AWAY: {("create", "", "pods"), ("delete", "", "pods"), BINDS},
    }
    for plane in (home, away):
        done = [event for event in plane.audit.events() if event.user.username == ACCOUNT]
        assert not [event for event in done if event.denied or event.code == 403]
        seen = {event.action for event in done if event.object_ref.resource}
        assert expected_in[plane.name] <= seen <= allowed()
    binds = [one for one in home.audit.events() if one.action == BINDS and one.code == 201]
    assert len(binds) == 12


def allowed() -> set[tuple[str, str, str]]:
    """The roles' table as the audit log speaks, and what everybody may ask: what he may."""
    rows = OBSERVER | EXECUTOR | PROXY_NODES | LEASES | TOKENS
    given = {(verb, group, resource) for group, resource, _, verbs in rows for verb in verbs.split()}
    return given | {("create", "authorization.k8s.io", "selfsubjectaccessreviews")}


def test_the_dispatchers_account_uses_all_that_it_is_given_and_nothing_else(installed: Install) -> None:
    done = used(installed.planes[HOME].audit.events(), "dispatcher")
    lease = ("coordination.k8s.io", "leases")
    # The name of what is created stands in the body: RBAC cannot limit it, and the audit log's URL has none.
    assert {right[:3] for right in done} == {(verb, *lease) for verb in ("create", "get", "update")}
    assert not unused(granted(installed.dispatcher, "dispatcher"), done)


FORBIDDEN = [
    ("GET", "/api/v1/secrets"),
    ("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/global-dispatcher-gateway"),
    ("GET", "/api/v1/serviceaccounts"),
    ("GET", "/api/v1/namespaces/default"),
    ("GET", "/api/v1/nodes/east-0000/proxy/stats/summary"),
    ("POST", "/api/v1/namespaces"),
    ("POST", "/api/v1/namespaces/default/serviceaccounts/default/token"),
    ("POST", f"{PODS}/any/exec"),
    ("POST", f"{PODS}/any/eviction"),
    ("PUT", f"{PODS}/any"),
    ("DELETE", PODS),
    ("DELETE", "/api/v1/nodes"),
    ("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
    ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
    ("POST", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"),
    ("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"),
]


@pytest.mark.parametrize(("method", "path"), FORBIDDEN, ids=str)
def test_what_no_role_names_is_forbidden(installed: Install, method: str, path: str) -> None:
    api = installed.planes[HOME].api_for("agent", NAMESPACE)
    headers = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}
    answer = api.http.request(method, path, json=None if method == "GET" else {}, headers=headers)
    api.close()
    assert answer.status_code == 403


def test_the_guard_holds_the_account_to_its_own_things(installed: Install) -> None:
    plane = installed.planes[HOME]
    plane.admin.create(PODS, pod("foreign"))
    node = plane.admin.get("/api/v1/nodes")["items"][0]["metadata"]["name"]
    api = plane.api_for("agent", NAMESPACE)
    label = {"metadata": {"labels": {"a": "b"}}}
    merge = {"Content-Type": "application/merge-patch+json"}
    lease = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}"
    volume, claim = "/api/v1/persistentvolumes", "/api/v1/namespaces/default/persistentvolumeclaims"
    kept = {"claimRef": {"namespace": "default", "name": "nobodys"}}
    plane.admin.create(volume, storage("taken", capacity={"storage": "1Gi"}, hostPath={"path": "/x"}, **kept))
    plane.admin.create(claim, storage("data", resources={"requests": {"storage": "1Gi"}}))
    node_of = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": node}}}
    assert api.http.patch(f"{claim}/data", json=node_of, headers=merge).status_code == 200
    stolen = {"spec": {"claimRef": {"name": "other"}}}
    named = {"spec": {"volumeName": "taken"}}
    budgets, guarded = "/apis/policy/v1/namespaces/default/poddisruptionbudgets", {"spec": {"minAvailable": 1}}
    plane.admin.create(budgets, {"metadata": {"name": "foreign"}, **guarded})
    answers = {
        "a budget is deleted": api.http.delete(f"{budgets}/foreign"),
        "a budget is changed": api.http.patch(f"{budgets}/foreign", json={"spec": {"minAvailable": 0}}, headers=merge),
        "a budget is made without our label": api.http.post(
            budgets, json={"metadata": {"name": "global-dispatcher-x"}, **guarded}
        ),
        "a volume is taken from its claim": api.http.patch(f"{volume}/taken", json=stolen, headers=merge),
        "a claim is given a volume": api.http.patch(f"{claim}/data", json=named, headers=merge),
        "a node is deleted": api.http.delete(f"/api/v1/nodes/{node}"),
        "a node is labelled": api.http.patch(f"/api/v1/nodes/{node}", json=label, headers=merge),
        "a node's lease is deleted": api.http.delete(lease),
        "a foreign pod is deleted": api.http.delete(f"{PODS}/foreign"),
        "a foreign pod is labelled": api.http.patch(f"{PODS}/foreign", json=label, headers=merge),
        "a pod is no delegate": api.http.post(PODS, json=pod("thief", schedulerName="global-dispatcher")),
        "a pod is of another scheduler": api.http.post(PODS, json=pod("thief")),
        "a delegate is for another scheduler": api.http.post(PODS, json=delegate(schedulerName="global-dispatcher")),
        "a delegate has a token": api.http.post(PODS, json=delegate(automountServiceAccountToken=True)),
    }
    api.close()
    told = {
        what: (answer.status_code, "agent of Global Dispatcher may" in answer.text) for what, answer in answers.items()
    }
    assert told == dict.fromkeys(answers, (422, True))
    plane.admin.delete(f"{PODS}/foreign")
    plane.admin.delete(f"{budgets}/foreign")
    plane.admin.delete(f"{claim}/data")
    plane.admin.delete(f"{volume}/taken")


def delegate(**spec: Any) -> Object:
    """A pod as agents make them for other clusters, apart from what is said here."""
    made = {"schedulerName": "global-dispatcher.io/delegate", "automountServiceAccountToken": False}
    one = pod("thief", **{**made, **spec})
    one["metadata"]["labels"] = {"global-dispatcher.io/delegate": "true"}
    return one


def storage(name: str, **spec: object) -> dict[str, object]:
    """A volume or a claim of no class that nobody makes."""
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": "nobodys"}
    return {"metadata": {"name": name}, "spec": {**common, **spec}}


def test_uninstalling_leaves_nothing_but_the_key(helm: Helm, control_plane: ControlPlanes) -> None:
    plane = control_plane("alone")
    values = ("-f", str(CHARTS / "agent" / "ci" / "example-values.yaml"), "--set", "namespaces={default}")
    config = str(plane.kubeconfig)
    before = plane.kubectl("get", "clusterroles,clusterrolebindings", "-o", "name")
    where = ("-n", NAMESPACE)
    helm("install", "agent", str(CHARTS / "agent"), *where, "--create-namespace", *values, KUBECONFIG=config)
    bound = json.loads(plane.kubectl("get", "rolebindings", "-n", "default", "-o", "json"))["items"]
    assert [one["roleRef"]["name"] for one in bound] == ["global-dispatcher-agent-executor"]
    secret = f"/api/v1/namespaces/{NAMESPACE}/secrets/agent-key"
    key = plane.admin.get(secret)["data"]
    helm("upgrade", "agent", str(CHARTS / "agent"), *where, *values, KUBECONFIG=config)
    assert plane.admin.get(secret)["data"] == key
    helm("uninstall", "agent", *where, KUBECONFIG=config)
    # The key alone stays, and is the key again of who comes back: other clusters believe no other.
    again = ("install", "agent", str(CHARTS / "agent"), *where, *values)
    helm(*again, KUBECONFIG=config)
    assert plane.admin.get(secret)["data"] == key
    helm("uninstall", "agent", *where, KUBECONFIG=config)
    kinds = "clusterroles,clusterrolebindings"
    assert plane.kubectl("get", kinds, "-o", "name") == before
    policies = "validatingadmissionpolicies,validatingadmissionpolicybindings"
    assert plane.kubectl("get", policies, "-o", "name") == ""
