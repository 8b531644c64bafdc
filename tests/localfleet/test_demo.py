"""The demo's parts: what it submits, the trace it reads, how it judges and what it shows."""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from dispatcher.scheduling.views import whole
from dispatcher.service.errors import CommandError
from localfleet.demo import view as demo_view
from localfleet.demo.show import no_room, own_command
from localfleet.demo.trace import deal_nodes, trace_pods
from localfleet.demo.view import Picture
from localfleet.demo.workloads import WORKLOADS, sample
from shared.model import names
from tests.service.fakes import FakeViews


@pytest.mark.parametrize(
    ("on_path", "folder", "want"),
    [
        (True, "here", "global-dispatcher"),
        (False, "here", ".venv/bin/global-dispatcher"),
        (False, "elsewhere", "{}/here/.venv/bin/global-dispatcher"),
    ],
    ids=["found by its name", "below this folder", "elsewhere"],
)
def test_the_demo_prints_commands_that_work_where_it_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_path: bool, folder: str, want: str
) -> None:
    programs = tmp_path / "here" / ".venv" / "bin"
    programs.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (programs / "global-dispatcher").write_text("#!/bin/sh\n")
    (programs / "global-dispatcher").chmod(0o755)
    monkeypatch.setattr("sys.executable", str(programs / "python"))
    monkeypatch.setenv("PATH", str(programs) if on_path else str(tmp_path))
    monkeypatch.chdir(tmp_path / folder)
    assert own_command() == want.format(tmp_path)


def picture(**fields: Any) -> Picture:
    views = FakeViews()
    return Picture(whole(views.clusters()), whole(views.nodes()), whole(views.pods()), 2, 3.2, "east", **fields)


@pytest.mark.parametrize("pods", [40, 80, 400])
def test_the_sample_has_as_many_pods_as_asked(pods: int) -> None:
    assert sum(submission.pods for submission in sample(pods)) == pods


def test_a_small_sample_has_a_pod_of_every_workload() -> None:
    assert [submission.pods for submission in sample(1)] == [1] * len(WORKLOADS)


def test_every_template_carries_our_annotation_and_no_scheduler_name() -> None:
    for submission in sample(40):
        template = submission.manifest["spec"]["template"]
        assert template["metadata"]["annotations"][names.SCHEDULE] == "true"
        assert "schedulerName" not in template["spec"]


def write_trace(folder: Path, nodes: str, pods: str = "name,cpu_milli,memory_mib\np0,500,64\np1,1000,128\n") -> Path:
    (folder / "nodes.csv").write_text(nodes)
    (folder / "pods.csv").write_text(pods)
    return folder


NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n{number},4000,1024,0,\n" for number in range(5))


def test_trace_nodes_are_dealt_over_the_clusters_in_turn(tmp_path: Path) -> None:
    files = deal_nodes(write_trace(tmp_path, NODES), ["a", "b"], None, tmp_path)
    dealt = {name: [line.split(",")[0] for line in file.read_text().split()[1:]] for name, file in files.items()}
    assert dealt == {"a": ["n0", "n2", "n4"], "b": ["n1", "n3"]}


def test_trace_pods_keep_their_order_and_ask_for_cpu_and_memory(tmp_path: Path) -> None:
    first, *rest = trace_pods(write_trace(tmp_path, NODES), 1)
    assert rest == []
    assert first.manifest["metadata"]["name"] == "p0"
    assert first.manifest["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "64Mi"}


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        pytest.param("", "columns sn, cpu_milli, memory_mib are missing", id="an empty table"),
        pytest.param("sn,cpu_milli\nn,1\n", "columns memory_mib are missing", id="a missing column"),
        pytest.param(
            "sn,cpu_milli,memory_mib\nn,1,1\nm,many,1\n", "nodes.csv:3: cpu_milli is 'many'", id="a word for a number"
        ),
        pytest.param("sn,cpu_milli,memory_mib\nn,1\n", "nodes.csv:2: memory_mib is None", id="a short row"),
    ],
)
def test_a_broken_trace_names_file_line_and_column(tmp_path: Path, nodes: str, text: str) -> None:
    with pytest.raises(CommandError, match=text):
        deal_nodes(write_trace(tmp_path, nodes), ["a"], None, tmp_path)


def test_a_trace_that_is_not_there_says_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"a folder with nodes\.csv and pods\.csv"):
        list(trace_pods(tmp_path / "nothing", 1))


@pytest.mark.parametrize(
    ("reason", "want"),
    [
        ("0/30 nodes are available: 30 Insufficient cpu.", True),
        ("0/30 nodes are available: 10 Insufficient cpu, 20 Too many pods.", True),
        ("0/30 nodes are available: 10 Insufficient cpu, 20 node(s) were not ready.", False),
        ("tenant quota exceeded: tenant a: cpu asked 1, used 2, limit 2", False),
        ("", False),
    ],
)
def test_only_want_of_room_excuses_a_pod(reason: str, want: bool) -> None:
    assert no_room({"reason": reason}) is want


def test_the_report_is_what_the_issue_of_json_promises() -> None:
    shown = json.loads(json.dumps(demo_view.report(picture())))
    assert set(shown) == {"clusters", "pods", "seconds"}
    assert set(shown["pods"][0]) == {"namespace", "name", "source", "cluster", "node", "phase", "reason"}


def test_placements_are_listed_in_the_order_in_which_they_came() -> None:
    before = picture(latest=[("shop", "old")])
    after = picture()
    demo_view.note_placements(after, before)
    assert after.latest == [("shop", "old"), ("default", "web-1")]


def test_the_live_view_shows_loads_placements_and_reasons() -> None:
    out = io.StringIO()
    now = picture(latest=[("default", "web-1")])
    Console(file=out, width=140).print(demo_view.live(now, demo_view.latest_placements(now)))
    for text in ("34%", "unknown", "web-1", "west-1", "score 71.3", "Insufficient cpu", "1 Running", "1 Pending"):
        assert text in out.getvalue()


def test_pods_that_have_ended_are_none_of_a_cluster_as_in_the_list_of_clusters() -> None:
    now = picture()
    running = next(row for row in now.pods if row["cluster"])
    ended = [{**running, "name": phase, "phase": phase} for phase in ("Succeeded", "Failed")]

    def shown(pods: Sequence[Mapping[str, Any]]) -> str:
        out = io.StringIO()
        Console(file=out, width=140).print(demo_view.cluster_table(replace(now, pods=pods)))
        return out.getvalue()

    assert shown([running, *ended]) == shown([running])


def test_the_live_view_says_what_to_know_of_scores_and_what_to_do_next() -> None:
    out = io.StringIO()
    Console(file=out, width=140).print(demo_view.live(picture(note="scores go by requests", hint="Ctrl-C ends it"), ()))
    assert "scores go by requests" in out.getvalue()
    assert "Ctrl-C ends it" in out.getvalue()
