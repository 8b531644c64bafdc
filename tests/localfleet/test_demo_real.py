"""The demo on real control planes, without any: what it refuses, what it makes of the clusters it is asked for."""

import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from dispatcher.api.listen import check_port
from dispatcher.service.errors import CommandError, ExitCode
from localfleet.controlplane import binaries, opt_in
from localfleet.controlplane.credentials import Authority
from localfleet.controlplane.process import ComponentFailedError
from localfleet.demo import real as demo_real
from localfleet.demo.real import RealClusters
from localfleet.demo.submit import Submitter
from localfleet.demo.workloads import bare_pod
from localfleet.embedded.fleet import ClusterSpec, FleetError


@pytest.mark.parametrize(
    ("count", "free_mib", "cpus", "fits"),
    [
        pytest.param(3, 2000, 2, True, id="the default on a laptop"),
        pytest.param(3, 1100, 8, False, id="little memory"),
        pytest.param(9, 20_000, 2, False, id="few CPUs"),
        pytest.param(1, 300, 2, False, id="no memory for one"),
    ],
)
def test_more_planes_than_the_machine_can_carry_are_refused(count: int, free_mib: int, cpus: int, fits: bool) -> None:
    if fits:
        demo_real._check_room(count, free_mib, cpus)
        return
    with pytest.raises(CommandError, match=f"{free_mib} MiB"):
        demo_real._check_room(count, free_mib, cpus)


def test_the_refusal_says_how_many_would_do() -> None:
    with pytest.raises(CommandError, match=r"use --clusters 5 or fewer") as refused:
        demo_real._check_room(9, 2100, 2)
    assert refused.value.code is ExitCode.USAGE


def test_without_go_and_programs_one_line_says_what_is_missing_and_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GLOBAL_DISPATCHER_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setattr(demo_real, "_free_mib", lambda: 8000)
    with pytest.raises(CommandError) as refused:
        RealClusters().prepare(1, print)
    text = str(refused.value)
    assert "\n" not in text
    for part in ("--real: etcd, kube-apiserver", "no Go on PATH", "install Go", "set KUBEBUILDER_ASSETS", "without --"):
        assert part in text


def test_a_failed_build_shows_its_output_and_ends_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise binaries.BuildFailedError("go build failed:\nmain.go:1: no such thing")

    monkeypatch.setattr(demo_real, "_free_mib", lambda: 8000)
    monkeypatch.setattr(binaries, "ensure", fail)
    with pytest.raises(CommandError, match="could not be built"):
        RealClusters().prepare(1, print)
    assert "main.go:1: no such thing" in capsys.readouterr().err


def test_a_plane_gets_the_nodes_that_an_embedded_cluster_would_have() -> None:
    plane = demo_real._plane(ClusterSpec("east", nodes=3, cpu="4", memory="16Gi", region="east", zones=("a", "b")))
    assert [(one.name, one.cpu, one.zone) for one in plane.node_specs()] == [
        ("east-node-000", "4", "a"),
        ("east-node-001", "4", "b"),
        ("east-node-002", "4", "a"),
    ]


def test_a_plane_gets_the_nodes_of_a_trace(tmp_path: Path) -> None:
    table = tmp_path / "nodes.csv"
    table.write_text("sn,cpu_milli,memory_mib\nbig,64000,262144\nsmall,4000,8192\n")
    plane = demo_real._plane(ClusterSpec("east", nodes=0, nodes_csv=table))
    assert [(one.name, one.cpu, one.memory) for one in plane.node_specs()] == [
        ("big", "64000m", "262144Mi"),
        ("small", "4000m", "8192Mi"),
    ]


def test_a_plane_that_does_not_start_is_told_with_its_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: Any) -> None:
        raise ComponentFailedError("etcd ended with code 1 before ready\n--- etcd.log ---\nno space left")

    monkeypatch.setattr(demo_real, "control_planes", fail)
    with pytest.raises(FleetError, match="no space left"):
        RealClusters().start([ClusterSpec("east")], tmp_path)


class _Server:
    """Answers dry runs with a scheduler that changes after some calls."""

    def __init__(self, late: int) -> None:
        self.made: list[str] = []
        self._late = late

    def create(self, path: str, body: Any) -> dict[str, Any]:
        if "dryRun" not in path:
            self.made.append(body["kind"])
            return {}
        self._late -= 1
        return {"spec": {"schedulerName": "global-dispatcher" if self._late < 0 else "default-scheduler"}}


def test_the_opt_in_policy_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opt_in, "_POLL_S", 0)
    server = _Server(late=3)
    opt_in.opt_in(server)  # type: ignore[arg-type]
    assert server.made == ["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"]


def test_a_server_that_ignores_the_opt_in_policy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opt_in, "_POLL_S", 0)
    with pytest.raises(TimeoutError, match="does not act by"):
        opt_in.opt_in(_Server(late=10**9), timeout_s=0)  # type: ignore[arg-type]


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[tuple[Path, list[str]]]:
    """A server that lets in nobody without a certificate of its authority: a kubeconfig for it, and what came."""
    came: list[str] = []

    async def take(request: web.Request) -> web.Response:
        came.append(request.path)
        return web.json_response({}, status=201)

    authority = Authority(tmp_path / "pki", "east")
    serving = authority.server("serving")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.certificate))
    context.load_cert_chain(serving.certificate, serving.key)
    context.verify_mode = ssl.CERT_REQUIRED
    app = web.Application()
    app.router.add_post("/{path:.*}", take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    server = f"https://127.0.0.1:{runner.addresses[0][1]}"
    yield authority.kubeconfig(tmp_path / "kubeconfig", server, authority.client("admin")), came
    await runner.cleanup()


async def test_pods_are_submitted_with_the_kubeconfigs_client_certificate(guarded: tuple[Path, list[str]]) -> None:
    path, came = guarded
    submitter = Submitter(path, "east")
    try:
        assert await submitter.submit([bare_pod("one", "1", "1Gi")]) == 1
    finally:
        await submitter.close()
    assert came == ["/api/v1/namespaces/default/pods"]


def test_a_port_in_use_is_told_before_anything_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            CommandError, match=f"cannot listen on 127.0.0.1:{port}: .* another dispatcher .*http.port .*--port"
        ):
            check_port("127.0.0.1", port)
