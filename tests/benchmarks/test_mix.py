"""The command for mixed work with arguments of one's own."""

import json
from dataclasses import fields

import pytest

from benchmarks import mix as mix_command
from benchmarks.mix import main
from benchmarks.mixed.stage import Stage
from benchmarks.workloads.mixed import Mix
from dispatcher.plugins.tenant_quota import TenantQuota
from dispatcher.scheduling.framework import Plugin

SMALL = ("--nodes", "40", "--pods", "60", "--classes", "6", "--sizes", "3", "--seed", "9")


def told(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict[str, float]]:
    main((*SMALL, *words))
    found: dict[str, dict[str, float]] = json.loads(capsys.readouterr().out)
    return found


def test_every_argument_of_the_generator_is_an_option_and_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, "--tenants", "2", "--churn", "20", "--no-interleaved")
    assert found["work"].keys() == {one.name for one in fields(Mix)} | {"burst", "recorded", "nothing_fits"}
    assert (found["work"]["tenants"], found["work"]["churn"], found["work"]["interleaved"]) == (2, 20, False)
    assert found["CPU time"]["bound/s"] > 0


@pytest.mark.parametrize("words", ["--anti-affinity 20", "--nothing-fits", "--soft-spread 50 --burst 7"])
def test_the_same_work_of_one_template_stands_beside_it(capsys: pytest.CaptureFixture[str], words: str) -> None:
    found = told(capsys, *words.split())
    beside = found["one template in the same run"]
    assert beside.keys() == found["CPU time"].keys()
    assert all(rate > 0 for rate in beside.values())


@pytest.mark.parametrize(
    ("words", "work"),
    [("--burst 7", {"burst": 7}), ("--recorded", {"recorded": True}), ("--nothing-fits", {"nothing_fits": True})],
)
def test_what_was_measured_can_be_told_from_the_output_alone(
    capsys: pytest.CaptureFixture[str], words: str, work: dict[str, int]
) -> None:
    assert told(capsys, *words.split())["work"].items() >= work.items()


def test_pods_that_fit_nowhere_are_refused_at_first_and_after_an_event(capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, "--nothing-fits")
    assert set(found["CPU time"]) == {"refusals/s", "refusals/s with their report", "refusals/s after five minutes"}
    assert all(rate > 0 for rate in found["CPU time"].values())


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("--classes 0", "--classes: must be from 1 to "),
        ("--pods 0", "--pods: must be from 1 to "),
        ("--nodes -1", "--nodes: must be from 1 to "),
        ("--sizes 0", "--sizes: must be from 1 to "),
        ("--tenants -1", "--tenants: must be from 0 to "),
        ("--ratio nan", "--ratio: must be from 0 to 1, and is nan"),
        ("--cpu -5", "--cpu: must be from 0 to "),
        ("--memory 99999999999999999999999", "--memory: must be from 0 to "),
        ("--churn -10", "--churn: must be from 0 to "),
        ("--readings -5", "--readings: must be from 0 to "),
        ("--anti-affinity 101", "--anti-affinity: must be from 0 to 100, and is 101"),
        ("--node-cpu 0", "--node-cpu: must be from 1 to "),
        ("--burst -3", "--burst: must be 1 at least, and is -3"),
        ("--burst 0", "--burst: must be 1 at least, and is 0"),
        ("--nothing-fits --recorded", "--nothing-fits: takes none of --burst, --recorded, --churn, --readings"),
        ("--nothing-fits --churn 20", "--nothing-fits: takes none of --burst, --recorded, --churn, --readings"),
        ("--nothing-fits --readings 5", "--nothing-fits: takes none of --burst, --recorded, --churn, --readings"),
    ],
)
def test_what_no_work_can_be_made_of_is_an_error_that_names_the_argument(
    capsys: pytest.CaptureFixture[str], words: str, named: str
) -> None:
    with pytest.raises(SystemExit):
        main((*SMALL, *words.split()))
    assert f"error: {named}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        "--classes 1 --nodes 1",
        "--classes 200 --tenants 100 --pods 5",
        "--seed 99999999999999999999999999 --churn 1000 --readings 300",
        "--seed -4 --cpu 0 --memory 0",
        "--burst 7 --claims",
        "--nodes 1 --pods 64 --classes 1",
        "--nodes 4 --pods 600 --churn 100 --sizes 1",
    ],
)
def test_unusual_work_that_can_be_done_is_measured(capsys: pytest.CaptureFixture[str], words: str) -> None:
    assert told(capsys, *words.split())["CPU time"]["bound/s"] > 0


@pytest.mark.parametrize("words", ["--node-cpu 500000000000000", "--memory 1000000000000", "--tenants 3 --ratio 0.001"])
def test_an_event_that_may_help_wakes_pods_whatever_they_ask_for(
    capsys: pytest.CaptureFixture[str], words: str
) -> None:
    found = told(capsys, "--nothing-fits", *words.split())
    assert all(rate > 0 for rate in found["CPU time"].values())
    assert found["work"]["cpu"] == 2 * found["work"]["node_cpu"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--node-cpu 500 --sizes 1", "40 of 60 pods are bound, uid-"),
        ("--cpu 100000", "0 of 60 pods are bound, uid-0000000 is not: 0/40 nodes are available: 40 Insufficient cpu"),
        ("--tenants 2 --ratio 0", "0 of 60 pods are bound, uid-0000000 is not: tenant quota exceeded: tenant team-"),
    ],
)
def test_work_that_the_fleet_has_no_room_for_is_an_error_that_says_why(
    capsys: pytest.CaptureFixture[str], words: str, why: str
) -> None:
    with pytest.raises(SystemExit):
        main((*SMALL, *words.split()))
    assert why in capsys.readouterr().err


def test_the_reason_is_told_also_where_more_pods_are_left_than_records_are_kept(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["--nodes", "2", "--pods", "10100", "--anti-affinity", "1"])
    said = capsys.readouterr().err
    assert "didn't match pod anti-affinity rules" in said
    assert "more --classes" in said


def test_an_interrupt_ends_it_with_a_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(mix: Mix, **_: object) -> float:
        raise KeyboardInterrupt

    monkeypatch.setattr(mix_command, "bound_rate", interrupted)
    with pytest.raises(SystemExit) as end:
        main(SMALL)
    assert (end.value.code, capsys.readouterr().err) == (130, "interrupted\n")


def test_tenants_of_a_tree_of_three_levels_borrow_nearly_all_that_they_use() -> None:
    mix = Mix(nodes=50, pods=400, classes=20, tenants=20, tree=True)
    stage = Stage(mix)
    stage.arrive(mix.arrivals())
    stage.decide_all()
    assert not stage.left()
    ledger = next(one.ledger for one in _plugins(stage) if isinstance(one, TenantQuota))
    totals = stage.core.fleet.allocatable_total()
    nodes = [ledger.node(f"team-{one}", totals) for one in range(mix.tenants)]
    assert all(len(node.path) == 3 and node.borrowed("cpu") for node in nodes)


def _plugins(stage: Stage) -> list[Plugin]:
    return [one for scheduler in stage.core.profiles for one in scheduler.plan.plugins]
