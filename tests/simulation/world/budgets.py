"""PodDisruptionBudgets as API server and disruption controller keep them: minAvailable as a number, matchLabels.

A disruption is counted twice at no time: an eviction lowers what is allowed at once, and remembers the pod until the
controller sees it go.
"""

from collections.abc import Iterator

from tests.simulation.world.objects import Object, active, condition

BUDGETS = "/apis/policy/v1/poddisruptionbudgets"


def selects(budget: Object, pod: Object) -> bool:
    """Whether a budget means a pod."""
    wanted, meta = budget["spec"]["selector"]["matchLabels"].items(), pod["metadata"]
    return bool(budget["metadata"]["namespace"] == meta["namespace"] and wanted <= meta.get("labels", {}).items())


def ready(pod: Object) -> bool:
    """Whether it counts as healthy."""
    told = condition(pod, "Ready")
    return told is not None and told["status"] == "True" and not pod["metadata"].get("deletionTimestamp")


def counted(budget: Object, pods: list[Object]) -> Object:
    """The status that the disruption controller gives it."""
    mine = {pod["metadata"]["name"]: pod for pod in pods if selects(budget, pod) and active(pod)}
    before = budget.get("status", {}).get("disruptedPods") or {}
    going = {name: uid for name, uid in before.items() if name in mine and _stays(mine[name], uid)}
    healthy = sum(ready(pod) and name not in going for name, pod in mine.items())
    desired = int(budget["spec"]["minAvailable"])
    numbers = {"expectedPods": len(mine), "currentHealthy": healthy, "desiredHealthy": desired}
    return {**numbers, "disruptionsAllowed": max(0, healthy - desired), "disruptedPods": going}


def _stays(pod: Object, uid: str) -> bool:
    return pod["metadata"]["uid"] == uid and not pod["metadata"].get("deletionTimestamp")


def objection(pod: Object, budgets: list[Object]) -> tuple[int, str]:
    """Why the Eviction API does not let a pod go, as status and message; (0, "") if it does."""
    if not active(pod) or not pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp"):
        return 0, ""
    if len(budgets) > 1:
        return 500, "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    for budget in budgets:
        told = budget.get("status", {})
        allowed, enough = told.get("disruptionsAllowed", 0), told.get("currentHealthy", 0) >= _desired(told)
        free = budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow" or enough
        if allowed <= 0 and (ready(pod) or not free):
            return 429, "Cannot evict pod as it would violate the pod's disruption budget."
    return 0, ""


def _desired(told: Object) -> int:
    return max(1, int(told.get("desiredHealthy", 0)))


def spent(pod: Object, budgets: list[Object]) -> Iterator[tuple[Object, Object]]:
    """(budget, its status) once a pod that was Ready is evicted."""
    for budget in budgets if ready(pod) else ():
        told = budget.get("status", {})
        gone = {**(told.get("disruptedPods") or {}), pod["metadata"]["name"]: pod["metadata"]["uid"]}
        yield budget, {**told, "disruptionsAllowed": told["disruptionsAllowed"] - 1, "disruptedPods": gone}
