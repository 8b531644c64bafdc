"""Observer and executor of a cluster on connections of their own: who is asked what, and whose word counts for what."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec
import pytest

from agents.runtime.outbound.dialling import Dialler
from dispatcher.service.gateway.authority import ensure
from dispatcher.service.gateway.gateway import Gateway
from dispatcher.service.gateway.link import GatewayLink
from dispatcher.service.links.link import AgentFault, AgentMismatch, AgentMissing
from shared.messages import Bind, Changes, Hello, IntentBatch, LinkReading, Peers, PeersAck, PodReach, PodRef
from tests.service.fakes import FakeAgent
from tests.service.gateway.test_gateway import WAIT_S, Site, dialling, eventually, problem_of, section

BATCH = IntentBatch("east", 1, (Bind("i1", PodRef("default", "web", "u1"), 1, "node-1"),), 20.0)
PEERS = Peers("d", 1, ())


class Half(FakeAgent):
    """One half of an agent, which says keys, an epoch and a word of its own."""

    def __init__(self, name: str, uid: str = "east-uid", obeys: int = 1) -> None:
        super().__init__("east", name)
        self.name, self.uid, self.obeys = name, uid, obeys

    async def hello(self) -> Hello:
        return Hello("east", self.uid, self.name, keys=(f"key of {self.name}",), obeys=self.obeys)

    async def changes(self, incarnation: str, since: int, wait_s: float) -> Changes:
        return Changes("east", self.uid, self.name, 0, 1, full=True, keys=(f"key of {self.name}",))

    async def set_peers(self, peers: Peers) -> PeersAck:
        self.peers.append(peers)
        links, reaches = (LinkReading(self.name, 1.0),), (PodReach(self.name),)
        said = PeersAck("east", f"word of {self.name}", probe=self.name, links=links)
        return msgspec.structs.replace(said, pod_address=self.name, reaches=reaches)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    ensure(folder, ["localhost"], ["east", "west"])
    return folder


@pytest.fixture
async def site(folder: Path) -> AsyncIterator[Site]:
    gateway = Gateway(section(folder), ["east"])
    async with gateway.serving():
        yield Site(gateway, folder)


def certificate(site: Site, stem: str) -> Mapping[str, str]:
    return {"cert_file": str(site.folder / f"{stem}.crt"), "key_file": str(site.folder / f"{stem}.key")}


def half(site: Site, agent: Half) -> AbstractAsyncContextManager[Dialler]:
    settings = site.settings("east", **certificate(site, f"cluster-east.{agent.name}"))
    return dialling(settings, "east", agent, agent.name)


async def there(link: GatewayLink, *roles: str) -> None:
    await eventually(lambda: all(not isinstance(link._find(role), str) for role in roles))


async def test_reports_come_from_the_observer_and_outcomes_and_keys_from_the_executor(site: Site) -> None:
    observer, executor, link = Half("observer", obeys=99), Half("executor"), site.gateway.link("east")
    async with half(site, observer), half(site, executor):
        await there(link, "observer", "executor")
        assert link.executor_apart is True
        hello = await link.hello(timeout_s=WAIT_S)
        assert (hello.incarnation, hello.keys, hello.obeys) == ("observer", ("key of executor",), 1)
        changes = await link.changes("", 0, 0.1, timeout_s=WAIT_S)
        assert (changes.incarnation, changes.keys) == ("observer", ("key of executor",))
        await link.execute(BATCH, timeout_s=WAIT_S)
        assert (observer.batches, executor.batches) == ([], [BATCH])
        ack = await link.set_peers(PEERS, timeout_s=WAIT_S)
        assert (ack.word, ack.probe, [one.cluster for one in ack.links]) == (
            "word of executor",
            "observer",
            ["observer"],
        )
        assert (ack.pod_address, [one.cluster for one in ack.reaches]) == ("observer", ["observer"])


async def test_without_its_executor_a_cluster_reports_and_takes_no_orders(site: Site) -> None:
    observer, link = Half("observer"), site.gateway.link("east")
    async with half(site, observer):
        await there(link, "observer")
        assert link.executor_apart is False
        changes = await link.changes("", 0, 0.1, timeout_s=WAIT_S)
        assert (changes.keys, changes.api_ok) == ((), True)
        assert "takes no orders: its executor: its agent has never connected" in changes.problem
        for call in (link.execute(BATCH, timeout_s=WAIT_S), link.set_peers(PEERS, timeout_s=WAIT_S)):
            with pytest.raises(AgentMissing, match="executor of cluster east is not connected"):
                await call


async def test_without_its_observer_a_cluster_takes_orders_and_does_not_report(site: Site) -> None:
    executor, link = Half("executor"), site.gateway.link("east")
    async with half(site, executor):
        await there(link, "executor")
        assert link.executor_apart is True
        await link.execute(BATCH, timeout_s=WAIT_S)
        assert (await link.set_peers(PEERS, timeout_s=WAIT_S)).word == "word of executor"
        with pytest.raises(AgentMissing, match="observer of cluster east is not connected"):
            await link.changes("", 0, 0.1, timeout_s=WAIT_S)


async def test_an_executor_that_has_gone_is_remembered_by_its_keys_and_asked_anew_when_it_is_back(site: Site) -> None:
    link = site.gateway.link("east")
    async with half(site, Half("observer")):
        async with half(site, Half("executor")):
            await there(link, "observer", "executor")
            await link.changes("", 0, 0.1, timeout_s=WAIT_S)
        await eventually(lambda: link.executor_apart is False)
        assert (await link.changes("", 0, 0.1, timeout_s=WAIT_S)).keys == ("key of executor",)
        async with half(site, Half("executor", obeys=7)):
            await there(link, "executor")
            assert (await link.hello(timeout_s=WAIT_S)).obeys == 7


async def test_halves_of_different_clusters_are_no_agent(site: Site) -> None:
    link = site.gateway.link("east")
    async with half(site, Half("observer")), half(site, Half("executor", uid="other-uid")):
        await there(link, "observer", "executor")
        with pytest.raises(AgentMismatch, match="east-uid and other-uid"):
            await link.changes("", 0, 0.1, timeout_s=WAIT_S)


REFUSED = [
    pytest.param("cluster-east.observer", "executor", id="the observer's certificate for the executor"),
    pytest.param("cluster-east.executor", "observer", id="the executor's certificate for the observer"),
    pytest.param("cluster-east.observer", "both", id="the observer's certificate for the whole agent"),
    pytest.param("cluster-west.executor", "executor", id="another cluster's executor"),
]


@pytest.mark.parametrize(("stem", "role"), REFUSED)
async def test_a_certificate_serves_what_it_is_for_and_nothing_else(site: Site, stem: str, role: str) -> None:
    async with dialling(site.settings("east", **certificate(site, stem)), "east", Half(role), role) as dialler:
        assert "of another cluster or role" in await problem_of(dialler, "refuses")
    why, link = f"its certificate is of '{stem.removeprefix('cluster-').replace('.', '/')}'", site.gateway.link("east")
    with pytest.raises(AgentMissing, match=why):
        await (link.hello(timeout_s=WAIT_S) if role == "observer" else link.execute(BATCH, timeout_s=WAIT_S))


async def test_the_certificate_of_the_whole_cluster_may_serve_either_role(site: Site) -> None:
    link = site.gateway.link("east")
    async with dialling(site.settings("east"), "east", Half("executor"), "executor"):
        await there(link, "executor")
        await link.execute(BATCH, timeout_s=WAIT_S)


async def test_an_observer_takes_reports_over_from_an_agent_that_is_one_process_and_leaves_it_the_orders(
    site: Site,
) -> None:
    whole, link = Half("both"), site.gateway.link("east")
    async with dialling(site.settings("east"), "east", whole) as dialler:
        await there(link, "observer", "executor")
        assert link.executor_apart is None
        async with half(site, Half("observer")):
            await eventually(lambda: link.executor_apart is True)
            await link.execute(BATCH, timeout_s=WAIT_S)
            assert (whole.batches, dialler.connected) == ([BATCH], True)
            async with half(site, Half("executor")):
                await problem_of(dialler, "another agent")


async def test_an_observer_answers_no_call_that_is_an_executors(site: Site) -> None:
    link = site.gateway.link("east")
    async with half(site, Half("observer")):
        await there(link, "observer")
        astray = GatewayLink("east", lambda _: link._find("observer"))
        with pytest.raises(AgentFault, match="a call that this agent does not know"):
            await astray.execute(BATCH, timeout_s=WAIT_S)
