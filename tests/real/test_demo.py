"""`global-dispatcher demo --real`: the whole way of a new user, on real control planes."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dispatcher.kit.template import new_plugin
from localfleet.controlplane import binaries
from tests.saying import Say


@pytest.fixture
def folder() -> Iterator[str]:
    """For all temporary files of the demo; short, since Ray's sockets lie there."""
    path = tempfile.mkdtemp(prefix="demo-")
    yield path
    shutil.rmtree(path)


def running_from(folder: str) -> list[str]:
    """Command lines of processes that name this folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended
            continue
        if folder in words:
            found.append(words)
    return found


def test_a_demo_on_real_control_planes_with_a_new_plugin_places_all_pods_and_leaves_nothing(
    folder: str, say: Say
) -> None:
    if reason := binaries.unavailable():
        pytest.skip(reason)
    for name, text in new_plugin("QuietZone").items():
        (Path(folder) / name).write_text(text)
    command = [sys.executable, "-m", "dispatcher.cli.main", "demo", "--real", "--once", "--port", "0"]
    done = subprocess.run(
        [*command, "--clusters", "2", "-o", "json", "--config", f"{folder}/demo.yaml"],
        env={**os.environ, "TMPDIR": folder},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [cluster["name"] for cluster in result["clusters"]] == ["east", "west"]
    assert {pod["cluster"] for pod in result["pods"]} == {"east", "west"}
    assert {pod["phase"] for pod in result["pods"]} <= {"Running", "Succeeded"}
    assert running_from(folder) == []
    assert not list(Path(folder).glob("global-dispatcher-*/*/etcd"))
    assert not list(Path(folder).glob("tmp*"))  # certificates and keys of its kubeconfig
    say(f"{len(result['pods'])} pods in {result['seconds']:.1f} s")
