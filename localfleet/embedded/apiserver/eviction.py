"""pods/eviction: deleting a pod only as far as its PodDisruptionBudget allows."""

from localfleet.embedded.apiserver.metadata import timestamp
from localfleet.embedded.apiserver.status import ApiError, Object, forbidden, too_many_requests
from localfleet.embedded.apiserver.validate.selectors import label_selector_matches

_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


def ignores_budgets(pod: Object) -> bool:
    """A pod that does not run, or is going already, disturbs nobody."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or bool(
        pod["metadata"].get("deletionTimestamp")
    )


def budget_of(pod: Object, budgets: list[Object]) -> Object | None:
    """The budget of the pod's namespace that selects it; ApiError 500 if there are several."""
    labels = pod["metadata"].get("labels") or {}
    selecting = [budget for budget in budgets if _selects(budget, labels)]
    if len(selecting) > 1:
        message = (
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does "
            "not support."
        )
        raise ApiError(500, "", message)
    return selecting[0] if selecting else None


def _selects(budget: Object, labels: dict[str, str]) -> bool:
    selector = (budget.get("spec") or {}).get("selector")
    return selector is not None and label_selector_matches(selector, labels)


def _ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )


def spend(pod: Object, budget: Object, now: float) -> Object | None:
    """The budget with one disruption fewer, None if this pod costs none; ApiError 429 if none is
    left.
    """
    name = budget["metadata"]["name"]
    status = budget.get("status") or {}
    spec = budget.get("spec") or {}
    healthy = status.get("currentHealthy", 0)
    desired = status.get("desiredHealthy", 0)
    if not _ready(pod) and (
        spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow" or healthy >= desired > 0
    ):
        return None
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise too_many_requests(
            _REFUSED, f"The disruption budget {name} is still being processed by the server.", 10
        )
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise forbidden("poddisruptionbudget.policy", name, "pdb disruptions allowed is negative")
    if allowed == 0:
        cause = f"The disruption budget {name} does not allow evicting pods currently"
        if healthy <= desired:
            cause = (
                f"The disruption budget {name} needs {desired} healthy pods and has {healthy} "
                "currently"
            )
        raise too_many_requests(_REFUSED, cause, 0)
    disrupted = (status.get("disruptedPods") or {}) | {pod["metadata"]["name"]: timestamp(now)}
    return budget | {
        "status": status | {"disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}
    }
