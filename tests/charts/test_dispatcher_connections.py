"""How the dispatcher and its clusters reach each other: Ray, the gateway, Services, probes and the notes on them."""

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from dispatcher.cli.main import app
from tests.charts.rendering import CHARTS, Helm, containers, of_kind, only, write_mounted

HEAD = "dispatcher-ray-head-0.dispatcher-ray.global-dispatcher.svc"


def test_the_dispatcher_reads_the_mounted_file_and_has_the_node_beside_it_join_the_head(helm: Helm) -> None:
    node, dispatcher = containers(of_kind(helm.template("dispatcher"), "Deployment"))
    assert dispatcher["command"] == ["global-dispatcher", "run", "--config", "/etc/global-dispatcher/dispatcher.yaml"]
    env = {one["name"]: one.get("value") for one in dispatcher["env"]}
    socket = "/run/ray-driver/socket"
    assert env["GLOBAL_DISPATCHER_RAY__DRIVER"] == socket
    assert node["command"][:6] == [
        "global-dispatcher",
        "ray-driver",
        f"--socket={socket}",
        f"--address={HEAD}:6379",
        "--empty=/tmp/ray",
        "--",
    ]
    assert "--temp-dir=/tmp/ray" in node["command"]
    own = "--node-ip-address=dispatcher.dispatcher-ray.global-dispatcher.svc"
    assert {own, "--num-cpus=0"} <= set(node["command"])


def test_the_notes_make_one_token_for_the_whole_fleet_and_name_every_namespace(helm: Helm) -> None:
    example = str(CHARTS / "dispatcher" / "ci" / "example-values.yaml")
    words = ("install", "gd", str(CHARTS / "dispatcher"), "-n", "fleet", "-f", example, "--dry-run=client")
    lines = [line.strip() for line in helm(*words).partition("NOTES:")[2].splitlines()]
    made, given = [line for line in lines if "create secret generic global-dispatcher-ray" in line]
    assert [line for line in lines if "openssl" in line and "export" not in line] == [made]
    assert made.endswith('="$(openssl rand -hex 32)"')
    assert given.endswith('="$TOKEN"')
    assert (made.split()[1], given.split()[1:3]) == ("-n", ["--context", "CLUSTER"])
    assert "ray.address=gd-ray-head-0.gd-ray.fleet.svc:6379" in " ".join(lines)
    commands = [line for line in lines if line.startswith(("kubectl ", "helm ", "global-dispatcher "))]
    assert len(commands) >= 3
    assert all(" -n fleet" in line or "kubectl:#fleet/gd" in line for line in commands)


DIALLING = {"config": {"clusters": [{"name": "east", "via": "gateway"}]}}


@pytest.mark.parametrize("secret", ["global-dispatcher-signing", ""])
def test_where_clusters_dial_in_orders_are_signed_unless_no_secret_is_named(
    helm: Helm, tmp_path: Path, secret: str
) -> None:
    objects = helm.template("dispatcher", {**DIALLING, "signing": {"tlsSecret": secret}})
    told = yaml.safe_load((write_mounted(objects, tmp_path) / "dispatcher.yaml").read_text())
    (deployment,) = of_kind(objects, "Deployment")
    volumes = {one["name"]: one for one in deployment["spec"]["template"]["spec"]["volumes"]}
    assert ("signing" in told, "signing" in volumes) == (bool(secret), bool(secret))
    if secret:
        assert told["signing"]["key_file"] == "/run/secrets/signing/tls.key"
        assert volumes["signing"]["secret"]["secretName"] == secret


def test_where_all_clusters_dial_in_there_is_a_gateway_and_no_ray(helm: Helm) -> None:
    objects = helm.template("dispatcher", DIALLING)
    (dispatcher,) = containers(of_kind(objects, "Deployment"))
    assert {"name": "gateway", "containerPort": 7443} in dispatcher["ports"]
    assert {"name": "gateway", "mountPath": "/run/secrets/gateway", "readOnly": True} in dispatcher["volumeMounts"]
    assert not {"RAY_AUTH_TOKEN", "GLOBAL_DISPATCHER_RAY__DRIVER"} & {env["name"] for env in dispatcher["env"]}
    services = {one["metadata"]["name"] for one in of_kind(objects, "Service")}
    assert services == {"dispatcher", "dispatcher-gateway"}


def test_some_clusters_may_dial_in_beside_others_on_ray(helm: Helm) -> None:
    values = {"config": {"clusters": [{"name": "east", "via": "gateway"}, {"name": "west"}]}}
    objects = helm.template("dispatcher", values)
    assert [one["name"] for one in containers(of_kind(objects, "Deployment"))] == ["ray-node", "dispatcher"]
    assert [one["name"] for one in containers(of_kind(objects, "StatefulSet"))] == ["ray-head"]
    assert len(of_kind(objects, "Service")) == 3


def test_the_notes_say_how_clusters_that_dial_in_get_certificates(helm: Helm, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(DIALLING))
    words = ("install", "gd", str(CHARTS / "dispatcher"), "-n", "fleet", "-f", str(file), "--dry-run=client")
    notes = helm(*words).partition("NOTES:")[2]
    assert "global-dispatcher join --context CONTEXT --cluster east --gateway HOST:7443 -n fleet" in notes
    assert "RAY" not in notes.upper().replace("GATEWAY", "")


def test_the_head_fixes_every_port(helm: Helm) -> None:
    ports = {"gcs": 26379, "nodeManager": 26380, "maxWorker": 20149}
    objects = helm.template("dispatcher", {"ray": {"ports": ports}})
    (head,) = containers(of_kind(objects, "StatefulSet"))
    node, _ = containers(of_kind(objects, "Deployment"))
    given = dict(word.removeprefix("--").split("=") for word in head["command"] if "port=" in word)
    assert given == {
        "port": "26379",
        "node-manager-port": "26380",
        "object-manager-port": "6381",
        "dashboard-agent-grpc-port": "6382",
        "dashboard-agent-listen-port": "6383",
        "runtime-env-agent-port": "6384",
        "metrics-export-port": "6385",
        "min-worker-port": "10100",
        "max-worker-port": "20149",
    }
    assert f"--address={HEAD}:26379" in node["command"]


def test_services_lead_to_the_http_port_and_to_a_head_that_is_not_ready_yet(helm: Helm) -> None:
    ray, http = of_kind(helm.template("dispatcher"), "Service")
    assert http["spec"]["ports"] == [{"name": "http", "port": 7480, "targetPort": "http"}]
    assert (ray["metadata"]["name"], ray["spec"]["clusterIP"]) == ("dispatcher-ray", "None")
    assert ray["spec"]["publishNotReadyAddresses"] is True
    assert [port["port"] for port in ray["spec"]["ports"]] == [6379, 6380, 6381]


def test_probes_ask_what_the_http_api_answers(helm: Helm) -> None:
    _, dispatcher = containers(of_kind(helm.template("dispatcher"), "Deployment"))
    asked = [dispatcher[probe]["httpGet"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert [one["path"] for one in asked] == ["/livez", "/livez", "/readyz"]
    assert {one["port"] for one in asked} == {dispatcher["ports"][0]["name"]}


def test_the_test_pod_has_doctor_examine_what_the_service_tells(helm: Helm) -> None:
    objects = helm.template("dispatcher")
    (one,) = containers([only(objects, "Pod")])
    assert one["command"] == ["global-dispatcher", "doctor", "--server=http://dispatcher:7480"]
    assert "dispatcher" in [service["metadata"]["name"] for service in of_kind(objects, "Service")]
    assert CliRunner().invoke(app, [*one["command"][1:-1], "--server=http://127.0.0.1:9"]).exit_code != 0


@pytest.mark.parametrize(
    ("clusters", "words"),
    [
        (["ray", "ray"], "signs none (it does where some of config.clusters has `via: gateway`)"),
        (["ray", "gateway"], "--set-file config.orders.authority=fleet/ca.crt"),
    ],
    ids=["all on Ray", "one dials in"],
)
def test_the_notes_say_whether_agents_on_ray_can_have_orders_verified(
    helm: Helm, clusters: list[str], words: str
) -> None:
    named = [{"name": f"c{number}", "via": via} for number, via in enumerate(clusters)]
    assert words in helm.notes("dispatcher", {"config": {"clusters": named}})
