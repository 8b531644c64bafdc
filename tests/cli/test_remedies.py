"""What is said to do about a source that fails: held against what sources really say."""

from pathlib import Path

import pytest
from aiohttp import web

from agents.observer.seen import NodeTarget
from agents.telemetry.node_exporter import NodeExporters
from agents.telemetry.prometheus import read_vector
from agents.telemetry.source import SourceError
from agents.telemetry.static_file import StaticFile
from agents.telemetry.web import Credentials, Limits, Pool, Tls, Web
from dispatcher.cli.remedies import remedy
from tests.agents.telemetry.servers import LIMITS, answering, endless, serving, slow_drip

KEY = "telemetry.prometheus[0]"


async def moved(_: web.Request) -> web.Response:
    raise web.HTTPFound("http://example.invalid/")


SERVED = {
    "no rights": (answering(b"no", 401), "token_file"),
    "forbidden": (answering(b"no", 403), "token_file"),
    "a wrong path": (answering(b"no", 404), "before /api/v1/query"),
    "a redirect": (moved, f"write the address that it redirects to as {KEY}.url"),
    "overload": (answering(b"", 503), "the server's own log"),
    "a slow drip": (slow_drip, f"{KEY}.timeout_s"),
    "50 MB": (endless, f"{KEY}.max_mib"),
}


async def failed(source: Web) -> str:
    with pytest.raises(SourceError) as caught:
        await source.get("/x")
    await source.close()
    return str(caught.value)


@pytest.mark.parametrize("name", SERVED)
async def test_what_a_server_does_leads_to_the_key_that_mends_it(name: str) -> None:
    handler, fix = SERVED[name]
    async with serving(handler) as url:
        problem = await failed(Web(url, LIMITS))
    assert fix in remedy(problem, KEY), problem


@pytest.mark.parametrize(
    ("web_of", "fix"),
    [
        pytest.param(lambda: Web("http://127.0.0.1:1", LIMITS), f"that {KEY}.url is right", id="nobody listens"),
        pytest.param(lambda: Web("http://none.invalid", LIMITS), f"correct the host in {KEY}.url", id="no such host"),
        pytest.param(lambda: Web("http://169.254.1.1", LIMITS), f"{KEY}.allow_addresses", id="link-local"),
        pytest.param(
            lambda: Web("http://127.0.0.1:1", LIMITS, credentials=Credentials(token_file="/none")),
            f"the keys of {KEY} that end in _file",
            id="no token",
        ),
        pytest.param(
            lambda: Web("https://127.0.0.1:1", LIMITS, Pool(Tls(ca_file="/none"))), f"{KEY}.ca_file", id="no authority"
        ),
    ],
)
async def test_what_keeps_a_question_from_being_asked_leads_to_its_key(web_of: object, fix: str) -> None:
    assert callable(web_of)
    problem = await failed(web_of())
    assert fix in remedy(problem, KEY), problem


@pytest.mark.parametrize(
    ("body", "fix"),
    [
        (b"<html>", f"something else answers at that address: correct {KEY}.url"),
        (b'{"status":"error","error":"parse error"}', f"correct the query in {KEY}.queries"),
        (b'{"status":"success","data":{"resultType":"matrix","result":[]}}', f"correct the query in {KEY}.queries"),
    ],
    ids=["HTML", "a bad query", "a matrix"],
)
def test_what_stands_in_an_answer_leads_to_its_key(body: bytes, fix: str) -> None:
    with pytest.raises(SourceError) as caught:
        read_vector(body)
    assert fix in remedy(str(caught.value), KEY)


async def test_an_exporter_is_mended_by_its_port_and_a_file_by_its_path(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        await NodeExporters(("http", 1), Limits(), Pool()).sample(NodeTarget("n1", "127.0.0.1"))
    assert "telemetry.node_exporter[0].port" in remedy(str(caught.value), "telemetry.node_exporter[0]")
    with pytest.raises(SourceError) as missing:
        await StaticFile("file", str(tmp_path / "none")).sample_all({})
    assert "telemetry.file[0].path" in remedy(str(missing.value), "telemetry.file[0]")


def test_a_node_whose_kubelet_has_no_statistics_is_told_from_one_that_is_down() -> None:
    assert "serves no statistics" in remedy("kubelet of n1 answers 404: 404 page not found", "kubelet")
    assert "whether the node is up" in remedy("kubelet of n1 answers 503: busy", "kubelet")


def test_what_nobody_foresaw_leads_to_the_log() -> None:
    assert remedy("it is Tuesday", KEY) == f"see the agent's log, and the settings under {KEY}"
