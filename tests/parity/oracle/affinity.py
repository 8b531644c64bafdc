"""InterPodAffinity: rules about pods in a node's domains, of the pod to place and of those that are there."""

from collections.abc import Iterator
from typing import Any

from tests.parity.case import Object
from tests.parity.oracle.scores import Raw
from tests.parity.oracle.selectors import Labels, selects
from tests.parity.oracle.world import Place, World

_AFFINITY = "node(s) didn't match pod affinity rules"
_ANTI = "node(s) didn't match pod anti-affinity rules"
_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_HARD_WEIGHT = 1
Term = dict[str, Any]
Domain = tuple[str, str]


def _terms(pod: Object, kind: str, when: str) -> list[Any]:
    affinity = (pod["spec"].get("affinity") or {}).get(kind) or {}
    return affinity.get(when) or []


def pod_terms(pod: Object) -> list[Term]:
    """All terms of a pod, required and preferred, for and against."""
    found: list[Term] = []
    for kind in ("podAffinity", "podAntiAffinity"):
        found += _terms(pod, kind, _REQUIRED)
        found += [one["podAffinityTerm"] for one in _terms(pod, kind, _PREFERRED)]
    return found


def _matches(world: World, term: Term, owner: Object, namespace: str, labels: Labels) -> bool:
    """Whether a term of `owner` is about a pod with these labels in this namespace."""
    spaces, selector = term.get("namespaces") or [], term.get("namespaceSelector")
    if not spaces and selector is None:
        spaces = [owner["metadata"]["namespace"]]
    there = namespace in spaces or selects(selector, world.namespaces.get(namespace, {}))
    return there and selects(term.get("labelSelector"), labels)


def _about(world: World, term: Term, owner: Object, pod: Object) -> bool:
    return _matches(world, term, owner, pod["metadata"]["namespace"], pod["metadata"].get("labels") or {})


def refusals(world: World, pod: Object) -> dict[str, list[str]]:
    """Node -> reasons."""
    wanted = _terms(pod, "podAffinity", _REQUIRED)
    hated = _terms(pod, "podAntiAffinity", _REQUIRED)
    near: set[Domain] = set()
    far: set[Domain] = set()
    theirs: set[Domain] = set()
    for place, seat in world.seats():
        if wanted and all(_about(world, term, pod, seat.pod) for term in wanted):
            near |= set(_domains(wanted, place))
        far |= set(_domains([term for term in hated if _about(world, term, pod, seat.pod)], place))
        own = _terms(seat.pod, "podAntiAffinity", _REQUIRED)
        theirs |= set(_domains([term for term in own if _about(world, term, seat.pod, pod)], place))
    first = not near and all(_about(world, term, pod, pod) for term in wanted)
    return {place.name: _refusal(place, wanted, hated, (near, far, theirs), first) for place in world.places.values()}


def _domains(terms: list[Term], place: Place) -> Iterator[Domain]:
    for term in terms:
        if term["topologyKey"] in place.domains:
            yield term["topologyKey"], place.domains[term["topologyKey"]]


def _refusal(
    place: Place,
    wanted: list[Term],
    hated: list[Term],
    domains: tuple[set[Domain], set[Domain], set[Domain]],
    first: bool,
) -> list[str]:
    near, far, theirs = domains
    here = list(_domains(wanted, place))
    if len(here) < len(wanted) or not (first or near.issuperset(here)):
        return [_AFFINITY]
    if not far.isdisjoint(_domains(hated, place)):
        return [_ANTI]
    return [_EXISTING] if not theirs.isdisjoint(place.domains.items()) else []


def score(world: World, pod: Object, places: list[Place]) -> Raw | None:
    """Weights of the preferred terms by matching pods, both ways; a required term of a pod there weighs 1."""
    points: dict[Domain, int] = {}
    for place, seat in world.seats():
        for weight, term in _weighed(world, pod, seat.pod):
            for domain in _domains([term], place):
                points[domain] = points.get(domain, 0) + weight
    if not points:
        return None
    raw = {place.name: sum(points.get(domain, 0) for domain in place.domains.items()) for place in places}
    least, most = min(raw.values()), max(raw.values())
    if least == most:
        return dict.fromkeys(raw, 0)
    return {name: int(100.0 * ((value - least) / (most - least))) for name, value in raw.items()}


def _weighed(world: World, pod: Object, seated: Object) -> Iterator[tuple[int, Term]]:
    for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
        for owner, other in ((pod, seated), (seated, pod)):
            for one in _terms(owner, kind, _PREFERRED):
                if _about(world, one["podAffinityTerm"], owner, other):
                    yield sign * one["weight"], one["podAffinityTerm"]
    for term in _terms(seated, "podAffinity", _REQUIRED):
        if _about(world, term, seated, pod):
            yield _HARD_WEIGHT, term
