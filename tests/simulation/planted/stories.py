"""Small stories under which planted faults show that chance shows too seldom. None of them breaks without one."""

from collections.abc import Iterator
from functools import partial

from shared.model.tenant import Share, Tenant
from tests.simulation.acts import plain_pod
from tests.simulation.judges.facts import PREFIX
from tests.simulation.planted.scripted import Scene, Wait
from tests.simulation.world.apiserver import PRIORITIES
from tests.simulation.world.fleet import Sizes
from tests.simulation.world.objects import class_of

SMALL = Sizes(nodes=1, node_cpu=1000)
SCARCE = Sizes(nodes=1, tenants=(Tenant("team", ("team",), {"cpu": Share(absolute=600)}),))
SETTLED_S = 70.0  # from then on judges of room know what an agent must have seen


def west_is_best(at: Scene) -> None:
    """A pod that may go anywhere goes west."""
    at.load("east", 2000)
    at.load("north", 2000)


def deleted(at: Scene) -> Iterator[Wait]:
    """A pod that runs elsewhere is deleted."""
    at.submit("a", "west")
    yield at.shows("Running", "a")
    at.delete("a")
    yield 20.0


def drained(at: Scene) -> Iterator[Wait]:
    """A copy is deleted where it runs."""
    at.submit("a", "west")
    yield at.shows("Running", "a")
    at.drain("west")
    yield 20.0


def told_a_lie(at: Scene) -> Iterator[Wait]:
    """The observer of the cluster in which a pod runs says that it was deleted."""
    at.submit("a", "west")
    yield at.shows("Running", "a")
    at.say_deleted("west", at.copies("west")[0]["metadata"]["uid"])
    yield 20.0


def told_another_end(at: Scene) -> Iterator[Wait]:
    """A pod that runs elsewhere fails; until the observer there begins anew, it says that the pod has succeeded."""
    at.submit("a", "west")
    yield at.shows("Running", "a")
    (copy,) = at.copies("west")
    at.say_ended("west", copy["metadata"]["uid"], "Succeeded")
    yield 15.0  # the long poll that waits now is answered honestly
    at.end("west", copy["metadata"]["uid"], "Failed")
    yield 20.0
    at.crash_agent("west")
    yield 20.0


def reply_lost(at: Scene) -> Iterator[Wait]:
    """The API server binds a delegate, the connection ends before its reply, and the watch stands still.

    It ends at once: after a second the order is sent again, and a second order looks at what there is. And the watch
    must not show the delegate, as the claim would be restored to it.
    """
    west_is_best(at)
    at.strike("west", "bind", partial(at.freeze, "west", seconds=18.0), moment="before")
    at.strike("west", "bind", lambda: "reset")
    at.submit("a", "west,east")
    yield 30.0


def more_important(at: Scene) -> Iterator[Wait]:
    """A pod fills the only node that takes another one of higher priority."""
    at.submit("a", "north", 700)
    yield at.shows("Running", "a")
    at.submit("b", "north", 700, priority=10)
    yield 20.0


def made_up_preemptor(at: Scene) -> Iterator[Wait]:
    """A pod fills the only node of its cluster, and another cluster's observer tells of a more important one."""
    at.submit("a", "north", 700)
    yield at.shows("Running", "a")
    pod = plain_pod("b", "default", 700, clusters="north")
    pod["metadata"]["uid"], pod["spec"]["priority"] = "made-up", 2_000_000_000
    pod["spec"]["priorityClassName"] = class_of(*PRIORITIES)
    at.say_waits("east", pod)
    yield 40.0


def unseen_delegate(at: Scene) -> Iterator[Wait]:
    """The watch of the target stands still from the moment that the delegate is bound."""
    at.strike("west", "bind", partial(at.freeze, "west", seconds=18.0), moment="before")
    at.submit("a", "west")
    yield 30.0


def forgotten_claim(at: Scene) -> Iterator[Wait]:
    """A dispatcher begins anew while neither home nor target show what the last one did; another cluster is better."""
    for cluster, cpu in (("east", 2000), ("north", 3000), ("west", 1000)):
        at.load(cluster, cpu)
    yield 2.0
    at.strike("north", "claim", partial(at.freeze, "north", "west", seconds=18.0), moment="before")
    at.strike("west", "bind", partial(at.unload, "east"), partial(at.crash, soon=True))
    at.submit("a")
    yield 40.0


def claim_and_no_answer(at: Scene) -> Iterator[Wait]:
    """The same, but the home shows the claim."""
    west_is_best(at)
    at.strike("west", "bind", partial(at.links, "west", 45.0, cut_there=True, cut_back=True), at.crash)
    at.submit("a")
    yield 60.0


def server_away_at_the_second_order(at: Scene) -> Iterator[Wait]:
    """The order to make a delegate is carried out, the answer is lost, and then the API server does not answer."""
    west_is_best(at)
    away = partial(at.weather, "west", 30.0, answers={503: 1.0})
    mute = partial(at.links, "west", 2.0, cut_back=True)
    still = partial(at.freeze, "west", seconds=60.0)
    at.strike("west", "bind", mute, partial(at.later, 0.1, away), still)
    at.submit("a")
    yield 70.0


def lost_before_it_was_asked(at: Scene) -> Iterator[Wait]:
    """The target is lost, and that is known before the slow write of the claim is answered."""
    west_is_best(at)
    wire = at.cluster("north").wire
    at.act("cluster-lost", "west", 110.0)
    yield 5.0
    wire.hang = lambda request: 9.0 * (request.method == "PATCH" and request.path.endswith("/pods/a"))
    at.submit("a", "west,east")
    yield 20.0
    wire.hang = lambda _: 0.0
    yield 80.0


def refused_by_the_best(at: Scene) -> Iterator[Wait]:
    """The best cluster refuses all pods of a namespace."""
    west_is_best(at)
    at.act("webhook-refuses", "west", 1.0)
    at.submit("a", "west,east", namespace="team")
    yield 25.0


def late_copies(at: Scene) -> Iterator[Wait]:
    """Every order arrives twice; the second time the pod may be deleted already."""
    for weather in at.stage.links("west"):
        weather.twice, weather.twice_after_s = 1.0, 20.0
    names = [f"p{number}" for number in range(6)]
    for name in names:
        at.submit(name, "west", 100)
    yield at.shows("Running", *names)
    for name in names:
        at.delete(name, grace=0)
    yield 25.0


def drained_and_late_copies(at: Scene) -> Iterator[Wait]:
    """Every order arrives twice; the second time an admin of the target has deleted the pod already, and its own
    cluster is known to be out of reach, so that nobody has asked whether it is gone.
    """
    for weather in at.stage.links("west"):
        weather.twice, weather.twice_after_s = 1.0, 50.0
    names = [f"p{number}" for number in range(6)]
    for name in names:
        at.submit(name, "west", 100)
    yield at.shows("Running", *names)
    at.links("north", 60.0, cut_there=True, cut_back=True)
    yield 20.0
    at.drain("west")
    yield 45.0


def two_dispatchers(at: Scene) -> Iterator[Wait]:
    """A second dispatcher begins while the first leads; pods go on coming."""
    at.fleet.add_dispatcher("second").start()
    yield 25.0
    for number in range(12):
        at.submit(f"p{number}", home=("north", "west", "east")[number % 3], cpu=100)
        yield 4.0


def a_standby_that_missed_some(at: Scene) -> Iterator[Wait]:
    """A cluster is cut off from the standby alone; pods there take up a quota, then the leader dies."""
    at.fleet.add_dispatcher("second").start()
    yield 10.0
    cut = at.fleet.weathers["second", "north"]
    cut.cut_there = True
    yield 10.0
    at.submit("a", "north", namespace="team")
    at.submit("b", "north", namespace="team")
    yield at.shows("Running", "a", "b", namespace="team")
    at.dispatcher.kill()
    at.submit("c", "east", home="east", namespace="team")
    yield 50.0
    cut.cut_there = False


def a_rival_by_another_clock(at: Scene) -> Iterator[Wait]:
    """The second dispatcher's clock is a day ahead."""
    second = at.fleet.add_dispatcher("second")
    second.offset = 86_400.0
    second.start()
    yield 30.0


def restarted_in_the_past(at: Scene) -> Iterator[Wait]:
    """The dispatcher's clock is an hour behind in its next life."""
    at.submit("a", "west")
    yield at.shows("Running", "a")
    at.dispatcher.offset = -3600.0
    at.crash()
    yield 10.0
    at.submit("b", "west")
    yield 20.0


def stripped_and_deleted(at: Scene) -> Iterator[Wait]:
    """Somebody takes the claim off a pod that runs elsewhere, then deletes the pod."""
    at.submit("a", "west")
    yield at.shows("Running", "a")
    at.patch("a", {"annotations": {"global-dispatcher.io/claim": None, "global-dispatcher.io/cluster": None}})
    yield 15.0
    at.delete("a")
    yield 30.0


def target_dies_after_bind(at: Scene) -> Iterator[Wait]:
    """The agent of the target dies with the answer to its bind on the way."""
    at.strike("west", "bind", partial(at.crash_agent, "west"))
    at.submit("a", "west")
    yield 40.0


def enlarged(at: Scene) -> Iterator[Wait]:
    """A webhook of the target makes the pod larger than the node that was chosen."""
    at.load("east", 300)
    at.load("north", 300)
    yield SETTLED_S
    at.act("sidecar", "west", 1.0, dice=0)
    at.submit("a", "west,east", 600, namespace="team")
    yield 10.0


def quota_of_the_silent(at: Scene) -> Iterator[Wait]:
    """A cluster that uses the whole quota is out of reach when the dispatcher begins anew."""
    at.submit("a", "east", 600, home="east", namespace="team")
    yield at.shows("Running", "a", home="east", namespace="team")
    at.links("east", 60.0, cut_there=True, cut_back=True)
    at.crash()
    at.submit("b", "north", 600, namespace="team")
    yield 50.0


def sources_restored_away(at: Scene) -> Iterator[Wait]:
    """The home is restored from before its pods were submitted."""
    restore = at.back_up("north")
    names = [f"p{number}" for number in range(4)]
    for name in names:
        at.submit(name, "west", 100)
    yield at.shows("Running", *names)
    yield 5.0
    restore()
    yield 60.0


def one_source_restored_away(at: Scene) -> Iterator[Wait]:
    """The home is restored from before the last of its pods was submitted."""
    names = [f"p{number}" for number in range(6)]
    for name in names:
        at.submit(name, "west", 100)
    yield at.shows("Running", *names)
    restore = at.back_up("north")
    at.submit("last", "west", 100)
    yield at.shows("Running", "last")
    restore()
    yield 80.0


def sources_restored_away_for_long(at: Scene) -> Iterator[Wait]:
    """As long as it takes until single orphans would go."""
    yield from sources_restored_away(at)
    yield 660.0


def replaced_while_deleted(at: Scene) -> Iterator[Wait]:
    """Somebody replaces the source by another pod of its name just before it is deleted for its drained delegate."""

    def replace() -> None:
        at.patch("a", {"finalizers": None})
        at.delete("a", grace=0)
        at.submit("a", "north")

    at.submit("a", "west")
    yield at.shows("Running", "a")
    at.strike("north", "delete", replace, moment="before")
    at.drain("west")
    yield 30.0


def replaced_while_bound(at: Scene) -> Iterator[Wait]:
    """Somebody replaces a pod by a larger one of its name just before it is bound."""

    def replace() -> None:
        at.delete("a", grace=0)
        at.submit("a", "north", 9000)

    at.strike("north", "bind", replace, moment="before")
    at.submit("a", "north")
    yield 20.0


def marked_by_another(at: Scene) -> Iterator[Wait]:
    """A controller puts its own finalizer on the pod while the claim is written."""
    hold = partial(at.patch, "a", {"finalizers": ["example.com/hold"]}, actor="controller")
    at.strike("north", "claim", hold, moment="before")
    at.submit("a", "west")
    yield at.shows("Running", "a")
    at.patch("a", {"finalizers": ["global-dispatcher.io/delegate"]}, actor="controller")
    yield 5.0


def unclaimed_in_a_late_view(at: Scene) -> Iterator[Wait]:
    """As `forgotten_claim`, and the better cluster is home."""
    for cluster, cpu in (("north", 2000), ("west", 1000)):
        at.load(cluster, cpu)
    yield 2.0
    freeze = partial(at.freeze, "north", "west", seconds=18.0)
    at.strike("north", "claim", partial(at.unload, "north"), partial(at.later, 0.001, freeze), moment="before")
    at.strike("west", "bind", partial(at.crash, soon=True))
    at.submit("a", "north,west")
    yield 40.0


def late_status(at: Scene) -> Iterator[Wait]:
    """A write of the status `Running` is under way for so long that the pod has ended when it lands."""
    at.repeat("north", "mirror", 25.0)
    at.submit("a", "west")
    yield at.shows("Running", "a")
    for container in at.cluster("west").kubelets.running.values():
        container.ends_at = 0.0
    yield at.shows("Succeeded", "a")
    yield 25.0


def full_when_the_order_comes(at: Scene) -> Iterator[Wait]:
    """The target fills up while the order is on a slow way to it."""
    yield SETTLED_S
    slow = partial(at.links, "west", 15.0, late_s=14.0)
    at.strike("north", "claim", slow, partial(at.load, "west", 900))
    at.submit("a", "west", 300)
    yield 25.0


def two_pods_and_a_blind_agent(at: Scene) -> Iterator[Wait]:
    """Of two pods that fit one at a time, the first is bound where the watch does not show it; a restart forgets it."""
    later = partial(at.submit, "b", "west", 700, home="east", priority=10)
    yield SETTLED_S
    at.submit("a", "west", 700)
    at.strike("west", "bind", partial(at.freeze, "north", "west", seconds=19.0), moment="before")
    at.strike("west", "bind", later, partial(at.crash, soon=True))
    at.strike("north", "claim", partial(at.freeze, "north", seconds=19.0), moment="before")
    yield 30.0


def hanging_webhook(at: Scene) -> Iterator[Wait]:
    """What is created in one namespace hangs; pods of others come."""
    at.act("webhook-hangs", "west", 90.0)
    for number in range(60):
        at.submit(f"slow{number}", "west", 10, namespace="team")
    yield 5.0
    for number in range(3):
        at.submit(f"quick{number}", "west", 10)
    yield 75.0


def answer_lost(at: Scene) -> Iterator[Wait]:
    """The answer of the target is lost with the link."""
    west_is_best(at)
    at.strike("west", "bind", partial(at.links, "west", 30.0, cut_back=True))
    at.submit("a")
    yield 45.0


def spread_over_zones(at: Scene) -> Iterator[Wait]:
    """Pods that have to be spread over zones, and one zone that is better than the others."""
    west_is_best(at)
    for name in "abc":
        at.spread(name, "web")
    yield 30.0


def two_lost_of_three(at: Scene) -> Iterator[Wait]:
    """Pods that are to be replaced as soon as may be, and most clusters are lost at once."""
    for name, cluster in (("a", "west"), ("b", "east")):
        at.submit(name, cluster)
        at.patch(name, {"annotations": {f"{PREFIX}failover": "asap"}})
    yield at.shows("Running", "a", "b")
    for cluster in ("west", "east"):
        at.act("cluster-lost", cluster, 150.0)
    yield 160.0
