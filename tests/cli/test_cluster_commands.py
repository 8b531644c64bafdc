"""`global-dispatcher cluster ...` before two embedded clusters."""

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from agents.executor.trust import state
from dispatcher.cli.api_client import ApiClient
from dispatcher.cli.operate import drain, words
from dispatcher.cli.operate.members import Member
from dispatcher.cli.operate.words import Standing
from dispatcher.service.errors import ExitCode
from localfleet.embedded.fleet import EmbeddedFleet
from shared.model import names
from tests.cli.cluster_world import MARKED, NODES, PODS, World, delegate, ending, names_of, pod
from tests.system.cluster_api import ClusterApi


def test_cordon_and_uncordon_mark_the_proxy_node_and_say_what_runs_there(world: World) -> None:
    pod(world.east, "web-1", "global-dispatcher-west")
    code, told = world.json("cordon", "west", "--yes")
    assert code == ExitCode.OK
    assert told["clusters"][0]["pods"] == 1
    assert told["clusters"][0]["did"] == "cordoned"
    assert world.proxy() == (True, "")
    assert world.run("uncordon", "west", "--yes").exit_code == ExitCode.OK
    assert world.proxy() == (False, "")
    assert names_of(world.east) == ["web-1"]


def test_fence_says_what_it_costs_and_unfence_leaves_the_cordon(world: World) -> None:
    pod(world.east, "web-1", "global-dispatcher-west")
    result = world.run("fence", "west", "--yes", "--force")
    assert result.exit_code == ExitCode.OK
    assert "its 1 pods are let go" in result.stderr
    assert world.proxy() == (True, "true")
    assert world.run("unfence", "west", "--yes").exit_code == ExitCode.OK
    assert world.proxy() == (True, "")


@pytest.mark.parametrize("said", [["cordon"], ["fence", "--force"], ["drain"], ["leave"]])
def test_nothing_is_written_without_a_yes_or_in_a_dry_run(world: World, said: list[str]) -> None:
    pod(world.east, "web-1", "global-dispatcher-west")
    refused = world.run(*said, "west")
    assert refused.exit_code == ExitCode.USAGE
    assert "--yes" in refused.stderr
    assert world.run(*said, "west", "--dry-run").exit_code == ExitCode.OK
    assert world.proxy() == (False, "")
    assert not world.east.pods()[0]["metadata"].get("deletionTimestamp")


@pytest.mark.parametrize("action", ["drain", "leave"])
def test_a_dry_run_names_the_pods_that_have_no_other_place(
    world: World, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    row = {"source": "east", "namespace": "default", "pods": 3, "name": "web-1", "to": "east/n1", "waiting": 0}
    rows = [row, {**row, "name": "db-1", "waiting": 2}]

    def answer(_: ApiClient, kind: str, **query: str) -> list[dict[str, Any]]:
        assert (kind, query) == ("drain", {"cluster": "west", "leave": "true" if action == "leave" else ""})
        return rows

    monkeypatch.setattr(ApiClient, "rows", answer)
    shown = world.run(action, "west", "--dry-run").stderr
    assert "2 pods would wait, as no other place is free for them now: east: default/db-1 (2)\n" in shown
    told = world.json(action, "west", "--dry-run")[1]
    assert (told["no_other_place"], told["not_known"]) == (rows[1:], [])
    rows[1] = {**rows[1], "waiting": 0, "unknown": "its agent is older"}
    shown = world.run(action, "west", "--dry-run").stderr
    assert "would wait" not in shown
    assert "of 3 pods it is not known whether they have another place: east: default/db-1 (3): its agent is" in shown
    told = world.json(action, "west", "--dry-run")[1]
    assert (told["no_other_place"], told["not_known"]) == ([], rows[1:])
    rows.pop()
    assert "its pods have other places" in world.run(action, "west", "--dry-run").stderr


def test_a_dry_run_without_a_dispatcher_says_what_is_not_known(world: World) -> None:
    nobody = "http://127.0.0.1:1"
    told = world.run("drain", "west", "--dry-run", "--server", nobody)
    assert told.exit_code == ExitCode.OK
    assert f"whether its pods have another place is not known: no dispatcher answers at {nobody}" in told.stderr


def test_a_cluster_that_nobody_knows_is_not_found(world: World) -> None:
    result = world.run("cordon", "wets", "--yes")
    assert result.exit_code == ExitCode.NOT_FOUND
    assert "nor has a proxy node in east, west" in result.stderr


def test_a_cluster_that_cannot_be_reached_is_named_and_the_others_are_done(world: World, fleet: EmbeddedFleet) -> None:
    broken = world.config.parent / "broken"
    server = {"name": "north", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "north", "context": {"cluster": "north", "user": "u"}}
    users = [{"name": "u", "user": {}}]
    broken.write_text(yaml.safe_dump({"clusters": [server], "contexts": [context], "users": users}))
    kubeconfig = str(fleet.kubeconfig)
    world.list_clusters({"east": kubeconfig, "west": kubeconfig, "north": str(broken)})
    result = world.run("cordon", "west", "--yes")
    assert result.exit_code == ExitCode.FAILED
    assert "north: " in result.stderr
    assert world.proxy() == (True, "")


def test_drain_evicts_what_runs_there_and_waits_until_it_is_gone(world: World) -> None:
    for name in ("web-1", "web-2"):
        pod(world.east, name, "global-dispatcher-west", **MARKED)
    pod(world.east, "local")
    with ending(world.east):
        code, told = world.json("drain", "west", "--yes", "--timeout", "30")
    assert (code, told["problems"]) == (ExitCode.OK, [])
    assert told["clusters"][0]["did"] == "cordoned; 2 evicted; nothing is left"
    assert names_of(world.east) == ["local"]


def test_drain_that_nobody_carries_on_says_who_may_be_missing(world: World) -> None:
    pod(world.east, "went", "global-dispatcher-west", **MARKED)
    result = world.run("drain", "west", "--yes", "--force", "--timeout", "1")
    assert result.exit_code == ExitCode.FAILED
    assert "no dispatcher runs, or no agent in the cluster of its delegate" in result.stderr


def test_drain_respects_budgets_of_the_cluster_of_submission_and_says_so_in_the_end(world: World) -> None:
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    assert world.east.create(budgets, {"metadata": {"name": "guard"}, "spec": spec}).is_success
    pod(world.east, "web-1", "global-dispatcher-west")
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    world.east.merge(f"{PODS}/web-1/status", {"status": ready})
    try:
        with ending(world.east):
            result = world.run("drain", "west", "--yes", "--timeout", "2")
    finally:
        world.east.delete(f"{budgets}/guard")
    assert result.exit_code == ExitCode.FAILED
    assert "1 pods are not gone yet, such as default/web-1" in result.stderr
    assert "budget" in result.stderr
    assert names_of(world.east) == ["web-1"]


def test_drain_does_not_say_done_while_pods_have_come_that_it_has_not_seen(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = words.say

    async def slow(member: Member, cluster: str, word: words.Word) -> tuple[str, Standing]:
        pod(world.east, "late", "global-dispatcher-west")  # the scheduler was faster than the cordon
        return await said(member, cluster, word)

    monkeypatch.setattr(words, "say", slow)
    result = world.run("drain", "west", "--yes", "--timeout", "1")
    assert result.exit_code == ExitCode.FAILED
    assert "1 pods are left, such as default/late" in result.stderr


def test_drain_evicts_pods_without_a_controller_only_by_force(world: World) -> None:
    pod(world.east, "alone", "global-dispatcher-west", owned=False)
    refused = world.run("drain", "west", "--yes")
    assert refused.exit_code == ExitCode.FAILED
    assert "east: default/alone" in refused.stderr
    assert world.proxy() == (False, "")
    with ending(world.east):
        assert world.run("drain", "west", "--yes", "--force", "--timeout", "30").exit_code == ExitCode.OK
    assert names_of(world.east) == []


def test_leave_moves_pods_of_both_directions_and_says_what_to_remove(world: World) -> None:
    pod(world.east, "went", "global-dispatcher-west", **MARKED)
    pod(world.west, "came-from-west", "global-dispatcher-east", **MARKED)
    with ending(world.east, world.west):
        code, told = world.json("leave", "west", "--yes", "--timeout", "30")
    assert (code, told["problems"]) == (ExitCode.OK, [])
    assert world.proxy("west")[0]
    assert world.proxy("east")[0]
    assert names_of(world.east) == names_of(world.west) == []
    assert "`- name: west` from `clusters` of the dispatcher's configuration" in told["next"][0]
    assert told["next"][1].startswith("helm uninstall")


def test_uncordon_takes_back_what_leave_has_closed_in_the_cluster_itself_and_nothing_else(world: World) -> None:
    assert world.run("leave", "west", "--yes", "--timeout", "30").exit_code == ExitCode.OK
    assert (world.proxy("west"), world.proxy("east")) == ((True, ""), (True, ""))
    code, told = world.json("uncordon", "west", "--yes")
    assert (code, [row["did"] for row in told["clusters"]]) == (ExitCode.OK, ["uncordoned", "east uncordoned"])
    assert (world.proxy("west"), world.proxy("east")) == ((False, ""), (False, ""))
    world.run("cordon", "east", "--yes")  # said for itself, before and after
    assert world.run("leave", "west", "--yes", "--timeout", "30").exit_code == ExitCode.OK
    assert world.run("uncordon", "west", "--yes").exit_code == ExitCode.OK
    assert (world.proxy("west"), world.proxy("east")) == ((False, ""), (True, ""))


@pytest.mark.parametrize(("action", "before"), [("drain", signal.SIG_IGN), ("leave", signal.default_int_handler)])
def test_ctrl_c_says_what_stays(world: World, monkeypatch: pytest.MonkeyPatch, action: str, before: Any) -> None:
    was = signal.signal(signal.SIGINT, before)  # a shell that starts us in the background has turned it off
    try:
        interrupted(world, monkeypatch, action)
    finally:
        signal.signal(signal.SIGINT, was)


def interrupted(world: World, monkeypatch: pytest.MonkeyPatch, action: str) -> None:
    pod(world.east, "web-1", "global-dispatcher-west", **MARKED)
    monkeypatch.setattr("dispatcher.cli.operate.drain.POLL_S", 60.0)
    looked = drain._look

    async def ctrl_c(*said: Any) -> None:
        await looked(*said)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(drain, "_look", ctrl_c)
    result = world.run(action, "west", "--yes")
    assert result.exit_code == ExitCode.FAILED
    told = "interrupted: the cordon and 1 evictions asked for stay; repeat the command, or `cluster uncordon west`"
    assert told in result.stderr
    assert world.proxy() == (True, "")


def test_leave_names_what_is_left_and_does_not_say_that_the_cluster_may_go(world: World) -> None:
    pod(world.west, "held", annotations={names.CLAIM_CLUSTER: "east"}, **MARKED)
    code, told = world.json("leave", "west", "--yes", "--timeout", "2")
    assert code == ExitCode.FAILED
    assert told["next"] == []
    assert any("west: 1 pods are left, such as default/held" in problem for problem in told["problems"])


def test_a_lost_cluster_leaves_without_being_asked(world: World, fleet: EmbeddedFleet) -> None:
    world.list_clusters({"east": str(fleet.kubeconfig), "west": "/nonexistent/kubeconfig"})
    pod(world.east, "went", "global-dispatcher-west", **MARKED)
    pod(world.east, "ended", "global-dispatcher-west", **MARKED)
    world.east.merge(f"{PODS}/ended/status", {"status": {"phase": "Succeeded"}})
    delegate(world.east, "copy-of-west", "west")
    delegate(world.east, "copy-of-north", "north")
    assert "does not answer" in world.run("leave", "west", "--yes").stderr
    with ending(world.east):
        code, told = world.json("leave", "west", "--lost", "--yes", "--timeout", "30")
    assert (code, told["problems"]) == (ExitCode.OK, [])
    assert world.proxy() == (True, "true")
    assert names_of(world.east) == ["copy-of-north"]
    assert told["clusters"][0]["did"] == "fenced and cordoned; 1 deleted; 2 let go; nothing is left"


def test_a_lost_cluster_that_the_configuration_has_lost_already_can_still_leave(
    world: World, fleet: EmbeddedFleet
) -> None:
    world.list_clusters({"east": str(fleet.kubeconfig)})
    pod(world.east, "went", "global-dispatcher-west", **MARKED)
    with ending(world.east):
        assert world.run("leave", "west", "--lost", "--yes", "--timeout", "30").exit_code == ExitCode.OK
    assert names_of(world.east) == []


LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
KEPT = {"west-uid": ["west", "KEY"], "north-uid": ["north", "OTHER"]}


def words_of(api: ClusterApi) -> set[str]:
    return set(api.get(state.PATH)["metadata"]["annotations"]) - {state.VALUES}


@pytest.fixture
def leases(world: World) -> Iterator[World]:
    """What agents have stored in both clusters."""
    values = json.dumps({state.KEYS: json.dumps(KEPT)})
    for api in world.apis.values():
        assert api.create(LEASES, {"metadata": {"name": state.NAME, "annotations": {state.VALUES: values}}}).is_success
    yield world
    for api in world.apis.values():
        api.delete(state.PATH)


@contextmanager
def heeding(*apis: ClusterApi) -> Iterator[list[str]]:
    """Agents that hear a dispatcher: they meet words with a question, and note and take off what answers it."""
    stop, heard = threading.Event(), list[str]()
    question = "7 of this life"

    def work() -> None:
        while not stop.wait(0.02):
            for api in apis:
                annotations = api.get(state.PATH)["metadata"]["annotations"]
                for word in annotations.keys() - {state.VALUES}:
                    answered = annotations[word] == question
                    heard.extend([word] * answered)
                    then = None if answered else state.ASKS + question
                    api.merge(state.PATH, {"metadata": {"annotations": {word: then}}})

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield heard
    finally:
        stop.set()
        thread.join()


def test_forget_keys_shows_what_each_other_cluster_forgets_and_waits_until_it_has(leases: World) -> None:
    with heeding(leases.east, leases.west) as heard:
        code, told = leases.json("forget-keys", "west", "--yes")
    assert (code, heard) == (ExitCode.OK, ["global-dispatcher.io/forget-keys.west"])
    (row,) = told["clusters"]
    assert (row["cluster"], row["note"], row["did"]) == ("east", "forgets KEY", "forgotten")


def test_forget_keys_tells_the_cluster_itself_too_where_an_agent_has_stored_its_key(leases: World) -> None:
    values = json.dumps({state.OWN_KEYS: "SIGNS BEFORE"})
    leases.west.merge(state.PATH, {"metadata": {"annotations": {state.VALUES: values}}})
    with heeding(leases.east, leases.west) as heard:
        code, told = leases.json("forget-keys", "west", "--yes")
    assert (code, heard) == (ExitCode.OK, ["global-dispatcher.io/forget-keys.west"] * 2)
    rows = {row["cluster"]: row for row in told["clusters"]}
    assert rows["west"]["note"].startswith("signs with SIGNS;")
    assert {row["did"] for row in rows.values()} == {"forgotten"}


def test_confirm_tells_the_cluster_itself_and_says_what_that_means(leases: World) -> None:
    delegate(leases.west, "copy-of-east", "east")
    with heeding(leases.east, leases.west) as heard:
        code, told = leases.json("confirm", "west", "--yes")
    assert (code, heard) == (ExitCode.OK, ["global-dispatcher.io/confirm-restored"])
    assert "(0 pods of its own in other clusters, 1 copies of theirs)" in told["will"]
    assert [(row["cluster"], row["did"]) for row in told["clusters"]] == [("west", "confirmed")]


@pytest.mark.parametrize("action", ["confirm", "forget-keys"])
def test_no_word_is_written_without_a_yes_or_in_a_dry_run(leases: World, action: str) -> None:
    refused = leases.run(action, "west")
    assert (refused.exit_code, leases.run(action, "west", "--dry-run").exit_code) == (ExitCode.USAGE, ExitCode.OK)
    assert (words_of(leases.east), words_of(leases.west)) == (set(), set())


def test_an_agent_that_has_not_heeded_the_word_in_time_is_named(leases: World) -> None:
    result = leases.run("confirm", "west", "--yes", "--timeout", "1")
    assert result.exit_code == ExitCode.FAILED
    assert "west: told, but its agent has not done it yet" in result.stderr


def test_a_cluster_without_an_agent_has_nobody_to_be_told(world: World) -> None:
    result = world.run("confirm", "west", "--yes")
    assert result.exit_code == ExitCode.FAILED
    assert "west: no agent has stored anything here" in result.stderr


@pytest.mark.parametrize("action", ["confirm", "forget-keys"])
def test_a_word_about_a_cluster_that_nobody_knows_is_not_said(leases: World, action: str) -> None:
    assert leases.run(action, "wets", "--yes").exit_code == ExitCode.NOT_FOUND
    assert words_of(leases.east) == set()


def test_a_machine_that_is_named_as_proxy_nodes_are_is_neither_cordoned_nor_drained(world: World) -> None:
    world.machine("west")
    pod(world.east, "web-1", "global-dispatcher-west")
    refused = world.run("drain", "west", "--yes", "--timeout", "5")
    assert refused.exit_code != ExitCode.OK
    assert "no proxy node global-dispatcher-west is in east" in refused.stderr
    assert world.proxy() == (False, "")
    assert not world.east.pods()[0]["metadata"].get("deletionTimestamp")


def test_a_cluster_that_leaves_keeps_what_runs_on_its_own_machines_whatever_their_names(world: World) -> None:
    world.machine("west")
    pod(world.east, "own", "global-dispatcher-west")
    pod(world.east, "copy-1", "global-dispatcher-north", **MARKED)  # its proxy node is gone
    with ending(world.east, world.west):
        code, told = world.json("leave", "east", "--yes", "--timeout", "30")
    assert (code, told["problems"]) == (ExitCode.OK, [])
    assert names_of(world.east) == ["own"]


def test_a_cluster_with_a_machine_that_has_the_name_of_its_own_proxy_node_is_itself_all_the_same(world: World) -> None:
    name = names.proxy_node_name("east")
    assert world.east.create(NODES, {"metadata": {"name": name}}).is_success
    try:
        assert world.run("cordon", "west", "--yes").exit_code == ExitCode.OK
    finally:
        world.east.delete(f"{NODES}/{name}")
