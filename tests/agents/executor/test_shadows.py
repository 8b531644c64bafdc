"""Shadow budgets as a target's executor keeps them: its own alone, over delegates alone."""

from typing import Any

import msgspec
import pytest

from agents.executor.bounds.byte_budget import ByteBudget, ByteRate
from agents.executor.duties import shadows
from shared.kube.http import Request, Response
from shared.messages import Cover, PodRef, Shadow, Shadows, UncountedBudgets
from shared.model import names
from tests.agents.executor.world import NOW, World, delegate_of, node_object, order_for, pod_object, run

NAME = "global-dispatcher-0123456789abcdef"
PATH = f"/apis/policy/v1/namespaces/default/poddisruptionbudgets/{NAME}"
SELECTOR = {"matchLabels": {names.BUDGET: NAME}}
OURS = {"name": NAME, "namespace": "default", "labels": {names.BUDGET_OF: "a"}}
MANIFEST = b'{"metadata":{"labels":{"app":"web"},"annotations":{}},"spec":{"containers":[{"name":"main","image":"x"}]}}'


def shadow(keep: int = 2, *, always: bool = False, name: str = NAME, cluster: str = "a") -> Shadow:
    return Shadow(cluster, "default", name, keep, always, "web")


def spec(keep: int = 2, *, always: bool = False) -> dict[str, Any]:
    policy = "AlwaysAllow" if always else "IfHealthyBudget"
    return {"minAvailable": keep, "selector": SELECTOR, "unhealthyPodEvictionPolicy": policy}


class Target:
    """Cluster b, which runs a pod of cluster a."""

    def __init__(self) -> None:
        self.world = World(node_object(), cluster="b", peers=("a",))
        self.source = PodRef("default", "web", "source-uid")
        self.world.do(order_for(self.source, 1, "n1", MANIFEST))
        self.world.sync()
        self.requests: list[Request] = []

    @property
    def delegate(self) -> Any:
        found = self.world.api.pod(delegate_of(self.source))
        assert found is not None
        return found

    @property
    def ref(self) -> PodRef:
        return PodRef("default", self.delegate["metadata"]["name"], self.delegate["metadata"]["uid"])

    @property
    def label(self) -> Any:
        return self.delegate["metadata"]["labels"].get(names.BUDGET)

    @property
    def budget(self) -> Any:
        return self.world.api.objects.get(PATH)

    def put(self, spec: dict[str, Any], **metadata: Any) -> None:
        self.world.api.put(PATH, {"metadata": {**OURS, **metadata}, "spec": spec})
        self.world.sync()

    def tend(self, *wanted: Shadow, covers: tuple[Cover, ...] = (), of: tuple[str, ...] = ("a",)) -> list[str]:
        self.world.local.shadows, self.requests = Shadows(of, wanted, covers), []
        problems = [run(duty.procedure, self._answer) for duty in shadows.reconcile_tasks(self.world.local, NOW)]
        self.world.sync()
        return [problem for problem in problems if problem]

    def _answer(self, request: Request) -> Response:
        self.requests.append(request)
        return self.world.api.answer(request)

    @property
    def writes(self) -> list[str]:
        return [one.method for one in self.requests if one.method != "GET"]


def test_a_shadow_is_made_once_and_follows() -> None:
    target = Target()
    assert (target.tend(shadow(2)), target.writes) == ([], ["POST"])
    assert target.budget["spec"] == spec(2)
    assert target.budget["metadata"]["labels"] == {names.BUDGET_OF: "a"}
    assert target.budget["metadata"]["annotations"] == {names.BUDGETS: "web"}
    assert (target.tend(shadow(2)), target.requests) == ([], [])
    assert (target.tend(shadow(1, always=True)), target.writes) == ([], ["PATCH"])
    assert target.budget["spec"] == spec(1, always=True)


@pytest.mark.parametrize(
    "bent",
    [
        {"maxUnavailable": "50%", "selector": SELECTOR},
        {**spec(2), "selector": {"matchLabels": {names.BUDGET: NAME, "app": "web"}}},
        {**spec(2), "selector": {**SELECTOR, "matchExpressions": [{"key": "app", "operator": "Exists"}]}},
        {**spec(2), "selector": {}},
    ],
    ids=["another bound", "one more label", "an expression", "every pod"],
)
def test_what_somebody_has_changed_is_put_right(bent: dict[str, Any]) -> None:
    target = Target()
    target.put(bent)
    assert target.tend(shadow(2)) == []
    assert target.budget["spec"] == spec(2)


def test_what_the_view_does_not_show_yet_is_not_written_again() -> None:
    target = Target()
    target.world.api.put(PATH, {"metadata": OURS, "spec": spec(2)})
    assert (target.tend(shadow(2)), target.writes) == ([], [])


def test_a_budget_of_somebody_else_keeps_its_name() -> None:
    target = Target()
    target.put(spec(0), labels={})
    (problem,) = target.tend(shadow(2))
    assert problem.endswith("a PodDisruptionBudget of this name is there that is not ours")
    assert (target.tend(), target.writes) == ([], [])
    assert target.budget["spec"] == spec(0)


@pytest.mark.parametrize(
    ("of", "metadata", "selector", "there"),
    [
        (("a",), {}, SELECTOR, False),
        (("c",), {}, SELECTOR, True),
        ((), {}, SELECTOR, True),
        (("a",), {"labels": {}}, SELECTOR, True),
        (("a",), {}, {"matchLabels": {"app": "web"}}, True),
    ],
    ids=[
        "nobody wants it any more",
        "its cluster is away",
        "nothing is known",
        "it is not ours",
        "it bears our label and means other pods",
    ],
)
def test_what_nobody_wants_is_removed(of: tuple[str, ...], metadata: Any, selector: Any, *, there: bool) -> None:
    target = Target()
    target.put({**spec(), "selector": selector}, **metadata)
    assert target.tend(of=of) == []
    assert (target.budget is not None) == there


def test_a_server_that_refuses_is_told_of() -> None:
    target = Target()
    target.world.local.shadows = Shadows(("a",), (shadow(),))
    (duty,) = shadows.reconcile_tasks(target.world.local, NOW)
    problem = run(duty.procedure, lambda _: Response(403, b'{"message": "no rights"}'))
    assert problem == f'budgets of cluster "a" are not kept by default/{NAME}: no rights (HTTP 403)'


@pytest.mark.parametrize(
    ("wanted", "known", "label"),
    [
        ((shadow(),), True, NAME),
        ((), True, None),
        ((shadow(cluster="c"),), True, None),
        ((shadow(),), False, None),
    ],
    ids=["a delegate", "under no shadow that is wanted", "under one of another cluster", "a pod that is no delegate"],
)
def test_only_delegates_are_put_under_shadows_of_their_cluster(
    wanted: tuple[Shadow, ...], label: str | None, *, known: bool
) -> None:
    target = Target()
    ref = target.ref if known else target.world.submit(pod_object("other"))
    target.tend(*wanted, covers=(Cover(ref, NAME),), of=("a", "c"))
    assert target.label == label
    assert names.BUDGET not in (target.world.api.pod("other") or pod_object())["metadata"]["labels"]


def test_a_delegate_is_labelled_once_and_freed_again() -> None:
    target = Target()
    cover = (Cover(target.ref, NAME),)
    target.tend(shadow(), covers=cover)
    assert (target.tend(shadow(), covers=cover), target.requests) == ([], [])
    target.tend(shadow(), covers=(Cover(target.ref, ""),))
    assert target.label is None


def test_the_owner_of_a_pod_is_warned_once_for_each_cause_that_not_all_of_its_budgets_are_kept() -> None:
    world = World(peers=("b",))
    remote = world.submit(pod_object(nodeName=names.proxy_node_name("b")))
    gone = PodRef("default", "gone", "gone-uid")
    for why in ("too many", "too many", "too large"):
        world.local.shadows = Shadows(uncounted=(UncountedBudgets(remote, why), UncountedBudgets(gone, why)))
        shadows.warn_uncounted(world.local, NOW)
    written = [msgspec.json.decode(one.body) for one in world.local.events]
    assert [(one["type"], one["reason"], one["note"]) for one in written] == [
        ("Warning", "BudgetsNotKept", "too many"),
        ("Warning", "BudgetsNotKept", "too large"),
    ]
    assert {one["regarding"]["uid"] for one in written} == {remote.uid}


def test_delegates_that_are_to_change_budgets_without_end_are_labelled_at_a_rate_of_bytes_a_namespace() -> None:
    target = Target()
    target.world.local.label_bytes = ByteBudget(ByteRate(10_000, 10))
    size, labelled, problems = len(msgspec.json.encode(target.delegate)), 0, [""]
    for at in range(100):
        name = f"global-dispatcher-{at:016x}"
        problems += target.tend(shadow(name=name), covers=(Cover(target.ref, name),))
        labelled += target.label == name
    assert labelled < 3 + 10_000 / size
    assert "come under other budgets of their own cluster too often" in problems[-1]
