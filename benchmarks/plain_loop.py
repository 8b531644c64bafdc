"""The plain way to place a pod, for comparison in the same run: a Python loop over all nodes, and
over all pods.

For each pod: every placed pod is looked at once (whom it shuns, whom it draws, members of spread
constraints), then every node (fit, taints, node affinity, domains; least allocated, balanced,
affinity and spread points); where none fits, every node again with its pods of lower priority away.
No volumes, images, ports or quota: less work than ours.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from shared.model.node import NO_SCHEDULE, Node
from shared.model.pod import Pod, PodAffinity, PodAffinityTerm
from shared.model.topology import label_key

_LONGEST_S = 2.0
_MOST = 20  # pods
Domains = Mapping[str, Counter[str]]  # topology key -> value -> points or pods
_NONE = PodAffinity()


@dataclass
class Place:
    """A node and who is on it."""

    node: Node
    domains: Mapping[str, str] = field(init=False)  # level or label key -> value
    pods: list[Pod] = field(default_factory=list)
    used: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Name its domains as terms do."""
        self.domains = {label_key(key): value for key, value in self.node.labels.items()}

    def put(self, pod: Pod) -> None:
        """Take its room."""
        self.pods.append(pod)
        self.used.update({**pod.requests, "pods": 1})

    def drop(self, pod: Pod) -> None:
        """Give it back."""
        self.pods.remove(pod)
        self.used.subtract({**pod.requests, "pods": 1})

    def fits(self, pod: Pod, used: Mapping[str, int] | None = None) -> bool:
        """Room, taints, node affinity."""
        taken, room = self.used if used is None else used, self.node.allocatable
        if taken.get("pods", 0) + 1 > room.get("pods", 0):
            return False
        if any(
            taken.get(name, 0) + asked > room.get(name, 0) for name, asked in pod.requests.items()
        ):
            return False
        taints = (taint for taint in self.node.taints if taint.effect == NO_SCHEDULE)
        if not all(any(taint.tolerated_by(one) for one in pod.tolerations) for taint in taints):
            return False
        terms = pod.affinity.required if pod.affinity else None
        return terms is None or any(
            term.matches(self.node.labels, self.node.name) for term in terms
        )


@dataclass
class _State:
    """What the placed pods mean for one pod, by domain."""

    shunned: Domains
    wanted: list[tuple[str, Counter[str]]]
    drawn: Domains
    spread: list[Counter[str]]


def plain_rate(nodes: Sequence[Node], before: Sequence[Pod], pods: Sequence[Pod]) -> float | None:
    """Pods placed a second: the first 20 of them, or as many as two seconds allow. None where one
    finds no place.
    """
    places = [Place(node) for node in nodes]
    for number, pod in enumerate(before):
        places[number % len(places)].put(pod)
    begun, done = perf_counter(), 0
    while done < min(_MOST, len(pods)) and perf_counter() - begun < _LONGEST_S:
        if not _place(places, pods[done]):
            return None
        done += 1
    return done / (perf_counter() - begun)


def _place(places: list[Place], pod: Pod) -> bool:
    best = _best(places, pod)
    if best is None and (best := _preempt(places, pod)) is None:
        return False
    best.put(pod)
    return True


def _best(places: list[Place], pod: Pod) -> Place | None:
    ground = _look(places, pod)
    least = [
        _lowest(counts, places, rule.key)
        for counts, rule in zip(ground.spread, pod.spread, strict=True)
    ]
    best, most = None, float("-inf")
    for place in places:
        if not place.fits(pod) or not _allowed(place, pod, ground, least):
            continue
        points = _points(place, pod, ground)
        if points > most:
            best, most = place, points
    return best


def _look(places: list[Place], pod: Pod) -> _State:
    """One pass over all placed pods."""
    want, shun = pod.pod_affinity or _NONE, pod.pod_anti_affinity or _NONE
    wanted: list[tuple[str, Counter[str]]] = [
        (term.topology_key, Counter()) for term in want.required
    ]
    shunned, drawn = (
        defaultdict[str, Counter[str]](Counter),
        defaultdict[str, Counter[str]](Counter),
    )
    spread: list[Counter[str]] = [Counter() for _ in pod.spread]
    for place in places:
        labels = place.domains
        for other in place.pods:
            for at, term in enumerate(want.required):
                _count(term, other, labels, wanted[at][1])
            for term, weight in _weighted(want, shun):
                _count(term, other, labels, drawn[term.topology_key], weight)
            for term in shun.required:
                _count(term, other, labels, shunned[term.topology_key])
            for term in (other.pod_anti_affinity or _NONE).required:
                _count(term, pod, labels, shunned[term.topology_key])
            for term, weight in _weighted(
                other.pod_affinity or _NONE, other.pod_anti_affinity or _NONE
            ):
                _count(term, pod, labels, drawn[term.topology_key], weight)
            for at, rule in enumerate(pod.spread):
                if (
                    other.namespace == pod.namespace
                    and rule.selector
                    and rule.selector.matches(other.labels)
                ):
                    spread[at][labels.get(rule.key, "")] += 1
    return _State(shunned, wanted, drawn, spread)


def _count(
    term: PodAffinityTerm,
    pod: Pod,
    labels: Mapping[str, str],
    domains: Counter[str],
    weight: int = 1,
) -> None:
    """Every namespace that a selector could mean has the same labels in these cases."""
    named = pod.namespace in term.namespaces or (
        term.namespace_selector is not None and "-ns-" in pod.namespace
    )
    if (
        named
        and term.selector is not None
        and term.selector.matches(pod.labels)
        and term.topology_key in labels
    ):
        domains[labels[term.topology_key]] += weight


def _weighted(want: PodAffinity, shun: PodAffinity) -> Iterator[tuple[PodAffinityTerm, int]]:
    for sign, terms in ((1, want.preferred), (-1, shun.preferred)):
        for one in terms:
            yield one.term, sign * one.weight


def _lowest(counts: Counter[str], places: list[Place], key: str) -> int:
    """Pods in the domain of `key` that has the fewest."""
    domains = {place.domains[key] for place in places if key in place.domains}
    return min((counts[domain] for domain in domains), default=0)


def _allowed(place: Place, pod: Pod, ground: _State, least: list[int]) -> bool:
    labels = place.domains
    if any(counts[labels[key]] > 0 for key, counts in ground.shunned.items() if key in labels):
        return False
    for key, counts in ground.wanted:
        if counts and not counts[labels.get(key, "")]:  # the first of its kind may go anywhere
            return False
    for at, rule in enumerate(pod.spread):
        counts = ground.spread[at]
        if rule.hard and counts[labels.get(rule.key, "")] + 1 - least[at] > rule.max_skew:
            return False
    return True


def _points(place: Place, pod: Pod, ground: _State) -> float:
    room, used, labels = place.node.allocatable, place.used, place.domains
    shares = [(used[name] + pod.requests.get(name, 0)) / room[name] for name in ("cpu", "memory")]
    points = 50 * (2 - sum(shares)) + 100 - 50 * abs(shares[0] - shares[1])
    points += sum(counts[labels[key]] for key, counts in ground.drawn.items() if key in labels)
    return points - sum(
        counts[labels.get(rule.key, "")]
        for rule, counts in zip(pod.spread, ground.spread, strict=True)
    )


def _preempt(places: list[Place], pod: Pod) -> Place | None:
    """Where the fewest pods of lower priority have to go; they are gone afterwards."""
    chosen: tuple[Place, list[Pod]] | None = None
    for place in places:
        victims = _victims(place, pod)
        if victims and (chosen is None or len(victims) < len(chosen[1])):
            chosen = place, victims
    if chosen is None:
        return None
    for victim in chosen[1]:
        chosen[0].drop(victim)
    return chosen[0]


def _victims(place: Place, pod: Pod) -> list[Pod]:
    """All of lower priority, but those that may stay after all, the highest first."""
    lower = sorted(
        (one for one in place.pods if one.priority < pod.priority), key=lambda one: -one.priority
    )
    used = Counter(place.used)
    for one in lower:
        used.subtract({**one.requests, "pods": 1})
    if not place.fits(pod, used):
        return []
    victims = []
    for one in lower:
        used.update({**one.requests, "pods": 1})
        if not place.fits(pod, used):
            used.subtract({**one.requests, "pods": 1})
            victims.append(one)
    return victims
