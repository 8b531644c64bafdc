"""Judges find what they are there for, and say nothing of what is promised: told to them write by write."""

from types import SimpleNamespace
from typing import Any

import pytest

from shared.model.tenant import Share, Tenant
from tests.simulation.acts import plain_pod, spread_by_zone
from tests.simulation.faults import OF_TEAM, OF_WEST, team
from tests.simulation.judges import groups, tolerations
from tests.simulation.judges.copies import Collected, NothingLost, OnceAnAttempt, SourceOutlives
from tests.simulation.judges.court import Judge
from tests.simulation.judges.facts import CLAIM, EPOCH, PREFIX, PROXY, SOURCE_UID, Facts
from tests.simulation.judges.limits import limits_of
from tests.simulation.judges.progress import GoesElsewhere
from tests.simulation.judges.protocol import CalmIsCalm, LostIsNotReady, WellIsReady
from tests.simulation.judges.room import NobodyWaits, QuotaKept
from tests.simulation.judges.spread import NoCascade, SpreadKept
from tests.simulation.world.apiserver import NAMESPACES, NODES, ApiServer
from tests.simulation.world.fleet import Sizes
from tests.simulation.world.kubelet import Container
from tests.simulation.world.objects import Object, place_of
from tests.simulation.world.store import Write

AGENT = "agent/west/1 dispatcher/1#1"
NOTHING = SimpleNamespace(all=lambda resource: ())
TREE = (
    Tenant("all", (), {"cpu": Share(absolute=400)}),
    Tenant("east", ("east/team",), {"cpu": Share(absolute=200)}, "all", {"cpu": Share(absolute=100)}),
    Tenant("rest", ("north/team",), {}, "all"),
)
OF_TRAIN = {"group": "train", "group-min": "3"}
TEAM = (Tenant("team", ("team",), {"cpu": Share(absolute=600)}),)


class Scene:
    """A fleet of nothing but a clock, and what judges hear."""

    def __init__(self, judge: type[Judge]) -> None:
        self.now = 1_000.0
        loop = SimpleNamespace(time=lambda: self.now)
        self.there: list[tuple[str, Object]] = []
        alive = SimpleNamespace(dispatcher=object(), lives=1, process=SimpleNamespace(paused=False))
        north = SimpleNamespace(
            api=SimpleNamespace(kept=self._kept, store=NOTHING), agent=SimpleNamespace(agent=object(), second=None)
        )
        fleet: Any = SimpleNamespace(
            loop=loop, now=0.0, sizes=Sizes(tenants=TEAM), clusters={"north": north}, pods=lambda: self.there
        )
        fleet.dispatchers = {"dispatcher": alive}
        fleet.lease_wire = SimpleNamespace(weather=SimpleNamespace(down=False))
        fleet.tenants_before = []
        fleet.lost, fleet.ordered, fleet.kept, fleet.ranks, fleet.heard = {}, {}, {}, {"dispatcher/1#1": 0}, {}
        fleet.placed = {}
        self.fleet, self.facts = fleet, Facts(fleet)
        self.judge = judge(fleet, self.facts)

    def _kept(self, path: str) -> Any:
        if place_of(path).resource == NAMESPACES:
            return SimpleNamespace(obj={"metadata": {}})
        found = [pod for _, pod in self.there if path.endswith(f"/pods/{pod['metadata']['name']}")]
        return SimpleNamespace(obj=found[0]) if found else None

    def write(self, cluster: str, actor: str, verb: str, before: Object | None, after: Object | None) -> None:
        meta = (after or before or {})["metadata"]
        place = place_of(f"{NAMESPACES}/{meta['namespace']}/pods/{meta['name']}")
        write = Write(self.now, cluster, 1, actor, verb, place, before, after)
        self.facts.wrote(write)
        self.judge.wrote(write)

    def pass_s(self, seconds: float) -> None:
        """Time goes by."""
        self.now += seconds
        self.judge.tick(self.now)

    def source(self, name: str, cpu: int = 300, marks: dict[str, str] | None = None) -> Object:
        """A user's pod in cluster north, claimed a moment later."""
        pod = plain_pod(name, "team", cpu, **(marks or {}))
        pod["metadata"]["uid"], pod["status"] = f"uid-{name}", {}
        self.write("north", "user", "create", None, pod)
        claimed = {**pod, "metadata": {**pod["metadata"], "annotations": {CLAIM: "west"}}}
        self.write("north", "agent/north/1 dispatcher/1#1", "patch", pod, claimed)
        self.there.append(("north", claimed))
        return claimed

    def bind(self, of: Object, uid: str, *, cpu: int = 300, attempt: str = "7", cluster: str = "west") -> Object:
        """Its copy in another cluster, bound by our executor."""
        copy = plain_pod(f"{of['metadata']['name']}-copy", "team", cpu, scheduler="other")
        marks = {SOURCE_UID: of["metadata"]["uid"], EPOCH: attempt}
        copy["metadata"] |= {"uid": uid, "annotations": marks}
        copy["status"] = {}
        self.write(cluster, AGENT, "create", None, copy)
        bound = {**copy, "spec": {**copy["spec"], "nodeName": f"{cluster}-0"}}
        self.write(cluster, AGENT, "bind", copy, bound)
        return bound


@pytest.mark.parametrize(("attempt", "found"), [("7", 1), ("8", 0)], ids=["the same attempt", "a newer one"])
def test_a_second_copy_of_one_attempt_is_found(attempt: str, found: int) -> None:
    scene = Scene(OnceAnAttempt)
    source = scene.source("a")
    scene.bind(source, "first", attempt="7")
    scene.bind(source, "second", attempt=attempt)
    assert len(scene.judge.found) == found


def test_what_a_webhook_added_counts_for_decisions_once_it_could_be_seen() -> None:
    scene = Scene(QuotaKept)
    early = [scene.source("a"), scene.source("b")]
    for number, source in enumerate(early):  # each grows by 200m: nobody knew
        scene.bind(source, f"copy-{number}", cpu=500)
    assert not scene.judge.found
    scene.now += 60.0
    late = scene.source("c", cpu=100)
    scene.bind(late, "copy-late", cpu=100)
    assert len(scene.judge.found) == 1


def test_the_limits_of_a_tree_are_sums_of_what_its_tenants_were_given() -> None:
    found = [(one.name, one.most, one.owns("east", "team"), one.owns("north", "team")) for one in limits_of(TREE)]
    assert found == [("all", 600, True, True), ("east", 300, True, False)]


@pytest.mark.parametrize("tenants", [TEAM, TREE], ids=["one tenant", "a tree"])
def test_more_than_the_quota_is_found_whatever_was_known(tenants: tuple[Tenant, ...]) -> None:
    scene = Scene(QuotaKept)
    scene.fleet.sizes = Sizes(tenants=tenants)
    for number, name in enumerate(("a", "b", "c")):
        scene.bind(scene.source(name), f"copy-{number}")
    assert len(scene.judge.found) == 1


@pytest.mark.parametrize(
    ("later_s", "second", "found"),
    [(2.0, None, 0), (12.0, None, 1), (60.0, None, 1), (12.0, object(), 0), (60.0, object(), 1)],
    ids=["decided before", "soon", "decided since", "soon, by one of two executors", "since, by one of two executors"],
)
def test_what_is_decided_once_tenants_have_changed_is_held_to_these(later_s: float, second: object, found: int) -> None:
    """What runs already may be more than they let it."""
    scene = Scene(QuotaKept)
    scene.fleet.clusters["north"].agent.second = second
    for name in ("a", "b"):
        scene.bind(scene.source(name), f"copy-{name}")
    scene.fleet.tenants_before.append((scene.now, (Tenant("team", ("team",), {"cpu": Share(absolute=900)}),)))
    scene.now += later_s
    scene.bind(scene.source("c"), "copy-c")
    assert len(scene.judge.found) == found


@pytest.mark.parametrize(("later_s", "found"), [(100.0, 0), (900.0, 1)], ids=["not asked for twice", "asked for twice"])
def test_an_orphan_that_a_restore_brought_back_is_to_be_collected_in_time(later_s: float, found: int) -> None:
    scene = Scene(Collected)
    source = scene.source("a")
    copy = scene.bind(source, "copy")
    scene.there[:] = [("west", copy)]  # its source has ended, and it is back
    scene.facts.revived.add("copy")
    scene.facts.restored["west"] = scene.now
    scene.now += later_s
    scene.judge.at_end()
    assert len(scene.judge.found) == found


REFUSED, FULL = "1 cluster that refused the pod", "0/3 nodes are available"


@pytest.mark.parametrize(
    ("words", "of_another", "placed", "found"),
    [
        ((REFUSED,), "", False, 0),
        ((REFUSED, FULL), "", False, 0),
        ((REFUSED,), "", True, 1),
        ((REFUSED,), "train", False, 0),
        ((REFUSED,), "other", False, 1),
        ((FULL,), "", False, 1),
    ],
    ids=["refused", "and then told otherwise", "it had a place since", "one of its group", "of another group", "full"],
)
def test_a_copy_made_in_calm_is_found_unless_its_pod_was_refused(
    words: tuple[str, ...], of_another: str, placed: bool, found: int
) -> None:
    scene = Scene(CalmIsCalm)
    source = scene.source("a", marks=OF_TRAIN)
    told = scene.source("b", marks=OF_TRAIN | {"group": of_another}) if of_another else source
    for message in words:
        status = {"conditions": [{"type": "PodScheduled", "status": "False", "message": message}]}
        scene.write("north", AGENT, "patch status", told, told := {**told, "status": status})
    if placed:
        scene.write("north", AGENT, "bind", told, {**told, "spec": {**told["spec"], "nodeName": "north-0"}})
    scene.facts.calm_since = scene.now
    scene.now += 1.0
    scene.bind(source, "copy")
    assert len(scene.judge.found) == found


@pytest.mark.parametrize(
    ("told_s", "restored_s", "found"),
    [(None, None, 1), (None, 20.0, 1), (10.0, 20.0, 0), (10.0, 5.0, 1)],
    ids=["never told", "restored before it was told", "told and then restored", "told after the restore"],
)
def test_a_pod_that_waits_without_a_word_is_found_unless_a_restore_took_it_back(
    told_s: float | None, restored_s: float | None, found: int
) -> None:
    scene = Scene(NothingLost)
    source = scene.source("a")
    fact = scene.facts.pods[source["metadata"]["uid"]]
    fact.told = told_s if told_s is not None else fact.told
    if restored_s is not None:
        scene.facts.restored["north"] = restored_s
    scene.judge.at_end()
    assert len(scene.judge.found) == found


def test_a_pod_is_told_when_the_reason_is_written_and_not_with_each_write_after_that() -> None:
    scene = Scene(NothingLost)
    source = scene.source("a")
    words = {"conditions": [{"type": "PodScheduled", "status": "False", "message": "no room"}]}
    told_at = scene.now
    scene.write("north", AGENT, "patch status", source, {**source, "status": words})
    scene.now += 10.0
    scene.write("north", "hostile", "patch", {**source, "status": words}, {**source, "status": words})
    assert scene.facts.pods["uid-a"].told == told_at


@pytest.mark.parametrize(
    ("writer", "found"),
    [("agent/north/1 dispatcher/1#1", 1), ("hostile", 0)],
    ids=["claimed by the product", "a user wrote what looks like a claim"],
)
def test_a_pod_claimed_for_a_lost_cluster_is_to_go_elsewhere_if_the_product_claimed_it(writer: str, found: int) -> None:
    scene = Scene(GoesElsewhere)
    pod = plain_pod("a", "team", 300)
    pod["metadata"]["uid"], pod["status"] = "uid-a", {}
    claimed = {**pod, "metadata": {**pod["metadata"], "annotations": {CLAIM: "west"}}}
    scene.write("north", "user", "create", None, pod)
    scene.write("north", writer, "patch", pod, claimed)
    told = {**claimed, "status": {"phase": "Pending"}}
    scene.write("north", "agent/north/1 dispatcher/1#1", "patch status", claimed, told)
    scene.there.append(("north", told))
    scene.fleet.lost["west"] = 30.0
    scene.judge.tick(100.0)
    assert len(scene.judge.found) == found


@pytest.mark.parametrize(
    ("began", "found"), [(None, 1), (90.0, 0), (30.0, 1)], ids=["one leader", "a new one", "a new one, long ago"]
)
def test_a_pod_in_a_lost_cluster_is_not_to_stay_ready_counted_from_when_the_leader_began(
    began: float | None, found: int
) -> None:
    scene = Scene(LostIsNotReady)
    pod = scene.source("a")
    pod["spec"]["nodeName"], pod["status"] = f"{PROXY}west", {"conditions": [{"type": "Ready", "status": "True"}]}
    scene.fleet.lost["west"] = 20.0
    for now in range(136):
        if now == began:
            scene.fleet.ranks["dispatcher/2#2"] = 1
        scene.judge.tick(float(now))
    assert len(scene.judge.found) == found


@pytest.mark.parametrize(
    ("reason", "trouble", "found"),
    [("NodeStatusUnknown", "", 1), ("NodeStatusUnknown", "west", 0), ("KubeletNotReady", "", 0)],
    ids=["no sign of life of a cluster that is well", "of one that was lost", "its agent says so"],
)
def test_a_proxy_node_of_a_cluster_that_is_well_is_not_to_be_lost(reason: str, trouble: str, found: int) -> None:
    scene = Scene(WellIsReady)
    scene.fleet.members = dict.fromkeys(("north", "west"))
    if trouble:
        scene.facts.trouble[trouble] = scene.fleet.loop.time()
    node = {"metadata": {"name": f"{PROXY}west", "uid": "proxy"}}
    lost = {**node, "status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": reason}]}}
    place = place_of(f"{NODES}/{PROXY}west")
    scene.judge.wrote(Write(scene.now, "north", 1, "node-lifecycle", "patch status", place, node, lost))
    assert len(scene.judge.found) == found


@pytest.mark.parametrize(
    ("hard", "wests", "claimed", "heard", "found"),
    [
        (True, 1, None, True, 0),
        (True, 2, None, True, 1),
        (False, 2, None, True, 0),
        (True, 2, 0.5, True, 0),
        (True, 2, 60.0, True, 1),
        (True, 2, None, False, 0),
    ],
    ids=[
        "one each at most",
        "two here and none there",
        "no hard spread",
        "a third is on its way there",
        "a third is sent there much later",
        "the dispatcher never heard of there",
    ],
)
def test_a_pod_bound_against_its_hard_spread_is_found(
    hard: bool, wests: int, claimed: float | None, heard: bool, found: int
) -> None:
    scene = Scene(SpreadKept)
    scene.fleet.clusters["west"] = scene.fleet.clusters["north"]
    scene.fleet.heard, scene.fleet.closed = {"dispatcher/1#1": {"north", "west"} if heard else {"west"}}, set()
    pods = [plain_pod(f"a{number}", "team", 300) for number in range(wests + 1)]
    for number, pod in enumerate(pods):
        pod["metadata"]["uid"], pod["status"] = f"uid-a{number}", {}
        if hard:
            pod["spec"]["topologySpreadConstraints"] = [spread_by_zone("a")]
        scene.write("north", "user", "create", None, pod)
    for number, pod in enumerate(pods[:wests]):
        scene.bind(pod, f"copy-{number}")
    if claimed is not None:
        scene.pass_s(claimed)
        last = pods[-1]
        marked = {**last, "metadata": {**last["metadata"], "annotations": {CLAIM: "north"}}}
        scene.write("west", AGENT, "patch", last, marked)
    scene.pass_s(10.0)
    assert len(scene.judge.found) == found


@pytest.mark.parametrize("why", ["its namespace is closed there", "it has refused another pod of the application"])
def test_a_pod_is_not_to_wait_for_a_zone_that_it_may_not_enter(why: str) -> None:
    scene = Scene(SpreadKept)
    scene.fleet.clusters["west"] = scene.fleet.clusters["north"]
    scene.fleet.heard = {"dispatcher/1#1": {"north", "west"}}
    scene.fleet.closed = {("north", "team")} if "closed" in why else set()
    pods = [plain_pod(f"a{number}", "team", 300) for number in range(3)]
    for number, pod in enumerate(pods):
        pod["metadata"]["uid"], pod["status"] = f"uid-a{number}", {}
        pod["spec"]["topologySpreadConstraints"] = [spread_by_zone("a")]
        scene.write("north", "user", "create", None, pod)
    if "refused" in why:
        scene.fleet.ordered["north", "uid-a2"] = scene.now - 1.0
    for number, pod in enumerate(pods[:2]):
        scene.bind(pod, f"copy-{number}")
    scene.pass_s(10.0)
    assert not scene.judge.found


@pytest.mark.parametrize(
    ("lost", "by", "found"),
    [
        (("west", "east"), "taint-eviction", 1),
        (("west", "east"), "user", 0),
        (("west",), "taint-eviction", 0),
        (("west", "east", "north"), "taint-eviction", 0),
    ],
    ids=["two of three are lost", "its owner deletes it", "one is lost", "its own is lost, too"],
)
def test_a_pod_that_is_replaced_while_most_clusters_are_lost_is_found(
    lost: tuple[str, ...], by: str, found: int
) -> None:
    scene = Scene(NoCascade)
    scene.fleet.clusters |= dict.fromkeys(("west", "east"), scene.fleet.clusters["north"])
    pod = scene.source("a")
    bound = {**pod, "spec": {**pod["spec"], "nodeName": f"{PROXY}west"}}
    scene.write("north", "agent/north/1 dispatcher/1#1", "bind", pod, bound)
    scene.fleet.lost.update(dict.fromkeys(lost, 20.0))
    going = {**bound, "metadata": {**bound["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    scene.write("north", by, "delete", bound, going)
    assert len(scene.judge.found) == found


@pytest.mark.parametrize(
    ("hard", "sidecar", "limit", "found"),
    [(False, 0, 600, 1), (True, 0, 600, 0), (False, 200, 800, 1), (False, 200, 600, 0)],
    ids=["there is room", "its spread forbids it", "room for it and its sidecar", "its sidecar is above the quota"],
)
def test_a_pod_that_waits_beside_room_is_found_unless_spread_or_quota_speak_against_it(
    hard: bool, sidecar: int, limit: int, found: int
) -> None:
    scene = Scene(NobodyWaits)
    tenant = Tenant("team", ("team",), {"cpu": Share(absolute=limit)})
    scene.fleet.sizes = Sizes(tenants=(tenant,))
    west, east = ApiServer("west", lambda: 0.0, lambda: 0.0, ()), ApiServer("east", lambda: 0.0, lambda: 0.0, ())
    west.add_namespace("team")
    west.ask("kubelet", "POST", NODES, {"metadata": {"name": "west-0"}, "spec": {}})
    ready = {"allocatable": {"cpu": "1000m"}, "conditions": [{"type": "Ready", "status": "True"}]}
    west.ask("kubelet", "PATCH", f"{NODES}/west-0/status", {"status": ready})
    scene.fleet.clusters |= {"west": SimpleNamespace(api=west), "east": SimpleNamespace(api=east)}
    scene.fleet.sidecars, scene.fleet.closed = {("west", "team"): sidecar}, set()
    scene.fleet.meddled, scene.fleet.misled = set(), set()
    first, waits = (plain_pod(f"a-{number}", "team", 300, clusters="west") for number in range(2))
    for pod in (first, waits):
        pod["metadata"] |= {"uid": f"uid-{pod['metadata']['name']}", "labels": {"app": "a"}}
        pod["status"] = {}
        if hard:
            pod["spec"]["topologySpreadConstraints"] = [spread_by_zone("a")]
        scene.write("north", "user", "create", None, pod)
    bound = scene.bind(first, "copy")
    bound["metadata"]["labels"] = {"app": "a"}
    scene.there = [("west", bound), ("north", waits)]
    scene.judge.at_end()
    assert len(scene.judge.found) == found


@pytest.mark.parametrize(
    ("priority", "cpu", "marks", "found"),
    [
        (10, 600, {}, 0),
        (0, 600, {}, 1),
        (10, 300, {}, 2),
        (10, 900, {}, 1),
        (10, 600, {"group": "g", "group-min": "2"}, 1),
    ],
    ids=[
        "before it",
        "no more important",
        "it waits beside room, too",
        "more than was given",
        "of an incomplete group",
    ],
)
def test_a_pod_waits_for_those_of_higher_priority_of_its_tenant_that_wait_for_quota(
    priority: int, cpu: int, marks: dict[str, str], found: int
) -> None:
    scene = Scene(NobodyWaits)
    scene.fleet.sizes = Sizes(tenants=(Tenant("team", ("team",), {"cpu": Share(absolute=800)}),))
    west = ApiServer("west", lambda: 0.0, lambda: 0.0, ())
    west.add_namespace("team")
    west.ask("kubelet", "POST", NODES, {"metadata": {"name": "west-0"}, "spec": {}})
    ready = {"allocatable": {"cpu": "9"}, "conditions": [{"type": "Ready", "status": "True"}]}
    west.ask("kubelet", "PATCH", f"{NODES}/west-0/status", {"status": ready})
    scene.fleet.clusters |= {"west": SimpleNamespace(api=west)}
    scene.fleet.sidecars, scene.fleet.closed, scene.fleet.meddled, scene.fleet.misled = {}, set(), set(), set()
    important, waits = (
        plain_pod("important", "team", cpu, clusters="west", **marks),
        plain_pod("waits", "team", 200, clusters="west"),
    )
    important["spec"]["priority"] = priority
    for pod in (important, waits):
        pod["metadata"]["uid"], pod["status"] = f"uid-{pod['metadata']['name']}", {}
        scene.write("north", "user", "create", None, pod)
    bound = scene.bind(scene.source("runs"), "copy")
    scene.there[:] = [("west", bound), ("north", important), ("north", waits)]
    scene.judge.at_end()
    assert len(scene.judge.found) == found


@pytest.mark.parametrize(
    ("taken", "found"), [(False, 1), (True, 0)], ids=["its pod was deleted", "and then a restore took the rest of it"]
)
def test_a_copy_whose_source_was_deleted_is_to_be_collected_unless_a_restore_took_the_source(
    taken: bool, found: int
) -> None:
    scene = Scene(Collected)
    source = scene.source("a")
    copy = scene.bind(source, "copy")
    going = {**source, "metadata": {**source["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    scene.write("north", "user", "delete", source, going)
    scene.there[:] = [("west", copy)]
    if taken:
        scene.fleet.clusters["north"].api.pods = list
        scene.facts.went_back("north")
    scene.judge.at_end()
    assert len(scene.judge.found) == found


@pytest.mark.parametrize(("taken", "found"), [(False, 1), (True, 0)], ids=["runs", "a restore took it"])
def test_a_source_that_goes_before_its_copy_is_found_unless_a_restore_took_the_copy(taken: bool, found: int) -> None:
    scene = Scene(SourceOutlives)
    scene.fleet.meddled = set()
    source = scene.source("a")
    scene.bind(source, "copy")
    on_proxy = {**source, "spec": {**source["spec"], "nodeName": f"{PROXY}west"}}
    scene.write("north", "agent/north/1 dispatcher/1#1", "bind", source, on_proxy)
    scene.facts.started("west", Container("copy", "copy", "west-0", 300, 0.0, 30.0))
    if taken:
        scene.fleet.clusters["west"] = SimpleNamespace(api=SimpleNamespace(pods=list, store=NOTHING))
        scene.facts.went_back("west")
    scene.write("north", "agent/north/1 dispatcher/1#1", "gone", on_proxy, None)
    assert len(scene.judge.found) == found


@pytest.mark.parametrize(
    ("by", "marks", "found"),
    [
        ("hostile", {}, 0),
        ("hostile", {f"{PREFIX}claim": "c", f"{PREFIX}delegate-proof": "p"}, 1),
        ("", {}, 1),
    ],
    ids=["its proof was taken off", "another annotation was", "nobody touched it"],
)
@pytest.mark.parametrize(("is_", "shown"), [("Succeeded", "Running"), ("Running", "Pending")], ids=["ended", "started"])
def test_a_pod_that_shows_what_its_copy_was_before_is_found_unless_somebody_took_the_copys_marks_off(
    is_: str, shown: str, by: str, marks: dict[str, str], found: int
) -> None:
    scene = Scene(NothingLost)
    source = scene.source("a")
    bound = scene.bind(source, "copy")
    now = {**bound, "metadata": {**bound["metadata"], "annotations": marks}, "status": {"phase": is_}}
    scene.write("west", "kubelet", "patch status", bound, now)
    if is_ == "Running":
        scene.facts.running["copy"] = SimpleNamespace()  # type: ignore[assignment]
    told = {**source, "spec": {**source["spec"], "nodeName": f"{PROXY}west"}, "status": {"phase": shown}}
    scene.there[:] = [("north", told), ("west", now)]
    scene.fleet.clusters["west"] = scene.fleet.clusters["north"]
    scene.fleet.meddled = {f"{NAMESPACES}/team/pods/a-copy"} if by else set()
    scene.judge.at_end()
    assert len(scene.judge.found) == found


@pytest.mark.parametrize(
    ("hidden", "at_home", "found"),
    [("", True, 1), ("south", True, 0), ("south", False, 1), ("swapped", True, 0)],
    ids=["all are seen", "its home is not configured", "its copy there belongs to another", "another answers for it"],
)
def test_more_than_the_quota_is_found_unless_what_holds_it_runs_at_home_where_nobody_sees_it(
    hidden: str, at_home: bool, found: int
) -> None:
    scene = Scene(QuotaKept)
    wire = object()
    for name in ("north", "south", "west"):
        agent = SimpleNamespace(wire=object() if (hidden, name) == ("swapped", "south") else wire, second=None)
        scene.fleet.clusters[name] = SimpleNamespace(agent=agent, wire=wire)
    scene.fleet.members = {name: None for name in scene.fleet.clusters if name != hidden}
    home = "south" if at_home else "north"
    pod = plain_pod("big", "team", 400)
    pod["metadata"]["uid"], pod["status"] = "uid-big", {}
    scene.write(home, "user", "create", None, pod)
    if at_home:
        scene.write(home, AGENT, "bind", pod, {**pod, "spec": {**pod["spec"], "nodeName": "south-0"}})
    else:
        scene.bind(pod, "copy-big", cpu=400, cluster="south")
    scene.judge.tick(0.0)
    scene.bind(scene.source("a"), "copy-a")
    assert len(scene.judge.found) == found


@pytest.mark.parametrize(
    ("bound", "known", "s", "found"),
    [(2, 3, 30.0, 1), (2, 3, 5.0, 0), (0, 3, 30.0, 0), (3, 3, 30.0, 0), (2, 2, 30.0, 1)],
    ids=["two of three", "a moment ago", "none", "all", "before the third was made"],
)
def test_half_of_a_group_that_starts_is_found(bound: int, known: int, s: float, found: int) -> None:
    scene = Scene(groups.NeverHalfAGroup)
    pods = [scene.source(f"a{number}", marks=OF_TRAIN) for number in range(known)]
    for number, pod in enumerate(pods[:bound]):
        scene.bind(pod, f"copy-{number}")
    scene.now += 100.0  # what others did to the nodes is no excuse any more
    scene.judge.tick(0.0)
    scene.judge.tick(s)
    assert len(scene.judge.found) == found


def test_of_a_group_of_which_one_was_deleted_the_others_go_on() -> None:
    scene = Scene(groups.NeverHalfAGroup)
    pods = [scene.source(f"a{number}", marks=OF_TRAIN) for number in range(3)]
    for number, pod in enumerate(pods):
        scene.bind(pod, f"copy-{number}")
    scene.write("north", "user", "delete", pods[0], None)
    scene.now += 100.0
    scene.judge.tick(0.0)
    scene.judge.tick(30.0)
    assert not scene.judge.found


@pytest.mark.parametrize(("within", "found"), [("cluster", 1), ("fleet", 0)])
def test_a_group_in_two_clusters_is_found_unless_it_asks_for_no_domain(within: str, found: int) -> None:
    scene = Scene(groups.OneDomain)
    for number, cluster in enumerate(("west", "east")):
        pod = scene.source(f"a{number}", marks=OF_TRAIN | {"group-within": within})
        scene.bind(pod, f"copy-{number}", cluster=cluster)
    scene.pass_s(100.0)
    assert len(scene.judge.found) == found


@pytest.mark.parametrize(("s", "found"), [(60.0, 0), (200.0, 1)])
def test_a_claim_that_a_group_holds_for_long_is_found(s: float, found: int) -> None:
    scene = Scene(groups.HeldForAMoment)
    scene.source("a0", marks=OF_TRAIN)
    scene.now += s
    scene.judge.tick(200.0)
    assert len(scene.judge.found) == found


GIVEN, OTHER = ({"key": one.key, "operator": "Exists", "effect": "NoSchedule"} for one in (OF_TEAM, OF_WEST))


@pytest.mark.parametrize(
    ("has", "changed_s", "found"),
    [((), None, 1), ((GIVEN,), None, 0), ((OTHER,), None, 1), ((), 1.0, 0), ((), 30.0, 1)],
    ids=["nothing", "it", "another", "nothing, as it was given none a moment ago", "nothing, as it was long ago"],
)
def test_a_claim_without_what_the_tenant_gives_is_found(
    has: tuple[Object, ...], changed_s: float | None, found: int
) -> None:
    scene = Scene(tolerations.GivenFirst)
    scene.fleet.sizes = Sizes(tenants=team(600, "team", OF_TEAM))
    if changed_s is not None:
        scene.fleet.tenants_before = [(scene.now - changed_s, TEAM)]
    pod = plain_pod("a", "team", 300)
    pod["metadata"]["uid"], pod["status"], pod["spec"]["tolerations"] = "uid-a", {}, list(has)
    scene.write("north", "user", "create", None, pod)
    claimed = {**pod, "metadata": {**pod["metadata"], "annotations": {CLAIM: "west"}}}
    scene.write("north", AGENT, "patch", pod, claimed)
    assert len(scene.judge.found) == found


@pytest.mark.parametrize(
    ("by", "added", "found"), [(AGENT, GIVEN, 0), (AGENT, OTHER, 1), ("user", OTHER, 0)], ids=["given", "not", "own"]
)
def test_a_toleration_that_the_tenant_does_not_give_is_found(by: str, added: Object, found: int) -> None:
    scene = Scene(tolerations.GivenByTenant)
    scene.fleet.sizes = Sizes(tenants=team(600, "team", OF_TEAM))
    pod = scene.source("a")
    scene.write("north", by, "patch", pod, {**pod, "spec": {**pod["spec"], "tolerations": [added]}})
    assert len(scene.judge.found) == found
