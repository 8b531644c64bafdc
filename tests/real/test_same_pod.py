"""A pod that runs in another cluster sees what it would see at home, byte for byte: two planes, each with a real node.

Each pod is run twice under one name, first at home, then in the other cluster, and says from inside a container what is
in its environment, in its files, and who it is, and what Services of home answer it. The namespace, the ConfigMaps, the
Secret, the Services and the pod behind them are home's alone: in the other cluster namespaces of that name may be made,
and the Secret may follow. An account of that name is in both. The pods of both nodes reach each other; on each are
kube-proxy and CoreDNS.
"""

import base64
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from localfleet.controlplane import binaries
from localfleet.controlplane.binaries import selected_minor
from localfleet.controlplane.components import PlaneSpec
from localfleet.controlplane.plane import KubectlError
from tests.charts.rendering import Helm
from tests.controlplane.fixtures import ControlPlanes
from tests.controlplane.realnode_config import IMAGE
from tests.controlplane.realnode_fixtures import RealNodes, real_node
from tests.real import node_services
from tests.real.two_planes import HOME, ONE_NETWORK, TARGET, WAIT_S, TwoPlanes, dispatching, grant
from tests.system.cluster_api import eventually
from tests.system.dialled import CLUSTERS

__all__ = ["real_node"]
Object = dict[str, Any]
TEAM = "team"
NAMESPACES = "/api/v1/namespaces"
OF_TEAM = f"{NAMESPACES}/{TEAM}"
PODS = f"{OF_TEAM}/pods"
EXECUTOR = {
    "accept": [
        {
            "clusters": ["*"],
            "namespaces": ["*"],
            "local_accounts": ["robot", "default"],
            "secrets_follow": ["db"],
        }
    ],
    "namespaces": {"create": [TEAM]},
    "services": True,
}
SELLER = {"app": "seller"}
BINARY = base64.b64encode(bytes(range(256))).decode()
CONFIG_MAPS: dict[str, Object] = {
    "settings": {
        "data": {"colour": "blue", "lines": "one\ntwo\n", "quoted": "a \"b\" $c 'd' é"},
        "binaryData": {"raw": BINARY},
    },
    "fixed": {"data": {"answer": "42"}, "immutable": True},
    "large": {"data": {"filling": "x" * 900_000}},
}
SECRET: Object = {
    "metadata": {"name": "db", "annotations": {"global-dispatcher.io/follow": TARGET}},
    "stringData": {"password": 'p$ss w"rd\n', "user": "shop"},
    "data": {"raw": BINARY},
    "type": "Opaque",
}
SERVICES: list[Object] = [
    {
        "metadata": {"name": "shop"},
        "spec": {"selector": SELLER, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
    },
    {"metadata": {"name": "shops"}, "spec": {"selector": SELLER, "clusterIP": "None", "ports": [{"port": 8080}]}},
]
ENDED = "that is all"
# What a container can say of where it is; sorted, as the kernel lists files in no order.
SCRIPT = f"""
env | sort
echo "host $(hostname)"
id
for file in $(find /told -follow -type f | sort); do
  case $file in */..*) continue;; esac
  echo "$file $(stat -Lc '%a %u %g %s' $file) $(sha256sum < $file)"
done
cat /told/down/labels /told/down/note
grep -c . /etc/hosts
nslookup shop.team.svc.cluster.local | grep Address | tail -n 1
nslookup shops.team.svc.cluster.local | grep Address | tail -n 1
wget -qO- http://shop
wget -qO- http://$SHOP_SERVICE_HOST:$SHOP_SERVICE_PORT
wget -qO- http://shops:8080
echo {ENDED}
sleep 3600
"""
ENVIRONMENT: list[Object] = [
    {"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "colour"}}},
    {"name": "QUOTED", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "quoted"}}},
    {"name": "LACKING_KEY", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "none", "optional": True}}},
    {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
    {"name": "NO_SECRET", "valueFrom": {"secretKeyRef": {"name": "db", "key": "none", "optional": True}}},
    {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    {"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
    {"name": "ACCOUNT", "valueFrom": {"fieldRef": {"fieldPath": "spec.serviceAccountName"}}},
    {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
    {"name": "NOTE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['example.com/note']"}}},
    {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
    {"name": "EXPANDED", "value": "$(NAME) is $(COLOUR)"},
]
VOLUMES: list[Object] = [
    {"name": "settings", "configMap": {"name": "settings", "defaultMode": 0o440}},
    {"name": "one", "configMap": {"name": "settings", "items": [{"key": "raw", "path": "deep/raw", "mode": 0o400}]}},
    {"name": "lacking", "configMap": {"name": "nowhere", "optional": True}},
    {"name": "secret", "secret": {"secretName": "db", "defaultMode": 0o440}},
    {
        "name": "projected",
        "projected": {
            "sources": [
                {"configMap": {"name": "fixed"}},
                {"configMap": {"name": "large"}},
                {"secret": {"name": "db", "items": [{"key": "user", "path": "user", "mode": 0o400}]}},
                {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            ]
        },
    },
    {
        "name": "down",
        "downwardAPI": {
            "items": [
                {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                {"path": "note", "fieldRef": {"fieldPath": "metadata.annotations['example.com/note']"}},
                {
                    "path": "memory",
                    "resourceFieldRef": {"containerName": "main", "resource": "requests.memory"},
                },
            ]
        },
    },
]


def pod(name: str, cluster: str, **spec: Any) -> Object:
    """One that says what it sees. `spec`: further fields."""
    mounts: list[Object] = [{"name": one["name"], "mountPath": f"/told/{one['name']}"} for one in VOLUMES]
    mounts.append({"name": "settings", "mountPath": "/told/alone.txt", "subPath": "lines"})
    container = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", SCRIPT],
        "env": ENVIRONMENT,
        "envFrom": [{"prefix": "FIXED_", "configMapRef": {"name": "fixed"}}],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "500m", "memory": "64Mi"}},
        "volumeMounts": mounts,
    }
    note = "twice\nsaid"
    return {
        "metadata": {
            "name": name,
            "labels": {"app": "twin", "tier": "web"},
            "annotations": {"global-dispatcher.io/clusters": cluster, "example.com/note": note},
        },
        "spec": {
            "schedulerName": "global-dispatcher",
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            "volumes": VOLUMES,
            "automountServiceAccountToken": False,
            **spec,
        },
    }


def seller() -> Object:
    """The pod behind the Services."""
    served = "echo 'sold at home' >/tmp/index.html; httpd -f -p 8080 -h /tmp"
    container = {"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", served]}
    made = {"metadata": {"name": "seller", "labels": SELLER, "annotations": {"global-dispatcher.io/clusters": HOME}}}
    spec = {"terminationGracePeriodSeconds": 0, "schedulerName": "global-dispatcher", "containers": [container]}
    return {**made, "spec": spec}


@pytest.fixture(scope="module")
def programs() -> dict[str, Path]:
    if reason := binaries.unavailable(node_services.PROGRAMS):
        pytest.skip(reason)
    return binaries.ensure(node_services.PROGRAMS)


@pytest.fixture(scope="module")
def world(
    programs: dict[str, Path],
    control_plane: ControlPlanes,
    real_node: RealNodes,
    helm: Helm,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[TwoPlanes]:
    folder = tmp_path_factory.mktemp("same-pod")
    specs = [PlaneSpec(name, minor=selected_minor()) for name in CLUSTERS]
    planes = {plane.name: plane for plane in control_plane.together(*specs)}
    nodes = {name: real_node(plane, names=True) for name, plane in planes.items()}
    node_services.join(*nodes.values())
    for plane in planes.values():
        grant(plane, helm, "self-signed", EXECUTOR, secrets={"give": ["*"], "take": ["*"]})
    home = planes[HOME].admin
    home.create(NAMESPACES, {"metadata": {"name": TEAM}})
    for name, content in CONFIG_MAPS.items():
        home.create(f"{OF_TEAM}/configmaps", {"metadata": {"name": name}, **content})
    home.create(f"{OF_TEAM}/secrets", SECRET)
    for service in SERVICES:
        home.create(f"{OF_TEAM}/services", service)
    with ExitStack() as stack:
        for node in nodes.values():
            stack.enter_context(node_services.services(node, programs))
        certificates, dispatcher = stack.enter_context(dispatching(folder, ONE_NETWORK))
        world = TwoPlanes(planes, nodes, folder, certificates, dispatcher, executor=EXECUTOR)
        stack.enter_context(world.with_agents())
        eventually(lambda: has_account(world, "default"), WAIT_S, world.told)
        home.create(PODS, seller())
        eventually(lambda: sells(world), WAIT_S, world.told)
        yield world


def sells(world: TwoPlanes) -> bool:
    """Whether the Services lead to the pod."""
    found = world.home.admin.get(f"/apis/discovery.k8s.io/v1/namespaces/{TEAM}/endpointslices")["items"]
    return len(found) == len(SERVICES) and all(one["endpoints"] for one in found)


def has_account(world: TwoPlanes, name: str) -> bool:
    """Whether home's controllers have made it."""
    return any(one["metadata"]["name"] == name for one in world.home.admin.get(f"{OF_TEAM}/serviceaccounts")["items"])


def seen(world: TwoPlanes, made: Object) -> list[str]:
    """What a pod says from inside, read at home, where its UID and the address of a Service are told by their names, as
    they are a pod's and a cluster's own; it is gone afterwards.
    """
    name = made["metadata"]["name"]
    path = f"{PODS}/{name}"
    world.home.admin.create(PODS, made)
    try:
        eventually(lambda: ENDED in logs(world, name), WAIT_S, world.told)
        own = {world.home.admin.get(path)["metadata"]["uid"]: "UID"}
        cluster = made["metadata"]["annotations"]["global-dispatcher.io/clusters"]
        own[world.planes[cluster].admin.get(f"{OF_TEAM}/services/shop")["spec"]["clusterIP"]] = "ADDRESS"
        said = logs(world, name)
        for value, called in own.items():
            said = said.replace(value, called)
        return said.splitlines()
    finally:
        world.home.admin.delete(path)
        eventually(lambda: not any(one["metadata"]["name"] == name for one in pods(world)), WAIT_S, world.told)


def pods(world: TwoPlanes) -> list[Object]:
    return list(world.home.admin.get(PODS)["items"])


def alone(world: TwoPlanes) -> bool:
    """Whether only the pod behind the Services is at home."""
    return [one["metadata"]["name"] for one in pods(world)] == ["seller"]


def logs(world: TwoPlanes, name: str) -> str:
    try:
        return world.home.kubectl("logs", "-n", TEAM, name)
    except KubectlError:
        return ""


def test_a_container_sees_the_environment_files_and_name_that_it_has_at_home(world: TwoPlanes) -> None:
    at_home = seen(world, pod("twin", HOME))
    abroad = seen(world, pod("twin", TARGET))
    assert {"COLOUR=blue", 'PASSWORD=p$ss w"rd', "FIXED_answer=42"} <= {*at_home}
    assert any(line.startswith("/told/projected/filling 644 0 0 900000 ") for line in at_home)
    assert {"SHOP_SERVICE_HOST=ADDRESS", "SHOP_SERVICE_PORT_HTTP=80", "Address: ADDRESS"} <= {*at_home}
    assert at_home.count("sold at home") == 3  # by the name, the environment, and the name of the pods themselves
    assert abroad == at_home


def test_a_container_has_the_host_and_domain_of_its_stateful_set(world: TwoPlanes) -> None:
    named = {"hostname": "web-0", "subdomain": "web"}
    at_home = seen(world, pod("web-0", HOME, **named))
    abroad = seen(world, pod("web-0", TARGET, **named))
    assert "host web-0" in at_home
    assert abroad == at_home


@pytest.mark.parametrize("account", ["robot", "default"])
def test_a_token_names_the_account_that_the_pod_has_at_home(world: TwoPlanes, account: str) -> None:
    for plane in world.planes.values() if account != "default" else ():
        plane.admin.create(f"{OF_TEAM}/serviceaccounts", {"metadata": {"name": account}})
    shown = "cat /var/run/secrets/kubernetes.io/serviceaccount/token; echo; sleep 3600"
    subjects = []
    for cluster in (HOME, TARGET):
        named = {"serviceAccountName": account} if account != "default" else {}
        made = pod("robot", cluster, **named)
        del made["spec"]["automountServiceAccountToken"]
        made["spec"]["containers"][0]["command"] = ["sh", "-c", shown]
        world.home.admin.create(PODS, made)
        eventually(lambda: "." in logs(world, "robot"), WAIT_S, world.told)
        claims = logs(world, "robot").split(".")[1]
        subjects.append(json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["sub"])
        world.home.admin.delete(f"{PODS}/robot")
        eventually(lambda: alone(world), WAIT_S, world.told)
    assert subjects == [f"system:serviceaccount:{TEAM}:{account}"] * 2


def test_home_shows_the_generation_that_the_kubelet_there_has_seen_and_what_it_says_of_containers(
    world: TwoPlanes,
) -> None:
    world.home.admin.create(PODS, pod("counted", TARGET))

    def caught_up() -> bool:
        found = world.home.admin.get(f"{PODS}/counted")
        status = found["status"]
        ready: Object = next((one for one in status.get("conditions") or () if one["type"] == "Ready"), {})
        observed = {status.get("observedGeneration"), ready.get("observedGeneration")}
        return observed == {found["metadata"]["generation"]}

    eventually(caught_up, WAIT_S, world.told)
    before = world.home.admin.get(f"{PODS}/counted")["metadata"]["generation"]
    world.home.admin.patch(f"{PODS}/counted", {"spec": {"activeDeadlineSeconds": 3000}})
    assert world.home.admin.get(f"{PODS}/counted")["metadata"]["generation"] == before + 1
    eventually(caught_up, WAIT_S, world.told)
    told = f"in cluster {TARGET}: "
    eventually(lambda: events(world, "counted") >= {("Normal", "Created", told), ("Normal", "Started", told)}, WAIT_S)
    world.home.admin.delete(f"{PODS}/counted")
    eventually(lambda: alone(world), WAIT_S, world.told)


def events(world: TwoPlanes, name: str) -> set[tuple[str, str, str]]:
    """Type, reason, and how its note begins, of each that is about a pod at home."""
    found = world.home.admin.get(f"{OF_TEAM}/events", fieldSelector=f"involvedObject.name={name}")["items"]
    return {(one["type"], one["reason"], one["message"].partition(": ")[0] + ": ") for one in found}


def test_a_mounted_file_changes_as_its_config_map_does_at_home(world: TwoPlanes) -> None:
    made = pod("follower", TARGET)
    watching = "while :; do cat /told/settings/colour; echo; sleep 1; done"
    made["spec"]["containers"][0]["command"] = ["sh", "-c", watching]
    world.home.admin.create(PODS, made)
    eventually(lambda: "blue" in logs(world, "follower"), WAIT_S, world.told)
    world.home.admin.patch(f"{OF_TEAM}/configmaps/settings", {"data": {"colour": "green"}})
    # its kubelet looks every 5 s
    eventually(lambda: "green" in logs(world, "follower"), WAIT_S, world.told)
    world.home.admin.delete(f"{PODS}/follower")
