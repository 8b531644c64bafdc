"""Our core, and the oracle, agree with a real kube-scheduler on every generated pod and fleet."""

import json
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from localfleet.controlplane import binaries
from shared.model.names import HOSTNAME
from tests.parity import __main__ as command
from tests.parity import manifests
from tests.parity.case import Case, Object
from tests.parity.generate import SMALL, owned_case, preemption_case, seeded_case
from tests.parity.kube import Played, kube_scheduler
from tests.parity.oracle.judge import Oracle
from tests.parity.ours import OurSide
from tests.parity.profile import OTHERS
from tests.parity.run import Report, examine
from tests.parity.seeds import SEED

pytestmark = [pytest.mark.real, pytest.mark.parity, pytest.mark.timeout(1800)]


@pytest.fixture(autouse=True)
def _programs() -> None:
    if reason := binaries.unavailable():
        pytest.skip(reason)


class Comparison:
    """Plays cases before kube-scheduler and our core, and tells what ran."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.report = Report(folder)
        self._capsys = capsys

    def run(self, cases: Sequence[Case], what: str) -> list[Played]:
        with kube_scheduler(cases) as scheduler:
            began = time.monotonic()
            played = [scheduler.play(case) for case in cases]
            rate = sum(len(one.verdicts) for one in played) / (time.monotonic() - began)
        for one in played:
            examine(OurSide(one.case), one.case, one.verdicts, self.report)
        refused = ", ".join(f"{count} {kind}" for kind, count in scheduler.store.refused.items()) or "nothing"
        with self._capsys.disabled():
            print(f"\n{what} before kube-scheduler, seed {SEED}: {self.report.summary()}; {rate:.0f} cases/s;", end=" ")
            print(f"refused by the API server: {refused}")
        assert not self.report.found, f"seed {SEED}: our core differs:\n{self.report.differing()}"
        return played


@pytest.fixture
def comparison(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Comparison:
    return Comparison(tmp_path, capsys)


def test_two_thousand_pods_fare_as_under_kube_scheduler(comparison: Comparison, tmp_path: Path) -> None:
    """So they do in the oracle, once it has kube-scheduler's faults, and then without any intended difference."""
    played = comparison.run([seeded_case(SEED, f"f{index}") for index in range(260)], "pods")
    oracle = Report(tmp_path / "oracle")
    for one in played:
        examine(Oracle(one.case, quirks=True), one.case, one.verdicts, oracle)
    assert not oracle.found, f"seed {SEED}: the oracle differs:\n{oracle.differing()}"
    assert not oracle.rows
    assert comparison.report.counts["cases"] >= 2000


def test_pods_fare_as_under_kube_scheduler_with_other_strategies_arguments_and_weights(comparison: Comparison) -> None:
    comparison.run([seeded_case(SEED, f"q{index}", profiles=OTHERS) for index in range(40)], "pods of other profiles")
    assert comparison.report.counts["placed"] > 50


def test_pods_with_volumes_fare_as_under_kube_scheduler(comparison: Comparison) -> None:
    """Bound claims, lost ones, those that wait for their pod; limits of nodes, capacity of drivers, inline disks."""
    comparison.run([seeded_case(SEED, f"v{index}", volumes=True) for index in range(60)], "pods with volumes")
    assert comparison.report.counts["placed"] > 100


def test_pods_of_services_and_owners_are_spread_as_by_kube_schedulers_defaults(comparison: Comparison) -> None:
    comparison.run([owned_case(SEED, f"o{index}") for index in range(60)], "pods of Services and owners")
    assert comparison.report.counts["placed"] > 150


def featured_case() -> Case:
    """A small node that declares a feature and a large one that does not; pods that need it, and one that does not."""
    nodes, pods = list[Object](), list[Object]()
    for name, cpu, features in (("able", "1", ["RestartAllContainersOnContainerExits"]), ("large", "8", [])):
        room = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
        ready = [{"type": "Ready", "status": "True"}]
        status = {"allocatable": room, "capacity": room, "conditions": ready, "declaredFeatures": features}
        meta = {"name": name, "labels": {HOSTNAME: name}}
        nodes.append({"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {}, "status": status})
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
    needs: Object = {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    for name, cpu, more in (("any", "100m", {}), ("needs", "100m", needs), ("needs-room", "4", needs)):
        container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": cpu}}, **more}
        spec = {"restartPolicy": "Never", "containers": [container]}
        meta = {"name": name, "namespace": "default"}
        pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    return Case(nodes=nodes, pending=pods)


def test_pods_go_where_a_feature_is_declared_as_under_kube_scheduler(comparison: Comparison) -> None:
    (played,) = comparison.run([featured_case()], "pods that need a feature")
    any_, needs, too_large = (verdict for _, verdict in played.verdicts)
    assert (needs.feasible, too_large.node) == (frozenset({"able"}), "")
    assert any_.feasible == frozenset({"able", "large"})
    assert "1 node(s) didn't match Pod's required features" in too_large.message


def test_pods_preempt_as_under_kube_scheduler(comparison: Comparison, tmp_path: Path) -> None:
    """Who goes, where, and where the pod is placed when they are gone; the oracle says the same."""
    played = comparison.run([preemption_case(SEED, f"e{index}") for index in range(250)], "pods that may preempt")
    verdicts = [verdict for one in played for _, verdict in one.verdicts]
    assert sum(bool(verdict.victims) for verdict in verdicts) > 30
    oracle = Report(tmp_path / "oracle")
    for one in played:
        examine(Oracle(one.case, quirks=True), one.case, one.verdicts, oracle)
    assert not oracle.found, f"seed {SEED}: the oracle differs:\n{oracle.differing()}"


def test_the_command_finds_no_difference_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "fleet.yaml"
    manifests.write(seeded_case(SEED, "command", SMALL), path)
    assert command.main([str(path), "--all"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["differing"] == 0
    assert {"pod", "differences", "intended", "kube-scheduler", "ours"} == set(told["results"][0])


def test_the_command_names_what_the_api_server_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "fleet.yaml"
    case = seeded_case(SEED, "refused", SMALL)
    case.pending[0]["spec"]["containers"] = []
    manifests.write(case, path)
    assert command.main([str(path)]) == 0
    told = capsys.readouterr()
    assert "spec.containers: Required value" in told.err
    assert "spec.containers: Required value" in json.loads(told.out)["refused"][0]
