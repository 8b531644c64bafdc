"""`global-dispatcher demo --keep`, and what it invites to: kubectl logs of a pod that runs in another cluster."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane.programs import KUBECTL, NO_KUBECTL
from tests.system.cluster_api import eventually

WAIT_S = 120.0
COMMAND = [sys.executable, "-m", "dispatcher.cli.main", "demo", "--keep", "--port", "0", "-o", "json"]


@pytest.mark.skipif(not KUBECTL, reason=NO_KUBECTL)
def test_logs_and_exec_of_remote_pods_are_answered_by_the_kubelet_there(tmp_path: Path) -> None:
    out, told = tmp_path / "out", tmp_path / "told"
    with out.open("wb") as stdout, told.open("wb") as stderr:
        words = [*COMMAND, "--clusters", "2"]
        demo = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr)
    try:
        invited = re.compile(r"export KUBECONFIG=(\S+)")
        eventually(lambda: invited.search(told.read_text()) is not None, WAIT_S, told.read_text)
        found = invited.search(told.read_text())
        assert found is not None

        def kubectl(*said: str) -> str:
            command = [KUBECTL, f"--kubeconfig={found[1]}", "--context=east", *said]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
            return done.stdout + done.stderr

        remote = next(pod["name"] for pod in json.loads(out.read_text())["pods"] if pod["cluster"] == "west")
        eventually(lambda: "started on west-node-" in kubectl("logs", remote), WAIT_S, lambda: kubectl("logs", remote))
        assert "nothing can be executed in it" in kubectl("exec", remote, "--", "id")
        demo.send_signal(signal.SIGTERM)
        assert demo.wait(WAIT_S) == os.EX_OK
    finally:
        demo.kill()
        demo.wait()
