"""Inter-pod affinity once more, in plain Python over plain data: pod by pod, term by term, node by node."""

from collections.abc import Iterator, Sequence

from dispatcher.scheduling.framework import PodInfo
from shared.model import names
from shared.model.pod import Pod, PodAffinity, PodAffinityTerm
from tests.laws.oracle import World
from tests.laws.rules import Where, domain

AFFINITY, ANTI, EXISTING = (
    "node(s) didn't match pod affinity rules",
    "node(s) didn't match pod anti-affinity rules",
    "node(s) didn't satisfy existing pods anti-affinity rules",
)
_NONE = PodAffinity()


def means(world: World, term: PodAffinityTerm, holder: PodInfo, one: PodInfo) -> bool:
    """Whether a term of `holder` means a pod."""
    wanted, labels = term.namespace_selector, world.namespaces.get((one.home, one.pod.namespace), {})
    near = one.pod.namespace in term.namespaces or (wanted is not None and wanted.matches(labels))
    reached = (
        one.home == holder.home
        or one.pod.namespace == holder.pod.namespace
        or labels.get(names.AFFINITY_FROM_OTHERS) == "true"
    )
    return near and reached and term.selector is not None and term.selector.matches(one.pod.labels)


def place(world: World, key: str, holder: Pod, where: Where) -> object:
    """The domain that a term of `holder` sees a node in; None without the key."""
    found = domain(world, key, where)
    return (where[0], found) if found and holder.annotations.get(names.DOMAIN_SCOPE) == "cluster" else found


def seated(world: World) -> Iterator[tuple[PodInfo, Where]]:
    """Every pod on a node that exists."""
    for seat in world.seats.values():
        if (seat.cluster, seat.node) in world.nodes:
            yield seat.pod_info, (seat.cluster, seat.node)


def together(world: World, key: str, holder: Pod, one: Where, other: Where) -> bool:
    """Whether two nodes lie in one domain of a key."""
    found = place(world, key, holder, one)
    return found is not None and found == place(world, key, holder, other)


def refusal(world: World, asking: PodInfo, where: Where) -> str:
    """Why the required terms keep a pod off a node; empty if they do not."""
    pod = asking.pod
    drawn, repelled = (pod.pod_affinity or _NONE).required, (pod.pod_anti_affinity or _NONE).required
    if drawn and not _attracted(world, asking, drawn, where):
        return AFFINITY
    for other, there in seated(world):
        if any(
            means(world, term, asking, other) and together(world, term.topology_key, pod, where, there)
            for term in repelled
        ):
            return ANTI
    for other, there in seated(world):
        terms = (other.pod.pod_anti_affinity or _NONE).required
        if any(
            means(world, term, other, asking) and together(world, term.topology_key, other.pod, where, there)
            for term in terms
        ):
            return EXISTING
    return ""


def _attracted(world: World, asking: PodInfo, terms: Sequence[PodAffinityTerm], where: Where) -> bool:
    pod, keys = asking.pod, [term.topology_key for term in terms]
    if any(place(world, key, pod, where) is None for key in keys):
        return False
    kind = [there for other, there in seated(world) if all(means(world, term, asking, other) for term in terms)]
    if all(any(together(world, key, pod, where, there) for there in kind) for key in keys):
        return True
    anywhere = any(place(world, key, pod, there) is not None for there in kind for key in keys)
    return not anywhere and all(means(world, term, asking, asking) for term in terms)


def raw_score(world: World, asking: PodInfo, where: Where, hard_weight: int = 1) -> int:
    """The sum of weights of a node."""
    score = 0
    for other, there in seated(world):
        for holder, meant in ((asking, other), (other, asking)):
            for weight, term in _weighted(holder.pod, hard_weight if holder is other else 0):
                if means(world, term, holder, meant) and together(world, term.topology_key, holder.pod, where, there):
                    score += weight
    return score


def _weighted(pod: Pod, hard_weight: int) -> Iterator[tuple[int, PodAffinityTerm]]:
    drawn, repelled = pod.pod_affinity or _NONE, pod.pod_anti_affinity or _NONE
    yield from ((one.weight, one.term) for one in drawn.preferred)
    yield from ((-one.weight, one.term) for one in repelled.preferred)
    yield from ((hard_weight, term) for term in drawn.required)
