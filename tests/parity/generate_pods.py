"""Pods as manifests: the whole pod spec as far as it has a say in placement, with weight on the odd corners."""

from dataclasses import dataclass

from tests.parity.case import Object
from tests.parity.dice import Dice, chance, pick, some
from tests.parity.generate_containers import containers, init_containers, resized
from tests.parity.generate_nodes import (
    DISKS,
    EFFECTS,
    GENERATIONS,
    HOSTNAME,
    REGION,
    SHORT_NAMES,
    TAINT_KEYS,
    TAINT_VALUES,
    ZONE,
)

APPS = ("web", "db", "batch")
REVISIONS = ("1", "2")
_LABELS = (*(ZONE,) * 8, *(HOSTNAME,) * 4, *(REGION,) * 4, *("disk",) * 4, "example.com/none")
TOPOLOGIES = (*_LABELS, *SHORT_NAMES)
PRIORITIES = ("", "", "", "parity-low", "parity-high", "parity-negative")
_SELECTOR_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


@dataclass(frozen=True)
class Names:
    """What pods of one case may name."""

    namespaces: tuple[str, ...]
    nodes: tuple[str, ...]


def pod(dice: Dice, name: str, names: Names, bound: bool = False) -> Object:
    """One pod; `bound` gives it a node of the case, and now and then an end of its life."""
    labels = {"app": pick(dice, APPS), "rev": pick(dice, REVISIONS)} if not chance(dice, 10) else {}
    meta: Object = {"name": name, "namespace": pick(dice, names.namespaces), "labels": labels}
    spec: Object = {"containers": containers(dice)}
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    _rarely(dice, spec, "initContainers", 15, init_containers)
    if chance(dice, 8):
        spec["overhead"] = {"cpu": pick(dice, ("50m", "1")), "memory": pick(dice, ("1Mi", "120Mi"))}
    if chance(dice, 8):
        whole = (("cpu", pick(dice, ("1", "3"))), ("memory", pick(dice, ("1Gi", "100Mi", "4Gi"))))
        spec["resources"] = {"requests": dict(some(dice, whole, 2) or whole)}
    if chance(dice, 15):
        spec["terminationGracePeriodSeconds"] = pick(dice, (0, 0, 5))
    if chance(dice, 5):
        spec["hostNetwork"] = True
    _rarely(dice, spec, "priorityClassName", 30, lambda dice: pick(dice, PRIORITIES))
    if bound:
        _bind(dice, made, names)
        _rarely(dice, spec, "affinity", 35, lambda dice: _pod_affinities(dice, names))
        return made
    _rarely(dice, spec, "nodeSelector", 8, _node_selector)
    _rarely(dice, spec, "tolerations", 45, lambda dice: [_toleration(dice) for _ in range(dice.number(1, 3))])
    _rarely(dice, spec, "affinity", 45, lambda dice: _affinity(dice, names))
    _rarely(dice, spec, "topologySpreadConstraints", 35, _spread)
    if chance(dice, 2):
        spec["containers"][0].setdefault("resources", {}).setdefault("requests", {})["memory"] = "9E"
    if chance(dice, 3):
        spec["schedulingGates"] = [{"name": "example.com/hold"}, {"name": "example.com/wait"}][: dice.number(1, 2)]
    return made


def _rarely(dice: Dice, spec: Object, field: str, percent: int, make: object) -> None:
    value = make(dice) if chance(dice, percent) else None  # type: ignore[operator]
    if value:
        spec[field] = value


def _bind(dice: Dice, made: Object, names: Names) -> None:
    made["spec"]["nodeName"] = pick(dice, names.nodes)
    if chance(dice, 6):
        made["status"] = {"phase": pick(dice, ("Succeeded", "Failed", "Running"))}
    elif chance(dice, 6):
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    elif chance(dice, 15):
        made["status"] = resized(dice, made["spec"])


def _node_selector(dice: Dice) -> dict[str, str]:
    return {
        key: pick(dice, values)
        for key, values in some(dice, ((ZONE, ("z1", "z2")), ("disk", DISKS), ("gen", GENERATIONS)), 2)
    }


def _toleration(dice: Dice) -> Object:
    made: Object = {}
    if chance(dice, 50):
        made["operator"] = pick(dice, ("Equal", "Exists"))
    exists = made.get("operator") == "Exists"
    if not exists or not chance(dice, 30):
        made["key"] = pick(dice, TAINT_KEYS)
    if not exists:
        made["value"] = pick(dice, TAINT_VALUES)
    if chance(dice, 60):
        made["effect"] = pick(dice, EFFECTS)
    return made


# --- node affinity ---------------------------------------------------------------------------------------------------


def _affinity(dice: Dice, names: Names) -> Object:
    made = _pod_affinities(dice, names) if chance(dice, 55) else {}
    if chance(dice, 60):
        made["nodeAffinity"] = _node_affinity(dice, names)
    return made


def _node_affinity(dice: Dice, names: Names) -> Object:
    made: Object = {}
    if chance(dice, 40):
        terms = [_node_term(dice, names) for _ in range(dice.number(1, 2))]
        made["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if chance(dice, 60):
        made["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": pick(dice, (1, 100, 50, 7)), "preference": _node_term(dice, names)}
            for _ in range(dice.number(1, 3))
        ]
    return made


def _node_term(dice: Dice, names: Names) -> Object:
    term: Object = {}
    clauses = [_node_clause(dice) for _ in range(pick(dice, (1, 1, 2, 0)))]
    if clauses:
        term["matchExpressions"] = clauses
    if chance(dice, 20):
        operator = pick(dice, ("In", "NotIn"))
        term["matchFields"] = [
            {"key": "metadata.name", "operator": operator, "values": [pick(dice, (*names.nodes, "no-such-node"))]}
            for _ in range(pick(dice, (1, 1, 1, 2)))
        ]
    return term


def _node_clause(dice: Dice) -> Object:
    if chance(dice, 35):
        value = pick(dice, ("1", "2", "0", "-3", "9223372036854775807", "1.5", "x"))
        return {"key": pick(dice, ("gen", "gen", "disk")), "operator": pick(dice, ("Gt", "Lt")), "values": [value]}
    key, values = pick(dice, ((ZONE, ("z1", "z2", "z3")), ("disk", DISKS), ("gen", GENERATIONS), ("none", ("x",))))
    return _clause(dice, key, values)


def _clause(dice: Dice, key: str, values: tuple[str, ...]) -> Object:
    operator = pick(dice, _SELECTOR_OPERATORS)
    made: Object = {"key": key, "operator": operator}
    if operator in {"In", "NotIn"}:
        made["values"] = some(dice, values, 2) or [values[0]]
    return made


# --- pods among pods -------------------------------------------------------------------------------------------------


def _pod_affinities(dice: Dice, names: Names) -> Object:
    made: Object = {}
    for field in ("podAffinity", "podAntiAffinity"):
        if chance(dice, 50):
            made[field] = _pod_terms(dice, names)
    return made


def _pod_terms(dice: Dice, names: Names) -> Object:
    made: Object = {}
    if chance(dice, 35):
        made["requiredDuringSchedulingIgnoredDuringExecution"] = [
            _pod_term(dice, names) for _ in range(pick(dice, (1, 1, 2)))
        ]
    if chance(dice, 65):
        made["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": pick(dice, (1, 100, 30)), "podAffinityTerm": _pod_term(dice, names)}
            for _ in range(pick(dice, (1, 1, 2)))
        ]
    return made


def _pod_term(dice: Dice, names: Names) -> Object:
    term: Object = {"topologyKey": pick(dice, TOPOLOGIES)}
    selector = label_selector(dice)
    if selector is not None:
        term["labelSelector"] = selector
    if chance(dice, 20):
        term["namespaces"] = some(dice, names.namespaces, 2) or [names.namespaces[0]]
    if chance(dice, 25):
        term["namespaceSelector"] = pick(
            dice,
            (
                {},
                {"matchLabels": {"team": "x"}},
                {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
                {"matchLabels": {"team": "nobody"}},
            ),
        )
    if selector is not None and chance(dice, 15):
        term[pick(dice, ("matchLabelKeys", "mismatchLabelKeys"))] = ["rev"]
    return term


def label_selector(dice: Dice) -> Object | None:
    """A selector of pods: by app mostly; {} and none at all, too."""
    kind = dice.number(0, 9)
    if kind == 9:
        return None
    if kind == 8:
        return {}
    if kind >= 6:
        return {"matchExpressions": [_clause(dice, pick(dice, ("app", "rev")), APPS)]}
    return {"matchLabels": {"app": pick(dice, APPS)}}


def _spread(dice: Dice) -> list[Object]:
    made: dict[tuple[str, str], Object] = {}
    for _ in range(pick(dice, (1, 1, 2, 3))):
        rule = _constraint(dice)
        made[rule["topologyKey"], rule["whenUnsatisfiable"]] = rule
    return list(made.values())


def _constraint(dice: Dice) -> Object:
    hard = chance(dice, 50)
    rule: Object = {
        "maxSkew": pick(dice, (1, 1, 2, 5)),
        "topologyKey": pick(dice, TOPOLOGIES),
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
    }
    selector = label_selector(dice)
    if selector is not None:
        rule["labelSelector"] = selector
    if hard and chance(dice, 25):
        rule["minDomains"] = pick(dice, (1, 2, 3, 7))
    if chance(dice, 25):
        rule["nodeAffinityPolicy"] = pick(dice, ("Honor", "Ignore"))
    if chance(dice, 25):
        rule["nodeTaintsPolicy"] = pick(dice, ("Ignore", "Honor"))
    if selector is not None and chance(dice, 20):
        rule["matchLabelKeys"] = ["rev"]
    return rule
