"""The parts of the end-to-end runs that need no API server, and on a real one a small run as a whole."""

import json
from pathlib import Path

import pytest

from benchmarks.end_to_end import cases
from benchmarks.end_to_end.audit_tail import Tail
from benchmarks.end_to_end.contestants import THEM
from benchmarks.end_to_end.race import Run
from benchmarks.end_to_end.seeded_plane import order
from benchmarks.workloads.cases import Pods, case
from localfleet.controlplane import binaries
from localfleet.controlplane.audit import AuditLog


def line(name: str, code: int = 201, second: int = 0, subresource: str = "binding") -> str:
    ref = {"resource": "pods", "name": name, "subresource": subresource}
    event = {"verb": "create", "objectRef": ref, "responseStatus": {"code": code}}
    return json.dumps({**event, "stageTimestamp": f"2026-01-01T00:00:{second:02}.500000Z"}, separators=(",", ":"))


def test_the_tail_counts_bindings_of_its_pods_that_the_server_took(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_text(line("measured-old") + "\n")
    tail = Tail(AuditLog(log), "measured")
    with log.open("a") as file:
        file.write("\n".join([line("measured-0", second=1), line("warm-0"), line("measured-1", 409), ""]))
        file.write(line("measured-2", second=3)[:40])
    tail.read()
    assert (len(tail.bindings), tail.refused) == (1, 1)
    with log.open("a") as file:
        file.write(line("measured-2", second=3)[40:] + "\n")
    tail.read()
    tail.close()
    assert tail.bindings[1] - tail.bindings[0] == 2.0


def test_a_run_counts_what_was_bound() -> None:
    run = Run(bound=400, wanted=500, seconds=2.0, made_s=1.0, cpu_s=1.2, attempts=410, refused=0)
    assert run.rate == 200
    assert run.cpu_ms == pytest.approx(3.0)


def test_both_contestants_are_in_the_rows_and_what_is_left_is_said() -> None:
    us = Run(2000, 2000, 4.0, 3.0, 3.0, 2003, 0)
    them = Run(1900, 2000, 120.0, 5.0, 57.0, 2100, 0)
    rate, cpu, tries = cases._rows(case("SchedulingPodAffinity"), us, them)
    assert (rate.value, rate.baseline, rate.beside) == (500.0, 1900 / 120, THEM)
    assert (cpu.value, cpu.baseline) == (1.5, 30.0)
    assert (tries.value, tries.baseline) == (2003 / 2000, 2100 / 1900)
    for said in ("made at 667/s", "kube-scheduler left 100 unbound"):
        assert said in rate.counts


def test_a_pod_with_a_node_is_bound_when_it_is_made() -> None:
    path, body = order(Pods("pod-default", 1), "sched-0", "p", "global-dispatcher", "n1")
    assert path == "/api/v1/namespaces/sched-0/pods"
    assert body["spec"]["nodeName"] == "n1"
    assert "nodeName" not in order(Pods("pod-default", 1), "sched-0", "p", "global-dispatcher")[1]["spec"]


@pytest.mark.real
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["Unschedulable", "PreemptionBasic"])
def test_a_small_run_binds_all_pods_on_both_sides(name: str) -> None:
    if reason := binaries.unavailable():
        pytest.skip(reason)
    rows = cases.end_to_end(name, 50)
    assert len(rows) == 3
    assert "unbound" not in rows[0].counts
    for row in rows:
        assert row.value > 0
        assert row.baseline
