"""What clusters keep of the budgets of others: how much, over which delegates, and when nothing is said."""

from hashlib import sha256
from typing import Any

import msgspec
import pytest

from dispatcher.scheduling.clusters import ClusterView
from dispatcher.scheduling.delegation import shadows as shadow_budgets
from dispatcher.scheduling.delegation.shadows import (
    MAX_COVERS,
    MAX_UNCOUNTED,
    BudgetIndex,
    ShadowBudgets,
    shadow_name,
    shadows,
    why_uncounted,
)
from dispatcher.scheduling.delegation.tracked_pods import TrackedPods
from dispatcher.scheduling.delegation.tracking import Tracked
from dispatcher.scheduling.events import ClusterChanged, Effect, SendPeers, Tick
from dispatcher.scheduling.views import explain
from shared.messages import Changes, Cover, PodRef, Shadow, Shadows
from shared.model.labels import LabelSelector, Requirement
from shared.model.names import BUDGET, proxy_node_name
from shared.model.objects import PodDisruptionBudget, shadow_selector
from shared.model.pod import Pod, SourceRef
from tests.laws.cores import make_core

WEB = LabelSelector({"app": "web"})


def name_for(*selectors: LabelSelector) -> str:
    """Of the shadow of budgets with these selectors."""
    contents = [sha256(msgspec.json.encode(one, order="deterministic")).hexdigest() for one in selectors]
    return shadow_name("east-uid", "default", tuple(sorted(contents)))


NAME = name_for(WEB)
BOTH = name_for(WEB, LabelSelector())


def budget(name: str = "web", *, allowed: int = 1, desired: int = 2, **more: Any) -> PodDisruptionBudget:
    fields = {"selector": WEB, "allowed": allowed, "desired": desired, **more}
    return PodDisruptionBudget(name=name, namespace="default", **fields)


def source(number: int, *, namespace: str = "default", **more: Any) -> Pod:
    fields = {"node": proxy_node_name("west"), "phase": "Running", "ready": True, "labels": {"app": "web"}, **more}
    return Pod(f"s{number}", namespace, f"web-{number}", scheduler_name="global-dispatcher", **fields)


def delegate(number: int, under: str = NAME, *, namespace: str = "default", **more: Any) -> Pod:
    whose = SourceRef("east", "east-uid", "default", f"web-{number}", f"s{number}", 1)
    labels = {"app": "web", **({BUDGET: under} if under else {})}
    fields = {"node": "n1", "phase": "Running", "ready": True, "labels": labels, "source": whose, **more}
    return Pod(f"d{number}", namespace, f"web-{number}-x", scheduler_name="global-dispatcher.io/delegate", **fields)


class Fleet:
    """Cluster east with budgets, and pods of it that run in west."""

    def __init__(self) -> None:
        self.clusters = {name: self._cluster(name) for name in ("east", "west")}
        self.tracked = TrackedPods()
        self.budgets: dict[str, list[PodDisruptionBudget]] = {"east": [], "west": []}

    @staticmethod
    def _cluster(name: str) -> ClusterView:
        return ClusterView(name, uid=f"{name}-uid", synced=True, api_ok=True, silent=False)

    def pair(self, number: int, pod: Pod | None = None, copy: Pod | None = None, *, lost: bool = False) -> "Fleet":
        pod, copy = pod or source(number), copy or delegate(number)
        self.clusters["east"].pods[pod.uid] = pod
        copies = {} if lost else {"west": copy}
        self.tracked["east", pod.uid] = Tracked(("east", pod.uid), pod, copies)
        return self

    def told(self, to: str = "west") -> Shadows:
        return shadows(self.clusters, self.tracked, self.within)[to]

    def within(self, cluster: str, namespace: str) -> list[PodDisruptionBudget]:
        return [one for one in self.budgets[cluster] if one.namespace == namespace]

    def only(self) -> Shadow:
        (one,) = self.told().shadows
        return one


def three(*budgets: PodDisruptionBudget) -> Fleet:
    fleet = Fleet().pair(1).pair(2).pair(3)
    fleet.budgets["east"] += budgets
    return fleet


def test_a_pod_whose_labels_are_not_told_is_said_to_be_under_no_budget_abroad() -> None:
    index = BudgetIndex({"default": (budget(),)}.__getitem__)
    assert why_uncounted(source(1), index) == ""
    assert "which PodDisruptionBudgets select it is not known" in why_uncounted(source(1, labels_cut=True), index)
    assert why_uncounted(source(1, labels_cut=True), BudgetIndex(lambda namespace: ())) == ""


def test_a_shadow_keeps_what_its_budget_does_not_let_go() -> None:
    assert three(budget()).told() == Shadows(
        ("east",), (Shadow("east", "default", NAME, keep=2, always=True, budgets="web"),)
    )


HERE = source(9, node="n9")  # runs in east itself
MACHINE = msgspec.structs.replace(HERE, node=proxy_node_name("west"), at_home=True)
FOREIGN = msgspec.structs.replace(HERE, uid="f", scheduler_name="", ready=False)


@pytest.mark.parametrize(
    ("fleet", "keep", "always"),
    [
        (three(budget(allowed=0, desired=3)), 3, True),
        (three(budget(allowed=3, desired=0)), 0, False),
        (three(budget(allowed=0, desired=3, always=True)), 3, True),
        (three(budget(allowed=0, desired=2)), 3, True),
        (three(budget(allowed=1, desired=2)).pair(3, copy=delegate(3, terminating=True)), 2, True),
        (three(budget(allowed=1, desired=2)).pair(3, lost=True), 2, True),
        (three(budget(allowed=1, desired=2)).pair(3, source(3, terminating=True)), 3, True),
        (
            three(budget(allowed=1, desired=2)).pair(3, source(3, terminating=True), delegate(3, terminating=True)),
            2,
            True,
        ),
        (three(budget(allowed=1, desired=2)).pair(3, copy=delegate(3, ready=False)), 2, True),
        (three(budget(allowed=0, desired=3)).pair(3, copy=delegate(3, ready=False)), 3, False),
        (three(budget(allowed=0, desired=4)), 4, False),
        (three(budget(allowed=2, desired=2)).pair(9, HERE, lost=True), 1, True),
        (three(budget(allowed=2, desired=2)).pair(9, MACHINE, lost=True), 1, True),
        (three(budget(allowed=2, desired=2)).pair(9, FOREIGN, lost=True), 1, True),
        (three(budget(allowed=1, desired=2)).pair(3, copy=delegate(3, under="")), 2, True),
        (three(budget(allowed=1, desired=2), budget("other", selector=LabelSelector({"app": "db"}))), 2, True),
        (three(budget(allowed=1, desired=2), budget("none", selector=None)), 2, True),
    ],
    ids=[
        "nothing may go",
        "all may go",
        "those that are not Ready may always go",
        "its own cluster knows of a disturbance that is not seen here",
        "one is being evicted: its own cluster has not heard of it",
        "one is gone: its own cluster has not heard of it",
        "its own cluster has deleted one, the copy runs on",
        "both are going",
        "a copy is not Ready: not mirrored yet",
        "one too few are healthy",
        "one too few are there",
        "one that runs at home bears a part",
        "so does one on a machine that is named as proxy nodes are",
        "so does one of another scheduler",
        "one does not bear the label yet: none may go until it does",
        "a budget of other pods",
        "a budget of no pods",
    ],
)
def test_what_is_kept(fleet: Fleet, keep: int, always: bool) -> None:
    assert (fleet.only().keep, fleet.only().always) == (keep, always)


def test_an_eviction_changes_nothing_however_late_the_own_cluster_hears_of_it() -> None:
    fleet, kept = three(budget(allowed=1, desired=2)), []
    kept.append(fleet.only().keep)
    kept.append(fleet.pair(3, copy=delegate(3, terminating=True)).only().keep)
    kept.append(fleet.pair(3, source(3, terminating=True), delegate(3, terminating=True)).only().keep)
    fleet.budgets["east"] = [budget(allowed=0, desired=2)]
    kept.append(fleet.only().keep)
    assert kept == [2, 2, 2, 2]


def test_of_several_budgets_the_strictest_counts_under_one_name() -> None:
    fleet = three(budget(allowed=2, desired=1), budget("all", selector=LabelSelector(), allowed=1, desired=2))
    assert fleet.told().covers == tuple(Cover(_ref(number), BOTH) for number in (1, 2, 3))
    for number in (1, 2, 3):
        fleet.pair(number, copy=delegate(number, BOTH))
    assert fleet.told().shadows == (Shadow("east", "default", BOTH, keep=2, always=True, budgets="all,web"),)


def test_ever_so_many_budgets_and_clauses_of_one_namespace_are_not_asked_for_every_pod(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, real = list[LabelSelector](), LabelSelector.matches

    def matches(selector: LabelSelector, labels: dict[str, str]) -> bool:
        asked.append(selector)
        return real(selector, labels)

    monkeypatch.setattr(LabelSelector, "matches", matches)
    fleet = three(budget(), *(budget(f"x{number}", selector=LabelSelector({"app": "db"})) for number in range(1000)))
    fleet.budgets["east"] += [budget(f"all{number}", selector=LabelSelector()) for number in range(1000)]
    clauses = tuple(Requirement(f"a{number}", "NotIn", ("b",) * 10) for number in range(1000))
    fleet.budgets["east"] += [budget(f"a-huge{number}", selector=LabelSelector({}, clauses)) for number in range(10)]
    assert "web" not in fleet.only().budgets  # in a namespace that has so many that mean all, not every one counts
    assert len(asked) < 3 * 2 * 300


def huge(*, app: str = "web") -> PodDisruptionBudget:
    clauses = tuple(Requirement(f"a{number}", "NotIn", ("b",)) for number in range(200))
    return budget("huge", selector=LabelSelector({"app": app}, clauses))


UNCOUNTED: dict[str, tuple[list[PodDisruptionBudget], str]] = {
    "as many as are counted": ([budget(f"b{number}") for number in range(8)], ""),
    "one more": ([budget(f"b{number}") for number in range(9)], "more than 8 PodDisruptionBudgets select this pod"),
    "one more, which means other pods": (
        [*(budget(f"b{number}") for number in range(8)), budget("db", selector=LabelSelector({"app": "db"}))],
        "",
    ),
    "a selector beyond what is asked": ([budget(), huge()], "more than 256 labels, expressions and values"),
    "alone, too": ([huge()], "more than 256 labels, expressions and values"),
    "one that cannot mean the pod": ([budget(), huge(app="db")], ""),
}


@pytest.mark.parametrize("case", UNCOUNTED)
def test_the_cluster_of_a_pod_is_told_why_not_all_of_its_budgets_are_kept(case: str) -> None:
    budgets, why = UNCOUNTED[case]
    fleet = Fleet().pair(1).pair(9, HERE, lost=True)  # the second pod runs at home: its budgets hold there
    fleet.budgets["east"] = budgets
    told = fleet.told("east").uncounted
    assert [one.pod.uid for one in told] == (["s1"] if why else [])
    assert all(why in one.why for one in told)
    assert (why_uncounted(source(1), BudgetIndex(lambda _: budgets)) != "") == bool(why)


def test_many_pods_without_all_of_their_budgets_do_not_hide_those_of_other_namespaces() -> None:
    fleet = Fleet()
    for number in range(MAX_UNCOUNTED + 10):
        fleet.pair(number)
    fleet.pair(9999, source(9999, namespace="other"), delegate(9999, namespace="other"))
    fleet.budgets["east"] += [huge(), msgspec.structs.replace(huge(), namespace="other")]
    told = fleet.told("east").uncounted
    assert len(told) == MAX_UNCOUNTED
    assert [one.pod.uid for one in told if one.pod.namespace == "other"] == ["s9999"]


def test_explain_says_that_not_all_budgets_of_a_pod_are_kept_where_it_runs() -> None:
    core = make_core(("east", "west"))
    for name, pod, objects in (("east", source(1), (budget(), huge())), ("west", delegate(1), ())):
        core.handle(
            ClusterChanged(Changes(name, f"{name}-uid", "life", 0, 1, full=True, pods=(pod,), objects=objects)), 1.0
        )
    told = explain(core, "default", "web-1")
    assert told is not None
    assert "more than 256 labels" in told["waiting"]


def test_a_budget_is_found_among_a_thousand_of_other_pods_and_before_huge_ones() -> None:
    others = (budget(f"x{number}", selector=LabelSelector({"app": f"x{number}"})) for number in range(1000))
    large = LabelSelector({"app": "web"}, tuple(Requirement(f"a{number}", "NotIn", ("b",)) for number in range(1000)))
    assert three(*others, budget("a-huge", selector=large), budget()).only().budgets == "web"


def test_delegates_that_cannot_be_labelled_do_not_hold_up_those_of_other_namespaces() -> None:
    fleet = Fleet()
    for number in range(MAX_COVERS + 10):
        fleet.pair(number, copy=delegate(number, under=""))
    fleet.pair(9999, source(9999, namespace="other"), delegate(9999, under="", namespace="other"))
    fleet.budgets["east"] += [budget(), msgspec.structs.replace(budget(), namespace="other")]
    covers = fleet.told().covers
    assert len(covers) == MAX_COVERS
    assert [one.pod.uid for one in covers if one.pod.namespace == "other"] == ["d9999"]


def _ref(number: int) -> PodRef:
    return PodRef("default", f"web-{number}-x", f"d{number}")


@pytest.mark.parametrize(
    ("own", "under", "covered"),
    [
        ([], "", NAME),
        ([], "another", NAME),
        ([], NAME, None),
        ([budget("local")], "", None),
        ([budget("local")], NAME, ""),
        ([budget("local", selector=LabelSelector({"app": "db"}))], "", NAME),
        ([budget(NAME, selector=shadow_selector(NAME), shadow_of="east")], NAME, None),
    ],
    ids=[
        "is put under its shadow",
        "from another one",
        "once",
        "not if a budget of the target selects it",
        "then it is taken from under it",
        "a budget of other pods there does not matter",
        "nor does its shadow itself",
    ],
)
def test_a_delegate_has_one_budget(own: list[PodDisruptionBudget], under: str, covered: str | None) -> None:
    fleet = Fleet().pair(1, copy=delegate(1, under))
    fleet.budgets = {"east": [budget()], "west": own}
    assert fleet.told().covers == (() if covered is None else (Cover(_ref(1), covered),))
    assert bool(fleet.told().shadows) == (covered != "" and not (own and covered is None and not own[0].shadow_of))


@pytest.mark.parametrize(
    ("pod", "copy", "due"),
    [
        pytest.param({}, {}, True, id="Ready in both"),
        pytest.param(
            {"ready": False}, {}, False, id="not shown Ready at home yet: an eviction would be allowed too many"
        ),
        pytest.param({}, {"ready": False}, False, id="not Ready where it runs"),
    ],
)
def test_a_delegate_comes_under_its_shadow_once_its_own_cluster_counts_on_it(
    pod: dict[str, Any], copy: dict[str, Any], due: bool
) -> None:
    fleet = three(budget()).pair(4, source(4, **pod), delegate(4, "", **copy))
    assert fleet.told().covers == ((Cover(_ref(4), NAME),) if due else ())


@pytest.mark.parametrize("how", [("silent", True), ("restored", True), ("synced", False)], ids=str)
def test_of_a_cluster_that_is_away_or_was_restored_nothing_is_said(how: tuple[str, bool]) -> None:
    fleet = three(budget())
    setattr(fleet.clusters["east"], *how)
    assert fleet.told() == Shadows()


@pytest.mark.parametrize("ended", [{"terminating": True}, {"phase": "Succeeded", "ready": False}])
def test_without_delegates_or_without_budget_nothing_is_kept(ended: dict[str, Any]) -> None:
    fleet = Fleet().pair(1, copy=delegate(1, **ended))
    fleet.budgets["east"].append(budget())
    assert fleet.told() == three().told() == Shadows(("east",))


def test_an_agent_is_told_within_a_second_and_not_the_same_again() -> None:
    core = make_core(("east", "west"))
    first = (source(1), source(2)), (delegate(1), delegate(2, under=""))
    for (name, pods), objects in zip((("east", first[0]), ("west", first[1])), ((budget(),), ()), strict=True):
        told = Changes(name, f"{name}-uid", "life", 0, 1, full=True, pods=pods, objects=objects)
        core.handle(ClusterChanged(told), 1.0)
    assert [one.covers for one in _told(core.handle(Tick(), 1.1))] == [(Cover(_ref(2), NAME),)]
    assert _told(core.handle(Tick(), 3.0)) == []
    core.handle(ClusterChanged(Changes("west", "west-uid", "life", 1, 2, pods=(delegate(2),))), 3.1)
    assert [[one.keep for one in told.shadows] for told in _told(core.handle(Tick(), 4.0))] == [[2]]


def test_where_users_write_many_clauses_for_many_pods_it_is_looked_at_more_seldom(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet, looks = (
        three(budget(selector=LabelSelector({}, (Requirement("app", "NotIn", ("x",) * 97),)))),
        ShadowBudgets(),
    )
    monkeypatch.setattr(shadow_budgets, "_CLAUSES_PER_S", 100)  # three pods are asked 99 clauses each

    def looked(now: float) -> bool:
        before = looks.of("west")
        looks.look(fleet.clusters, fleet.tracked, fleet.within, now)
        return looks.of("west") is not before

    assert [looked(now) for now in (0.0, 2.0, 2.9, 3.1, 5.0, 6.2)] == [True, False, False, True, False, True]


def test_only_namespaces_of_pods_that_run_elsewhere_are_looked_at_however_many_budgets_others_have() -> None:
    fleet, asked = three(budget()), list[tuple[str, str]]()
    for at in range(10_000):
        fleet.budgets["east"].append(msgspec.structs.replace(budget(f"b{at}"), namespace=f"n{at % 100}"))
    for at in range(100):
        here = msgspec.structs.replace(source(100 + at), namespace=f"n{at}", node="e1")
        fleet.pair(100 + at, here, lost=True)

    def within(cluster: str, namespace: str) -> list[PodDisruptionBudget]:
        asked.append((cluster, namespace))
        return fleet.within(cluster, namespace)

    told = shadows(fleet.clusters, fleet.tracked, within)
    assert [one.keep for one in told["west"].shadows] == [2]
    assert sorted(asked) == [("east", "default"), ("west", "default")]


class _Unread(dict[str, Pod]):
    def values(self) -> Any:
        raise AssertionError("pods are looked at though there is no budget in their namespace")


def test_without_budgets_in_a_namespace_none_of_its_pods_are_looked_at() -> None:
    fleet = three()
    fleet.budgets["east"].append(msgspec.structs.replace(budget(), namespace="other"))
    for view in fleet.clusters.values():
        view.pods = _Unread(view.pods)
    assert not any(told.shadows for told in shadows(fleet.clusters, fleet.tracked, fleet.within).values())


def _told(effects: list[Effect]) -> list[Shadows]:
    return [one.shadows for one in effects if isinstance(one, SendPeers) and one.cluster == "west"]


def test_a_budget_that_is_renamed_or_made_anew_relabels_no_delegate() -> None:
    before, renamed = three(budget("web")), three(budget("other", desired=1))
    assert [one.name for one in before.told().shadows] == [one.name for one in renamed.told().shadows] == [NAME]
    assert renamed.told().covers == ()


def test_a_budget_of_other_pods_has_another_shadow() -> None:
    narrow = LabelSelector({"app": "web", "tier": "front"})
    assert len({name_for(WEB), name_for(narrow), name_for(WEB, narrow), name_for(WEB, WEB)}) == 4
