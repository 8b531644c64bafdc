"""A row of docs/parity.md explains the difference that it is about, and no other in the same fleet."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from shared.model.names import HOSTNAME
from tests.parity.case import Case, Object, Verdict
from tests.parity.compare import differences
from tests.parity.intended import row_of, unexplained
from tests.parity.oracle.defaulting import defaulted
from tests.parity.oracle.judge import Oracle
from tests.parity.ours import OurSide
from tests.parity.profile import PREEMPTING

REQUIRED, PREFERRED = (f"{when}DuringSchedulingIgnoredDuringExecution" for when in ("required", "preferred"))
SELECTOR = {"matchLabels": {"app": "web"}}
NO_TEAM = {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}
GIB = 2**30


def node(name: str, hostname: str | None = None, image: int = 0) -> Object:
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    status: Object = {"allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
    if image:
        status["images"] = [{"names": ["app:1"], "sizeBytes": image}]
    meta = {"name": name, "labels": {} if hostname == "" else {HOSTNAME: hostname or name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {}, "status": status}


def pod(name: str, namespace: str = "mine", **spec: Any) -> Object:
    meta = {"name": name, "namespace": namespace, "labels": {"app": "web"}}
    containers = [{"name": "c", "image": "app:1", "resources": {"requests": {"cpu": "100m"}}}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": containers, **spec}}


def apart(**term: Any) -> Object:
    terms = [{"topologyKey": HOSTNAME, "labelSelector": SELECTOR, **term}]
    return pod("asks", affinity={"podAntiAffinity": {REQUIRED: terms}})


def drawn() -> Object:
    term = {"topologyKey": HOSTNAME, "labelSelector": SELECTOR}
    return pod("asks", affinity={"podAffinity": {PREFERRED: [{"weight": 10, "podAffinityTerm": term}]}})


def spread(when: str, selector: Object = SELECTOR) -> Object:
    rule = {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": when, "labelSelector": selector}
    return pod("asks", topologySpreadConstraints=[rule])


def fleet(asking: Object, *nodes: Object, there: Object | None = None) -> Case:
    """Nodes, namespaces with and without a team, and one pod of app web on the first node."""
    spaces: list[Object] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": "x"}}}
        for name in ("mine", "other")
    ]
    bound = [{**(there or pod("there")), "spec": {**pod("")["spec"], "nodeName": nodes[0]["metadata"]["name"]}}]
    return defaulted(Case(objects=spaces, nodes=list(nodes), bound=bound, pending=[asking]))


SHARED = (node("n1", "shared"), node("n2", "shared"), node("n3"))
BARE = (node("n1"), node("n2", ""), node("n3"))
PLAIN = (node("n1"), node("n2"), node("n3"))
SIZES = (node("n1", image=GIB), node("n2", image=GIB // 2), node("n3"))
HOST = "a node is a host"
EMPTY = "an empty labelSelector of a spread constraint"
CASES = {
    "two nodes with one hostname, anti-affinity": (HOST, "feasible", fleet(apart(), *SHARED)),
    "two nodes with one hostname, a wish": (HOST, "InterPodAffinity", fleet(drawn(), *SHARED)),
    "two nodes with one hostname, spread": (HOST, "feasible", fleet(spread("DoNotSchedule"), *SHARED)),
    "a node without the label, spread": (HOST, "feasible", fleet(spread("DoNotSchedule"), *BARE)),
    "a node without the label, soft spread": (HOST, "PodTopologySpread", fleet(spread("ScheduleAnyway"), *BARE)),
    "an empty selector, spread": (EMPTY, "feasible", fleet(spread("DoNotSchedule", {}), *PLAIN)),
    "an empty selector, soft spread": (EMPTY, "PodTopologySpread", fleet(spread("ScheduleAnyway", {}), *PLAIN)),
    "two sizes of an image": (
        "one image name with two sizes on two nodes",
        "ImageLocality",
        fleet(pod("asks"), *SIZES),
    ),
    "requests as a whole": (
        "pod-level requests in the score of NodeResourcesFit",
        "NodeResourcesFit",
        fleet(pod("asks", resources={"requests": {"cpu": "2"}}), *PLAIN),
    ),
}


def sides(case: Case) -> tuple[Verdict, Verdict]:
    """kube-scheduler's answer, which the oracle with its faults has, and ours."""
    return Oracle(case, quirks=True).judge(case.pending[0]), OurSide(case).judge(case.pending[0])


@pytest.mark.parametrize("what", CASES)
def test_the_difference_that_a_row_is_about_is_that_rows(what: str) -> None:
    row, field, case = CASES[what]
    theirs, ours = sides(case)
    found = differences(theirs, ours)
    assert {row_of(one, case.pending[0], case) for one in found if one.what != "total"} == {row}
    assert {one.what for one in found} - {"total"} == {field}
    assert not unexplained(found, case.pending[0], case)


@pytest.mark.parametrize("labels", [{"app": "web"}, {}], ids=["an empty selector", "a pod without labels"])
def test_other_victims_are_the_rows_where_only_we_see_a_budget(labels: dict[str, str]) -> None:
    selector = {} if labels else {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "all", "namespace": "mine"},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": 0},
    }
    case = fleet(pod("asks", schedulerName=PREEMPTING), node("n1"), node("n2"))
    case.objects.append(budget)
    case.bound[:] = [
        {**one, "spec": {**one["spec"], "nodeName": on, "priority": 0}, "status": {"phase": "Running", "startTime": at}}
        for one, on, at in (
            (pod("guarded"), "n1", "2026-01-01T00:00:05Z"),
            (pod("free", "other"), "n2", "2026-01-01T00:00:01Z"),
        )
    ]
    case.bound[0]["metadata"]["labels"] = labels
    for one in case.nodes:
        one["status"]["allocatable"]["pods"] = "1"
    case = defaulted(case)
    case.pending[0]["spec"]["priority"] = 100
    theirs, ours = sides(case)
    assert ({*theirs.victims}, {*ours.victims}) == ({"mine/guarded"}, {"other/free"})
    found = differences(theirs, ours)
    assert {row_of(one, case.pending[0], case) for one in found} == {
        "budgets with an empty selector, or over pods without labels"
    }


def _refuses_n3(verdict: Verdict) -> Verdict:
    return replace(verdict, feasible=(verdict.feasible or frozenset()) ^ {"n3"}, scores=None, totals=None)


def _scores_n3(plugin: str) -> Callable[[Verdict], Verdict]:
    def change(verdict: Verdict) -> Verdict:
        scores = verdict.scores or {}
        return replace(verdict, scores={**scores, plugin: {**scores[plugin], "n3": scores[plugin]["n3"] + 1}})

    return change


@pytest.mark.parametrize("what", CASES)
def test_another_difference_in_the_same_fleet_is_no_rows(what: str) -> None:
    """A node, or a score, that is as it is for another reason."""
    _, field, case = CASES[what]
    theirs, ours = sides(case)
    wrong = (_refuses_n3 if field == "feasible" else _scores_n3(field))(theirs)
    found = differences(wrong, ours)
    left = {(one.what, one.node) for one in unexplained(found, case.pending[0], case)}
    assert (field, "" if field == "feasible" else "n3") in left


@pytest.mark.parametrize("name", ["rack", "zone", "host", "cluster"])
def test_a_label_with_the_name_of_a_level_excuses_nothing(name: str) -> None:
    nodes = [{**one, "metadata": {**one["metadata"], "labels": {name: "a", HOSTNAME: "n"}}} for one in PLAIN]
    case = fleet(apart(topologyKey=name), *nodes)
    theirs, ours = sides(case)
    assert not differences(theirs, ours)
    assert unexplained(differences(_refuses_n3(theirs), ours), case.pending[0], case)
