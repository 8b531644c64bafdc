"""Ray that cannot be had is told of in one line."""

import importlib
import os
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
import ray
from ray._private import log_monitor
from structlog.testing import capture_logs

from dispatcher.config import load_config
from dispatcher.service import run
from dispatcher.service.agents_on_ray import ray_runtime
from dispatcher.service.agents_on_ray.ray_runtime import RayOptions, RayRuntime
from dispatcher.service.errors import CommandError

# As Ray 2.60 says it.
MISMATCH = """Version mismatch: The cluster was started with:
    Ray: 2.60.0
    Python: 3.11.7
This process on node 10.0.0.1 was started with:
    Ray: 2.61.0
    Python: 3.11.7
"""


def test_a_ray_of_another_version_is_told_of_with_both_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_runtime, "_probe", lambda options: None)
    monkeypatch.setattr(ray, "init", mock.Mock(side_effect=RuntimeError(MISMATCH)))
    with mock.patch.dict(os.environ), pytest.raises(CommandError) as told:
        RayRuntime.start([], RayOptions("127.0.0.1:6379"))
    assert str(told.value) == (
        "Ray cannot start: Version mismatch: The cluster was started with: Ray: 2.60.0 Python: 3.11.7 "
        "This process on node 10.0.0.1 was started with: Ray: 2.61.0 Python: 3.11.7"
    )


def test_a_ray_with_nodes_elsewhere_is_not_joined_without_token_and_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [{"Alive": True, "NodeManagerAddress": one} for one in ("127.0.0.1", "192.0.2.2")]
    monkeypatch.setattr(ray_runtime, "_probe", lambda options: None)
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    for call in ("init", "shutdown"):
        monkeypatch.setattr(ray, call, mock.Mock())
    with mock.patch.dict(os.environ, {"RAY_AUTH_MODE": "disabled"}), pytest.raises(CommandError) as told:
        RayRuntime.start([], RayOptions("127.0.0.1:6379"))
    assert "192.0.2.2, is not on loopback, and RAY_AUTH_MODE is not set" in str(told.value)


def test_the_log_monitor_of_a_ray_of_ours_looks_for_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "init", mock.Mock())
    monkeypatch.setattr(ray, "shutdown", mock.Mock())
    with mock.patch.dict(os.environ):
        RayRuntime.start([]).stop()
        importlib.reload(log_monitor)  # as a process that is started now reads it
    an_hour_ago = time.time() - 3600
    looks = log_monitor.LogMonitor.should_update_filenames(SimpleNamespace(log_filenames=set()), an_hour_ago)
    importlib.reload(log_monitor)
    assert not looks


@pytest.mark.parametrize(
    ("ray", "warns"), [('{address: "127.0.0.1:6379"}', True), ("{}", False)], ids=["joined", "ours"]
)
def test_a_dispatcher_that_joins_a_ray_says_what_that_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ray: str, warns: bool
) -> None:
    file = tmp_path / "dispatcher.yaml"
    file.write_text(f"clusters: [{{name: east}}, {{name: west}}]\nray: {ray}\n")
    monkeypatch.setattr(RayRuntime, "start", mock.Mock())
    with capture_logs() as lines, ExitStack() as cleanup:
        run._start_ray(load_config(file), cleanup)
    told = [line for line in lines if "read its signing key" in line["event"] and "via: gateway" in line["fix"]]
    assert bool(told) == warns


def test_a_cluster_for_whose_agent_no_node_has_a_place_is_named_with_what_to_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = [
        {"Alive": True, "NodeManagerAddress": "127.0.0.1", "Resources": {"cluster:east": 1.0}},
        {"Alive": False, "NodeManagerAddress": "127.0.0.1", "Resources": {"cluster:west": 1.0}},
    ]
    monkeypatch.setattr(ray_runtime, "_probe", lambda options: None)
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    for call in ("init", "shutdown"):
        monkeypatch.setattr(ray, call, mock.Mock())
    with mock.patch.dict(os.environ), capture_logs() as lines:
        RayRuntime.start(["east", "west"], RayOptions("127.0.0.1:6379")).stop()
    (told,) = lines
    assert told["cluster"] == "west"
    assert told["fix"].endswith("""ray start --resources='{"cluster:west": 1}'""")
