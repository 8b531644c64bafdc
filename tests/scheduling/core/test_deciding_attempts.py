"""How many attempts a decision says that its pod needed."""

from dispatcher.scheduling.events import Decided
from tests.scheduling.points_world import World


def test_a_decision_says_how_many_attempts_its_pod_needed() -> None:
    world = World()
    first, second = world.submit("first", cpu=4000), world.submit("second", cpu=4000)
    world.tick()
    world.report(gone=(first.uid,))
    world.tick(400.0)
    told = {one.decision.pod_info.pod.name: one.attempts for one in world.told if isinstance(one, Decided)}
    assert told == {"first": 1, second.name: 2}
