"""What an eviction costs by kube-scheduler's rules: two choices of equal cost are a tie."""

from collections.abc import Iterable

from tests.parity.case import Case, Object, key_of
from tests.parity.oracle.selectors import is_empty, selects

Cost = tuple[int, int, int, int, str]
_SHIFT = 2**31


def cost(case: Case, victims: Iterable[str]) -> Cost:
    """(budgets violated, highest priority, sum of priorities, victims, start of the longest running of the highest).

    The last is turned round: a later start is the smaller cost. Source: DefaultPreemption pickOneNodeForPreemption.
    """
    chosen = frozenset(victims)
    pods = sorted((pod for pod in case.bound if key_of(pod) in chosen), key=lambda pod: (-_priority(pod), _start(pod)))
    if not pods:
        return (0, 0, 0, 0, "")
    highest = _priority(pods[0])
    first = min(_start(pod) for pod in pods if _priority(pod) == highest)
    turned = "".join(chr(0x7E - ord(letter)) for letter in first)
    return (_violations(case, pods), highest, sum(_priority(pod) + _SHIFT for pod in pods), len(pods), turned)


def _priority(pod: Object) -> int:
    return int(pod["spec"].get("priority") or 0)


def _start(pod: Object) -> str:
    """RFC 3339 in UTC, which sorts as text; a pod that never started starts now."""
    return str((pod.get("status") or {}).get("startTime") or "9999")


def _violations(case: Case, pods: list[Object]) -> int:
    budgets = [obj for obj in case.objects if obj["kind"] == "PodDisruptionBudget"]
    left = {key_of(budget): int(budget["status"]["disruptionsAllowed"]) for budget in budgets}
    violated = 0
    for pod in pods:
        over = False
        for budget in budgets:
            selector, labels = budget["spec"].get("selector"), pod["metadata"].get("labels") or {}
            same = budget["metadata"]["namespace"] == pod["metadata"]["namespace"]
            if same and labels and not is_empty(selector) and selects(selector, labels):
                left[key_of(budget)] -= 1
                over |= left[key_of(budget)] < 0
        violated += over
    return violated
