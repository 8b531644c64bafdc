"""Label selectors and node selector terms over plain labels."""

import re
from typing import Any

Labels = dict[str, str]
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_INTEGER = re.compile(r"[+-]?[0-9]+")


def integer(text: str | None) -> int | None:
    """A 64-bit integer in decimal, None for everything else."""
    if text is None or not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None


def clause_holds(clause: dict[str, Any], labels: Labels) -> bool:
    """One of In, NotIn, Exists, DoesNotExist, Gt, Lt."""
    value, operator, values = labels.get(clause["key"]), clause["operator"], clause.get("values") or []
    if operator == "In":
        return value is not None and value in values
    if operator == "NotIn":
        return value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    left, right = integer(value), integer(values[0])
    if left is None or right is None:
        return False
    return left > right if operator == "Gt" else left < right


def selects(selector: dict[str, Any] | None, labels: Labels) -> bool:
    """A LabelSelector: none selects nothing, an empty one everything."""
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items()) and all(
        clause_holds(clause, labels) for clause in selector.get("matchExpressions") or ()
    )


def is_empty(selector: dict[str, Any] | None) -> bool:
    """Whether a selector has no clause at all."""
    return selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions")


def term_is_broken(term: dict[str, Any]) -> bool:
    """Whether a value could not be that of a label, or Gt or Lt is asked about no integer: it cannot be read."""
    return any(
        not all(_VALUE.fullmatch(value) for value in clause.get("values") or ())
        or (clause["operator"] in {"Gt", "Lt"} and integer(clause["values"][0]) is None)
        for clause in term.get("matchExpressions") or ()
    )


def term_holds(term: dict[str, Any], labels: Labels, name: str) -> bool:
    """A NodeSelectorTerm: an empty one, and one that cannot be read, matches no node."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not (expressions or fields) or term_is_broken(term):
        return False
    return all(clause_holds(clause, labels) for clause in expressions) and all(
        clause_holds(clause, {"metadata.name": name}) for clause in fields
    )


def required_terms(spec: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Terms of required node affinity; None if there is none."""
    node = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    return None if required is None else required["nodeSelectorTerms"]


def node_is_selected(spec: dict[str, Any], labels: Labels, name: str) -> bool:
    """nodeSelector and required node affinity."""
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    terms = required_terms(spec)
    return terms is None or any(term_holds(term, labels, name) for term in terms)


def tolerates(toleration: dict[str, Any], taint: dict[str, Any]) -> bool:
    """Empty effect: all effects; empty key with Exists: all keys."""
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")


def untolerated(spec: dict[str, Any], node: dict[str, Any], effects: tuple[str, ...]) -> int:
    """How many taints of these effects the pod does not tolerate."""
    tolerations = spec.get("tolerations") or ()
    return sum(
        taint["effect"] in effects and not any(tolerates(one, taint) for one in tolerations)
        for taint in node["spec"].get("taints") or ()
    )
