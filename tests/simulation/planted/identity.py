"""Who answers under a cluster's name: another cluster, or an agent with another key."""

from collections.abc import Iterator

from tests.simulation.planted.scripted import Hint, Scene, Wait
from tests.simulation.planted.table import Patches, plant
from tests.simulation.world.keys import key_file


def _another_key(at: Scene) -> Iterator[Wait]:
    """While a pod runs elsewhere its home's agent begins anew with another key file, which is put right after a while.

    That is sooner than its proxy nodes are missed: such an agent rightly does nothing at all.
    """
    agent = at.cluster("north").agent
    settings = agent.settings
    at.submit("a", "west")
    yield at.shows("Running", "a")
    agent.kill()
    agent.settings = settings.model_copy(update={"key_file": key_file("lost and made anew")})
    at.spawn(agent.start())
    yield 20.0
    agent.kill()
    agent.settings = settings
    at.spawn(agent.start())
    yield 10.0


@plant("another cluster may answer for the one that a pod was signed over to", "fleet")
def any_cluster_of_the_name(patches: Patches) -> None:
    from dispatcher.scheduling.delegation import tracking

    patches.set(tracking, "another_than_claimed", lambda source, view: False)


@plant("an agent serves a cluster with a key that is not its own", hint=Hint(_another_key))
def any_key(patches: Patches) -> None:
    from agents.executor.keys import OwnKeys

    patches.set(OwnKeys, "objection", lambda self, stored, cluster: "")
