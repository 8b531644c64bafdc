"""Full fleets, and gangs that have to evict others: single pods, and groups whose pods go together or one by one.

All pods have a start of their own, and of budgets at most one covers a pod: so each knows whom it goes before, and
nothing rests on the order in which kube-scheduler lists them. Pods of a basic group without a topology constraint evict
each by itself here (docs/parity.md): there is none among the gangs.
"""

from tests.parity.case import Case, Object
from tests.parity.dice import Dice, SeededDice, chance, pick
from tests.parity.groups.case import Gang, GroupCase
from tests.parity.groups.generate import POD_GROUP, gang_of, node_of, placed_of, pod_of, priority_class
from tests.parity.profile import PREEMPTING

_CLASSES = {"evicting-low": 10, "evicting-mid": 100, "evicting-high": 1000}
_REQUESTS = (("500m", "300Mi", 500), ("1", "500Mi", 1000), ("1", "900Mi", 1000), ("2", "900Mi", 2000))
_APPS = ("a", "b", "c")
_GANGS = 4


def full_case(seed: str, name: str) -> GroupCase:
    """Four gangs before one fleet that is full."""
    dice = SeededDice(f"{seed}/{name}")
    nodes = [node_of(dice, name, at) for at in range(dice.number(5, 9))]
    gangs = [_gang(dice, name, f"{name}-g{at}") for at in range(_GANGS)]
    bound = [pod for gang in gangs if chance(dice, 25) for pod in placed_of(dice, gang, nodes)]
    filled = _Filled(dice, name, nodes)
    bound += filled.pods
    starts = list(range(len(bound)))
    for pod in bound:
        start = starts.pop(dice.number(0, len(starts) - 1))
        pod["status"] = {"phase": "Running", "startTime": f"2026-01-01T{start // 60:02}:{start % 60:02}:00Z"}
    space: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    classes = [priority_class(*one, "PreemptLowerPriority") for one in _CLASSES.items()]
    budgets = [_budget(dice, name, app) for app in _APPS if chance(dice, 40)]
    return GroupCase(Case(name, [space, *classes, *budgets], nodes, bound, []), gangs, filled.groups)


def _gang(dice: Dice, fleet: str, name: str) -> Gang:
    gang = gang_of(dice, fleet, name, ("evicting-mid", "evicting-high", "evicting-high"))
    spec = gang.group["spec"]
    if "schedulingConstraints" not in spec:
        spec["schedulingPolicy"] = {"gang": {"minCount": dice.number(1, len(gang.members))}}
    _disrupted(dice, gang.group)
    for pod in gang.members:
        pod["spec"]["schedulerName"] = PREEMPTING
    return gang


def _disrupted(dice: Dice, group: Object) -> None:
    """How it is evicted; a basic group never as a whole (docs/parity.md)."""
    mode = pick(dice, ("", "single", "all", "all"))
    if mode == "single" or (mode and "gang" in group["spec"]["schedulingPolicy"]):
        group["spec"]["disruptionMode"] = {mode: {}}


class _Filled:
    """Pods until no node has room for another; some are of `groups`."""

    def __init__(self, dice: Dice, fleet: str, nodes: list[Object]) -> None:
        self._dice, self._fleet = dice, fleet
        self._left = {node["metadata"]["name"]: int(node["status"]["allocatable"]["cpu"]) * 1000 for node in nodes}
        self.pods: list[Object] = []
        self.groups: list[Object] = []
        for at in range(dice.number(2, 4)):
            self._group(f"{fleet}-r{at}")
        for node in self._left:
            while self._pod(node, pick(dice, ("", *_CLASSES)), ""):
                pass

    def _group(self, name: str) -> None:
        dice = self._dice
        priority = pick(dice, ("", "", *_CLASSES))
        policy: Object = {"basic": {}} if chance(dice, 25) else {"gang": {"minCount": 1}}
        spec = {"schedulingPolicy": policy, **({"priorityClassName": priority} if priority else {})}
        group = {**POD_GROUP, "metadata": {"name": name, "namespace": self._fleet}, "spec": spec}
        _disrupted(dice, group)
        self.groups.append(group)
        for _ in range(dice.number(1, 4)):
            self._pod(pick(dice, [*self._left]), priority, name)

    def _pod(self, node: str, priority: str, group: str) -> bool:
        """One more on a node, if it has room."""
        dice = self._dice
        cpu, memory, milli = pick(dice, _REQUESTS)
        if self._left[node] < milli:
            return False
        self._left[node] -= milli
        pod = pod_of(self._fleet, f"{self._fleet}-b{len(self.pods)}", cpu, memory)
        pod["metadata"]["labels"] = {"app": pick(dice, _APPS)}
        pod["spec"] |= {"nodeName": node, "schedulerName": PREEMPTING}
        if priority:
            pod["spec"]["priorityClassName"] = priority
        if group:
            pod["spec"]["schedulingGroup"] = {"podGroupName": group}
        self.pods.append(pod)
        return True


def _budget(dice: Dice, fleet: str, app: str) -> Object:
    healthy = {"currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"{fleet}-{app}", "namespace": fleet},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": dice.number(0, 2), **healthy},
    }
