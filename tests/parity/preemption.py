"""What an eviction costs by kube-scheduler's rules: two choices of equal cost are a tie."""

from collections.abc import Iterable, Iterator
from itertools import chain, groupby, islice, permutations, product

from tests.parity.case import Case, Object, key_of
from tests.parity.oracle.selectors import selects

Cost = tuple[int, int, int, int, str]
SHIFT = 2**31
_MOST_ORDERS = 500


def costs(case: Case, preemptor: Object, victims: Iterable[str]) -> set[Cost]:
    """(budgets violated, highest priority, sum of priorities, victims, start of the longest running of the highest).

    The last is turned round: a later start is the smaller cost. Pods of equal priority and start have no order, and
    what is left of a budget goes to the first: each order has its cost. Source: DefaultPreemption, SelectVictimsOnNode
    and pickOneNodeForPreemption.
    """
    chosen = frozenset(victims)
    pods = [pod for pod in case.bound if key_of(pod) in chosen]
    if not pods:
        return {(0, 0, 0, 0, "")}
    highest = max(map(_priority, pods))
    first = min(_start(pod) for pod in pods if _priority(pod) == highest)
    turned = "".join(chr(0x7E - ord(letter)) for letter in first)
    total = sum(_priority(pod) + SHIFT for pod in pods)
    node, most = pods[0]["spec"]["nodeName"], _priority(preemptor)
    lower = [pod for pod in case.bound if pod["spec"]["nodeName"] == node and _priority(pod) < most]
    return {
        (len(_violating(case, order) & chosen), highest, total, len(pods), turned)
        for order in islice(_orders(lower), _MOST_ORDERS)
    }


def _orders(pods: list[Object]) -> Iterator[list[Object]]:
    """Every order from the most important pod down."""

    def importance(pod: Object) -> tuple[int, str]:
        return -_priority(pod), _start(pod)

    groups = [list(group) for _, group in groupby(sorted(pods, key=importance), importance)]
    return (list(chain.from_iterable(order)) for order in product(*map(permutations, groups)))


def _priority(pod: Object) -> int:
    return int(pod["spec"].get("priority") or 0)


def _start(pod: Object) -> str:
    """RFC 3339 in UTC, which sorts as text; a pod that never started starts now."""
    return str((pod.get("status") or {}).get("startTime") or "9999")


def _violating(case: Case, pods: list[Object]) -> frozenset[str]:
    """The pods whose budgets, taken in this order, have nothing left for them."""
    budgets = [obj for obj in case.objects if obj["kind"] == "PodDisruptionBudget"]
    left = {key_of(one): int((one.get("status") or {}).get("disruptionsAllowed") or 0) for one in budgets}
    found = []
    for pod in pods:
        mine = [key_of(one) for one in budgets if _covers(one, pod)]
        for key in mine:
            left[key] -= 1
        if any(left[key] < 0 for key in mine):
            found.append(key_of(pod))
    return frozenset(found)


def _covers(budget: Object, pod: Object) -> bool:
    selector, labels = budget["spec"].get("selector"), pod["metadata"].get("labels") or {}
    if budget["metadata"]["namespace"] != pod["metadata"]["namespace"]:
        return False
    disrupted = (budget.get("status") or {}).get("disruptedPods") or {}
    return selects(selector, labels) and pod["metadata"]["name"] not in disrupted
