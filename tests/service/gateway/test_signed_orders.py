"""Orders over a real gateway: those that the leader's link signs are carried out, and none that the gateway makes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agents.runtime.order_gate import OrderGate
from agents.runtime.outbound.answering import answers_of
from agents.runtime.outbound.dialling import Dialler
from agents.runtime.settings import OrderSettings
from dispatcher.service.gateway.authority import ensure
from dispatcher.service.gateway.gateway import Gateway
from dispatcher.service.links.link import AgentFault
from dispatcher.service.links.signing import NO_SIGNER, Sealer, Signer
from shared.messages import Bind, IntentBatch, Peers, PodRef, encode
from shared.security.seals import Audience
from shared.streams.calls import EXECUTE, EXECUTOR, SET_PEERS, Call
from tests.agents.runtime.leader import signing_section
from tests.service.fakes import FakeAgent
from tests.service.gateway.test_gateway import WAIT_S, Site, connected, section

BATCH = IntentBatch("d", 1, (Bind("i1", PodRef("default", "web", "u1"), 1, "node-1"),), 20.0)
PEERS = Peers("d", 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    ensure(folder, ["localhost"], ["east"])
    return folder


@contextlib.asynccontextmanager
async def fleet(folder: Path, sealer: Sealer) -> AsyncIterator[tuple[Gateway, FakeAgent, OrderGate]]:
    """A gateway whose links have this key, and an agent of cluster east that verifies by the authority's file."""
    agent, gateway = FakeAgent("east"), Gateway(section(folder), ["east"], sealer)
    gate = OrderGate(
        OrderSettings(ca_file=str(folder / "ca.crt")), lambda: Audience("east", "east-uid", agent.incarnation)
    )
    async with gateway.serving():
        dialler = Dialler(Site(gateway, folder).settings("east"), "east", answers_of(agent, gate=gate))
        task = asyncio.create_task(dialler.run())
        try:
            yield gateway, agent, gate
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_what_the_leader_sends_is_carried_out_and_what_the_gateway_makes_is_not(folder: Path) -> None:
    async with fleet(folder, Signer(signing_section(folder))) as (gateway, agent, gate):
        link = gateway.link("east")
        await connected(link)
        await link.execute(BATCH, timeout_s=WAIT_S)
        await link.set_peers(PEERS, timeout_s=WAIT_S)
        await link.set_peers(PEERS, timeout_s=WAIT_S)
        assert (agent.batches, agent.peers, gate.verified) == ([BATCH], [PEERS, PEERS], 3)

        line = link._find(EXECUTOR)  # what a gateway that was taken over has: the connection, and no key
        assert not isinstance(line, str)
        for method, message in ((EXECUTE, BATCH), (SET_PEERS, PEERS)):
            with pytest.raises(AgentFault, match="refused \\(unsigned\\): the leader has not signed it"):
                await line.call(Call(method, encode(message)))
        assert (len(agent.batches), len(agent.peers), gate.refused["unsigned"]) == (1, 2, 2)


async def test_a_dispatcher_without_a_key_is_told_what_it_lacks(folder: Path) -> None:
    async with fleet(folder, NO_SIGNER) as (gateway, agent, _):
        link = gateway.link("east")
        await connected(link)
        with pytest.raises(AgentFault, match="give the dispatcher a signing key"):
            await link.execute(BATCH, timeout_s=WAIT_S)
        assert agent.batches == []
