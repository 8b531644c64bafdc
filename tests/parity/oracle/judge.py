"""The oracle's verdict: filters in kube-scheduler's order, scores by its weights, its words for a refused pod."""

from collections import Counter
from collections.abc import Callable

from tests.parity.case import Case, Object, Verdict, key_of
from tests.parity.oracle import affinity, filters, scores, spread
from tests.parity.oracle.preempt import Preemption
from tests.parity.oracle.selectors import required_terms, term_is_broken
from tests.parity.oracle.world import Place, World
from tests.parity.profile import DEFAULT, PREEMPTING, WEIGHTS

_BY_NODE: tuple[Callable[[Object, Place], list[str]], ...] = (
    filters.node_unschedulable,
    filters.taint_toleration,
    filters.node_affinity,
    filters.node_ports,
    filters.node_resources_fit,
)
_BY_DOMAIN = (spread.refusals, affinity.refusals)
_SCORES: tuple[tuple[str, Callable[[World, Object, list[Place]], scores.Raw | None]], ...] = (
    ("TaintToleration", scores.taint_toleration),
    ("NodeAffinity", scores.node_affinity),
    ("NodeResourcesFit", scores.node_resources_fit),
    ("PodTopologySpread", spread.score),
    ("InterPodAffinity", affinity.score),
    ("NodeResourcesBalancedAllocation", scores.node_resources_balanced_allocation),
    ("ImageLocality", scores.image_locality),
)
_GATED = "Scheduling is blocked due to non-empty scheduling gates"


class Oracle:
    """One case under the documented rules; `quirks`: under those that kube-scheduler follows, faults and all."""

    def __init__(self, case: Case, *, quirks: bool = False) -> None:
        self.world = World(case, quirks=quirks)
        budgets = [obj for obj in case.objects if obj["kind"] == "PodDisruptionBudget"]
        self._preemption = Preemption(self.world, budgets, self._reasons)

    def book(self, pod: Object, node: str) -> None:
        """Enter a pod where it is."""
        self.world.seat({**pod, "spec": {**pod["spec"], "nodeName": node}}, node)

    def follow(self, verdict: Verdict) -> None:
        """Victims are gone; of volumes the oracle knows nothing."""
        for place in self.world.places.values():
            place.seats = [seat for seat in place.seats if key_of(seat.pod) not in verdict.victims]

    def allows(self, pod: Object, node: str) -> bool:
        """Whether no filter refuses it there."""
        return not self._reasons(pod)[node]

    def judge(self, pod: Object) -> Verdict:
        """What kube-scheduler should say."""
        name = key_of(pod)
        if pod["spec"].get("schedulingGates"):
            return Verdict(name, feasible=frozenset(), message=_GATED)
        if self.world.places and named_nodes(pod) == set():
            return self._refused(pod, f"0/{len(self.world.places)} nodes are available: pod affinity terms conflict.")
        reasons = self._reasons(pod)
        feasible = [place for place in self.world.places.values() if not reasons[place.name]]
        if not feasible:
            return self._refused(pod, _message(reasons))
        promised = (pod.get("status") or {}).get("nominatedNodeName")
        if promised in {place.name for place in feasible}:
            return Verdict(name, promised, frozenset((promised,)))  # it is tried first, and alone
        if self.world.quirks and len(feasible) > 1 and _has_unread_preference(pod):
            return Verdict(name, failed=True, message='running PreScore plugin "NodeAffinity"')
        found = {plugin: raw for plugin, score in _SCORES if (raw := score(self.world, pod, feasible)) is not None}
        tables = {plugin: {node: float(value) for node, value in raw.items()} for plugin, raw in found.items()}
        totals = {
            place.name: sum(WEIGHTS[DEFAULT][plugin] * table[place.name] for plugin, table in tables.items())
            for place in feasible
        }
        best = max(totals, key=lambda node: totals[node])
        return Verdict(name, best, frozenset(totals), tables, totals)

    def _refused(self, pod: Object, message: str) -> Verdict:
        """With what may be done about it, where the profile has preemption."""
        victims: frozenset[str] = frozenset()
        if pod["spec"]["schedulerName"] == PREEMPTING and self.world.places:
            victims, words = self._preemption.help(pod)
            message = f"{message} {words}".rstrip()
        return Verdict(key_of(pod), feasible=frozenset(), message=message, victims=victims)

    def _reasons(self, pod: Object) -> dict[str, list[str]]:
        """Node -> the reasons of the first filter that refuses it."""
        named = named_nodes(pod)
        found: dict[str, list[str]] = {}
        if named == set():
            return {name: ["pod affinity terms conflict"] for name in self.world.places}
        by_domain = [refusals(self.world, pod) for refusals in _BY_DOMAIN]
        for name, place in self.world.places.items():
            if named is not None and name not in named:
                found[name] = ["node(s) didn't satisfy plugin(s) [NodeAffinity]"]
                continue
            alone = (refuses(pod, place) for refuses in _BY_NODE)
            found[name] = next(filter(None, alone), []) or next((one[name] for one in by_domain if one[name]), [])
        return found


def named_nodes(pod: Object) -> set[str] | None:
    """The nodes that required affinity names, if every term names some: no other node is looked at."""
    named: set[str] = set()
    for term in required_terms(pod["spec"]) or [{}]:
        fields = [one for one in term.get("matchFields") or () if one["operator"] == "In"]
        if not fields:
            return None
        named |= set.intersection(*(set(one["values"]) for one in fields))
    return named


def _has_unread_preference(pod: Object) -> bool:
    node = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    preferred = node.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    return any(term_is_broken(one["preference"]) for one in preferred)


def _message(reasons: dict[str, list[str]]) -> str:
    if not reasons:
        return "no nodes available to schedule pods"
    texts = Counter(text for found in reasons.values() for text in found)
    parts = sorted(f"{count} {text}" for text, count in texts.items())
    return f"0/{len(reasons)} nodes are available: {', '.join(parts)}."
