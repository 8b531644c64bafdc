"""PodDisruptionBudgets: how many of the pods that a budget selects may be disturbed now."""

from collections.abc import Iterable, Sequence
from math import ceil

from localfleet.embedded.api import Api
from localfleet.embedded.controllers.replicaset import PODS, REPLICASETS
from localfleet.embedded.controllers.world import Ref, World
from localfleet.embedded.controllers.writes import PutStatus, carry_out
from localfleet.embedded.meta import (
    Object,
    controller_of,
    is_finished,
    is_ready,
    is_terminating,
    label_selector,
    labels_of,
    seconds,
    with_condition,
)

BUDGETS = "poddisruptionbudgets.policy"
# An eviction that was allowed counts against the budget until its pod is seen to go, but not for
# longer than this.
_EVICTION_TIMEOUT_S = 120.0


def budget_status(budget: Object, pods: Sequence[Object], expected: int, now: float) -> Object:
    """The status of `budget` over the `pods` that it selects, of which its owners want `expected`."""
    old = budget.get("status") or {}
    by_name = {pod["metadata"]["name"]: pod for pod in pods}
    disrupted = {
        name: since
        for name, since in (old.get("disruptedPods") or {}).items()
        if name in by_name
        and not is_terminating(by_name[name])
        and now - seconds(since) < _EVICTION_TIMEOUT_S
    }
    healthy = sum(
        is_ready(pod) and not is_terminating(pod) and pod["metadata"]["name"] not in disrupted
        for pod in pods
    )
    desired = _desired(budget["spec"], expected)
    allowed = max(0, healthy - desired) if expected else 0
    fields = ("SufficientPods", "True") if allowed else ("InsufficientPods", "False")
    entry = {"type": "DisruptionAllowed", "reason": fields[0], "status": fields[1], "message": ""}
    entry["observedGeneration"] = budget["metadata"].get("generation", 0)
    return {
        "expectedPods": expected,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "disruptionsAllowed": allowed,
        "observedGeneration": budget["metadata"].get("generation", 0),
        "conditions": with_condition(old.get("conditions") or [], entry, now),
        **({"disruptedPods": disrupted} if disrupted else {}),
    }


def _desired(spec: Object, expected: int) -> int:
    if spec.get("maxUnavailable") is not None:
        return max(0, expected - _scaled(spec["maxUnavailable"], expected))
    return _scaled(spec.get("minAvailable", 0), expected)


def _scaled(value: int | str, of: int) -> int:
    text = str(value)
    return ceil(int(text[:-1]) * of / 100) if text.endswith("%") else int(text)


class BudgetController:
    """Keeps the status that pods/eviction spends from."""

    name = "disruption-controller"

    def __init__(self, api: Api, world: World) -> None:
        self._api = api
        self._world = world

    def keys(self, ref: Ref, obj: Object, old: Object | None) -> Iterable[Ref]:
        """The budget, or those that select a pod."""
        if ref.resource == BUDGETS:
            yield ref
        elif ref.resource == PODS:
            for budget_ref, budget in self._world.all(BUDGETS):
                versions = [obj] if old is None else [obj, old]
                if budget_ref.namespace == ref.namespace and any(
                    _selects(budget, pod) for pod in versions
                ):
                    yield budget_ref

    def reconcile(self, key: Ref, now: float) -> float | None:
        """One budget."""
        budget = self._world.get(key)
        if budget is None:
            return None
        pods = [
            pod
            for ref, pod in self._world.all(PODS)
            if ref.namespace == key.namespace and not is_finished(pod) and _selects(budget, pod)
        ]
        status = budget_status(budget, pods, self._expected(pods), now)
        carry_out(self._api, PutStatus(key, budget, status))
        return _EVICTION_TIMEOUT_S if status.get("disruptedPods") else None

    def _expected(self, pods: Sequence[Object]) -> int:
        """What the pods' controllers want together; a pod without a scalable controller stands for
        itself.
        """
        total = 0
        seen = set[Ref]()
        for pod in pods:
            owner = controller_of(pod) or {}
            ref = Ref(REPLICASETS, pod["metadata"]["namespace"], owner.get("name", ""))
            replicaset = self._world.get(ref) if owner.get("kind") == "ReplicaSet" else None
            if replicaset is None:
                total += 1
            elif ref not in seen:
                seen.add(ref)
                total += int(replicaset["spec"].get("replicas", 1))
        return total


def _selects(budget: Object, pod: Object) -> bool:
    selector = budget["spec"].get("selector")
    return selector is not None and label_selector(selector).matches(labels_of(pod))
