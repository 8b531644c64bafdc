"""How the dispatcher and its clusters reach each other: the gateway, Services, probes and the notes on them."""

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from dispatcher.cli.main import app
from tests.charts.rendering import CHARTS, Helm, containers, of_kind, only, write_mounted


def test_the_dispatcher_reads_the_mounted_file(helm: Helm) -> None:
    (dispatcher,) = containers(of_kind(helm.template("dispatcher"), "Deployment"))
    assert dispatcher["command"] == ["global-dispatcher", "run", "--config", "/etc/global-dispatcher/dispatcher.yaml"]


@pytest.mark.parametrize("agent", [{"via": "gateway"}, {"kubeconfig": "/tmp/kube", "agent": {"key_file": "/tmp/key"}}])
def test_the_notes_name_the_namespace_in_every_command(helm: Helm, tmp_path: Path, agent: dict[str, object]) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump({"config": {"clusters": [{"name": "east", **agent}]}}))
    words = ("install", "gd", str(CHARTS / "dispatcher"), "-n", "fleet", "-f", str(file), "--dry-run=client")
    lines = [line.strip() for line in helm(*words).partition("NOTES:")[2].splitlines()]
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


def test_where_clusters_dial_in_there_is_a_gateway(helm: Helm) -> None:
    objects = helm.template("dispatcher", DIALLING)
    (dispatcher,) = containers(of_kind(objects, "Deployment"))
    assert {"name": "gateway", "containerPort": 7443} in dispatcher["ports"]
    assert {"name": "gateway", "mountPath": "/run/secrets/gateway", "readOnly": True} in dispatcher["volumeMounts"]
    services = {one["metadata"]["name"] for one in of_kind(objects, "Service")}
    assert services == {"dispatcher", "dispatcher-gateway"}


def test_the_notes_say_how_clusters_that_dial_in_get_certificates(helm: Helm, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(DIALLING))
    words = ("install", "gd", str(CHARTS / "dispatcher"), "-n", "fleet", "-f", str(file), "--dry-run=client")
    notes = helm(*words).partition("NOTES:")[2]
    assert "global-dispatcher join --context CONTEXT --cluster east --gateway HOST:7443 -n fleet" in notes
    assert "RAY" not in notes.upper().replace("GATEWAY", "")


def test_the_service_leads_to_the_http_port(helm: Helm) -> None:
    (http,) = [
        one for one in of_kind(helm.template("dispatcher"), "Service") if one["metadata"]["name"] == "dispatcher"
    ]
    assert http["spec"]["ports"] == [{"name": "http", "port": 7480, "targetPort": "http"}]


def test_probes_ask_what_the_http_api_answers(helm: Helm) -> None:
    (dispatcher,) = containers(of_kind(helm.template("dispatcher"), "Deployment"))
    asked = [dispatcher[probe]["httpGet"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert [one["path"] for one in asked] == ["/livez", "/livez", "/readyz"]
    assert {one["port"] for one in asked} == {dispatcher["ports"][0]["name"]}


def test_the_test_pod_has_doctor_examine_what_the_service_tells(helm: Helm) -> None:
    objects = helm.template("dispatcher")
    (one,) = containers([only(objects, "Pod")])
    assert one["command"] == ["global-dispatcher", "doctor", "--server=http://dispatcher:7480"]
    assert "dispatcher" in [service["metadata"]["name"] for service in of_kind(objects, "Service")]
    assert CliRunner().invoke(app, [*one["command"][1:-1], "--server=http://127.0.0.1:9"]).exit_code != 0
