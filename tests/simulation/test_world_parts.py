"""The world's own parts: what its clock and its API servers promise."""

import asyncio
import json
import random
from contextvars import Context

import pytest

from tests.simulation.acts import config_map, naming, plain_pod
from tests.simulation.world.apiserver import EMPTY, NAMESPACES, NODES, PODS, TOLERATION_S, UNSHOWN, ApiServer
from tests.simulation.world.controllers import UNREACHABLE, Controllers
from tests.simulation.world.fleet import Fleet, Judgeable, Sizes
from tests.simulation.world.kubelet import Kubelets
from tests.simulation.world.loop import PROCESS, WORLD, Process, StuckError, in_process, live, running_loop
from tests.simulation.world.processes import sim_client
from tests.simulation.world.relay import Gave

POD = f"{NAMESPACES}/default/pods"


def server(hidden: tuple[str, ...] = UNSHOWN) -> ApiServer:
    return ApiServer("east", lambda: 0.0, lambda: 0.0, hidden)


def create(api: ApiServer, *pods: str) -> None:
    for pod in pods:
        api.ask("user", "POST", POD, plain_pod(pod, "default", 100))


def shown(api: ApiServer) -> list[str]:
    return [pod["metadata"]["name"] for pod in api.pods()]


def phases(api: ApiServer) -> list[str]:
    return [pod["status"]["phase"] for pod in api.pods()]


def test_what_is_due_at_the_same_time_comes_in_the_order_in_which_it_was_set() -> None:
    came: list[int] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        for number in range(5):
            loop.call_at(2_000.0, came.append, number)
        loop.call_at(1_500.0, came.append, -1)
        loop.call_at(1_600.0, came.append, -2).cancel()
        await asyncio.sleep(2_000.0)

    live(story, seed=1)
    assert came == [-1, 0, 1, 2, 3, 4]


def test_who_waits_goes_on_as_itself_whoever_ends_the_waiting() -> None:
    """Also where its own context is empty, as that of a world's first task is."""
    other = Process("other")

    async def story() -> Process:
        loop = running_loop()
        waiting = loop.create_future()
        in_process(other, loop.call_later, 1.0, waiting.set_result, None)
        loop.call_later(1.0, setattr, other, "alive", False)  # and dies at once
        await waiting
        return PROCESS.get()

    assert Context().run(lambda: live(story, seed=1)) is WORLD


def test_a_world_in_which_nothing_is_left_to_happen_says_so() -> None:
    async def story() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            return

    try:
        live(story, seed=1)
    except StuckError:
        return
    raise AssertionError("it waits for nothing")


def test_a_list_shows_each_change() -> None:
    api = server()
    create(api, "a", "b")
    assert shown(api) == ["a", "b"]
    api.ask("user", "DELETE", f"{POD}/a")
    create(api, "c")
    assert shown(api) == ["b", "c"]


def test_a_restored_server_lists_what_was_there_then() -> None:
    api = server()
    create(api, "a")
    backup = api.store.backup()
    create(api, "b")
    assert shown(api) == ["a", "b"]
    api.restore(backup)
    assert shown(api) == ["a"]


def test_a_restore_with_a_bump_leads_above_every_revision_that_was_served() -> None:
    api = server()
    create(api, "first")
    backup = api.store.backup()
    for _ in range(2):
        create(api, "second")
        served = api.store.revision
        api.restore(backup, bump=1_000_000)
        assert api.store.revision > served
        assert api.store.compacted > served


def test_a_kubelet_tells_again_what_a_restore_took_back_of_a_pod_that_runs() -> None:
    api = server()
    api.ask("kubelet", "POST", NODES, {"metadata": {"name": "east-1"}, "spec": {}})
    api.ask("kubelet", "PATCH", f"{NODES}/east-1/status", {"status": {"allocatable": {"cpu": "1000m"}}})
    create(api, "web")
    backup = api.store.backup()
    kubelets = Kubelets(api, random.Random(1), Judgeable(), lambda: 0.0)
    bind = {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "east-1"}}
    for _ in range(2):  # bound again before any kubelet has looked: what runs is the same pod
        assert api.ask("scheduler", "POST", f"{POD}/web/binding", bind)[0] == 201
        assert phases(api) == ["Pending"]
        kubelets.look()
        assert phases(api) == ["Running"]
        api.restore(backup)
    assert len(kubelets.running) == 1


def test_a_kubelet_takes_a_pod_in_place_of_one_that_was_deleted_by_force() -> None:
    api = server()
    api.ask("kubelet", "POST", NODES, {"metadata": {"name": "n"}, "spec": {}})
    api.ask("kubelet", "PATCH", f"{NODES}/n/status", {"status": {"allocatable": {"cpu": "100m"}}})
    kubelets = Kubelets(api, random.Random(1), Judgeable(), lambda: 0.0)
    bind = {"target": {"kind": "Node", "name": "n"}}
    for _ in range(2):
        api.ask("user", "DELETE", f"{POD}/web", {"gracePeriodSeconds": 0})
        create(api, "web")
        api.ask("scheduler", "POST", f"{POD}/web/binding", {"metadata": {"name": "web"}, **bind})
        kubelets.look()
        assert phases(api) == ["Running"]
    create(api, "beside")
    api.ask("scheduler", "POST", f"{POD}/beside/binding", {"metadata": {"name": "beside"}, **bind})
    kubelets.look()
    assert sorted(phases(api)) == ["Failed", "Running"]


def test_a_list_of_one_tells_how_many_there_are_more() -> None:
    api = server()
    create(api, "a", "b", "c")
    _, body = api.handle("agent", "GET", PODS, b"", "", limit=1)
    listed = json.loads(body)
    assert len(listed["items"]) == 1
    assert listed["metadata"]["remainingItemCount"] == 2


def test_kinds_without_objects_are_seen_only_where_a_story_asks_for_them() -> None:
    assert server(UNSHOWN + EMPTY).handle("agent", "GET", "/api/v1/services", b"", "")[0] == 404
    assert server().handle("agent", "GET", "/api/v1/services", b"", "")[0] == 200


FOR_EVER: dict[str, object] = {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("tolerations", "stays_s"),
    [
        (None, TOLERATION_S),  # what admission gives every pod
        ([{**FOR_EVER, "tolerationSeconds": 5}], 5),
        ([{**FOR_EVER, "tolerationSeconds": -1}], 0),
        ([FOR_EVER], None),
        ([{"operator": "Exists"}], None),
        ([FOR_EVER, {**FOR_EVER, "tolerationSeconds": 5}], None),  # the first counts
        ([{**FOR_EVER, "tolerationSeconds": 5}, FOR_EVER], 5),
        ([{**FOR_EVER, "effect": "NoSchedule"}], TOLERATION_S),
    ],
)
def test_a_pod_stays_on_a_node_that_is_gone_as_long_as_it_tolerates_that(
    tolerations: list[dict[str, object]] | None, stays_s: int | None
) -> None:
    api, now = server(), [0.0]
    api.ask("kubelet", "POST", NODES, {"metadata": {"name": "n"}, "spec": {}})
    api.ask("kubelet", "PATCH", f"{NODES}/n/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    pod = plain_pod("a", "default", 100)
    pod["spec"] |= {"nodeName": "n", **({"tolerations": tolerations} if tolerations else {})}
    api.ask("user", "POST", POD, pod)
    controllers = Controllers(api, lambda: now[0])
    controllers.kubelets_dead = lambda node: True
    deleted = None
    for second in range(2 * TOLERATION_S):
        now[0] = float(second)
        controllers.look()
        if deleted is None and "deletionTimestamp" in api.pods()[0]["metadata"]:
            deleted = second
    assert deleted == stays_s
    controllers.kubelets_dead = lambda node: False
    controllers.look()
    controllers.look()
    assert api.nodes()[0]["spec"]["taints"] == []


def test_an_agent_that_two_start_at_once_begins_one_life() -> None:
    async def story() -> tuple[int, list[str]]:
        cluster = Fleet(1, Sizes(), running_loop()).clusters["east"]
        await asyncio.gather(cluster.agent.start(), cluster.agent.start())
        return cluster.agent.lives, [one.name for one in running_loop().processes if one.name.startswith("agent/")]

    with sim_client():
        assert live(story, 1) == (1, ["agent/east/1"])


@pytest.mark.parametrize(
    ("named", "there", "shown"),
    [
        ("shared", True, ["shared"]),
        ("shared", False, None),
        ("?shared", True, ["shared"]),
        ("?shared", False, [None]),
    ],
)
def test_a_kubelet_starts_a_pod_with_what_it_names_as_that_is_now(
    named: str, there: bool, shown: list[str | None] | None
) -> None:
    api = server()
    api.ask("kubelet", "POST", NODES, {"metadata": {"name": "east-0"}, "spec": {}})
    api.ask("kubelet", "PATCH", f"{NODES}/east-0/status", {"status": {"allocatable": {"cpu": "1"}}})
    pod = naming(plain_pod("a", "default", 100), [named])
    pod["spec"]["nodeName"] = "east-0"
    api.ask("user", "POST", POD, pod)
    maps = f"{NAMESPACES}/default/configmaps"
    if there:
        api.ask("user", "POST", maps, config_map("shared", "first"))
    kubelets = Kubelets(api, random.Random(1), Judgeable(), lambda: 0.0)
    kubelets.look()
    found = [[one and one["metadata"]["name"] for one in held.shown] for held in kubelets.running.values()]
    assert found == ([] if shown is None else [shown])
    if shown is None:
        api.ask("user", "POST", maps, config_map("shared", "late"))
        kubelets.look()
        assert len(kubelets.running) == 1


@pytest.mark.parametrize("cut", [False, True])
def test_one_agent_is_given_by_another_what_a_pod_brings_unless_the_way_is_cut(*, cut: bool) -> None:
    came: list[Gave] = []

    class Ear(Judgeable):
        def gave(self, gave: Gave) -> None:
            came.append(gave)

    async def story() -> None:
        fleet = Fleet(1, Sizes(clusters=("north", "west"), nodes=1, followers=True), running_loop())
        fleet.ears = [Ear()]
        home = fleet.clusters["north"].api
        home.ask("user", "POST", f"{NAMESPACES}/default/configmaps", config_map("shared", "first"))
        await fleet.start()
        for _ in range(12):
            await fleet.second()
        fleet.link("dispatcher", "west").relay_cut = cut
        home.ask("user", "POST", POD, naming(plain_pod("a", "default", 100, clusters="west"), ["shared"]))
        for _ in range(12):
            await fleet.second()

    with sim_client():
        live(story, seed=1)
    assert [(one.giver, one.asker, one.name) for one in came] == ([] if cut else [("north", "west", "shared")])


@pytest.mark.parametrize(
    ("kept", "code"),
    [([FOR_EVER], 200), ([], 422), ([{**FOR_EVER, "tolerationSeconds": 5}], 200), ([{**FOR_EVER, "effect": ""}], 422)],
    ids=["it gets one more", "it loses one", "for another time", "one is another"],
)
def test_tolerations_of_a_pod_may_be_added_alone(kept: list[dict[str, object]], code: int) -> None:
    api = server()
    pod = plain_pod("a", "default", 100)
    pod["spec"]["tolerations"] = [FOR_EVER]
    api.ask("user", "POST", f"{NAMESPACES}/default/pods", pod)
    has = api.pods()[0]["spec"]["tolerations"][len([FOR_EVER]) :]
    more = [*kept, *has, {"key": "example.com/team", "operator": "Exists"}]
    assert api.ask("agent", "PATCH", f"{NAMESPACES}/default/pods/a", {"spec": {"tolerations": more}})[0] == code
