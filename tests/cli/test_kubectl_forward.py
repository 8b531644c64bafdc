"""A dispatcher in a cluster, reached by the user's kubectl: which Service it is, and how kubectl can fail."""

import json
import os
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from dispatcher.cli import kubectl_forward
from dispatcher.cli.api_client import ApiClient
from dispatcher.service.errors import CommandError, ExitCode

# What kubectl prints and how it ends, by the words it is called with; it notes them, and forwards until it is ended.
FAKE = """#!{python}
import json, pathlib, sys, time
here = pathlib.Path(__file__).parent
with (here / "asked").open("a") as asked:
    asked.write(" ".join(sys.argv[1:]) + chr(10))
told = json.loads((here / "told.json").read_text())
if told.get("error"):
    sys.exit(told["error"])
if "port-forward" in sys.argv:
    if told["port"] is None:
        sys.exit("error: unable to forward port because pod is not running. Current status=Pending")
    if told["port"] == 0:
        print("Forwarding from [::1]:1 -> 7480", flush=True)
        time.sleep(60)
    print("Forwarding from 127.0.0.1:%d -> 7480" % told["port"], flush=True)
    time.sleep(60)
print(json.dumps(told["service" if "service" in sys.argv else "services"]))
"""


class Kubectl:
    """The kubectl on the PATH: what it tells, and what it was asked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        program = folder / "kubectl"
        program.write_text(FAKE.format(python=sys.executable))
        program.chmod(0o755)

    def tells(self, services: list[Any], port: int | None = None, error: str = "") -> None:
        told = {"services": {"items": services}, "service": (services or [None])[0], "port": port, "error": error}
        (self._folder / "told.json").write_text(json.dumps(told))

    def asked(self) -> list[str]:
        return (self._folder / "asked").read_text().splitlines()


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kubectl:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return Kubectl(tmp_path)


@pytest.fixture
def port() -> Iterator[int]:
    """Where a dispatcher answers for one cluster."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"clusters": [{"name": "alpha"}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def service(namespace: str, name: str, *ports: str) -> dict[str, Any]:
    listed = [{"name": each, "port": 8000 + at} for at, each in enumerate(ports)]
    return {"metadata": {"namespace": namespace, "name": name}, "spec": {"ports": listed}}


def test_the_dispatcher_of_the_current_context_is_found_by_its_labels_and_asked_at_its_port_of_http(
    kubectl: Kubectl, port: int
) -> None:
    kubectl.tells([service("gd", "dispatcher-ray", "gcs"), service("gd", "dispatcher", "metrics", "http")], port)
    assert ApiClient("kubectl:").rows("clusters") == [{"name": "alpha"}]
    found, forward = kubectl.asked()
    assert "get services -A" in found
    assert "app.kubernetes.io/part-of=global-dispatcher" in found
    assert "--context" not in found
    assert forward.endswith("-n gd port-forward --address=127.0.0.1 service/dispatcher :8001")


def test_another_context_and_a_service_by_name_are_what_is_asked(kubectl: Kubectl, port: int) -> None:
    kubectl.tells([service("gd", "dispatcher", "http")], port)
    ApiClient("kubectl:gd/api-host:6443/admin#gd/dispatcher").rows("clusters")
    assert all("--context=gd/api-host:6443/admin -n gd" in line for line in kubectl.asked())
    assert "get service dispatcher" in kubectl.asked()[0]


@pytest.mark.parametrize(
    ("server", "services", "error", "words", "code"),
    [
        pytest.param("kubectl:", [], "", "no Service of a dispatcher", ExitCode.UNREACHABLE, id="not-installed"),
        pytest.param(
            "kubectl:",
            [service("a", "one", "http"), service("b", "other", "http")],
            "",
            r"several Services claim to be a dispatcher's \(a/one, b/other\)",
            ExitCode.USAGE,
            id="somebody-pretends",
        ),
        pytest.param(
            "kubectl:x",
            [],
            "Error from server (Forbidden): services is forbidden",
            "`kubectl .*--context=x get services.*` failed: Error from server",
            ExitCode.UNREACHABLE,
            id="no-right",
        ),
        pytest.param(
            "kubectl:",
            [service("gd", "dispatcher", "http")],
            "",
            "port-forward.* failed: error: unable to forward port because pod is not running",
            ExitCode.UNREACHABLE,
            id="pod-not-running",
        ),
        pytest.param("kubectl:x#gd", [], "", "write kubectl:CONTEXT#NAMESPACE/SERVICE", ExitCode.USAGE, id="half"),
    ],
)
def test_what_keeps_kubectl_from_it_is_told(
    kubectl: Kubectl, server: str, services: list[Any], error: str, words: str, code: ExitCode
) -> None:
    kubectl.tells(services, None, error)
    with pytest.raises(CommandError, match=words) as raised:
        ApiClient(server).rows("clusters")
    assert raised.value.code == code


def test_a_kubectl_that_says_something_else_and_goes_on_is_ended(kubectl: Kubectl) -> None:
    kubectl.tells([service("gd", "dispatcher", "http")], 0)
    with pytest.raises(CommandError, match=r"port-forward.* failed: Forwarding from \[::1\]"):
        ApiClient("kubectl:").rows("clusters")


def test_without_kubectl_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CommandError, match="kubectl is not on the PATH: install it"):
        ApiClient("kubectl:").rows("clusters")


def test_a_context_may_hold_the_sign_before_the_service_and_end_with_a_slash(kubectl: Kubectl, port: int) -> None:
    kubectl.tells([service("gd", "dispatcher", "http")], port)
    ApiClient("kubectl:team#1#gd/dispatcher").rows("clusters")
    assert all("--context=team#1 -n gd" in line for line in kubectl.asked())
    ApiClient("kubectl:default/api-host:6443/").rows("clusters")
    assert "--context=default/api-host:6443/ get" in kubectl.asked()[2]


@pytest.mark.parametrize("said", ["", "a word of a wrapper"])
def test_a_kubectl_that_hangs_is_given_up(
    said: str, kubectl: Kubectl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one whose own child goes on, and keeps its output open."""
    listed = json.dumps({"items": [service("gd", "dispatcher", "http")]})
    hangs = f"trap '' TERM; echo '{said}'; sleep 30" if said else "sleep 30; true"
    (tmp_path / "kubectl").write_text(f"#!/bin/sh\ncase $* in *port-forward*) {hangs};; esac\necho '{listed}'\n")
    for name, seconds in (("FORWARD_S", 0.2), ("_TIMEOUT_S", 0.2), ("_END_S", 0.2)):
        monkeypatch.setattr(kubectl_forward, name, seconds)
    with pytest.raises(CommandError, match=f"port-forward.* failed: {said or 'no port is forwarded'}"):
        ApiClient("kubectl:").rows("clusters")
