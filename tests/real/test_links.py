"""Two whole agents in two network namespaces with a line between them that delays and loses: the dispatcher's matrix
says what the line does, and no more once the line is dead.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from dispatcher.cli.one_network import about_networks
from dispatcher.config import DispatcherConfig
from dispatcher.config.sections import ClusterSection, LinksSection, TimingSection
from dispatcher.scheduling.views import whole
from dispatcher.service.assembly import Dispatcher, assemble
from tests.real.namespaced_agent import UP, SocketLink
from tests.saying import Say

ADDRESSES = {"east": "10.215.0.1", "west": "10.215.0.2"}
PORT = 7490
STALE_S = 15.0
ROOT = Path(__file__).parents[2]


def unavailable() -> str:
    """One line that says why no namespaces can be joined here; empty when they can."""
    if os.getuid() != 0 or not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "no delay line: it needs root and /dev/net/tun"
    if missing := [name for name in ("ip", "unshare") if shutil.which(name) is None]:
        return f"no delay line: {', '.join(missing)} not installed"
    tried = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True, check=False)
    return f"no delay line: {tried.stderr.strip()}" if tried.returncode else ""


pytestmark = pytest.mark.skipif(bool(unavailable()), reason=unavailable())


@asynccontextmanager
async def program(says: str, *command: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that has said that it is up, ended afterwards."""
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, cwd=ROOT)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            while (line := (await process.stdout.readline()).decode().strip()) != says:
                assert line, f"{command} ended"
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def agent_command(cluster: str, folder: Path) -> list[str]:
    (folder / cluster).mkdir()
    at = ADDRESSES[cluster]
    links = {"listen": f"0.0.0.0:{PORT}", "address": f"{at}:{PORT}", "pod_address": at}
    settings = {
        "cluster": cluster,
        "log_level": "error",
        "links": {**links, "allow": ["10.215.0.0/30"], "interval_s": 1},
    }
    file = folder / cluster / "settings.json"
    file.write_text(json.dumps(settings))
    module = "tests.real.namespaced_agent"
    return ["unshare", "--net", sys.executable, "-m", module, str(file), str(folder / f"{cluster}.sock")]


@asynccontextmanager
async def dispatching(folder: Path, network: str = "own") -> AsyncIterator[Dispatcher]:
    links = [SocketLink(cluster, folder / f"{cluster}.sock") for cluster in ADDRESSES]
    clusters = tuple(ClusterSection(name=cluster, network=network) for cluster in ADDRESSES)
    timing = TimingSection(peers_s=1.0)
    config = DispatcherConfig(clusters=clusters, links=LinksSection(stale_s=STALE_S), timing=timing)
    dispatcher = assemble(links, config)
    running = asyncio.create_task(dispatcher.service.run())
    try:
        yield dispatcher
    finally:
        dispatcher.service.stop()
        await running


async def rows_when(
    dispatcher: Dispatcher, holds: Callable[[dict[str, Any]], bool], patience_s: float
) -> list[dict[str, Any]]:
    """The matrix once that holds of all its rows."""
    async with asyncio.timeout(patience_s):
        while not all(map(holds, rows := whole(dispatcher.views.links()))):  # noqa: ASYNC110 - views do not wake
            await asyncio.sleep(0.2)
    return rows


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("delay_ms", "jitter_ms", "loss"), [(2.5, 0.0, 0.0), (20.0, 0.0, 0.0), (80.0, 4.0, 0.03)], ids=["5", "40", "160"]
)
async def test_the_matrix_says_what_the_line_does(
    delay_ms: float, jitter_ms: float, loss: float, tmp_path: Path, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # where agents make their keys
    east, west = (agent_command(cluster, tmp_path) for cluster in ADDRESSES)
    async with program(UP, *east) as one, program(UP, *west) as other, dispatching(tmp_path) as dispatcher:
        ends = (str(one.pid), ADDRESSES["east"], str(other.pid), ADDRESSES["west"])
        numbers = (str(delay_ms), str(jitter_ms), str(loss), "1")
        async with program("up", sys.executable, "-S", "-m", "tests.real.delay_line", *ends, *numbers):
            await rows_when(dispatcher, lambda row: row["rtt_ms"] is not None, 60.0)
            await asyncio.sleep(20.0)  # the window fills
            rows = whole(dispatcher.views.links())
            say(f"set {2 * delay_ms:g} ms: " + ", ".join(f"{row['from']} {row['rtt_ms']} ms" for row in rows))
            for row in rows:
                assert row["rtt_ms"] == pytest.approx(2 * delay_ms, rel=0.1)
                assert row["counts_ms"] == pytest.approx(2 * delay_ms, rel=0.1)
                assert row["source"] == "measured"
                assert row["age_s"] < STALE_S
                assert row["loss"] <= 0.3
            told = dispatcher.service.metrics.render().decode()
            assert 'global_dispatcher_link_rtt_seconds{from="east",to="west"}' in told
        rows = await rows_when(dispatcher, lambda row: row["source"] == "unknown", STALE_S + 30.0)
        assert all(row["age_s"] >= STALE_S and row["counts_ms"] is None for row in rows)
        assert all(view.ready for view in dispatcher.service.core.clusters.values())  # reports go on


@pytest.mark.timeout(180)
async def test_pods_of_one_network_reach_each_other_until_there_is_no_way(
    tmp_path: Path, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    east, west = (agent_command(cluster, tmp_path) for cluster in ADDRESSES)
    metric = 'global_dispatcher_pods_reached{{from="{}",to="{}"}} {}'

    async with program(UP, *east) as one, program(UP, *west) as other:
        ends = (str(one.pid), ADDRESSES["east"], str(other.pid), ADDRESSES["west"])
        line = program("up", sys.executable, "-S", "-m", "tests.real.delay_line", *ends, "1", "0", "0", "1")
        async with line, dispatching(tmp_path, "flat") as dispatcher:

            async def told(value: float) -> None:
                ways = [metric.format(*way, value) for way in (("east", "west"), ("west", "east"))]
                async with asyncio.timeout(90.0):
                    while not all(one in dispatcher.service.metrics.render().decode() for one in ways):  # noqa: ASYNC110
                        await asyncio.sleep(0.2)

            await told(1.0)
            assert about_networks(whole(dispatcher.views.clusters())) == []
            route = ("ip", "route", "add", "unreachable", f"{ADDRESSES['east']}/32")
            entered = await asyncio.create_subprocess_exec("nsenter", "-t", str(other.pid), "-n", *route)
            assert await entered.wait() == 0
            await told(0.0)
            there, back = about_networks(whole(dispatcher.views.clusters()))
            say(f"{there.text}; {back.text}")
            assert f"do not reach pods of west ({ADDRESSES['west']}:7491: connection timed out" in there.text
            assert f"do not reach pods of east ({ADDRESSES['east']}:7491: no route to host" in back.text
