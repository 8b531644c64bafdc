"""What an agent's process reads and serves before it dials."""

import socket
from pathlib import Path

import httpx
import pytest
import yaml

from agents.runtime.join import process, settings
from agents.runtime.join.health import HANGS_S, Beat, serving
from agents.runtime.settings import AgentSettings

GATEWAY = {"urls": ["wss://h:1"], "ca_file": "ca", "cert_file": "crt", "key_file": "key"}
SMALLEST = {"cluster": "east", "gateway": GATEWAY}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "agent.yaml"
    path.write_text(yaml.safe_dump(SMALLEST))
    return path


def test_the_agent_is_told_its_settings_and_to_obey_whom_its_gateways_authority_certifies(file: Path) -> None:
    file.write_text(yaml.safe_dump({**SMALLEST, "kubelet": {"interval_s": 3}}))
    assert settings.read_settings(file).agent == AgentSettings.model_validate(
        {"cluster": "east", "kubelet": {"interval_s": 3}, "orders": {"ca_file": str(file.parent / "ca")}}
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("cluster: [", "is no YAML", id="no YAML"),
        pytest.param("cluster: 2026-13-45", "is no YAML", id="a date that is none"),
        pytest.param("[" * 3000, "is no YAML", id="too deep"),
        pytest.param("- east", "file: Input should be", id="no map"),
        pytest.param("cluster: east", "gateway: Field required", id="no way"),
        pytest.param("cluster: East!", "cluster: String should match", id="bad name"),
        pytest.param("cluster: east\ngateway: {urls: ['https://h:1']}", "gateway.urls.0", id="no URL of a gateway"),
        pytest.param("cluster: east\ngateway: {urls: ['wss://h:1']}", "gateway.ca_file: Field", id="no authority"),
        pytest.param("cluster: east\ngatway: {}", "gatway: Extra inputs", id="unknown key"),
        pytest.param("cluster: east\nrole: reader", "role: Input should be 'both', ", id="role"),
    ],
)
def test_a_wrong_file_is_named_with_its_key_and_ends_with_2(
    content: str, words: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(content)
    assert process.join(file) == process.WRONG
    said = capsys.readouterr().err
    assert f"error: {file}" in said
    assert words in said


def test_a_missing_file_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert process.join(tmp_path / "none.yaml") == process.WRONG
    assert "none.yaml: cannot be read: No such file" in capsys.readouterr().err


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize(
    ("path", "problem", "answer"),
    [
        pytest.param("/livez", "nobody reaches it", (200, "ok"), id="alive without a dispatcher"),
        pytest.param("/readyz", "", (200, "ok"), id="ready"),
        pytest.param("/readyz", "nobody reaches it", (503, "nobody reaches it"), id="not ready, and why"),
        pytest.param("/readyz", "odd \udcff", (503, "odd ?"), id="what is no UTF-8"),
        pytest.param("/metrics", "", (404, "404: Not Found"), id="nothing else"),
    ],
)
def test_health_is_served_beside_a_main_thread_that_waits(path: str, problem: str, answer: tuple[int, str]) -> None:
    port = closed_port()
    with serving(lambda: problem, settings.HealthSettings(port=port), Beat()):
        found = httpx.get(f"http://127.0.0.1:{port}{path}", trust_env=False)
    assert (found.status_code, found.text) == answer


def test_a_main_thread_that_hangs_is_not_alive_and_is_again_when_it_comes_round() -> None:
    port, now = closed_port(), [0.0]
    beat = Beat(lambda: now[0])

    def asked() -> tuple[int, str]:
        found = httpx.get(f"http://127.0.0.1:{port}/livez", trust_env=False)
        return found.status_code, found.text

    with serving(str, settings.HealthSettings(port=port), beat):
        now[0] = HANGS_S
        assert asked() == (200, "ok")
        now[0] = HANGS_S + 1
        assert asked() == (503, "the main thread has hung for 61 s")
        beat()
        assert asked() == (200, "ok")


def test_health_ends_with_the_agent_whoever_is_still_connected() -> None:
    port = closed_port()
    with serving(str, settings.HealthSettings(port=port), Beat()):
        probe = socket.create_connection(("127.0.0.1", port), 3)
    with probe, pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 3)


def test_a_taken_address_is_named_with_its_key_before_anything_is_dialled(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(process, "listen_to_signals", lambda _: True)
    monkeypatch.setattr(process, "configure_logging", lambda _: None)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        file.write_text(yaml.safe_dump({**SMALLEST, "health": {"port": port}}))
        assert process.join(file) == process.WRONG
    told = capsys.readouterr().err
    assert told.startswith(f"error: health: cannot listen on 127.0.0.1:{port}: Address already in use"), told
    assert "health.port" in told


def test_what_the_command_says_goes_before_the_file(file: Path) -> None:
    file.write_text(yaml.safe_dump({**SMALLEST, "role": "observer"}))
    assert [settings.read_settings(file, told).role for told in ({}, {"role": "executor"})] == ["observer", "executor"]


@pytest.mark.parametrize(
    ("node_ip", "said", "pod_address"),
    [
        ("10.1.2.3", {}, "10.1.2.3"),
        ("fd00::3", {}, "fd00::3"),
        ("10.1.2.3", {"pod_address": "10.9.9.9"}, "10.9.9.9"),
        ("no-address", {}, ""),
        ("", {}, ""),
    ],
)
def test_the_address_of_its_pod_is_where_it_answers_others_of_the_pod_network(
    file: Path, monkeypatch: pytest.MonkeyPatch, node_ip: str, said: dict[str, str], pod_address: str
) -> None:
    told: list[settings.JoinSettings] = []
    monkeypatch.setattr(process, "listen_to_signals", lambda _: True)
    monkeypatch.setattr(process, "configure_logging", lambda _: None)

    def dial_out(given: settings.JoinSettings, _: object) -> int:
        told.append(given)
        return 0

    monkeypatch.setattr(process, "dial_out", dial_out)
    file.write_text(yaml.safe_dump({**SMALLEST, "relay": {"port": 1}, "links": said}))
    assert process.join(file, node_ip) == 0
    assert [(one.agent.links.pod_address, one.relay and one.relay.address) for one in told] == [(pod_address, node_ip)]
