"""An actor with the name of an agent runs nothing in the dispatcher's process, which has the signing key."""

import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from dispatcher.service.gateway.authority import ensure
from tests.system.dialled import Dispatcher
from tests.system.ray_fleet import Head, environment, free_ports

CLUSTERS = [{"name": "east", "via": "gateway"}, {"name": "west", "kubeconfig": "/nonexistent"}]


def test_an_actor_in_the_place_of_an_agent_runs_nothing_in_the_dispatcher_which_ends_and_says_why(
    tmp_path: Path,
) -> None:
    certificates, ran = tmp_path / "certificates", tmp_path / "ran.jsonl"
    ensure(certificates, ["127.0.0.1"], ["east"])
    with ExitStack() as stack:
        ray_folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gd-")))
        ports = free_ports(2)
        head = stack.enter_context(Head(tmp_path, ray_folder, ports[0], {"cluster:west": 1}))
        head.wait_ready()
        hostile = [sys.executable, "-m", "tests.system.hostile_actors", head.address, str(ran), "west:0"]
        subprocess.run(hostile, env=environment(), check=True, timeout=120)
        more = {"clusters": CLUSTERS, "ray": {"address": head.address}}
        dispatcher = stack.enter_context(Dispatcher(tmp_path, certificates, ports[1], more))
        assert dispatcher.wait(120) == 1, dispatcher.tail()
    assert "the agent of cluster west is another dispatcher's in this Ray" in dispatcher.tail()
    told = [json.loads(line) for line in ran.read_text().splitlines()]
    assert told
    assert [one for one in told if one["pid"] == dispatcher.pid or one["keys"]] == []
