"""What a joining agent reads and starts; the joining itself is told in tests/system/test_join.py."""

import json
import socket
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from agents.runtime.join import node, process, settings
from agents.runtime.join.health import HANGS_S, Beat, serving
from agents.runtime.settings import AgentSettings

SMALLEST = {"cluster": "east", "ray": {"address": "head:6379"}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "agent.yaml"
    path.write_text(yaml.safe_dump(SMALLEST))
    return path


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH", "RAY_USAGE_STATS_ENABLED", "RAY_BACKEND_LOG_LEVEL"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S", "0")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "ab" * 32)


def options_of(**ray: Any) -> dict[str, str]:
    read = settings.JoinSettings.model_validate({**SMALLEST, "ray": {"address": "head:6379", **ray}})
    words = node.node_options(read)
    return dict(word.removeprefix("--").split("=", 1) for word in words if "=" in word)


def test_the_actor_is_told_the_agents_settings_and_nothing_of_ray(file: Path) -> None:
    file.write_text(yaml.safe_dump({**SMALLEST, "kubelet": {"interval_s": 3}}))
    assert settings.read_settings(file).agent == AgentSettings.model_validate(
        {"cluster": "east", "kubelet": {"interval_s": 3}}
    )


def test_the_node_offers_its_cluster_and_no_room_for_anything_else() -> None:
    options = options_of()
    assert json.loads(options["resources"]) == {"cluster:east": 1}
    assert (options["num-cpus"], options["address"]) == ("0", "head:6379")


def test_every_port_of_the_node_is_fixed() -> None:
    ports = {key.removesuffix("-port").replace("-", "_"): value for key, value in options_of().items() if "port" in key}
    assert ports == {key: str(value) for key, value in settings.Ports().model_dump().items()}


@pytest.mark.parametrize(
    ("ray", "expected"),
    [
        pytest.param({"node_ip": "10.1.2.3"}, {"node-ip-address": "10.1.2.3"}, id="address"),
        pytest.param({"temp_dir": "/tmp/ray"}, {"temp-dir": "/tmp/ray"}, id="folder"),
        pytest.param({"object_store_mib": 100}, {"object-store-memory": "104857600"}, id="store"),
    ],
)
def test_what_the_file_says_of_the_node_is_given_to_ray(ray: dict[str, Any], expected: dict[str, str]) -> None:
    assert expected.items() <= options_of(**ray).items()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("cluster: [", "is no YAML", id="no YAML"),
        pytest.param("cluster: 2026-13-45", "is no YAML", id="a date that is none"),
        pytest.param("[" * 3000, "is no YAML", id="too deep"),
        pytest.param("- east", "file: Input should be", id="no map"),
        pytest.param("cluster: east", "give either gateway", id="no way"),
        pytest.param("cluster: East!\nray: {address: 'head:1'}", "cluster: String should match", id="bad name"),
        pytest.param("cluster: east\nray: {address: head}", "ray.address: String should match", id="no port"),
        pytest.param("cluster: east\nray: {address: 'h:1', adress: 1}", "ray.adress: Extra inputs", id="unknown key"),
        pytest.param("cluster: east\nray: {address: 'h:1', ports: {metrics_export: 80}}", "1024", id="port of root"),
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


def test_nobody_joins_without_a_token(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "")
    assert process.join(file) == process.WRONG
    assert capsys.readouterr().err.startswith("error: RAY_AUTH_TOKEN: is not set")


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def unreachable(wait_s: float) -> settings.JoinSettings:
    ray = {"address": f"127.0.0.1:{closed_port()}", "wait_s": wait_s}
    return settings.JoinSettings.model_validate({"cluster": "east", "ray": ray, "health": {"port": 0}})


def test_a_head_that_never_comes_is_given_up() -> None:
    assert process.stay(unreachable(0.01), threading.Event()) == process.LOST


def test_the_wait_for_a_head_ends_at_once_when_asked_to_stop() -> None:
    stop = threading.Event()
    stop.set()
    assert process.stay(unreachable(300), stop) == process.STOPPED


@pytest.mark.parametrize(
    ("path", "problem", "answer"),
    [
        pytest.param("/livez", "Ray does not answer", (200, "ok"), id="alive without Ray"),
        pytest.param("/readyz", "", (200, "ok"), id="ready"),
        pytest.param("/readyz", "Ray does not answer", (503, "Ray does not answer"), id="not ready, and why"),
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


def test_health_ends_with_the_member_whoever_is_still_connected() -> None:
    port = closed_port()
    with serving(str, settings.HealthSettings(port=port), Beat()):
        probe = socket.create_connection(("127.0.0.1", port), 3)
    with probe, pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 3)


def test_a_taken_address_is_named_with_its_key_before_anything_is_joined(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(process, "listen_to_signals", lambda _: True)
    monkeypatch.setattr(process, "configure_logging", lambda _: None)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        file.write_text(
            yaml.safe_dump({"cluster": "east", "ray": {"address": "127.0.0.1:1"}, "health": {"port": port}})
        )
        assert process.join(file) == process.WRONG
    told = capsys.readouterr().err
    assert told.startswith(f"error: health: cannot listen on 127.0.0.1:{port}: Address already in use"), told
    assert "health.port" in told


def test_nobody_joins_a_head_on_another_host_without_tls(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RAY_USE_TLS", raising=False)
    assert process.join(file) == process.WRONG
    assert "error: ray.address head:6379 is not on loopback" in capsys.readouterr().err
