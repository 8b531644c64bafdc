"""Two names for one cluster, and a cluster that is renamed while pods of others run there."""

import random
from collections.abc import Iterator
from typing import Any

from tests.simulation.planted.scripted import Hint, Scene, Wait
from tests.simulation.planted.table import Patches, plant
from tests.simulation.world.loop import running_loop
from tests.simulation.world.processes import AgentProcess, LinkWeather, SimLink

OTHER = "orient"


def _other_agent(at: Scene) -> AgentProcess:
    """An agent that serves cluster east under another name."""
    east = at.cluster("east").agent
    agent = AgentProcess(east.settings.model_copy(update={"cluster": OTHER}), east.wire)
    at.spawn(agent.start())
    return agent


def _configured(at: Scene, agent: AgentProcess | None, *, instead: bool) -> None:
    """The dispatcher begins anew with this agent, too, or instead of that of east."""
    made = [SimLink(OTHER, agent, LinkWeather(), running_loop(), random.Random(1))] if agent is not None else []

    def links() -> list[SimLink]:
        return [*(one for one in at.fleet._links("dispatcher") if not instead or one.cluster != "east"), *made]

    at.dispatcher.links = links
    at.crash(soon=True)


def _two_names(at: Scene) -> Iterator[Wait]:
    """East is listed twice; pods come that would go there."""
    at.submit("a", "north", home="east")
    yield at.shows("Running", "a", home="east")
    _configured(at, _other_agent(at), instead=False)
    yield 10.0
    for cluster in ("north", "west"):
        at.load(cluster, 3000)
    for number in range(4):
        at.submit(f"p{number}", cpu=300, home=("north", "east")[number % 2])
    yield 40.0


def _renamed(at: Scene) -> Iterator[Wait]:
    """East is served under another name for a while; a pod of north runs there."""
    at.submit("a", "east")
    yield at.shows("Running", "a")
    at.cluster("east").agent.kill()
    agent = _other_agent(at)
    _configured(at, agent, instead=True)
    yield 40.0
    agent.kill()
    at.spawn(at.cluster("east").agent.start())
    _configured(at, None, instead=False)
    yield 10.0


@plant("one cluster may be listed under two names", hint=Hint(_two_names))
def two_names_for_one_cluster(patches: Patches) -> None:
    from dispatcher.scheduling import clusters

    patches.set(clusters, "wrong_identity", lambda view, changes, known: "")
    _any_name(patches)


@plant("a cluster may be renamed while pods of others run there", hint=Hint(_renamed))
def renamed_with_pods(patches: Patches) -> None:
    _any_name(patches)


def _any_name(patches: Patches) -> None:
    """An agent serves a cluster under whatever name it is given."""
    from agents.executor.trust.state import ExecutorState
    from agents.runtime.accepted_leader import AcceptedLeader

    def be_called(self: Any, cluster: str, before: str = "") -> Any:
        return (yield from self.load())

    patches.set(AcceptedLeader, "misnamed", property(lambda self: ""))
    patches.set(ExecutorState, "be_called", be_called)
