"""Agents on Ray in the dispatcher's chart: a Ray head in a pod of its own, and a node beside the dispatcher."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts.rendering import CHARTS, Helm, HelmError, Object, containers, of_kind

EAST_WEST = [{"name": "east", "via": "gateway"}, {"name": "west", "via": "gateway"}]
ON_RAY: dict[str, Any] = {
    "config": {"clusters": [*EAST_WEST, {"name": "south"}]},
    "ray": {"tls": {"existingSecret": "ray-tls"}},
}
DOMAIN = "dispatcher-ray.global-dispatcher.svc"
HEAD = f"dispatcher-ray-head-0.{DOMAIN}"
EVERYTHING: dict[str, Any] = {
    "networkPolicy": {"enabled": True},
    "podDisruptionBudget": {"enabled": True},
    "nodeSelector": {"pool": "system"},
    "tolerations": [{"key": "system", "operator": "Exists"}],
    "priorityClassName": "system-cluster-critical",
    "podLabels": {"team": "x"},
    "podAnnotations": {"a": "b"},
    "image": {"pullSecrets": [{"name": "registry"}]},
    "extraVolumes": [{"name": "more", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
}
MATRIX = [
    pytest.param({}, id="example"),
    pytest.param(EVERYTHING, id="everything set"),
    pytest.param({"fullnameOverride": "other", **EVERYTHING}, id="another name"),
    pytest.param({"ray": {**ON_RAY["ray"], "head": {"persistence": {"enabled": False}}}}, id="no claim"),
]
matrix = pytest.mark.parametrize("values", MATRIX)


@pytest.fixture
def objects(helm: Helm) -> list[Object]:
    return helm.template("dispatcher", {**ON_RAY, **EVERYTHING})


def named(objects: list[Object], kind: str, name: str) -> Object:
    (found,) = [one for one in of_kind(objects, kind) if one["metadata"]["name"] == name]
    return found


def pods(objects: list[Object]) -> dict[str, Object]:
    """The template of each kind of pod, by the name of its workload."""
    made = [*of_kind(objects, "Deployment"), *of_kind(objects, "StatefulSet")]
    return {one["metadata"]["name"]: one["spec"]["template"] for one in made}


def option(container: Object, name: str) -> str:
    (value,) = [word.partition("=")[2] for word in container["command"] if word.startswith(f"--{name}=")]
    return str(value)


def on_ray(container: Object) -> bool:
    """Whether a Ray node runs in it."""
    return str(container["name"]).startswith("ray-")


def env_of(container: Object) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in container["env"]}


@pytest.mark.parametrize(
    ("clusters", "expected"),
    [
        pytest.param(EAST_WEST, ["dispatcher"], id="all dial in"),
        pytest.param([{"name": "east"}], ["dispatcher", "dispatcher-ray-head"], id="all on Ray"),
        pytest.param([*EAST_WEST, {"name": "south"}], ["dispatcher", "dispatcher-ray-head"], id="some on Ray"),
    ],
)
def test_a_head_is_made_only_for_agents_on_ray(helm: Helm, clusters: list[Object], expected: list[str]) -> None:
    objects = helm.template("dispatcher", {"config": {"clusters": clusters}, **EVERYTHING})
    assert list(pods(objects)) == expected
    for kind in ("NetworkPolicy", "PodDisruptionBudget"):
        assert [one["metadata"]["name"] for one in of_kind(objects, kind)] == expected


def test_agents_on_ray_reach_its_ports_beside_the_charts_own_pods(helm: Helm) -> None:
    theirs = {"ipBlock": {"cidr": "10.9.0.0/16"}}
    values = {"config": {"clusters": [{"name": "east"}]}, "networkPolicy": {"enabled": True, "ray": [theirs]}}
    mine = {"podSelector": {"matchLabels": {"global-dispatcher.io/ray": "dispatcher"}}}
    for policy in of_kind(helm.template("dispatcher", values), "NetworkPolicy"):
        for rules, key in ((policy["spec"]["ingress"], "from"), (policy["spec"]["egress"], "to")):
            (ray,) = [rule for rule in rules if {"protocol": "TCP", "port": 6379} in rule["ports"]]
            assert ray[key] == [mine, theirs]


@matrix
def test_the_head_has_a_pod_of_its_own(helm: Helm, values: dict[str, Any]) -> None:
    objects = helm.template("dispatcher", {**ON_RAY, **values})
    full = values.get("fullnameOverride", "dispatcher")
    made = pods(objects)
    assert set(made) == {full, f"{full}-ray-head"}
    assert named(objects, "StatefulSet", f"{full}-ray-head")["spec"]["replicas"] == 1
    assert [one["name"] for one in containers(objects) if on_ray(one)] == ["ray-node", "ray-head"]
    assert len({(one["kind"], one["metadata"]["name"]) for one in objects}) == len(objects)


@matrix
def test_selectors_match_one_kind_of_pod_alone(helm: Helm, values: dict[str, Any]) -> None:
    objects = helm.template("dispatcher", {**ON_RAY, **values})
    made = {name: template["metadata"]["labels"].items() for name, template in pods(objects).items()}

    def chosen(selector: Object) -> list[str]:
        own = {key: value for key, value in selector.items() if key != "statefulset.kubernetes.io/pod-name"}
        return [name for name, labels in made.items() if own.items() <= labels]

    full = values.get("fullnameOverride", "dispatcher")
    for name in made:
        (workload,) = [one for one in objects if one["kind"] in ("Deployment", "StatefulSet") and
                       one["metadata"]["name"] == name]  # fmt: skip
        assert chosen(workload["spec"]["selector"]["matchLabels"]) == [name]
    services = {one["metadata"]["name"]: chosen(one["spec"]["selector"]) for one in of_kind(objects, "Service")}
    assert services == {full: [full], f"{full}-gateway": [full], f"{full}-ray": list(made)}
    for kind, key in (("NetworkPolicy", "podSelector"), ("PodDisruptionBudget", "selector")):
        for one in of_kind(objects, kind):
            assert chosen(one["spec"][key]["matchLabels"]) == [one["metadata"]["name"]]


@matrix
def test_every_ray_process_shows_a_certificate_and_the_token(helm: Helm, values: dict[str, Any]) -> None:
    objects = helm.template("dispatcher", {**ON_RAY, **values})
    for name, template in pods(objects).items():
        spec = template["spec"]
        assert {"name": "ray-tls", "secret": {"secretName": "ray-tls", "defaultMode": 0o440}} in spec["volumes"], name
        volumes = {one["name"] for one in spec["volumes"]} | {"gcs"}
        for one in filter(on_ray, spec["containers"]):
            env = env_of(one)
            assert env["RAY_USE_TLS"] == "1"
            assert {"RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT", "RAY_AUTH_TOKEN"} <= set(env)
            assert env["RAY_gcs_rpc_server_reconnect_timeout_s"] == "600"
            mounts = [mount["name"] for mount in one["volumeMounts"]]
            assert "ray-tls" in mounts
            assert set(mounts) <= volumes


def test_nodes_have_names_that_the_certificate_holds(helm: Helm) -> None:
    made = {"enabled": True, "issuerRef": {"name": "ray"}}
    values = {**ON_RAY, "ray": {"tls": {"existingSecret": "ray-tls", "certManager": made}}}
    objects = helm.template("dispatcher", values)
    names = named(objects, "Certificate", "dispatcher-ray")["spec"]["dnsNames"]
    nodes = {one["name"]: option(one, "node-ip-address") for one in containers(objects) if on_ray(one)}
    assert nodes == {"ray-head": f"$(POD_NAME).{DOMAIN}", "ray-node": f"dispatcher.{DOMAIN}"}
    assert {f"*.{node.partition('.')[2]}" for node in nodes.values()} == set(names)
    spec = pods(objects)["dispatcher"]["spec"]
    assert (spec["hostname"], spec["subdomain"]) == ("dispatcher", "dispatcher-ray")
    service = named(objects, "Service", "dispatcher-ray")["spec"]
    assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)


def test_all_join_the_head_by_its_name(objects: list[Object]) -> None:
    joined = [option(one, "address") for one in containers(objects) if "--address" in str(one["command"])]
    assert joined == [f"{HEAD}:6379"]


@matrix
def test_what_runs_in_ray_shares_nothing_with_the_dispatcher_but_a_socket(helm: Helm, values: dict[str, Any]) -> None:
    objects = helm.template("dispatcher", {**ON_RAY, **values, "signing": {"tlsSecret": "signing"}})
    spec = pods(objects)[values.get("fullnameOverride", "dispatcher")]["spec"]
    assert not spec.get("shareProcessNamespace")
    node, dispatcher = spec["containers"]
    theirs, ours = ({mount["name"]: mount for mount in one["volumeMounts"]} for one in (node, dispatcher))
    assert theirs.keys() & ours.keys() == {"ray-driver"}
    assert ours["ray-driver"] == {**theirs["ray-driver"], "readOnly": True}
    assert {"gateway", "signing", "config", "tmp"} <= ours.keys()
    assert [name for name in env_of(dispatcher) if name.startswith("RAY_")] == []
    at = theirs["ray-driver"]["mountPath"]
    assert option(node, "socket") == env_of(dispatcher)["GLOBAL_DISPATCHER_RAY__DRIVER"] == f"{at}/socket"


@matrix
def test_nothing_that_runs_in_ray_holds_the_dispatcher_back_or_has_its_pod_evicted(
    helm: Helm, values: dict[str, Any]
) -> None:
    objects = helm.template("dispatcher", {**ON_RAY, **values})
    template = pods(objects)[values.get("fullnameOverride", "dispatcher")]
    spec = template["spec"]
    assert "initContainers" not in spec  # one that is not ready would keep the others from beginning again
    assert template["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"] == "dispatcher"
    (node,) = filter(on_ray, spec["containers"])
    volumes = {one["name"]: one for one in spec["volumes"]}
    written = [volumes[one["name"]]["emptyDir"] for one in node["volumeMounts"] if not one.get("readOnly")]
    # The kubelet evicts the pod for a folder on the disk beyond its limit, and for a container's ephemeral-storage.
    assert [one["medium"] for one in written] == ["Memory"] * 3
    assert all(one["sizeLimit"] for one in written)
    assert "ephemeral-storage" not in {**node["resources"]["limits"], **node["resources"]["requests"]}
    env = env_of(node)
    assert {env["HOME"], env["TMPDIR"], option(node, "temp-dir"), option(node, "empty")} == {"/tmp/ray"}
    assert int(env["RAY_ROTATION_MAX_BYTES"]) < 2**23


def test_volumes_are_the_dispatchers_alone_unless_ray_is_given_them(helm: Helm) -> None:
    claim = {"name": "claim", "persistentVolumeClaim": {"claimName": "journal"}}
    scripts = {"name": "scripts", "configMap": {"name": "scripts"}}
    ours, theirs = {"name": "claim", "mountPath": "/journal"}, {"name": "scripts", "mountPath": "/scripts"}
    ray = {**ON_RAY["ray"], "extraVolumeMounts": [theirs]}
    given = {**ON_RAY, "extraVolumes": [claim, scripts], "extraVolumeMounts": [ours], "ray": ray}
    objects = helm.template("dispatcher", given)
    for one in containers(objects):
        mounts = one.get("volumeMounts", [])
        assert (ours in mounts, theirs in mounts) == (one["name"] == "dispatcher", on_ray(one))
    made = {name: template["spec"]["volumes"] for name, template in pods(objects).items()}
    assert claim in made["dispatcher"]
    assert scripts in made["dispatcher"]
    assert (claim in made["dispatcher-ray-head"], scripts in made["dispatcher-ray-head"]) == (False, True)


def test_the_head_keeps_what_it_knows_on_a_claim_unless_it_is_told_not_to(helm: Helm, objects: list[Object]) -> None:
    spec = named(objects, "StatefulSet", "dispatcher-ray-head")["spec"]
    (head,) = spec["template"]["spec"]["containers"]
    env = env_of(head)
    mounts = {one["mountPath"]: one["name"] for one in head["volumeMounts"]}
    assert (env["RAY_gcs_storage"], mounts[env["RAY_gcs_storage_path"]]) == ("rocksdb", "gcs")
    assert [one["metadata"]["name"] for one in spec["volumeClaimTemplates"]] == ["gcs"]
    off = {**ON_RAY, "ray": {**ON_RAY["ray"], "head": {"persistence": {"enabled": False}}}}
    spec = named(helm.template("dispatcher", off), "StatefulSet", "dispatcher-ray-head")["spec"]
    assert "volumeClaimTemplates" not in spec
    assert {"name": "gcs", "emptyDir": {"sizeLimit": "1Gi"}} in spec["template"]["spec"]["volumes"]


def test_the_heads_pod_has_no_account_and_no_key(objects: list[Object]) -> None:
    spec = pods(objects)["dispatcher-ray-head"]["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in spec
    assert not {"signing", "gateway", "token"} & {one["name"] for one in spec["volumes"]}


def test_the_only_pods_of_a_kind_may_go_unless_they_are_held(helm: Helm, objects: list[Object]) -> None:
    def limits(objects: list[Object]) -> dict[str, int]:
        budgets = of_kind(objects, "PodDisruptionBudget")
        return {one["metadata"]["name"]: one["spec"]["maxUnavailable"] for one in budgets}

    assert limits(objects) == {"dispatcher": 1, "dispatcher-ray-head": 1}
    held = helm.template("dispatcher", {**ON_RAY, "podDisruptionBudget": {"enabled": True, "maxUnavailable": 0}})
    assert limits(held) == {"dispatcher": 0, "dispatcher-ray-head": 0}
    assert of_kind(helm.template("dispatcher", ON_RAY), "PodDisruptionBudget") == []


@matrix
def test_every_container_is_hardened_and_bounded(helm: Helm, values: dict[str, Any]) -> None:
    for one in containers(helm.template("dispatcher", {**ON_RAY, **values})):
        assert one["securityContext"]["readOnlyRootFilesystem"] is True
        assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in one["resources"]["limits"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"ray": {"tls": {"existingSecret": ""}}}, "ray.tls.existingSecret: Ray needs it, for clusters without"),
        ({"ray": {"head": {"persistence": {"size": "much"}}}}, "/ray/head/persistence/size"),
        ({"ray": {"tls": {"existingSecret": "Ray TLS"}}}, "/ray/tls/existingSecret"),
    ],
)
def test_what_cannot_work_is_refused_by_name(helm: Helm, values: dict[str, Any], words: str) -> None:
    given = {**ON_RAY, **values}
    given["config"] = {**ON_RAY["config"], **values.get("config", {})}
    with pytest.raises(HelmError, match=words):
        helm.template("dispatcher", given)


RAY_ALONE: dict[str, Any] = {"config": {"clusters": [{"name": "east"}]}}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {**ON_RAY, "config": {**ON_RAY["config"], "gateway": {"port": 6380}}},
            "ray.ports.nodeManager: 6380 is config.gateway.port, too",
        ),
        (
            {**ON_RAY, "config": {**ON_RAY["config"], "gateway": {"port": 10149}}},
            "config.gateway.port: 10149 is one of ray.ports.minWorker to maxWorker, 10100 to 10149",
        ),
        (
            {**RAY_ALONE, "ray": {"ports": {"gcs": 7480}}},
            "ray.ports.gcs: 7480 is config.http.port, too",
        ),
        ({**RAY_ALONE, "ray": {"ports": {"gcs": 6381}}}, "ray.ports.objectManager: 6381 is ray.ports.gcs, too"),
        ({**RAY_ALONE, "ray": {"ports": {"maxWorker": 10099}}}, "minWorker: 10100 is above ray.ports.maxWorker, 10099"),
        (
            {"config": {"clusters": EAST_WEST, "gateway": {"port": 7480}}},
            "config.http.port: 7480 is config.gateway.port, too",
        ),
    ],
    ids=["node's", "a worker's", "the dispatcher's", "two of Ray's", "no worker's", "without Ray"],
)
def test_a_port_that_two_would_listen_on_is_refused_by_both_names(
    helm: Helm, values: dict[str, Any], words: str
) -> None:
    with pytest.raises(HelmError, match=words):
        helm.template("dispatcher", values)


@pytest.mark.parametrize("variable", ["RAY_USE_TLS", "RAY_TLS_SERVER_CERT"])
def test_tls_of_ray_that_would_stand_twice_is_refused(helm: Helm, variable: str) -> None:
    own = {"extraEnv": [{"name": "TZ", "value": "UTC"}, {"name": variable, "value": "1"}]}
    with pytest.raises(HelmError, match=f"extraEnv: {variable} is given by ray.tls.existingSecret"):
        helm.template("dispatcher", {**ON_RAY, **own})
    assert helm.template("dispatcher", {"config": {"clusters": EAST_WEST}, **own})


HASH = 10  # characters of it at most in the label controller-revision-hash, NAME-HASH, of a StatefulSet's pods


def test_a_name_too_long_for_the_labels_of_rays_pods_is_refused(helm: Helm) -> None:
    values = RAY_ALONE
    longest = 43
    objects = helm.template("dispatcher", {**values, "fullnameOverride": "n" * longest})
    labels = [f"{one['metadata']['name']}-{'h' * HASH}" for one in of_kind(objects, "StatefulSet")]
    assert max(map(len, labels)) == 63
    with pytest.raises(HelmError, match=f"has {longest + 1} characters; with Ray's pods it may have {longest}"):
        helm.template("dispatcher", {**values, "fullnameOverride": "n" * (longest + 1)})


def test_ports_of_a_ray_that_is_not_there_are_nobodys(helm: Helm) -> None:
    values = {"config": {"clusters": EAST_WEST, "gateway": {"port": 6380}}}
    assert helm.template("dispatcher", values)


def test_the_notes_name_the_host_and_both_secrets_of_ray(helm: Helm, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(ON_RAY))
    words = ("install", "gd", str(CHARTS / "dispatcher"), "-n", "fleet", "-f", str(file), "--dry-run=client")
    notes = helm(*words).partition("NOTES:")[2]
    assert "join --context CONTEXT --cluster east --gateway HOST:7443 -n fleet" in notes
    roll = [line.split()[-1] for line in notes.splitlines() if "rollout restart" in line]
    assert roll == ["statefulset/gd-ray-head", "deployment/gd"]
    assert 'create secret generic global-dispatcher-ray --from-literal=token="$(openssl rand -hex 32)"' in notes
    assert '"*.gd-ray.fleet.svc"' in notes
