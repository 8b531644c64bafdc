"""The link to an agent in this process: typed errors, and a limit for each call."""

import pytest

from dispatcher.service.links.link import AgentFault, AgentMismatch, AgentTimeout, LinkError, LocalLink
from shared.messages import Hello
from tests.service.fakes import FakeAgent


class Broken(FakeAgent):
    async def hello(self) -> Hello:
        raise ZeroDivisionError("broken agent")


@pytest.mark.parametrize(
    ("agent", "cluster", "want"),
    [
        pytest.param(Broken("east"), "east", AgentFault, id="an error of the agent is a fault"),
        pytest.param(FakeAgent("west"), "east", AgentMismatch, id="another cluster's agent is a mismatch"),
    ],
)
async def test_a_local_link_types_its_errors(agent: FakeAgent, cluster: str, want: type[LinkError]) -> None:
    with pytest.raises(want, match="agent"):
        await LocalLink(cluster, agent).hello(timeout_s=1)


async def test_a_link_call_ends_at_its_limit() -> None:
    agent = FakeAgent("east")
    agent.gate.clear()
    with pytest.raises(AgentTimeout, match=r"did not answer changes within 0\.01 s"):
        await LocalLink("east", agent).changes("", 0, 5.0, timeout_s=0.01)
