"""What judges excuse, and that they excuse no more than that."""

from types import SimpleNamespace
from typing import Any

import pytest

from shared.model.tenant import ANY_PRIORITY, Share, Tenant
from tests.simulation.acts import plain_pod
from tests.simulation.judges.copies import NobodyKilled
from tests.simulation.judges.facts import CLAIM, PREFIX, PROXY
from tests.simulation.judges.protocol import CalmIsCalm, LostIsNotReady
from tests.simulation.judges.room import NobodyWaits
from tests.simulation.judges.spread import NoCascade
from tests.simulation.test_judges import AGENT, Scene
from tests.simulation.world.apiserver import NAMESPACES, NODES, ApiServer
from tests.simulation.world.fleet import Sizes
from tests.simulation.world.objects import Object


def going(pod: Object) -> Object:
    return {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


# seconds since a restore took each source (None: it is there) -> whether the end of the first one's copy is found
TAKEN: dict[str, tuple[tuple[float | None, ...], int]] = {
    "asked for twice": ((700.0, None, None, None), 0),
    "not asked for twice": ((100.0, None, None, None), 1),
    "many at once": ((700.0, 700.0, 700.0, None), 1),
    "one that a later restore took beside many": ((700.0, 900.0, 900.0, 900.0), 0),
    "one of each of two restores": ((700.0, 900.0, None, None), 1),
}


@pytest.mark.parametrize("case", TAKEN)
def test_the_end_of_a_copy_whose_source_a_restore_took_is_found_if_it_is_too_soon_or_of_many(case: str) -> None:
    ages, found = TAKEN[case]
    scene = Scene(NobodyKilled)
    copies = [scene.bind(scene.source(f"p{number}"), f"copy-{number}") for number in range(len(ages))]
    for number, age in enumerate(ages):
        scene.facts.running[f"copy-{number}"] = SimpleNamespace()  # type: ignore[assignment]
        if age is not None:
            fact = scene.facts.pods[f"uid-p{number}"]
            fact.gone, fact.doomed, fact.taken = True, "restore", scene.now - age
    scene.facts.restored["north"] = scene.now - 10.0  # the last one took none of these
    scene.write("west", AGENT, "delete", copies[0], going(copies[0]))
    assert len(scene.judge.found) == found


@pytest.mark.parametrize(
    ("back", "deleted", "found"),
    [(1, False, 1), (1, True, 0), (2, True, 0)],
    ids=["nobody deletes it", "it is deleted", "it is deleted, beside another one"],
)
def test_the_end_of_a_copy_whose_source_another_restore_brought_back_is_found_unless_that_is_deleted(
    back: int, deleted: bool, found: int
) -> None:
    scene = Scene(NobodyKilled)
    sources = [scene.source(f"p{number}") for number in range(back)]
    copies = [scene.bind(source, f"copy-{number}") for number, source in enumerate(sources)]
    for number in range(back):
        scene.facts.running[f"copy-{number}"] = SimpleNamespace()  # type: ignore[assignment]
        scene.facts.pods[f"uid-p{number}"].doomed = "restore"
    if deleted:
        scene.write("north", "namespace-controller", "delete", sources[0], going(sources[0]))
    scene.write("west", AGENT, "delete", copies[0], going(copies[0]))
    assert len(scene.judge.found) == found


@pytest.mark.parametrize(
    ("given", "priority", "ordered_s", "found"),
    [(300, 0, None, 1), (200, 0, None, 0), (300, 10, None, 0), (300, 0, 10.0, 0), (300, 0, 100.0, 1)],
    ids=[
        "which uses its own",
        "which has borrowed",
        "for a more important one of it that waits",
        "of which one more is under way",
        "of which one more was, long ago",
    ],
)
def test_a_copy_ends_for_quota_of_others_or_of_its_own_tenant(
    given: int, priority: int, ordered_s: float | None, found: int
) -> None:
    scene = Scene(NobodyKilled)
    team = Tenant("team", ("team",), {"cpu": Share(absolute=given)}, "all")
    scene.fleet.sizes = Sizes(tenants=(Tenant("all", (), {}, reclaim=ANY_PRIORITY), team))
    copy = scene.bind(scene.source("a"), "copy-a")
    scene.facts.running["copy-a"] = SimpleNamespace()  # type: ignore[assignment]
    scene.source("b")
    scene.facts.pods["uid-b"].priority = priority
    scene.fleet.placed = {"uid-b": scene.now - ordered_s} if ordered_s is not None else {}
    scene.write("west", AGENT, "delete", copy, going(copy))
    assert len(scene.judge.found) == found


@pytest.mark.parametrize(
    ("fenced", "copy_doomed", "found"),
    [(False, "", 1), (True, "", 0), (False, "admin", 0), (False, "lost", 1)],
    ids=["for no reason", "its cluster is fenced", "its copy was drained before", "its cluster burnt down, unfenced"],
)
def test_a_pod_may_be_let_go_while_most_clusters_are_lost_for_a_fence_or_an_end_before(
    fenced: bool, copy_doomed: str, found: int
) -> None:
    scene = Scene(NoCascade)
    scene.fleet.clusters |= dict.fromkeys(("west", "east"), scene.fleet.clusters["north"])
    pod = scene.source("a")
    scene.bind(pod, "copy")
    scene.facts.pods["copy"].doomed = copy_doomed
    bound = {**pod, "spec": {**pod["spec"], "nodeName": f"{PROXY}west"}}
    scene.write("north", AGENT, "bind", pod, bound)
    scene.fleet.lost.update({"west": 20.0, "east": 20.0})
    proxy = {"metadata": {"labels": {f"{PREFIX}fenced": "true"} if fenced else {}}}
    kept = SimpleNamespace(obj=proxy)
    scene.fleet.clusters["north"].api.kept = lambda path: kept if path == f"{NODES}/{PROXY}west" else None
    scene.write("north", AGENT, "delete", bound, going(bound))
    assert len(scene.judge.found) == found


@pytest.mark.parametrize(("leads", "found"), [(True, 1), (False, 0)], ids=["somebody leads", "nobody does"])
def test_where_nobody_leads_a_pod_in_a_lost_cluster_may_stay_ready(leads: bool, found: int) -> None:
    scene = Scene(LostIsNotReady)
    pod = scene.source("a")
    pod["spec"]["nodeName"], pod["status"] = f"{PROXY}west", {"conditions": [{"type": "Ready", "status": "True"}]}
    scene.fleet.lost["west"] = 20.0
    scene.fleet.dispatchers["dispatcher"].dispatcher = object() if leads else None
    for now in range(136):
        scene.judge.tick(float(now))
    assert len(scene.judge.found) == found


def told(pod: Object, message: str) -> Object:
    return {**pod, "status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": message}]}}


@pytest.mark.parametrize("words", ["1 cluster that refused the pod", "cluster west refused it: too large"])
@pytest.mark.parametrize(("offered_s", "found"), [(None, 1), (0.5, 0), (-10.0, 0), (-20.0, 1)])
def test_what_a_pod_is_told_in_calm_is_found_unless_another_was_offered(
    offered_s: float | None, found: int, words: str
) -> None:
    scene = Scene(CalmIsCalm)
    refused, other = scene.source("a"), scene.source("b")
    scene.facts.calm_since, scene.now = scene.now, scene.now + 100.0
    offers = [told(refused, f"{words}, attempt {number}") for number in range(2)]
    first, second = told(other, "used 600m"), told(other, "used 900m")
    if offered_s is not None and offered_s < 0:
        scene.write("north", AGENT, "patch status", *offers)
        scene.pass_s(-offered_s)
    scene.write("north", AGENT, "patch status", first, second)
    if offered_s is not None and offered_s > 0:
        scene.pass_s(offered_s)
        scene.write("north", AGENT, "patch status", *offers)
    scene.pass_s(5.0)
    assert len(scene.judge.found) == found


@pytest.mark.parametrize("claimed", [False, True], ids=["told alone", "claimed, too"])
def test_a_claim_in_calm_is_found_whoever_else_is_offered(claimed: bool) -> None:
    scene = Scene(CalmIsCalm)
    refused, other = scene.source("a"), scene.source("b")
    scene.facts.calm_since, scene.now = scene.now, scene.now + 1.0
    words = [told(refused, f"1 cluster that refused the pod, attempt {number}") for number in range(2)]
    scene.write("north", AGENT, "patch status", *words)
    if claimed:
        bare = {**other, "metadata": {**other["metadata"], "annotations": {}}}
        scene.write("north", AGENT, "patch", bare, other)
    scene.pass_s(5.0)
    assert len(scene.judge.found) == int(claimed)


@pytest.mark.parametrize(
    ("waited", "later_s", "found"),
    [(True, 1.0, 0), (True, 60.0, 1), (False, 1.0, 1)],
    ids=["it waited for that", "long after", "it had its place"],
)
def test_a_place_that_is_taken_in_calm_is_found_unless_an_orphan_has_just_left_it(
    waited: bool, later_s: float, found: int
) -> None:
    scene = Scene(CalmIsCalm)
    source, other = scene.source("a"), scene.source("b")
    copy = scene.bind(source, "copy")
    if not waited:
        scene.facts.pods["uid-b"].bound = scene.now
    scene.facts.calm_since, scene.now = scene.now + 1.0, scene.now + 2.0
    orphaned = scene.facts.pods["uid-a"]
    orphaned.gone, orphaned.doomed, orphaned.taken = True, "restore", scene.now
    scene.write("west", AGENT, "gone", copy, None)
    scene.pass_s(later_s)
    scene.write("north", AGENT, "patch", {**other, "metadata": {**other["metadata"], "annotations": {}}}, other)
    assert len(scene.judge.found) == found


@pytest.mark.parametrize(
    ("misled", "stripped", "found"),
    [(False, False, 1), (True, False, 0), (False, True, 0)],
    ids=["there is room", "the cluster trusts another by that name", "a copy without marks counts twice"],
)
def test_a_pod_that_waits_beside_room_is_found_unless_it_is_not_taken_there(
    misled: bool, stripped: bool, found: int
) -> None:
    scene = Scene(NobodyWaits)
    scene.fleet.sizes = SimpleNamespace(tenants=())
    west = ApiServer("west", lambda: 0.0, lambda: 0.0, ())
    west.add_namespace("team")
    west.ask("kubelet", "POST", NODES, {"metadata": {"name": "west-0"}, "spec": {}})
    ready: Any = {"allocatable": {"cpu": "700m"}, "conditions": [{"type": "Ready", "status": "True"}]}
    west.ask("kubelet", "PATCH", f"{NODES}/west-0/status", {"status": ready})
    there = {**plain_pod("first-copy", "team", 300, scheduler="other"), "kind": "Pod"}
    there["spec"]["nodeName"] = "west-0"
    west.ask(AGENT, "POST", f"{NAMESPACES}/team/pods", there)
    made = west.pods("team")[0]
    scene.bind(scene.source("first"), made["metadata"]["uid"])
    scene.fleet.clusters |= {"west": SimpleNamespace(api=west)}
    scene.fleet.sidecars, scene.fleet.closed = {}, set()
    scene.fleet.misled = {("west", "north")} if misled else set()
    scene.fleet.meddled = {f"{NAMESPACES}/team/pods/first-copy"} if stripped else set()
    waits = plain_pod("waits", "team", 300, clusters="west")
    waits["metadata"]["uid"], waits["status"] = "uid-waits", {}
    scene.write("north", "user", "create", None, waits)
    scene.there = [("north", waits)]
    scene.judge.at_end()
    assert CLAIM not in waits["metadata"]["annotations"]
    assert len(scene.judge.found) == found
