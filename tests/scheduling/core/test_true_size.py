"""Pods that the server of a target cluster makes larger are placed, promised, booked and charged by that size."""

from collections.abc import Sequence

import msgspec
import pytest

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.core.refusals import Refusals
from dispatcher.scheduling.cycle.cycle import Decision, Result, Scheduler, Unschedulable
from dispatcher.scheduling.delegation.in_flight import IntentKind
from dispatcher.scheduling.events import Answered
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.nominations import nominee_id
from dispatcher.scheduling.framework import SKIP
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.quota import QuotaLedger
from shared.messages import CLAIMED, DONE, OF_CLUSTER, REFUSED, Claim, CreateDelegate, Outcome, Unclaim
from shared.model.node import Node
from shared.model.pod import Claim as Claimed
from shared.model.pod import Pod
from shared.model.refusal import ClusterRefusal
from shared.model.tenant import Share, Tenant
from tests.builders import NodeBuilder, fleet, node, pod, put
from tests.plugins.asking import make, reasons
from tests.scheduling.core.test_refusals import Told, a_pod, in_flight

WEB = ("a", "uid-web")
_Nodes = Sequence[NodeBuilder | Node | str]


def larger(cpu: int = 800, cluster: str = "b") -> ClusterRefusal:
    return ClusterRefusal(cluster, "the server makes it larger", 0.0, 900.0, (("cpu", cpu),))


class World:
    """Cluster a is home and has no node; the pod asks for 300m, and cluster b makes 800m of it."""

    def __init__(self, tenants: Sequence[Tenant] = (), *, b: _Nodes, c: _Nodes = ()) -> None:
        self.fleet: FleetState = fleet(a=[], b=b, c=c)
        self.ledger = QuotaLedger(tenants)
        self.scheduler = Scheduler(
            DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext(quota=self.ledger)), self.fleet
        )
        self.pod_info = pod("web").uid("uid-web").cpu("300m").memory("1Mi").priority(10).placed()

    def schedule(self, *said: ClusterRefusal) -> Result:
        placed = type(self.pod_info)(self.pod_info.pod, "a", said)
        return self.scheduler.schedule(placed, WEB)

    def taken(self, cluster: str, name: str) -> int:
        """Milli-CPU that is held on a node."""
        row, column = self.fleet.row_of(cluster, name), self.fleet.axis.column("cpu")
        assert row is not None
        assert column is not None
        return int(self.fleet.requested[column, row])


def tenant(cpu: int) -> Tenant:
    return Tenant("all", ("default",), {"cpu": Share(absolute=cpu)})


# nodes of cluster b and of cluster c -> where the pod goes
PLACES: dict[str, tuple[dict[str, str], dict[str, str], tuple[str, str] | None]] = {
    "its asked size fits alone": ({"b1": "500m"}, {}, None),
    "one node has room for its true size": ({"b1": "500m", "b2": "800m"}, {}, ("b", "b2")),
    "another cluster leaves it as it is": ({"b1": "500m"}, {"c1": "300m"}, ("c", "c1")),
}


@pytest.mark.parametrize("case", PLACES)
def test_nodes_are_filtered_and_booked_by_the_true_size_there(case: str) -> None:
    in_b, in_c, found = PLACES[case]
    b, c = ([node(one).cpu(cpu) for one, cpu in held.items()] for held in (in_b, in_c))
    world = World(b=b, c=c)
    result = world.schedule(larger())
    assert ((result.cluster, result.node) if isinstance(result, Decision) else None) == found
    if found is not None:
        assert world.taken(*found) == (800 if found[0] == "b" else 300)
        world.scheduler.forget(WEB)
        assert world.taken(*found) == 0


def test_the_reason_names_what_lacks_for_the_true_size() -> None:
    small = fleet(b=[node("small").cpu("500m"), node("large").cpu("800m")], c=[node("small").cpu("500m")])
    asked = type(pod().placed())(pod().cpu("300m").build(), "a", (larger(),))
    assert reasons(make("NodeResourcesFit"), asked, small) == {"b/small": "Insufficient cpu"}
    assert reasons(make("ClusterRefused"), asked, small) == {}


@pytest.mark.parametrize(("size", "victims"), [(300, ["low-1"]), (500, ["low-1"]), (800, ["low-1", "low-2"])])
def test_as_many_are_evicted_as_the_true_size_needs_and_that_room_is_promised(size: int, victims: list[str]) -> None:
    world = World(b=[node("b1").cpu("1")])
    for name in ("low-1", "low-2"):
        put(world.fleet, pod(name).cpu("500m"), "b", "b1")
    result = world.schedule(*(larger(size),) if size > 300 else ())
    assert isinstance(result, Unschedulable)
    assert len(result.victims) == len(victims)
    seat = world.fleet.occupant(nominee_id(WEB))
    assert seat is not None
    assert seat.pod_info.pod.requests["cpu"] == size


def test_nobody_is_evicted_where_the_true_size_never_fits() -> None:
    world = World(b=[node("b1").cpu("500m")])
    put(world.fleet, pod("low").cpu("500m"), "b", "b1")
    result = world.schedule(larger())
    assert isinstance(result, Unschedulable)
    assert (result.victims, len(world.scheduler.nominations)) == ((), 0)


def test_room_promised_by_the_true_size_is_taken_by_nobody_of_lower_priority() -> None:
    world = World(b=[node("b1").cpu("1")])
    put(world.fleet, pod("low").cpu("1"), "b", "b1")
    assert isinstance(world.schedule(larger()), Unschedulable)
    world.fleet.remove(("a", "uid-low"))
    thief = pod("thief").cpu("300m").placed()
    assert isinstance(world.scheduler.schedule(thief, ("a", "uid-thief")), Unschedulable)
    assert isinstance(world.schedule(larger()), Decision)


# quota of cpu -> cluster where the pod goes, what is charged
QUOTAS: list[tuple[int, str | None, int]] = [(800, "b", 800), (799, "c", 300), (300, "c", 300), (299, None, 0)]


@pytest.mark.parametrize(("quota", "cluster", "charged"), QUOTAS)
def test_quota_is_asked_for_the_size_in_the_cluster_of_the_place(quota: int, cluster: str | None, charged: int) -> None:
    world = World([tenant(quota)], b=[node("b1").cpu("64")], c=[node("c1").cpu("1")])
    result = world.schedule(larger())
    assert (result.cluster if isinstance(result, Decision) else None) == cluster
    assert world.ledger.usage("all").get("cpu", 0) == charged


def test_a_cluster_without_quota_for_the_true_size_costs_nobody_their_place_and_quota_that_comes_free_helps() -> None:
    world = World([tenant(700)], b=[node("b1").cpu("1")])
    put(world.fleet, pod("low").cpu("1"), "b", "b1")
    result = world.schedule(larger())
    assert isinstance(result, Unschedulable)
    assert result.victims == ()
    assert "quota" in {one.name for one in result.reasons}
    assert "quota exceeded: tenant all: cpu asked 800m" in result.full_message


# --- what is remembered ----------------------------------------------------------------------------------------------


def told(memory: Refusals, now: float) -> list[tuple[str, tuple[tuple[str, int], ...]]]:
    return [(one.cluster, one.requests) for one in memory.about(WEB, a_pod(), now)]


def test_of_several_sizes_the_largest_counts_for_fifteen_minutes_after_the_last() -> None:
    memory = Refusals(30, 900)
    for at, cpu in ((0, 600), (10, 800), (20, 700)):
        memory.note_size(WEB, a_pod(), "west", {"cpu": cpu}, at)
    assert told(memory, 919) == [("west", (("cpu", 800),))]
    assert told(memory, 920) == []
    assert memory.ended(920) == [WEB]
    assert not memory


def test_a_size_that_is_no_larger_than_what_is_asked_is_none() -> None:
    memory = Refusals(30, 900)
    memory.note_size(WEB, a_pod(), "west", {"cpu": 100}, 0)
    assert not memory


def test_a_namespace_that_changes_ends_the_size_there() -> None:
    memory = Refusals(30, 900)
    memory.note_size(WEB, a_pod(), "west", {"cpu": 600}, 0)
    assert told(memory, 1)
    assert memory.namespace_changed("west", "default") == [WEB]
    assert not memory


# --- the core --------------------------------------------------------------------------------------------------------


def refuse_for_size(core: Told, cpu: int) -> None:
    core.answer(Claim, CLAIMED)
    cluster, intent = core.take(CreateDelegate)
    outcome = Outcome(intent.id, intent.pod.uid, intent.epoch, REFUSED, "larger", b"", "", {"cpu": cpu}, OF_CLUSTER)
    core.handle(Answered(cluster, (outcome,)))
    core.answer(Unclaim, DONE)
    core.tick()


def test_a_pod_too_large_for_the_best_node_goes_at_once_to_another_node_of_that_cluster() -> None:
    core = Told(annotations={"global-dispatcher.io/clusters": "west"})
    full = Node("west-2", ready=True, allocatable={"cpu": 10_000, "memory": 2**33, "pods": 20})
    other = Pod("uid-other", "default", "other", node="west-2", requests={"cpu": 5000})
    core.report("west", nodes=(full,), pods=(other,))
    refuse_for_size(core, 4500)
    claim = core.take(Claim)[1]
    assert (claim.cluster, claim.node) == ("west", "west-2")  # type: ignore[attr-defined]
    occupant = core.core.fleet.occupant(("home", "uid-web"))
    assert occupant is not None
    assert occupant.pod_info.pod.requests["cpu"] == 4500
    claimed = msgspec.structs.replace(core.pod, claim=Claimed("west", "west-2", claim.epoch))
    core.report("home", pods=(claimed,))  # the watch shows the claim, and no delegate yet
    assert core.core.fleet.occupant(("home", "uid-web")).pod_info.pod.requests["cpu"] == 4500  # type: ignore[union-attr]


def attempts_at_once(core: Told, cpu: int, at_most: int) -> int:
    """How often the pod is sent without a pause to a cluster whose webhook adds 100m more each time."""
    for attempt in range(at_most):
        if not any(isinstance(one, Claim) for _, one in core.sent):
            return attempt
        refuse_for_size(core, cpu + 100 * attempt)
    return at_most


def test_a_webhook_that_makes_a_pod_larger_each_time_has_its_cluster_passed_over_ever_longer() -> None:
    core = Told(annotations={"global-dispatcher.io/clusters": "west"})
    assert attempts_at_once(core, 200, 30) == 5
    ((_, report),) = core.sent
    said = "cluster west refused it: larger; it was larger than the time before 4 times in a row"
    assert said in report.message  # type: ignore[attr-defined]
    (told_of,) = [one for one in core.explained()["refusals"] if one["message"].startswith("larger")]  # type: ignore[attr-defined]
    assert (told_of["cluster"], told_of["again_in_s"]) == ("west", 30.0)
    core.sent = []
    core.tick(29.0)
    assert not core.sent
    core.tick(1.0)
    assert attempts_at_once(core, 5000, 30) == 1
    core.sent = []
    core.tick(59.0)
    assert not core.sent
    core.tick(1.0)
    assert core.sent


def test_another_cluster_is_chosen_at_once_where_the_best_makes_the_pod_larger_each_time() -> None:
    core = Told()
    for cpu in range(200, 700, 100):
        refuse_for_size(core, cpu)
    assert core.take(Claim)[1].cluster == "east"  # type: ignore[attr-defined]


def test_a_profile_that_does_not_heed_refusals_pauses_before_a_webhook_that_adds_more_each_time() -> None:
    core = Told(annotations={"global-dispatcher.io/clusters": "west"})
    for scheduler in core.core.profiles:
        plugin = next(one for one in scheduler.plan.plugins if one.name == "ClusterRefused")
        plugin.pre_filter = lambda *_: SKIP  # type: ignore[method-assign]
    assert attempts_at_once(core, 200, 30) == 6


def test_replicas_that_were_sent_at_once_and_made_unequal_do_not_count_as_growing() -> None:
    memory, owner = Refusals(30, 900), "ReplicaSet/web/uid-rs"
    for number, cpu in enumerate(range(600, 1600, 100)):
        one = a_pod(f"web-{number}", owner)
        memory.note(("home", one.uid), one, in_flight(IntentKind.CREATE, "west"), made_larger(cpu), 0)
    known = memory.known(("home", "uid-web"), a_pod(owner=owner), 1)
    assert [(one.cluster, one.requests) for one in known] == [("west", (("cpu", 1500),))]


def made_larger(cpu: int) -> Outcome:
    return Outcome("1", "uid-web", 1, REFUSED, "larger", requests={"cpu": cpu}, scope=OF_CLUSTER)


def test_a_pod_of_no_tenant_may_be_bound_in_whatever_size_fits() -> None:
    core = Told()
    core.answer(Claim, CLAIMED)
    assert core.take(CreateDelegate)[1].at_most == {}  # type: ignore[attr-defined]


def test_a_pod_under_quota_may_be_no_larger_than_what_was_booked_and_is_sent_again_with_its_true_size() -> None:
    core = Told(ledger=QuotaLedger([tenant(2000)]))
    core.answer(Claim, CLAIMED)
    cluster, intent = core.take(CreateDelegate)
    assert intent.at_most == {"cpu": 100}  # type: ignore[attr-defined]
    outcome = Outcome(intent.id, intent.pod.uid, intent.epoch, REFUSED, "larger", b"", "", {"cpu": 600}, OF_CLUSTER)
    core.handle(Answered(cluster, (outcome,)))
    core.answer(Unclaim, DONE)
    core.tick()
    core.answer(Claim, CLAIMED)
    assert core.take(CreateDelegate)[1].at_most == {"cpu": 600}  # type: ignore[attr-defined]
