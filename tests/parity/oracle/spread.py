"""PodTopologySpread: how pods that a selector matches lie over the domains of a node label."""

import math
from typing import Any

from tests.parity.case import Object
from tests.parity.oracle.scores import Raw, rounded
from tests.parity.oracle.selectors import is_empty, node_is_selected, selects, untolerated
from tests.parity.oracle.world import Place, World

_REFUSED = "node(s) didn't match pod topology spread constraints"
_HOSTNAME = "kubernetes.io/hostname"


def _rules(pod: Object, action: str) -> list[Object]:
    return [one for one in pod["spec"].get("topologySpreadConstraints") or () if one["whenUnsatisfiable"] == action]


def selector_of(rule: Object, pod: Object) -> dict[str, Any] | None:
    """A constraint's own, and the values of `pod` for its matchLabelKeys."""
    selector: dict[str, Any] | None = rule.get("labelSelector")
    labels = pod["metadata"].get("labels") or {}
    own = {key: labels[key] for key in rule.get("matchLabelKeys") or () if key in labels}
    if selector is None or not own:
        return selector
    clauses = [{"key": key, "operator": "In", "values": [value]} for key, value in own.items()]
    return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *clauses]}


def _has_keys(place: Place, rules: list[Object]) -> bool:
    return all(rule["topologyKey"] in place.domains for rule in rules)


def _counts_here(rule: Object, pod: Object, place: Place) -> bool:
    """The node inclusion policies."""
    spec = pod["spec"]
    if rule.get("nodeAffinityPolicy", "Honor") == "Honor" and not node_is_selected(spec, place.labels, place.name):
        return False
    honored = rule.get("nodeTaintsPolicy", "Ignore") == "Honor"
    return not (honored and untolerated(spec, place.node, ("NoSchedule", "NoExecute")))


def _matching(world: World, rule: Object, pod: Object, place: Place) -> int:
    selector = selector_of(rule, pod)
    if world.quirks and is_empty(selector):
        return 0
    mine = pod["metadata"]["namespace"]
    seats = [seat for seat in place.seats if seat.namespace == mine and not seat.terminating]
    return sum(selects(selector, seat.labels) for seat in seats)


def refusals(world: World, pod: Object) -> dict[str, list[str]]:
    """Node -> reasons: the skew after the pod must not pass maxSkew."""
    rules = _rules(pod, "DoNotSchedule")
    counts: list[dict[str, int]] = []
    for rule in rules:
        found: dict[str, int] = {}
        for place in world.places.values():
            if _has_keys(place, rules) and _counts_here(rule, pod, place):
                value = place.domains[rule["topologyKey"]]
                found[value] = found.get(value, 0) + _matching(world, rule, pod, place)
        counts.append(found)
    return {place.name: _refusal(rules, counts, pod, place) for place in world.places.values()}


def _refusal(rules: list[Object], counts: list[dict[str, int]], pod: Object, place: Place) -> list[str]:
    labels = pod["metadata"].get("labels") or {}
    for rule, found in zip(rules, counts, strict=True):
        value = place.domains.get(rule["topologyKey"])
        if value is None:
            return [f"{_REFUSED} (missing required label)"]
        least = 0 if len(found) < (rule.get("minDomains") or 1) else min(found.values())
        own = int(selects(selector_of(rule, pod), labels))
        if found.get(value, 0) + own - least > rule["maxSkew"]:
            return [_REFUSED]
    return []


def score(world: World, pod: Object, places: list[Place]) -> Raw | None:
    """The fewer matching pods in a node's domains, the better; a node without one of the keys gets 0."""
    rules = _rules(pod, "ScheduleAnyway")
    if not rules:
        return None
    able = [place for place in places if _has_keys(place, rules)]
    weights = [math.log(_domains(rule, able) + 2) for rule in rules]
    counts = [_domain_counts(world, rule, rules, pod) for rule in rules]
    raw: Raw = {}
    for place in able:
        cost = 0.0
        for rule, weight, found in zip(rules, weights, counts, strict=True):
            key = rule["topologyKey"]
            count = _matching(world, rule, pod, place) if key == _HOSTNAME else found.get(place.domains[key], 0)
            cost += count * weight + (rule["maxSkew"] - 1)
        raw[place.name] = rounded(cost)
    most, least = max(raw.values(), default=0), min(raw.values(), default=0)
    scores = {name: 100 if most == 0 else 100 * (most + least - value) // most for name, value in raw.items()}
    return {place.name: scores.get(place.name, 0) for place in places}


def _domains(rule: Object, able: list[Place]) -> int:
    if rule["topologyKey"] == _HOSTNAME:
        return len(able)
    return len({place.domains[rule["topologyKey"]] for place in able})


def _domain_counts(world: World, rule: Object, rules: list[Object], pod: Object) -> dict[str, int]:
    found: dict[str, int] = {}
    for place in world.places.values():
        if _has_keys(place, rules) and _counts_here(rule, pod, place):
            value = place.domains[rule["topologyKey"]]
            found[value] = found.get(value, 0) + _matching(world, rule, pod, place)
    return found
