"""Agents that the dispatcher starts, in its chart: on a Ray in its own container, or on a Ray cluster that is there."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from dispatcher.config import load_config
from dispatcher.config.agents import relays_of
from dispatcher.config.gateway import here
from shared.process.ray_names import resource_name
from tests.charts.rendering import Helm, HelmError, Object, containers, of_kind, only, write_mounted

FOLDER = "/run/secrets/clusters"
DIALS = {"name": "east", "via": "gateway"}


def started(name: str, **agent: Any) -> Object:
    return {
        "name": name,
        "kubeconfig": f"{FOLDER}/{name}.kubeconfig",
        "agent": {"key_file": f"{FOLDER}/{name}.pem", **agent},
    }


OWN: dict[str, Any] = {
    "config": {"clusters": [DIALS, started("south"), started("west")]},
    "ray": {"clusters": {"existingSecret": "members"}},
}
HEAD = "ray-head-svc.ray.svc:6379"
JOINED: dict[str, Any] = {
    "config": {"clusters": OWN["config"]["clusters"], "ray": {"address": HEAD}},
    "ray": {"tls": {"existingSecret": "ray-tls"}},
}
BOTH = pytest.mark.parametrize("values", [OWN, JOINED], ids=["in its container", "on a cluster"])
OTHER_NAME = {"fullnameOverride": "other", "networkPolicy": {"enabled": True}, "podLabels": {"team": "x"}}


def spec_of(objects: list[Object]) -> Object:
    spec: Object = only(objects, "Deployment")["spec"]["template"]["spec"]
    return spec


def option(container: Object, name: str) -> str:
    (value,) = [word.partition("=")[2] for word in container["command"] if word.startswith(f"--{name}=")]
    return str(value)


def mounts(container: Object) -> dict[str, str]:
    return {one["mountPath"]: one["name"] for one in container["volumeMounts"]}


def test_where_all_clusters_dial_in_there_is_no_ray(helm: Helm) -> None:
    objects = helm.template("dispatcher", {"networkPolicy": {"enabled": True}})
    (one,) = containers(of_kind(objects, "Deployment"))
    assert "/dev/shm" not in mounts(one)
    assert not [env["name"] for env in one["env"] if env["name"].startswith("RAY_")]
    assert {one["metadata"]["name"] for one in of_kind(objects, "Service")} == {"dispatcher", "dispatcher-gateway"}


def test_without_an_address_agents_run_in_the_dispatchers_container_which_has_their_files(helm: Helm) -> None:
    objects = helm.template("dispatcher", OWN)
    (one,) = containers(of_kind(objects, "Deployment"))
    volumes = {volume["name"]: volume for volume in spec_of(objects)["volumes"]}
    assert volumes[mounts(one)[FOLDER]]["secret"] == {"secretName": "members", "defaultMode": 0o440}
    assert volumes[mounts(one)["/dev/shm"]]["emptyDir"] == {"medium": "Memory", "sizeLimit": "128Mi"}
    assert not [env["name"] for env in one["env"] if env["name"].startswith("RAY_")]
    assert "shareProcessNamespace" not in spec_of(objects)


def test_with_an_address_a_node_of_that_ray_runs_before_the_dispatcher_and_is_found_by_it(helm: Helm) -> None:
    spec = spec_of(helm.template("dispatcher", JOINED))
    (node,), (dispatcher,) = spec["initContainers"], spec["containers"]
    assert (node["restartPolicy"], spec["shareProcessNamespace"]) == ("Always", True)
    assert node["startupProbe"]["tcpSocket"]["port"] == node["ports"][0]["name"]
    assert (node["command"][:2], option(node, "address"), option(node, "num-cpus")) == (["ray", "start"], HEAD, "0")
    assert not [word for word in node["command"] if "resources" in word]  # so no agent is started on it
    for folder in ("/tmp/ray", "/dev/shm", "/run/secrets/ray"):
        assert mounts(node)[folder] == mounts(dispatcher)[folder]
    assert option(node, "temp-dir") == "/tmp/ray"
    assert not {"signing", "gateway", "clusters", "token"} & set(mounts(node).values())


def test_every_process_of_a_ray_that_spans_hosts_shows_a_certificate_and_the_token(helm: Helm) -> None:
    token = {"ray": {**JOINED["ray"], "token": {"existingSecret": "mine", "key": "ray"}}}
    spec = spec_of(helm.template("dispatcher", {**JOINED, **token}))
    for one in (*spec["initContainers"], *spec["containers"]):
        env = {variable["name"]: variable for variable in one["env"]}
        assert (env["RAY_USE_TLS"]["value"], env["RAY_AUTH_MODE"]["value"]) == ("1", "token")
        assert env["RAY_AUTH_TOKEN"]["valueFrom"]["secretKeyRef"] == {"name": "mine", "key": "ray"}
        files = [env[f"RAY_TLS_{name}"]["value"] for name in ("SERVER_CERT", "SERVER_KEY", "CA_CERT")]
        assert files == [f"/run/secrets/ray/{name}" for name in ("tls.crt", "tls.key", "ca.crt")]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert volumes["ray-tls"]["secret"]["secretName"] == "ray-tls"


@pytest.mark.parametrize("more", [{}, OTHER_NAME], ids=["usual", "another name"])
def test_the_node_has_a_name_that_leads_to_the_pod_and_that_the_certificate_holds(
    helm: Helm, more: dict[str, Any]
) -> None:
    made = {"enabled": True, "issuerRef": {"name": "ray"}}
    tls = {"ray": {"tls": {"existingSecret": "ray-tls", "certManager": made}}}
    objects = helm.template("dispatcher", {**JOINED, **more, **tls})
    full = more.get("fullnameOverride", "dispatcher")
    spec = spec_of(objects)
    name = f"{spec['hostname']}.{spec['subdomain']}.global-dispatcher.svc"
    assert option(spec["initContainers"][0], "node-ip-address") == name
    (certificate,) = of_kind(objects, "Certificate")
    assert (certificate["spec"]["secretName"], certificate["spec"]["dnsNames"]) == ("ray-tls", [name])
    (service,) = [one for one in of_kind(objects, "Service") if one["metadata"]["name"] == f"{full}-ray"]
    assert spec["subdomain"] == service["metadata"]["name"]
    assert (service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]) == ("None", True)
    labels = only(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert [port["port"] for port in service["spec"]["ports"]] == [7444, 6380, 6381]


@BOTH
def test_every_container_is_hardened_and_bounded(helm: Helm, values: dict[str, Any]) -> None:
    objects = helm.template("dispatcher", values)
    volumes = {volume["name"]: volume for volume in spec_of(objects)["volumes"]}
    for one in containers(of_kind(objects, "Deployment")):
        assert one["securityContext"]["readOnlyRootFilesystem"] is True
        assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in one["resources"]["limits"]
        written = [volumes[mount["name"]]["emptyDir"] for mount in one["volumeMounts"] if not mount.get("readOnly")]
        assert all(folder["sizeLimit"] for folder in written)


@BOTH
def test_the_dispatcher_takes_what_is_rendered_and_has_no_pod_but_its_own(
    helm: Helm, tmp_path: Path, values: dict[str, Any]
) -> None:
    objects = helm.template("dispatcher", values)
    config = load_config(write_mounted(objects, tmp_path) / "dispatcher.yaml")
    assert ([one.name for one in here(config.clusters)], config.ray.port) == (["south", "west"], 7444)
    assert config.ray.address == values["config"].get("ray", {}).get("address", "")
    assert [one["metadata"]["name"] for one in (*of_kind(objects, "Deployment"), *of_kind(objects, "StatefulSet"))] == [
        "dispatcher"
    ]


def rules(policy: Object, way: str) -> list[list[Any]]:
    """The ports of each rule; a range as a pair."""
    return [
        [(one["port"], one["endPort"]) if "endPort" in one else one["port"] for one in rule.get("ports", ())]
        for rule in policy["spec"][way]
    ]


def test_agents_on_a_ray_cluster_and_its_nodes_are_let_in_and_out_both_ways(helm: Helm) -> None:
    theirs = [{"ipBlock": {"cidr": "10.9.0.0/16"}}]
    for named in ([], theirs):
        policy = only(
            helm.template("dispatcher", {**JOINED, "networkPolicy": {"enabled": True, "ray": named}}), "NetworkPolicy"
        )
        assert rules(policy, "ingress")[-1] == [7444, 6380, 6381, 6382, 6383, 6384, 6385, (10100, 10149)]
        assert policy["spec"]["ingress"][-1].get("from", []) == named
        assert policy["spec"]["egress"][-1].get("to", []) == named
        assert rules(policy, "egress")[-1] == ([] if named else [(1024, 65535)])


def test_agents_in_the_container_reach_their_clusters_and_are_asked_for_logs(helm: Helm, tmp_path: Path) -> None:
    clusters = [
        started("south", relay={"port": 10300}),
        started("west", relay={"address": "192.0.2.1"}),
        started("north"),
    ]
    values = {**OWN, "config": {"clusters": clusters}, "networkPolicy": {"enabled": True}}
    objects = helm.template("dispatcher", values)
    policy = only(objects, "NetworkPolicy")
    assert rules(policy, "egress")[-1] == [443, 6443, 9100, 10250]
    relays = relays_of(load_config(write_mounted(objects, tmp_path) / "dispatcher.yaml").clusters)
    assert rules(policy, "ingress")[-2:] == [[one.port] for one in relays.values()] == [[10300], [10250]]


NO_KEY = {"name": "south", "kubeconfig": f"{FOLDER}/south.kubeconfig"}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"config": {"clusters": [{"name": "south"}]}}, r"clusters\[0\]\.kubeconfig: .*`via: gateway`"),
        ({"config": {"clusters": [NO_KEY]}}, r"clusters\[0\]\.agent\.key_file: the key of south has to outlive"),
        ({"config": JOINED["config"]}, r"ray\.tls\.existingSecret: a Ray that spans hosts is joined with TLS alone"),
        ({**JOINED, "extraEnv": [{"name": "RAY_USE_TLS", "value": "1"}]}, "extraEnv: RAY_USE_TLS is given by ray.tls"),
        ({**JOINED, "config": {**JOINED["config"], "ray": {"address": HEAD, "port": 0}}}, r"config\.ray\.port: agents"),
        ({**JOINED, "config": {**JOINED["config"], "ray": {"address": "head"}}}, "/config/ray/address"),
        ({**OWN, "config": {**OWN["config"], "ray": {"port": 7443}}}, r"7443 is config\.gateway\.port, too"),
        ({**JOINED, "config": {**JOINED["config"], "http": {"port": 6383}}}, "6383 is config.http.port, too"),
        ({**JOINED, "config": {**JOINED["config"], "http": {"port": 10149}}}, "10149 is one of ray.ports.minWorker"),
        ({"config": {"clusters": [DIALS], "gateway": {"port": 7480}}}, "7480 is config.gateway.port, too"),
        ({**JOINED, "ray": {**JOINED["ray"], "ports": {"maxWorker": 10099}}}, "10100 is above ray.ports.maxWorker"),
        ({**JOINED, "ray": {**JOINED["ray"], "ports": {"minWorker": 80}}}, "/ray/ports/minWorker"),
    ],
)
def test_what_could_not_work_is_refused_by_name(helm: Helm, values: dict[str, Any], words: str) -> None:
    with pytest.raises(HelmError, match=words):
        helm.template("dispatcher", values)


def test_ports_of_a_node_that_is_not_there_are_nobodys(helm: Helm) -> None:
    assert helm.template("dispatcher", {**OWN, "config": {**OWN["config"], "http": {"port": 6380}}})


def test_the_notes_have_the_commands_for_files_certificate_and_places(helm: Helm) -> None:
    files = "--from-file=south.kubeconfig --from-file=south.pem --from-file=west.kubeconfig --from-file=west.pem"
    own = helm.notes("dispatcher", OWN)
    assert f"create secret generic members {files}" in own
    assert "ray start" not in own
    joined = helm.notes("dispatcher", JOINED)
    assert "dispatcher.dispatcher-ray.global-dispatcher.svc" in joined
    offered = re.findall(r"--resources='(.*)'", joined)
    assert [json.loads(one) for one in offered] == [{resource_name("south"): 1, resource_name("west"): 1}]
    assert "one trust domain" in joined


def test_the_notes_warn_of_files_that_no_volume_has(helm: Helm) -> None:
    clusters = [{"name": "south", "kubeconfig": "/elsewhere/kube", "agent": {"key_file": f"{FOLDER}/south.pem"}}]
    told = yaml.safe_load(json.dumps(OWN))
    told["config"]["clusters"] = clusters
    notes = helm.notes("dispatcher", told)
    assert "WARNING: config.clusters[0].kubeconfig: /elsewhere/kube is on no volume of the pod" in notes
    assert "key_file" not in notes
