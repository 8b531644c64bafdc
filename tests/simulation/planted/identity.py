"""Who answers under a cluster's name: another cluster, or an agent with another key."""

from collections.abc import Iterator

from tests.simulation.planted.scripted import Hint, Scene, Wait
from tests.simulation.planted.table import Patches, plant
from tests.simulation.world.keys import key_file
from tests.simulation.world.net import Wire

IMPOSTOR = "rebuilt"


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


def _led_to(at: Scene, wire: Wire) -> None:
    """West's agent begins anew with a kubeconfig that leads there."""
    agent = at.cluster("west").agent
    agent.kill()
    agent.wire = wire
    at.spawn(agent.start())


def _led_elsewhere_for_a_while(at: Scene) -> Iterator[Wait]:
    west = at.cluster("west").agent.wire
    _led_to(at, at.fleet.add_outside(IMPOSTOR).wire)
    yield 60.0
    _led_to(at, west)
    at.crash(soon=True)  # a dispatcher that began with the other one is told by its log to
    yield 10.0


def _another_cluster(at: Scene) -> Iterator[Wait]:
    """A delegate runs in west, and its source is not bound yet: the dispatcher dies; west's agent is led elsewhere.

    The next dispatcher has not made the claim, and is told by the other cluster that it has no delegate.
    """
    at.strike("west", "bind", at.crash)
    at.submit("a", "west,east")
    yield lambda: any(pod["status"].get("phase") == "Running" for pod in at.copies("west"))
    yield from _led_elsewhere_for_a_while(at)


def _pods_for_another_cluster(at: Scene) -> Iterator[Wait]:
    """West's agent is led elsewhere, a dispatcher begins, and a pod comes that may go to west."""
    at.submit("a", "west")
    yield at.shows("Running", "a")
    at.later(1.0, lambda: at.submit("b", "west"))
    at.crash(soon=True)
    yield from _led_elsewhere_for_a_while(at)


@plant("another cluster may answer for the one that a pod was signed over to", hint=Hint(_another_cluster))
def any_cluster_of_the_name(patches: Patches) -> None:
    from dispatcher.scheduling.delegation import tracking

    patches.set(tracking, "another_than_claimed", lambda source, view: False)


@plant("an agent serves a cluster with a key that is not its own", hint=Hint(_another_key))
def any_key(patches: Patches) -> None:
    from shared.security.keys import OwnKeys

    patches.set(OwnKeys, "objection", lambda self, stored, cluster: "")


@plant("another cluster under a known name is as good as the known one", hint=Hint(_pods_for_another_cluster))
def any_cluster_of_that_name(patches: Patches) -> None:
    from shared.security.keys import TrustedKeys

    patches.set(TrustedKeys, "another", lambda self, cluster, cluster_uid: "")
