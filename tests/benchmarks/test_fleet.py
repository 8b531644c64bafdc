"""The fleet benchmark: a small fleet gives every figure, and its load is made of its arguments alone."""

import json
import math
import os
import signal
import sys
from dataclasses import replace
from functools import partial
from random import Random
from subprocess import DEVNULL, PIPE, Popen

import pytest
from typer.testing import CliRunner

from benchmarks.fleet import memory, phases
from benchmarks.fleet.__main__ import app
from benchmarks.fleet.cluster import FakeCluster
from benchmarks.fleet.load import Load, node_of, pod_of
from benchmarks.fleet.many_templates import fleet_of_many_templates
from benchmarks.fleet.memory import fleet_memory
from benchmarks.report.meanings import OF_BENCHMARKS
from shared.messages import BOUND, Bind, IntentBatch, PodRef, encode

SMALL = Load(clusters=3, nodes=20, pods=12, templates=5, namespaces=2)
ARGUMENTS = (
    *("--clusters", "3", "--nodes", "20", "--pods", "12", "--churn", "40", "--burst", "12", "--remote", "4"),
    *("--last-s", "0.5", "--sweep-s", "0.5", "--templates", "5", "-o", "json"),
)
FIGURES = {
    *(
        "until_it_decides",
        "rss",
        "rss_peak",
        "rss_peak_at_end",
        "idle_cpu",
        "reading_cpu",
        "readings_core",
        "change_cpu",
    ),
    *("readings_p50", "readings_p99", "readings_stall", "changes_p50", "changes_p99", "changes_stall"),
    *("burst_bound", "burst_pod_cpu", "burst_stall", "local_pod_cpu", "remote_pod_cpu", "remote_later"),
    *("first_report_stall", "return_stall", "return_changed_stall", "lists_stall", "scrape_stall"),
}


@pytest.mark.timeout(180)
def test_a_small_fleet_gives_every_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "LATE_S", 0.3)
    monkeypatch.setattr(phases, "LOOK_S", 0.2)
    done = CliRunner().invoke(app, ARGUMENTS)
    assert done.exit_code == 0, done.output
    rows = {row["name"].removeprefix("fleet_"): row for row in json.loads(done.stdout)}
    assert rows.keys() == FIGURES
    assert all(row["nodes"] == 60 for row in rows.values())
    assert rows["burst_bound"]["pods"] == 12
    assert rows["reading_cpu"]["pods"] >= 60
    assert rows["burst_bound"]["value"] > 0
    assert rows["remote_later"]["value"] > 0  # its agent is asked once more than a local pod's
    assert rows["rss_peak_at_end"]["value"] >= rows["rss_peak"]["value"]
    assert {row["target"] for row in rows.values()} == {None}
    alone = {name for name, row in rows.items() if row["baseline"] is None}
    assert alone == {"idle_cpu", "remote_later"}
    assert all(row["beside"] for name, row in rows.items() if name not in alone)


@pytest.mark.system
@pytest.mark.timeout(180)
def test_one_cluster_without_changes_gives_no_figure_of_these(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "LOOK_S", 0.2)
    done = CliRunner().invoke(app, (*ARGUMENTS, "--clusters", "1", "--churn", "0"))
    assert done.exit_code == 0, done.output
    assert "there is no other cluster" in done.stderr
    rows = {row["name"].removeprefix("fleet_") for row in json.loads(done.stdout)}
    of_others, of_changes = {"remote_pod_cpu", "remote_later"}, {name for name in FIGURES if name.startswith("change")}
    assert rows == FIGURES - of_others - of_changes


@pytest.mark.system
@pytest.mark.timeout(60)
def test_pods_that_the_fleet_has_no_room_for_are_told_of_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("LATE_S", 0.3), ("LOOK_S", 0.2), ("_PATIENCE_S", 4.0)):
        monkeypatch.setattr(phases, name, seconds)
    done = CliRunner().invoke(app, (*ARGUMENTS, "--nodes", "1", "--remote", "600"))
    assert (done.exit_code, done.stdout) == (1, "")
    assert "pods are not running after 4 s: is there room?" in done.stderr


def test_more_pods_than_all_nodes_take_are_refused_before_anything_starts() -> None:
    done = CliRunner().invoke(app, (*ARGUMENTS, "--nodes", "1", "--burst", "2000"))
    assert (done.exit_code, done.stdout) == (2, "")
    assert "4,040 pods are 12 in each cluster, --burst twice and --remote; all nodes take 750 at most" in done.stderr


@pytest.mark.timeout(180)
def test_an_interrupt_ends_all_processes_without_a_traceback() -> None:
    command = [sys.executable, "-m", "benchmarks.fleet", *ARGUMENTS]
    # Where tests run in the background of a shell, SIGINT is ignored, and would be by what they start.
    heeded = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with Popen(command, stdout=DEVNULL, stderr=PIPE, text=True, process_group=0, preexec_fn=heeded) as run:  # noqa: PLW1509
        assert run.stderr is not None
        first = run.stderr.readline()
        os.killpg(run.pid, signal.SIGINT)
        rest = run.stderr.read()  # until the last process has closed it
    assert "Traceback" not in first + rest
    assert (run.returncode, first.partition(":")[0]) == (130, "until_it_decides")


@pytest.mark.timeout(180)
def test_bursts_of_many_templates_stand_beside_bursts_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "LOOK_S", 0.2)
    rows = fleet_of_many_templates(100)
    assert [row.name for row in rows] == list(OF_BENCHMARKS["fleet_of_many_templates"])
    assert all(row.value > 0 for row in rows)
    assert [row.baseline is None for row in rows] == [False] * 4 + [True]


@pytest.mark.system
@pytest.mark.timeout(180)
def test_memory_is_told_for_nodes_pods_of_others_and_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "LOOK_S", 0.2)
    monkeypatch.setattr(memory, "GIVEN_BACK_S", 0.0)
    rows = fleet_memory(100)
    assert [(row.name, row.nodes, row.pods, row.unit, row.target) for row in rows] == [
        ("fleet_memory_node", 1000, 0, "KiB", 1.2),
        ("fleet_memory_other_pod", 1000, 1000, "KiB", 1.2),
        ("fleet_memory_own_pod", 1000, 1000, "KiB", 1.2),
        ("fleet_memory_decided_pod", 1000, 1000, "KiB", 1.2),
    ]
    assert all(math.isfinite(row.value) for row in rows)


@pytest.mark.parametrize("words", ["--churn inf", "--last-s inf", "--coalesce-s inf", "--start-s 1e9"])
def test_what_would_never_end_is_refused_by_name(words: str) -> None:
    done = CliRunner().invoke(app, words.split())
    assert done.exit_code == 2
    assert f"Invalid value for '{words.split(maxsplit=1)[0]}'" in done.stderr


@pytest.mark.parametrize(("tenants", "owned"), [(0, []), (2, [[0, 2], [1]]), (9, [[0], [1], [2]])])
def test_clusters_belong_to_tenants_in_turn_whose_quota_is_enough(tenants: int, owned: list[list[int]]) -> None:
    found = replace(SMALL, tenants=tenants).owners
    assert [[at for at, name in enumerate(SMALL.names) if one.owns(name, "team-1")] for one in found] == owned
    assert all(share.absolute or share.ratio for one in found for share in one.nominal.values())


def test_the_page_says_of_every_figure_what_it_is() -> None:
    assert {f"fleet_{name}" for name in FIGURES} == OF_BENCHMARKS["fleet_of_agents"].keys()


def test_targets_are_for_the_usual_load_with_any_seed() -> None:
    assert [Load().usual, Load(seed=9).usual, Load(clusters=10).usual, SMALL.usual] == [True, True, False, False]


def _told(load: Load) -> bytes:
    return encode(FakeCluster(load, 1, {}, lambda what, uid: None).full())


def test_the_same_arguments_make_the_same_fleet_and_another_seed_another() -> None:
    assert _told(SMALL) == _told(replace(SMALL))
    assert _told(SMALL) != _told(replace(SMALL, seed=2))


def test_pods_are_of_as_many_templates_and_namespaces_and_as_many_are_ours_as_was_asked_for() -> None:
    load = replace(SMALL, pods=200, ours=0.25)
    pods = FakeCluster(load, 0, {}, lambda what, uid: None).pods.values()
    assert len({pod.labels["app"] for pod in pods}) == load.templates
    assert len({pod.namespace for pod in pods}) == load.namespaces
    assert sum(bool(pod.scheduler_name) for pod in pods) == 50


async def test_a_bound_pod_shows_on_its_node_and_runs_after_a_while() -> None:
    seen: list[tuple[str, str]] = []
    cluster = FakeCluster(replace(SMALL, start_s=0.0, coalesce_s=0.0), 0, {}, lambda *what: seen.append(what))
    uid = cluster.submit()
    bind = Bind("1", PodRef("default", "web", uid), 1, "n0001")
    (answer,) = cluster.execute(IntentBatch("us", 1, (bind,))).outcomes
    assert (answer.verdict, cluster.pods[uid].node) == (BOUND, "n0001")
    told = await cluster.changes("", 0, 1.0)
    assert told.full
    while not cluster.pods[uid].ready:
        told = await cluster.changes(told.incarnation, told.revision, 1.0)
    assert seen == [("bound", uid), ("running", uid)]


async def test_a_cluster_that_cannot_be_listed_tells_of_nothing_until_it_can() -> None:
    cluster = FakeCluster(replace(SMALL, coalesce_s=0.0), 0, {}, lambda *what: None)
    cluster.listed = False
    told = await cluster.changes("", 0, 1.0)
    cluster.churn()
    more = await cluster.changes(told.incarnation, told.revision, 1.0)
    assert [(one.synced, one.nodes, one.pods) for one in (told, more)] == [(False, (), ())] * 2
    cluster.listed = True
    cluster.restart()
    told = await cluster.changes(more.incarnation, more.revision, 1.0)
    assert (told.synced, len(told.nodes)) == (True, SMALL.nodes)


def test_churn_never_takes_a_pod_that_waits() -> None:
    cluster = FakeCluster(SMALL, 0, {}, lambda what, uid: None)
    waiting = [cluster.submit() for _ in range(5)]
    for _ in range(500):
        cluster.churn()
    assert all(not cluster.pods[uid].node and not cluster.pods[uid].ready for uid in waiting)


def test_nodes_and_pods_are_what_their_numbers_say() -> None:
    assert node_of(3, 7).labels["topology.kubernetes.io/region"] == "r3"
    template = Random(1).randrange(5)
    one, other = (pod_of(SMALL, uid, template, ours=True) for uid in ("a", "b"))
    assert (one.requests, one.labels, one.owner) == (other.requests, other.labels, other.owner)
