"""One call to an API server, whatever becomes of it."""

import asyncio
from pathlib import Path

import pytest

from shared.kube.client import KubeClient, Patience
from shared.kube.http import Request
from shared.kube.session import Access, ApiSession
from tests.agents.kube.fake_server import STATE, fake_api

VERSION = Request("GET", "/version")
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
SHORT = Patience(connect_s=1.0, request_s=0.2, reload_s=0.0)
PATIENT = Patience(reload_s=0.0)  # where a slow machine must not make a time-out of an answer


async def test_a_call_brings_status_and_body(tmp_path: Path) -> None:
    async with fake_api() as api:
        client = KubeClient(Access(api.kubeconfig(tmp_path), "fake"))
        answer = await client.send(VERSION)
        await client.close()
    assert (answer.status, b"v1.36.3" in answer.body) == (200, True)


async def test_no_answer_in_time_is_status_0(tmp_path: Path) -> None:
    async with fake_api() as api:
        client = KubeClient(Access(api.kubeconfig(tmp_path)), SHORT)
        api.frozen.clear()
        answer = await client.send(VERSION)
        await client.close()
    assert (answer.status, answer.unknown) == (0, True)
    assert b"timeout" in answer.body


async def test_nobody_listening_is_status_0_and_heals_by_itself(tmp_path: Path) -> None:
    async with fake_api() as api:
        client = KubeClient(Access(api.kubeconfig(tmp_path)), PATIENT)
        await api.stop()
        assert (await client.send(VERSION)).status == 0
        await api.start()
        assert (await client.send(VERSION)).status == 200
        await client.close()


@pytest.mark.parametrize(
    ("access", "says"),
    [
        pytest.param(Access("/nowhere/config"), b"no such file", id="no file"),
        pytest.param(Access("", ""), b"service account", id="not in a pod"),
    ],
)
async def test_missing_credentials_are_an_answer_and_no_exception(access: Access, says: bytes) -> None:
    client = KubeClient(access)
    answer = await client.send(VERSION)
    assert answer.status == 0
    assert says in answer.body
    await client.close()


async def test_an_unknown_context_is_named(tmp_path: Path) -> None:
    async with fake_api() as api:
        client = KubeClient(Access(api.kubeconfig(tmp_path), "elsewhere"))
        answer = await client.send(VERSION)
        await client.close()
    assert b"elsewhere" in answer.body


POD = "/api/v1/namespaces/default/pods/web"


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_a_404_that_is_no_api_servers_says_nothing_of_a_pod(tmp_path: Path, method: str) -> None:
    async with fake_api() as api:
        client = KubeClient(Access(api.kubeconfig(tmp_path)), PATIENT)
        api.status = 404
        answers = [await client.send(Request(method, POD)), *await client.send_all([Request(method, POD)])]
        await client.close()
    assert {(answer.status, answer.unknown) for answer in answers} == {(0, True)}
    assert all(b"HTTP 404, and not from an API server" in answer.body for answer in answers)


async def test_the_api_servers_404_is_an_answer(tmp_path: Path) -> None:
    async with fake_api() as api:
        client = KubeClient(Access(api.kubeconfig(tmp_path)), PATIENT)
        answer = await client.send(Request("GET", STATE))
        await client.close()
    assert (answer.status, b"NotFound" in answer.body) == (404, True)


LIST = Request("GET", "/api/v1/nodes", params={"limit": "500"})


@pytest.mark.parametrize(
    ("request_", "times"),
    [(VERSION, 1), (Request("POST", "/version", b"{}"), 1), (LIST, 4)],
    ids=["GET", "POST", "list"],
)
async def test_only_lists_are_asked_for_again_after_too_many_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_: Request, times: int
) -> None:
    pauses: list[float] = []

    async def no_wait(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("shared.kube.client.asyncio.sleep", no_wait)
    async with fake_api() as api:
        api.status, api.retry_after = 429, "7"
        client = KubeClient(Access(api.kubeconfig(tmp_path)))
        answer = await client.send(request_)
        await client.close()
    assert (answer.status, answer.retry_after_s, len(api.requests)) == (429, 7.0, times)
    assert all(pause >= 7 for pause in pauses[: times - 1])


async def test_new_credentials_are_loaded_after_a_401(tmp_path: Path) -> None:
    async with fake_api() as api:
        client = KubeClient(Access(api.kubeconfig(tmp_path, token="expired")), PATIENT)
        assert (await client.send(VERSION)).status == 401
        api.kubeconfig(tmp_path)
        assert (await client.send(VERSION)).status == 200
        await client.close()


async def test_a_body_above_the_bound_is_not_read_on(tmp_path: Path) -> None:
    async with fake_api(nodes=50) as api:
        client = KubeClient(Access(api.kubeconfig(tmp_path)))
        answer = await client.send(Request("GET", "/api/v1/nodes", params={"limit": "50"}), max_body=1000)
        await client.close()
    assert answer.status == 0
    assert b"larger than" in answer.body


@pytest.mark.parametrize("proxied", [False, True], ids=["direct", "through a proxy"])
async def test_a_write_whose_credentials_come_too_late_is_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proxied: bool
) -> None:
    async with fake_api() as api:
        client = KubeClient(Access(api.kubeconfig(tmp_path)), SHORT)
        session = await client.session()
        authorization = session.authorization

        async def late() -> str:
            await asyncio.sleep(SHORT.request_s + 0.1)
            return await authorization()

        monkeypatch.setattr(session, "authorization", late)
        if proxied:
            monkeypatch.setattr(session, "exchanges", None)
        answer = await client.send(Request("POST", EVENTS, b"{}"))
        await client.close()
    assert (answer.status, api.posted) == (0, [])


async def test_a_series_of_writes_brings_an_answer_for_each(tmp_path: Path) -> None:
    async with fake_api() as api:
        client = KubeClient(Access(api.kubeconfig(tmp_path)))
        events = [Request("POST", EVENTS, b'{"number":%d}' % number) for number in range(5)]
        answers = await client.send_all(events)
        await client.close()
    assert [answer.status for answer in answers] == [201] * 5
    assert [posted["number"] for posted in api.posted] == [0, 1, 2, 3, 4]


async def test_a_series_that_nobody_answers_is_status_0_each(tmp_path: Path) -> None:
    async with fake_api() as api:
        client = KubeClient(Access(api.kubeconfig(tmp_path)), SHORT)
        events = [Request("POST", EVENTS, b"{}") for _ in range(3)]
        api.frozen.clear()
        silent = await client.send_all(events)
        api.frozen.set()
        await api.stop()
        gone = await client.send_all(events)
        await client.close()
    assert [answer.status for answer in (*silent, *gone)] == [0] * 6
    assert all(b"timeout" in answer.body for answer in silent)


async def test_a_session_opened_again_with_the_same_credentials_trusts_the_same(tmp_path: Path) -> None:
    async with fake_api() as api:
        first, second = [await ApiSession.open(Access(api.kubeconfig(tmp_path))) for _ in range(2)]
        assert first.trust == second.trust
        assert await first.authorization() == "Bearer secret"
        for session in (first, second):
            await session.close()
