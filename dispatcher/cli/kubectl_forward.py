"""A dispatcher inside a cluster, reached with the user's own kubectl and rights: one port of
loopback, forwarded.

`--server kubectl:` is the dispatcher of the current context, `kubectl:CONTEXT` of another, and
`kubectl:CONTEXT#NAMESPACE/SERVICE` names the Service itself (CONTEXT may be empty), for those who
may not list Services. The command is called `kubectl dispatch` where this is the default.
"""

import json
import re
import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TextIO, cast

from dispatcher.service.errors import CommandError, ExitCode

SCHEME = "kubectl:"
_LABELS = "app.kubernetes.io/part-of=global-dispatcher,app.kubernetes.io/component=dispatcher"
_PORT = "http"
_TIMEOUT_S = 20
FORWARD_S = 80  # kubectl itself waits a minute for a pod that is not running yet
_END_S = 5
_FORWARDING = re.compile(r"Forwarding from (127\.0\.0\.1:\d+) ->")


class _Service(NamedTuple):
    """A dispatcher's Service, and its port of the HTTP API."""

    namespace: str
    name: str
    port: int

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@contextmanager
def forwarded(server: str) -> Iterator[str]:
    """The URL at which `server` (`kubectl:...`) answers while this is entered. CommandError where
    kubectl fails.
    """
    context, namespace, name = parts(server)
    kubectl = [
        "kubectl",
        f"--request-timeout={_TIMEOUT_S}s",
        *([f"--context={context}"] if context else []),
    ]
    service = _service(kubectl, namespace, name)
    command = [
        *kubectl,
        "-n",
        service.namespace,
        "port-forward",
        "--address=127.0.0.1",
        f"service/{service.name}",
    ]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, f":{service.port}"], **pipes) as process:  # noqa: S603 - the user's own kubectl
        try:
            yield f"http://{_address(process, command)}"
        finally:
            _end(process)


def _address(process: "subprocess.Popen[str]", command: list[str]) -> str:
    """Where it forwards, once it says so. CommandError."""
    said = cast(TextIO, process.stdout)
    if not select.select([said], [], [], FORWARD_S)[0]:
        raise _failed(command, f"no port is forwarded after {FORWARD_S} s")
    line = said.readline()
    if found := _FORWARDING.match(line):
        return found[1]
    process.terminate()  # it may not end by itself
    try:
        told = process.communicate(timeout=_END_S)[1]
    except subprocess.TimeoutExpired:
        told = ""
    raise _failed(command, told or line)


def _end(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()


def parts(server: str) -> tuple[str, str, str]:
    """Context, namespace and Service, each empty where not told. A context may hold slashes (those
    of OpenShift do).
    """
    context = server.removeprefix(SCHEME)
    mark = ""
    service = ""
    if "#" in context:
        context, mark, service = context.rpartition("#")
    namespace, _, name = service.partition("/")
    if mark and not (namespace and name and "/" not in name):
        raise CommandError(
            f"--server {server}: write kubectl:CONTEXT#NAMESPACE/SERVICE", ExitCode.USAGE
        )
    return context, namespace, name


def _service(kubectl: list[str], namespace: str, name: str) -> _Service:
    if name:
        found = _services(
            [_asked([*kubectl, "-n", namespace, "get", "service", name, "-o", "json"])]
        )
    else:
        found = _services(
            _asked([*kubectl, "get", "services", "-A", "-l", _LABELS, "-o", "json"])["items"]
        )
    if not found:
        raise CommandError(
            f"no Service of a dispatcher with a port named {_PORT} in this cluster (labels "
            f"{_LABELS}): install its "
            "chart, or name a context with --server kubectl:CONTEXT or an address with --server "
            "http://HOST:PORT",
            ExitCode.UNREACHABLE,
        )
    if len(found) > 1:
        raise CommandError(
            f"several Services claim to be a dispatcher's ({', '.join(map(str, found))}): choose "
            "with "
            "--server kubectl:CONTEXT#NAMESPACE/SERVICE",
            ExitCode.USAGE,
        )
    return found[0]


def _services(items: list[dict[str, Any]]) -> list[_Service]:
    return [
        _Service(item["metadata"]["namespace"], item["metadata"]["name"], port["port"])
        for item in items
        for port in item["spec"].get("ports") or ()
        if port.get("name") == _PORT
    ]


def _asked(command: list[str]) -> dict[str, Any]:
    try:
        done = subprocess.run(  # noqa: S603 - the user's own kubectl
            command, capture_output=True, text=True, timeout=2 * _TIMEOUT_S, check=False
        )
    except FileNotFoundError:
        raise CommandError(
            "kubectl is not on the PATH: install it, or name an address with --server "
            "http://HOST:PORT",
            ExitCode.UNREACHABLE,
        ) from None
    except subprocess.TimeoutExpired:
        raise _failed(command, f"no answer in {2 * _TIMEOUT_S} s") from None
    if done.returncode:
        raise _failed(command, done.stderr)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _failed(command: list[str], told: str) -> CommandError:
    last = told.strip().splitlines()[-1:] or ["it said nothing"]
    return CommandError(f"`{' '.join(command)}` failed: {last[0]}", ExitCode.UNREACHABLE)
