"""`signals check`: sources are tried from here, and what they would tell is shown with what is wrong, by its key."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from typer.testing import CliRunner, Result

from dispatcher.cli.main import app
from dispatcher.service.errors import ExitCode
from tests.agents.kube.fake_server import FakeApi, fake_api
from tests.agents.telemetry.servers import NOW, Handler, answering, serving

KEY = "clusters[0].agent.telemetry.prometheus[0]"
QUEUE = {"signal": "queue", "query": "depth", "sampled_at": "timestamp(depth)", "range": [0, 10]}


def telling(*nodes: str) -> Handler:
    """A Prometheus that knows a quarter of everything of these nodes, taken two seconds ago; `bad` is no PromQL."""

    async def prometheus(request: web.Request) -> web.Response:
        query = request.query["query"]
        if "bad" in query:
            return web.json_response({"status": "error", "error": "parse error: unexpected identifier"}, status=200)
        text = repr(NOW - 2) if "timestamp(" in query else "0.25"
        result = [{"metric": {"node": node}, "value": [NOW, text]} for node in nodes]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})

    return prometheus


def a_file(folder: Path, api: FakeApi, **telemetry: Any) -> Path:
    """A dispatcher's configuration of one cluster, whose kubelets are not asked."""
    first = next(iter(telemetry.values()))[0].get("name", next(iter(telemetry)))
    agent = {"telemetry": {"order": {"default": [first]}, **telemetry}}
    cluster = {"name": "east", "kubeconfig": api.kubeconfig(folder), "agent": agent}
    file = folder / "dispatcher.yaml"
    file.write_text(yaml.safe_dump({"clusters": [cluster]}))
    return file


async def check(file: Path, *words: str) -> Result:
    """The command, while the servers of this loop answer."""
    return await asyncio.to_thread(CliRunner().invoke, app, ["signals", "check", "-c", str(file), *words])


def lines(shown: Result) -> list[str]:
    return [" ".join(line.split()) for line in shown.stdout.splitlines()]


async def test_what_would_be_read_of_three_nodes_is_shown_query_by_query_and_signal_by_signal(tmp_path: Path) -> None:
    async with fake_api(nodes=4) as api, serving(telling("n0", "n1", "n2", "n3")) as url:
        shown = await check(a_file(tmp_path, api, prometheus=[{"url": url, "queries": [QUEUE]}]))
    found = lines(shown)
    assert shown.exit_code == ExitCode.OK, shown.output
    assert found[0] == "east: 4 nodes"
    assert found[3].startswith("prometheus ok 4/4 ")
    assert "MEASURE NODES n0 n1 n2" in found
    assert "queue 4 2% 2% 2%" in found
    assert "n2 queue 2% 2s prometheus" in found
    assert not any(line.startswith(("n3", "problem", "note")) for line in found)


async def test_nodes_are_chosen_by_name_and_json_says_it_all(tmp_path: Path) -> None:
    async with fake_api(nodes=4) as api, serving(telling("n0", "n3", "stranger")) as url:
        file = a_file(tmp_path, api, prometheus=[{"url": url, "sets": ["psi"], "queries": [QUEUE]}])
        shown = await check(file, "--node", "n3", "--node", "n1", "-o", "json")
    told = json.loads(shown.stdout)
    (east,) = told["clusters"]
    assert (shown.exit_code, told["ok"]) == (ExitCode.FAILED, False)
    assert east["shown"] == ["n3", "n1"]
    (source,) = east["sources"]
    assert (source["key"], source["nodes"], source["of"], source["unmatched"]) == (KEY, 2, 4, 2)
    assert source["measures"] == [{"measure": "queue", "nodes": 2, "values": {"n3": 0.025, "n1": None}}]
    of_queue = {row["node"]: row for row in east["readings"] if row["signal"] == "queue"}
    assert of_queue["n3"]["used"] == pytest.approx(0.025)
    assert of_queue["n3"]["source"] == "prometheus"
    assert 2 <= of_queue["n3"]["age_s"] < 60
    assert (of_queue["n1"]["used"], of_queue["n1"]["source"]) == (None, "")
    assert [one["problem"] for one in east["problems"]] == ["tells nothing of 2 of 4 nodes (n1; n2)"]
    assert east["notes"][0]["problem"] == "2 series of no known node (node=stranger)"
    assert f"{KEY}.node_labels" in east["notes"][0]["fix"]


PROBLEMS = {
    "a server that is not there": (None, {}, "All connection attempts failed", f"{KEY}.url"),
    "no rights": (answering(b"", 401), {}, "answers 401", f"{KEY}.token_file"),
    "no Prometheus": (answering(b"<html>"), {}, "the answer cannot be read", f"{KEY}.url"),
    "one bad query": (
        telling("n0", "n1"),
        {"queries": [{**QUEUE, "query": "bad("}]},
        "queue: the query failed: parse error: unexpected identifier",
        f"{KEY}.queries",
    ),
    "names that are no nodes'": (
        telling("10.9.9.9"),
        {},
        "answers, but tells nothing of any of the 2 nodes",
        f"{KEY}.node_labels",
    ),
    "queries that find nothing": (
        telling(),
        {},
        "answers, but tells nothing of any of the 2 nodes",
        f"{KEY}.sets",
    ),
    "two series of a node": (
        telling("n0", "n0", "n1"),
        {},
        "(n0 twice) do not count",
        f"{KEY}.cluster_label",
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
async def test_what_is_wrong_is_told_with_its_key_and_what_to_do(tmp_path: Path, name: str) -> None:
    handler, more, text, fix = PROBLEMS[name]
    async with fake_api(nodes=2) as api, serving(handler or telling()) as url:
        at = url if handler else "http://127.0.0.1:1"
        shown = await check(a_file(tmp_path, api, prometheus=[{"url": at, **more}]))
    assert shown.exit_code == ExitCode.FAILED, shown.output
    found = lines(shown)
    at_line = next(at for at, line in enumerate(found) if line.startswith(f"problem: {KEY}: ") and text in line)
    assert found[at_line + 1].startswith("do: ")
    assert fix in found[at_line + 1]


async def test_kubelets_and_exporters_are_asked_node_by_node_and_those_that_fail_are_named(tmp_path: Path) -> None:
    async with fake_api(nodes=2) as api:
        shown = await check(a_file(tmp_path, api, node_exporter=[{"port": 1}]))
    found = lines(shown)
    assert shown.exit_code == ExitCode.FAILED
    assert found[3].startswith("node_exporter fails 0/2")
    key = "clusters[0].agent.telemetry.node_exporter[0]"
    assert sum(line.startswith(f"problem: {key}: node_exporter of n") for line in found) == 2
    assert any(f"that {key}.port and {key}.scheme is right" in line for line in found)
    assert "n0 cpu - - unknown: by requests" in found


async def test_a_file_of_an_agent_will_do(tmp_path: Path) -> None:
    async with fake_api(nodes=1) as api, serving(telling("n0")) as url:
        own = {"prometheus": [{"url": url}], "order": {"default": ["prometheus"]}}
        gateway = {"urls": ["wss://h:1"], "ca_file": "ca", "cert_file": "crt", "key_file": "key"}
        agent = {"cluster": "west", "kubeconfig": api.kubeconfig(tmp_path), "telemetry": own, "gateway": gateway}
        file = tmp_path / "agent.yaml"
        file.write_text(yaml.safe_dump(agent))
        shown = await check(file)
        file.write_text(yaml.safe_dump({**agent, "kubelt": {}}))
        wrong = await check(file)
    assert shown.exit_code == ExitCode.OK, shown.output
    assert lines(shown)[0] == "west: 1 node"
    assert (wrong.exit_code, wrong.stderr) == (1, f"error: {file}: kubelt: Extra inputs are not permitted\n")


async def test_a_cluster_that_cannot_be_listed_or_chosen_says_so(tmp_path: Path) -> None:
    async with fake_api(nodes=2) as api:
        file = a_file(tmp_path, api, file=[{"path": str(tmp_path / "none")}])
        unknown = await check(file, "--cluster", "wset")
        missing = await check(file, "--node", "n7")
        await api.stop()
        gone = await check(file)
    assert (unknown.exit_code, unknown.stderr) == (ExitCode.NOT_FOUND, "error: no cluster wset; known: east\n")
    assert missing.exit_code == gone.exit_code == ExitCode.FAILED
    assert lines(missing)[-2:] == ["problem: clusters[0]: there is no node n7", "do: name one of n0, n1"]
    assert lines(gone)[-2].startswith("problem: clusters[0]: the nodes cannot be listed: ")


async def test_a_file_that_is_none_is_one_line(tmp_path: Path) -> None:
    shown = await check(tmp_path / "none.yaml")
    assert (shown.exit_code, shown.stderr) == (
        1,
        f"error: {tmp_path / 'none.yaml'}: cannot be read: No such file or directory\n",
    )
    (tmp_path / "date.yaml").write_text("clusters: 2026-13-45\n")
    date = await check(tmp_path / "date.yaml")
    assert (date.exit_code, date.stderr.count("\n")) == (1, 1)
    (tmp_path / "bare.yaml").write_text("clusters: []\n")
    bare = await check(tmp_path / "bare.yaml")
    assert bare.stderr.startswith(f"error: {tmp_path / 'bare.yaml'}: clusters: none is listed")
