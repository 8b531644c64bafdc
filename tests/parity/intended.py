"""The rows of docs/parity.md as rules: where our answer is meant to differ from kube-scheduler's, and nowhere else."""

from collections.abc import Callable, Mapping, Sequence

from tests.parity.case import Case, Object
from tests.parity.compare import Difference
from tests.parity.oracle.affinity import pod_terms
from tests.parity.oracle.selectors import is_empty, selects
from tests.parity.preemption import costs
from tests.parity.profile import WEIGHTS

Rule = Callable[[Difference, Object, Case], bool]
GATES = "the names of scheduling gates"
_HOSTNAME = "kubernetes.io/hostname"
_BY_DOMAIN = ("feasible", "message", "victims", "PodTopologySpread", "InterPodAffinity")


def _preferred_term_unread(found: Difference, pod: Object, case: Case) -> bool:
    """kube-scheduler fails a pod whose preferred node affinity it cannot read; to us such a term matches no node."""
    return found.what == "error" and str(found.theirs).startswith('running PreScore plugin "NodeAffinity": ')


def _whole_pod_requests_scored(found: Difference, pod: Object, case: Case) -> bool:
    """kube-scheduler's NodeResourcesFit scores a pod without its pod-level requests; we score it with them."""
    return found.what == "NodeResourcesFit" and bool((pod["spec"].get("resources") or {}).get("requests"))


def _gates_named(found: Difference, pod: Object, case: Case) -> bool:
    """We name the gates after the API server's words."""
    gates = ", ".join(gate["name"] for gate in pod["spec"].get("schedulingGates") or ())
    return found.what == "message" and bool(gates) and found.ours == f"{found.theirs}: {gates}"


def _blank_namespace(found: Difference, pod: Object, case: Case) -> bool:
    """kube-scheduler takes all namespaces where a namespaceSelector of the pod to place matches one without labels."""
    if found.what not in {"feasible", "message", "victims", "InterPodAffinity"}:
        return False
    selectors = [term.get("namespaceSelector") for term in pod_terms(pod)]
    return any(not is_empty(one) and selects(one, {}) for one in selectors)


def _node_is_a_host(found: Difference, pod: Object, case: Case) -> bool:
    """Each of our nodes is a host of its own; kube-scheduler goes by the label, which may lack or be shared."""
    odd = any((node["metadata"].get("labels") or {}).get(_HOSTNAME) != node["metadata"]["name"] for node in case.nodes)
    return found.what in _BY_DOMAIN and odd and _HOSTNAME in _topology_keys(pod, case)


def _topology_keys(pod: Object, case: Case) -> set[str]:
    """Those of the pod, and of the terms of pods that are or may be on nodes already."""
    rules = pod["spec"].get("topologySpreadConstraints") or ()
    others = (*case.bound, *case.pending)
    return {one["topologyKey"] for one in (*rules, *(term for other in (pod, *others) for term in pod_terms(other)))}


def _equal_victims(found: Difference, pod: Object, case: Case) -> bool:
    """Of nodes that cost the same to empty, either side may take any."""
    if found.what != "victims" or not found.theirs or not found.ours:
        return False
    theirs, ours = (costs(case, pod, victims) for victims in (found.theirs, found.ours))
    return not theirs.isdisjoint(ours)


def _devices(found: Difference, pod: Object, case: Case) -> bool:
    """Nobody allocates devices here, so a pod that claims some waits; kube-scheduler may have a place for it."""
    return bool(pod["spec"].get("resourceClaims")) and "resource claims" in str(found.ours)


# name of the row -> whether a difference is that row's
RULES: dict[str, Rule] = {
    GATES: _gates_named,
    "a preferred node affinity term that cannot be read": _preferred_term_unread,
    "a namespaceSelector that a namespace without labels matches": _blank_namespace,
    "a node is a host": _node_is_a_host,
    "ties of victims": _equal_victims,
    "devices that are claimed": _devices,
    "pod-level requests in the score of NodeResourcesFit": _whole_pod_requests_scored,
}


def row_of(found: Difference, pod: Object, case: Case) -> str | None:
    """The first row that a difference is one of."""
    return next((name for name, rule in RULES.items() if rule(found, pod, case)), None)


def unexplained(found: Sequence[Difference], pod: Object, case: Case) -> list[Difference]:
    """The differences that are no row's; a total is explained as far as the scores in it are, to the point."""
    meant = [one for one in found if row_of(one, pod, case) is not None]
    return [
        one for one in found if one not in meant and not _adds_up(one, meant, WEIGHTS[pod["spec"]["schedulerName"]])
    ]


def _adds_up(total: Difference, meant: Sequence[Difference], weights: Mapping[str, int]) -> bool:
    if total.what != "total":
        return False
    parts = [one for one in meant if one.node == total.node and one.what in weights]
    told = sum(weights[one.what] * ((one.theirs or 0.0) - (one.ours or 0.0)) for one in parts)
    return bool(parts) and abs(told - (total.theirs - total.ours)) < 1e-6
