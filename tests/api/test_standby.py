"""A standby: ready where it could lead, and whoever asks it hears the leader's answer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from dispatcher.api.http_api import OnlyOne, make_app
from dispatcher.api.login import Login
from dispatcher.config import DispatcherConfig
from dispatcher.config.sections import LeaderElectionSection, LoginSection
from dispatcher.service.assembly import assemble
from dispatcher.service.leading.term_runner import TermRunner
from dispatcher.service.links.link import AgentLink, LocalLink
from tests.service.fakes import FakeAgent, ScriptedLink
from tests.service.test_leadership import Office, leadership, playing, until

Client = TestClient[web.Request, web.Application]
TOKEN = "a-token-of-more-than-16-characters"
LEADS = {"error": "standby: dispatcher 127.0.0.1_uuid leads"}


@pytest.fixture
def login(tmp_path: Path) -> Login:
    (tmp_path / "tokens").write_text(TOKEN)
    return Login(LoginSection(token_file=str(tmp_path / "tokens")))


def leading_app(login: Login | None = None) -> TestServer:
    made = assemble([LocalLink("east", FakeAgent("east"))], DispatcherConfig())
    return TestServer(make_app(OnlyOne(made.service, made.views), login))


@asynccontextmanager
async def standing_by(
    url: str, login: Login | None = None, link: AgentLink | None = None, *, warm: bool = True
) -> AsyncIterator[Client]:
    office, link = Office(), link or LocalLink("east", FakeAgent("east"))
    office.leader = "127.0.0.1_uuid"
    config = DispatcherConfig(leader_election=LeaderElectionSection(leader_url=url, warm=warm))
    stage = TermRunner([link], config, leadership(office, link))
    async with playing(stage), TestClient(TestServer(make_app(stage, login))) as client:
        await until(lambda: stage.service.could_lead or not warm or isinstance(link, ScriptedLink))
        yield client


async def test_what_only_the_leader_knows_is_asked_of_it() -> None:
    async with leading_app() as leader, standing_by(f"http://{{host}}:{leader.port}") as client:
        answer = await client.get("/v1/explain/shop/web-0?cluster=west")
        assert answer.status == 404
        assert (await answer.json())["error"] == "no cluster west; known: east"


async def test_a_token_counts_at_both(login: Login) -> None:
    async with leading_app(login) as leader, standing_by(f"http://{{host}}:{leader.port}", login) as client:
        assert (await client.get("/v1/clusters")).status == 401
        answer = await client.get("/v1/clusters", headers={"Authorization": f"Bearer {TOKEN}"})
        assert [row["name"] for row in (await answer.json())["clusters"]] == ["east"]


@pytest.mark.parametrize("url", ["", "http://{host}:1", "http://no-such-host.invalid:7480"])
async def test_where_the_leader_cannot_be_asked_the_standby_says_who_leads(url: str) -> None:
    async with standing_by(url) as client:
        answer = await client.get("/v1/clusters")
        assert (answer.status, await answer.json()) == (503, LEADS)


async def test_two_standbys_do_not_ask_each_other_for_ever() -> None:
    async with standing_by("") as other, standing_by(f"http://{{host}}:{other.port}") as client:
        assert (await client.get("/v1/pods")).status == 503


@pytest.mark.parametrize(
    ("link", "warm", "status"),
    [
        (LocalLink("east", FakeAgent("east")), True, 200),
        (ScriptedLink("east"), True, 503),
        (LocalLink("east", FakeAgent("east")), False, 503),
    ],
    ids=["it follows all clusters", "a cluster is not heard yet", "it follows none"],
)
async def test_a_standby_is_ready_once_it_could_lead(link: AgentLink, warm: bool, status: int) -> None:
    async with standing_by("", link=link, warm=warm) as client:
        assert (await client.get("/readyz")).status == status
