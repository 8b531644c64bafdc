"""Files that values name must be where the container finds them, and the HTTP API inside of the cluster."""

from typing import Any

import pytest

from tests.charts.rendering import Helm, HelmError

DIALLED = [{"name": "east", "via": "gateway"}]
MOUNT = {"name": "more", "mountPath": "/var/lib/more/"}
VOLUME = {"name": "more", "emptyDir": {}}
MOUNTED: dict[str, Any] = {"extraVolumes": [VOLUME], "extraVolumeMounts": [MOUNT]}
SOURCES: dict[str, Any] = {
    "prometheus": [{"url": "https://p", "token_file": "/x/token", "header_files": {"X-Scope": "/x/scope"}}],
    "node_exporter": [{"ca_file": "/x/ca", "cert_file": "/x/cert", "key_file": "/x/key"}],
    "load_watcher": [{"url": "https://w", "user": "u", "password_file": "/x/password"}],
    "file": [{"path": "/x/readings.json"}],
}
IN_AN_AGENT = {
    "config.kubelet.ca_file": "/x/kubelets",
    "config.orders.ca_file": "relative/orders",
    "config.telemetry.prometheus[0].token_file": "/x/token",
    "config.telemetry.prometheus[0].header_files.X-Scope": "/x/scope",
    "config.telemetry.node_exporter[0].ca_file": "/x/ca",
    "config.telemetry.node_exporter[0].cert_file": "/x/cert",
    "config.telemetry.node_exporter[0].key_file": "/x/key",
    "config.telemetry.load_watcher[0].password_file": "/x/password",
    "config.telemetry.file[0].path": "/x/readings.json",
}


def warned(notes: str) -> dict[str, str]:
    """Key and path of each warning."""
    lines = [line.strip().removeprefix("WARNING: ") for line in notes.splitlines() if "is on no volume" in line]
    return dict(line.split(" is on no volume")[0].split(": ") for line in lines)


def test_files_of_an_agent_on_no_volume_are_named_by_its_notes(helm: Helm) -> None:
    config = {"kubelet": {"ca_file": "/x/kubelets"}, "orders": {"ca_file": "relative/orders"}, "telemetry": SOURCES}
    assert warned(helm.notes("agent", {"config": config})) == IN_AN_AGENT
    there = [{"name": "more", "mountPath": "/x"}, {"name": "more", "mountPath": "relative/orders"}]
    assert warned(helm.notes("agent", {"config": config, "extraVolumes": [VOLUME], "extraVolumeMounts": there})) == {}
    assert warned(helm.notes("agent")) == {}


def test_files_of_a_dispatcher_on_no_volume_are_named_by_its_notes(helm: Helm) -> None:
    gateway = {"cert_file": "/var/lib/more/tls.crt", "key_file": "/var/lib/moreover/tls.key"}
    notes = helm.notes("dispatcher", {"config": {"clusters": DIALLED, "gateway": gateway}, **MOUNTED})
    assert warned(notes) == {"config.gateway.key_file": "/var/lib/moreover/tls.key"}
    assert warned(helm.notes("dispatcher", {"config": {"clusters": DIALLED}})) == {}


@pytest.mark.parametrize("section", ["journal", "quota"])
def test_what_a_dispatcher_writes_where_nothing_can_be_written_is_refused(helm: Helm, section: str) -> None:
    key = {"journal": "path", "quota": "ledger"}[section]
    given = {"config": {section: {key: "/var/lib/more/file"}}}
    read_only = {**MOUNTED, "extraVolumeMounts": [{**MOUNT, "readOnly": True}]}
    for values in (given, {**given, **read_only}, {"config": {section: {key: "file"}}, **MOUNTED}):
        with pytest.raises(HelmError, match=rf"config\.{section}\.{key}: \S*file is on no volume that can be written"):
            helm.template("dispatcher", values)
    assert helm.template("dispatcher", {**given, **MOUNTED})
    assert helm.template("dispatcher", {"config": {section: {key: "/tmp/file"}}})


@pytest.mark.parametrize("kind", ["LoadBalancer", "NodePort"])
def test_an_http_api_outside_of_the_cluster_asks_for_tokens(helm: Helm, kind: str) -> None:
    given: dict[str, Any] = {"service": {"type": kind}}
    for values in (given, {**given, "networkPolicy": {"enabled": True}}):
        with pytest.raises(HelmError, match=rf"service\.type: {kind} leads .* as httpTokens\.existingSecret"):
            helm.template("dispatcher", values)
    assert helm.template("dispatcher", {**given, "httpTokens": {"existingSecret": "readers"}})
