"""Observer and executor with the rights of their chart: each right that it gives is made use of, or has its reason."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from dispatcher.service.gateway.authority import ensure
from localfleet.controlplane.binaries import selected_minor
from localfleet.controlplane.components import PlaneSpec
from localfleet.controlplane.plane import ControlPlane
from shared.model.names import CLUSTER_READY, proxy_node_name
from tests.charts.rendering import NAMESPACE, Helm, Object
from tests.charts.split_install import ACCOUNTS, installed, start, write_private_key
from tests.charts.test_install import DEPLOYMENTS, PODS, delegate, deployment, pod, policies
from tests.charts.used_rights import Right, granted, unused, used
from tests.controlplane.fixtures import ControlPlanes
from tests.system.cluster_api import eventually
from tests.system.dialled import CLUSTERS, Dispatcher

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]

Releases = dict[str, list[Object]]  # the objects of the agent's release in each cluster
HOME, AWAY = CLUSTERS


@pytest.fixture(scope="module")
def planes(control_plane: ControlPlanes) -> dict[str, ControlPlane]:
    specs = [PlaneSpec(name, nodes=4, minor=selected_minor()) for name in CLUSTERS]
    return {plane.name: plane for plane in control_plane.together(*specs)}


@pytest.fixture(scope="module")
def fleet(helm: Helm, planes: dict[str, ControlPlane], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Releases]:
    """Dispatcher, observers and executors run; what the releases hold."""
    folder = tmp_path_factory.mktemp("split")
    certificates = folder / "certificates"
    ensure(certificates, ["127.0.0.1"], CLUSTERS)
    with ExitStack() as stack:
        dispatcher = stack.enter_context(Dispatcher(folder, certificates))
        releases: Releases = {}
        agents = []
        executor = {"relay": "all", "accept": [{"secrets_follow": ["db"]}]}
        relaying = {
            "config": {"kubelet": {"interval_s": 2, "timeout_s": 1}, "executor": executor},
            "secrets": {"give": ["default"], "take": ["default"]},
        }
        for name, plane in planes.items():
            objects = installed(helm, plane, f"wss://127.0.0.1:{dispatcher.gateway_port}", relaying)
            releases[name] = objects
            write_private_key(objects, certificates / f"{name}.pem")
            agents += [stack.enter_context(start(objects, plane, role, folder, certificates)) for role in ACCOUNTS]
        eventually(
            lambda: dispatcher.ready() == [True, True],
            90,
            lambda: "\n".join(one.tail() for one in (dispatcher, *agents)),
        )
        yield releases


# Rights that the test below need not make use of, and why they are given all the same. `pods/eviction` is given with
# `rebalancing.enabled` alone, and not here.
UNUSED: dict[str, dict[Right, str]] = {
    "agent-observer": {
        ("list", "metrics.k8s.io", "pods", ""): "asked once nodes were told: no metrics-server here",
        **{
            ("watch", f"scheduling.{api}", "podgroups", ""): "once it is listed: API servers do not serve it by default"
            for api in ("k8s.io", "x-k8s.io", "sigs.k8s.io", "volcano.sh", "run.ai")
        },
    },
    "agent": {
        ("create", "", "serviceaccounts/token", "agent-kubelets"): "to ask kubelets: no kubelet runs here",
        ("get", "scheduling.k8s.io", "podgroups", ""): "of a pod that names one: not served by default",
        ("patch", "scheduling.k8s.io", "podgroups/status", ""): "as above",
        ("get", "", "nodes", ""): "before our taint is put back beside those of others, where somebody took it off",
        ("delete", "", "nodes", ""): "a proxy node, minutes after its cluster is no more in the configuration",
        ("delete", "coordination.k8s.io", "leases", ""): "that of such a node",
        ("get", "", "pods/exec", ""): "WebSockets, which API servers speak to kubelets since Kubernetes 1.36",
        ("get", "", "pods/attach", ""): "as pods/exec",
        ("get", "", "pods/portforward", ""): "as pods/exec",
    },
}
# What kubectl asks by SPDY, with any Kubernetes.
RELAYED: set[Right] = {
    ("get", "", "pods/log", ""),
    *(("create", "", f"pods/{what}", "") for what in ("exec", "attach", "portforward")),
}
RESIZES = tuple(map(int, selected_minor().split("."))) >= (1, 33)  # whether API servers serve pods/resize
if not RESIZES:
    UNUSED["agent"]["patch", "", "pods/resize", ""] = "to resize pods: since Kubernetes 1.33"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


def test_every_right_is_made_use_of_or_has_its_reason(
    planes: dict[str, ControlPlane], fleet: Releases, tmp_path: Path
) -> None:
    home, away = planes[HOME], planes[AWAY]
    named = {} if policies(home) else {"schedulerName": "global-dispatcher"}
    take_a_label_off(home)
    run_with_a_budget(home, away, named)
    run_with_claims(home, named)
    run_with_a_config_map(home, away, named)
    run_with_a_secret(home, away, named)
    change_what_runs(home, away, named)
    ask_for_logs_and_more(home, away, tmp_path)
    ask_for_metrics(home)
    drain(home, away)
    for account in ACCOUNTS.values():
        assert set(UNUSED[account]) <= granted(fleet[HOME], account), "a reason for a right that is not given"

    def without_use() -> dict[str, set[Right]]:
        """By account: what was given, and neither used nor has a reason."""
        events = [event for plane in planes.values() for event in plane.audit.events()]
        left = {
            one: unused(granted(fleet[HOME], one), used(events, one)) - set(UNUSED[one]) for one in ACCOUNTS.values()
        }
        return {account: rights for account, rights in left.items() if rights}

    # What the drain sets going may not have ended, and an event is written after its answer was sent.
    eventually(lambda: not without_use(), 60, lambda: f"no use is made of {without_use()}")


def take_a_label_off(home: ControlPlane) -> None:
    """Off a proxy node: the executor puts it back. Else it patches one only if it has made it before its cluster was
    known to be ready, which is a matter of chance.
    """
    node = f"/api/v1/nodes/{proxy_node_name(AWAY)}"
    eventually(lambda: home.admin.answers(node), 60)
    home.admin.patch(node, {"metadata": {"labels": {CLUSTER_READY: None}}})
    eventually(lambda: home.admin.get(node)["metadata"]["labels"].get(CLUSTER_READY) == "true", 60)


def run_with_a_budget(home: ControlPlane, away: ControlPlane, named: Object) -> None:
    """Pods away, whose budget is kept there, changed there, and gone there."""
    home.admin.create(BUDGETS, {"metadata": {"name": "web"}, "spec": budget(1)})
    home.admin.create(DEPLOYMENTS, deployment("web", 3, {"global-dispatcher.io/clusters": AWAY}, **named))
    eventually(lambda: home.admin.get(f"{DEPLOYMENTS}/web")["status"].get("readyReplicas") == 3, 60)

    def kept() -> list[object]:
        return [one["spec"] for one in away.admin.get(BUDGETS)["items"]]

    eventually(lambda: len(kept()) == 1, 30)
    first = kept()
    home.admin.patch(f"{BUDGETS}/web", {"spec": budget(2)})
    eventually(lambda: kept() != first, 30)
    home.admin.delete(f"{BUDGETS}/web")
    eventually(lambda: not kept(), 60)


def budget(least: int) -> Object:
    return {"minAvailable": least, "selector": {"matchLabels": {"app": "web"}}}


def run_with_claims(home: ControlPlane, named: Object) -> None:
    """A free volume is set aside for the claim of one pod; for that of another, a node is chosen."""
    node = home.admin.get("/api/v1/nodes")["items"][0]["metadata"]["name"]
    for name, provisioner in (("local", "kubernetes.io/no-provisioner"), ("disks", "example.com/disks")):
        made = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        home.admin.create("/apis/storage.k8s.io/v1/storageclasses", made)
        wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        home.admin.create(CLAIMS, {"metadata": {"name": name}, "spec": {"storageClassName": name, **wanted}})
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
        one = pod(f"on-{name}", {"global-dispatcher.io/schedule": "true"}, volumes=[volume], **named)
        home.admin.create(PODS, one)
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    spec = {
        "storageClassName": "local",
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
    }
    home.admin.create("/api/v1/persistentvolumes", {"metadata": {"name": "data"}, "spec": spec})
    eventually(lambda: home.admin.get(f"{PODS}/on-local")["spec"].get("nodeName") == node, 60)
    chosen = "volume.kubernetes.io/selected-node"
    eventually(lambda: chosen in home.admin.get(f"{CLAIMS}/disks")["metadata"].get("annotations", {}), 60)
    for name in ("local", "disks"):
        home.admin.delete(f"{PODS}/on-{name}")


def run_with_a_config_map(home: ControlPlane, away: ControlPlane, named: Object) -> None:
    """A pod away that names one of home, which is changed there, and gone there."""
    home.admin.create(MAPS, {"metadata": {"name": "settings"}, "data": {"colour": "red"}})
    volume = {"name": "settings", "configMap": {"name": "settings"}}
    asked = {"global-dispatcher.io/schedule": "true", "global-dispatcher.io/clusters": AWAY}
    home.admin.create(PODS, pod("reads", asked, volumes=[volume], **named))

    def copied() -> list[object]:
        found = away.admin.get(MAPS)["items"]
        return [one.get("data") for one in found if one["metadata"]["name"].startswith("settings-")]

    eventually(lambda: copied() == [{"colour": "red"}], 60)
    home.admin.patch(f"{MAPS}/settings", {"data": {"colour": "blue"}})
    eventually(lambda: copied() == [{"colour": "blue"}], 60)
    home.admin.delete(f"{MAPS}/settings")
    eventually(lambda: not copied(), 60)
    home.admin.delete(f"{PODS}/reads")


def run_with_a_secret(home: ControlPlane, away: ControlPlane, named: Object) -> None:
    """As with a ConfigMap; both clusters say that it may."""
    metadata = {"name": "db", "annotations": {"global-dispatcher.io/follow": AWAY}}
    home.admin.create(SECRETS, {"metadata": metadata, "stringData": {"password": "red"}})
    volume = {"name": "db", "secret": {"secretName": "db"}}
    asked = {"global-dispatcher.io/schedule": "true", "global-dispatcher.io/clusters": AWAY}
    home.admin.create(PODS, pod("keeps", asked, volumes=[volume], **named))

    def copied() -> list[object]:
        found = away.admin.get(SECRETS)["items"]
        return [one.get("data") for one in found if one["metadata"]["name"].startswith("db-")]

    eventually(lambda: copied() == [{"password": "cmVk"}], 60)
    home.admin.patch(f"{SECRETS}/db", {"stringData": {"password": "blue"}})
    eventually(lambda: copied() == [{"password": "Ymx1ZQ=="}], 60)
    home.admin.delete(f"{SECRETS}/db")
    eventually(lambda: not copied(), 60)
    home.admin.delete(f"{PODS}/keeps")


def change_what_runs(home: ControlPlane, away: ControlPlane, named: Object) -> None:
    """A pod away gets a debug container and more CPU at home, and has them there."""
    asked = {"global-dispatcher.io/schedule": "true", "global-dispatcher.io/clusters": AWAY}
    home.admin.create(PODS, pod("grows", asked, **named))
    carried = "global-dispatcher.io/carries"
    eventually(lambda: carried in home.admin.get(f"{PODS}/grows")["metadata"].get("annotations", {}), 60)
    home.kubectl("debug", "grows", "--image=busybox", "--container=look", "--profile=restricted", "--", "true")
    wanted = {"cpu": "200m" if RESIZES else "100m"}
    if RESIZES:
        shows_resources(home, away)
        more = {"spec": {"containers": [{"name": "main", "resources": {"requests": wanted}}]}}
        home.kubectl("patch", "pod", "grows", "--subresource=resize", "-p", json.dumps(more))

    def there() -> Object:
        spec: Object = copy_of_grows(away)["spec"]
        return spec

    eventually(lambda: [one["name"] for one in there().get("ephemeralContainers", ())] == ["look"], 60)
    eventually(lambda: there()["containers"][0]["resources"]["requests"] == wanted, 60)
    home.admin.delete(f"{PODS}/grows")


def copy_of_grows(away: ControlPlane) -> Object:
    found: list[Object] = away.admin.get(PODS)["items"]
    return next(one for one in found if one["metadata"]["name"].startswith("grows-"))


def shows_resources(home: ControlPlane, away: ControlPlane) -> None:
    """As every kubelet does that can resize pods; KWOK does not, and API servers ask."""
    eventually(lambda: bool(copy_of_grows(away)["status"].get("containerStatuses")), 60)
    copy = copy_of_grows(away)
    (main,) = copy["status"]["containerStatuses"]
    shown = [{**main, "resources": {"requests": {"cpu": "100m"}}}]
    away.admin.patch(f"{PODS}/{copy['metadata']['name']}/status", {"status": {"containerStatuses": shown}})

    def at_home() -> bool:
        (main,) = home.admin.get(f"{PODS}/grows")["status"].get("containerStatuses") or ({},)
        return "resources" in main

    eventually(at_home, 60)


def ask_for_logs_and_more(home: ControlPlane, away: ControlPlane, folder: Path) -> None:
    """At home, of a pod that runs away. It counts what the API server there was asked for, not what comes of it."""
    names = [one["metadata"]["name"] for one in home.admin.get(PODS)["items"]]
    name = next(one for one in names if one.startswith("web-"))  # those with claims run at home, until they are gone
    kubectl = [str(home.programs["kubectl"]), f"--kubeconfig={home.kubeconfig}"]
    asked = (("logs", name), ("exec", name, "--", "true"), ("attach", name), ("port-forward", name, ":80"))
    by_spdy = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}
    with ExitStack() as stack:
        for words in asked:
            env = {"PATH": os.environ["PATH"], "HOME": str(folder), **by_spdy}
            one = subprocess.Popen([*kubectl, *words], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(one.wait)
            stack.callback(one.kill)
        eventually(lambda: not unused(RELAYED, used(away.audit.events(), ACCOUNTS["executor"])), 30)


def ask_for_metrics(home: ControlPlane) -> None:
    """As metrics-server does, by a token."""
    node = home.admin.get(f"/api/v1/nodes/{proxy_node_name(AWAY)}")
    port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    page = node["metadata"]["annotations"]["metrics.k8s.io/resource-metrics-path"]
    token = {"Authorization": f"Bearer {home.token_for('default')}"}
    answer = httpx.get(f"https://127.0.0.1:{port}{page}", headers=token, verify=False, trust_env=False, timeout=30)
    assert answer.status_code == 403, answer.text  # it may not get nodes/metrics


def drain(home: ControlPlane, away: ControlPlane) -> None:
    """Of a node on which pods of the other cluster run: what takes their place is placed anew."""
    node = away.admin.get(PODS)["items"][0]["spec"]["nodeName"]
    away.kubectl("drain", node, "--force", "--timeout=60s")
    eventually(lambda: home.admin.get(f"{DEPLOYMENTS}/web")["status"].get("readyReplicas") == 3, 60)


def test_the_guard_holds_the_executor_to_copies_of_secrets_of_harmless_types(
    planes: dict[str, ControlPlane], fleet: Releases
) -> None:
    """By its token, whoever has that."""
    away = planes[AWAY]
    away.admin.create(SECRETS, {"metadata": {"name": "theirs"}, "stringData": {"password": "red"}})
    there = away.admin.get(f"{SECRETS}/theirs")
    marked = {"name": "db-0123456789abcdef", "labels": {"global-dispatcher.io/copy": "0123456789abcdef"}}
    forged = {"annotations": {"kubernetes.io/service-account.name": "default"}}
    tokens = "kubernetes.io/service-account-token"
    api = away.api_for(ACCOUNTS["executor"], NAMESPACE)
    answers = {
        "another's is changed": api.http.put(f"{SECRETS}/theirs", json={**there, "data": {}}),
        "another's is deleted": api.http.delete(f"{SECRETS}/theirs"),
        "one has a label of another form": api.http.post(
            SECRETS, json={"metadata": {"name": "db-0", "labels": {"global-dispatcher.io/copy": "0"}}}
        ),
        "one is of another name": api.http.post(SECRETS, json={"metadata": {**marked, "name": "db"}}),
        "a map is in a namespace of Kubernetes": api.http.post(
            MAPS.replace("default", "kube-system"), json={"metadata": marked}
        ),
        "one is no copy": api.http.post(SECRETS, json={"metadata": {"name": "plain"}}),
        "one is a token": api.http.post(SECRETS, json={"metadata": {**marked, **forged}, "type": tokens}),
    }
    made = api.http.post(SECRETS, json={"metadata": marked, "type": "Opaque"})
    noted = api.http.post(MAPS, json={"metadata": marked})
    listed = api.http.get(SECRETS)
    elsewhere = api.http.get("/api/v1/namespaces/kube-system/secrets/any")
    api.close()
    told = {what: (one.status_code, "agent of Global Dispatcher may" in one.text) for what, one in answers.items()}
    assert told == dict.fromkeys(answers, (422, True)), {what: one.text for what, one in answers.items()}
    assert (made.status_code, noted.status_code) == (201, 201)
    assert (listed.status_code, elsewhere.status_code) == (403, 403)
    for kind in (SECRETS, MAPS):
        away.admin.delete(f"{kind}/{marked['name']}")


PRIVILEGED = {"name": "more", "image": "example.invalid/app:1", "securityContext": {"privileged": True}}


def test_the_guard_lets_nothing_be_made_that_never_crosses(planes: dict[str, ControlPlane], fleet: Releases) -> None:
    away = planes[AWAY]
    token = {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    made: dict[str, Object] = {
        "a token": {"volumes": [token]},
        "a path of the node": {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]},
        "a volume of a driver": {"volumes": [{"name": "v", "csi": {"driver": "csi.example.com"}}]},
        "a share": {"volumes": [{"name": "v", "nfs": {"server": "192.0.2.1", "path": "/"}}]},
        "a claim": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]},
        "a privileged container": {"containers": [PRIVILEGED]},
        "a privileged container at first": {"initContainers": [PRIVILEGED]},
        **{f"the node's {one}": {one: True} for one in ("hostNetwork", "hostPID", "hostIPC")},
    }
    api = away.api_for(ACCOUNTS["executor"], NAMESPACE)
    answers = {what: api.http.post(PODS, json=delegate(**spec)) for what, spec in made.items()}
    answers["in kube-system"] = api.http.post(PODS.replace("default", "kube-system"), json=delegate())
    projected: list[Object] = [{"configMap": {"name": "any"}}, {"secret": {"name": "any"}}, {"downwardAPI": {}}]
    harmless: list[Object] = [
        {"name": "all", "projected": {"sources": projected}},
        {"name": "map", "configMap": {"name": "any"}},
        {"name": "secret", "secret": {"secretName": "any"}},
        {"name": "pod", "downwardAPI": {}},
        {"name": "empty", "emptyDir": {"sizeLimit": "1Mi"}},
    ]
    there = api.http.post(PODS, json=delegate(volumes=harmless))
    assert there.status_code == 201, there.text
    for privileged, what in ((True, "a privileged debug container"), (False, "")):
        debug = {**PRIVILEGED, "securityContext": {"privileged": privileged}}
        answer = api.http.patch(
            f"{PODS}/thief/ephemeralcontainers",
            json={"spec": {"ephemeralContainers": [debug]}},
            headers={"Content-Type": "application/strategic-merge-patch+json"},
        )
        if what:
            answers[what] = answer
        else:
            assert answer.status_code == 200, answer.text
    api.close()
    away.admin.delete(f"{PODS}/thief")
    told = {what: (one.status_code, "agent of Global Dispatcher may" in one.text) for what, one in answers.items()}
    assert told == dict.fromkeys(answers, (422, True)), {what: one.text for what, one in answers.items()}
