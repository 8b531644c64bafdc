"""Where a pod may go by its own spec: selectors, affinity, tolerations, spread, volumes. Bounded in
size before use.
"""

from collections.abc import Sequence
from typing import NamedTuple

from agents.kube import wire_pods, wire_terms
from agents.kube.effective import host_ports
from agents.kube.pod_affinity import pod_affinity, term_size, terms_of
from agents.kube.selectors import (
    NOTHING,
    expressions_size,
    label_selector,
    labels_size,
    requirements,
    selector_size,
    with_own_labels,
)
from agents.kube.volumes import volumes_of
from shared.model.labels import NodeSelectorTerm, PreferredTerm
from shared.model.pod import Affinity, HostPort, PodAffinity, SpreadConstraint, Toleration, Volume
from shared.model.topology import label_key

MAX_SELECTOR_BYTES = 64 * 1024
MAX_RULES = 256
MAX_CLAUSES = 256  # on nodes: each is held against every node of the fleet; and on pods, likewise
# constraints or terms that count other pods: each may have to be held against every pod of the
# fleet
MAX_TERMS = 32
MAX_CONTAINERS = 64
_FEWER = " (list values of one key in one clause, with operator In or NotIn)"
_HARD = {"DoNotSchedule": True, "ScheduleAnyway": False}
# nodeAffinityPolicy is Honor unless said, nodeTaintsPolicy is Ignore
_HONOR = "Honor"
_IGNORE = "Ignore"


class Ties(NamedTuple):
    """What binds a pod to other pods and to disks, and therefore matters of every pod on a node."""

    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None
    volumes: tuple[Volume, ...] = ()


_NO_TIES = Ties()


class Placement(NamedTuple):
    """The fields of a pod that say where it may go."""

    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[HostPort, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    ties: Ties = _NO_TIES


def placement(pod: wire_pods.PodObject, labels: dict[str, str], problems: list[str]) -> Placement:
    """Read the placement rules; a pod with too much of them gets a problem and none, so that it
    costs nobody time.
    """
    spec = pod.spec
    too_much = _too_much(spec)
    problems.extend(too_much)
    if too_much:
        return Placement()
    return Placement(
        spec.node_selector or {},
        node_affinity(spec.affinity, problems),
        tolerations(spec.tolerations),
        host_ports(spec, problems),
        spread_constraints(spec.topology_spread_constraints, labels, problems),
        _ties(pod, labels, problems),
    )


def _ties(pod: wire_pods.PodObject, labels: dict[str, str], problems: list[str]) -> Ties:
    meta = pod.metadata
    spec = pod.spec
    affinity = pod.spec.affinity
    if affinity is None:
        return Ties(volumes=volumes_of(spec, meta.name)) if spec.volumes else _NO_TIES
    where = "spec.affinity"
    return Ties(
        pod_affinity(affinity.pod_affinity, meta, labels, f"{where}.podAffinity", problems),
        pod_affinity(
            affinity.pod_anti_affinity, meta, labels, f"{where}.podAntiAffinity", problems
        ),
        volumes_of(spec, meta.name),
    )


def _too_much(spec: wire_pods.PodSpec) -> list[str]:
    size = selector_bytes(spec)
    bounds = (
        (
            "containers",
            len(spec.containers or ()) + len(spec.init_containers or ()),
            MAX_CONTAINERS,
            "containers",
        ),
        ("tolerations", len(spec.tolerations or ()), MAX_RULES, "entries"),
        (
            "topologySpreadConstraints",
            len(spec.topology_spread_constraints or ()),
            MAX_TERMS,
            "entries",
        ),
        ("volumes", len(spec.volumes or ()), MAX_RULES, "entries"),
        ("resourceClaims", len(spec.resource_claims or ()), MAX_RULES, "entries"),
        ("schedulingGates", len(spec.scheduling_gates or ()), MAX_RULES, "entries"),
        (
            "affinity.podAffinity and podAntiAffinity",
            sum(1 for _ in terms_of(spec.affinity)),
            MAX_TERMS,
            "terms",
        ),
        (
            "nodeSelector, affinity and topologySpreadConstraints",
            size,
            MAX_SELECTOR_BYTES,
            "characters of selectors",
        ),
        (
            "nodeSelector and affinity.nodeAffinity",
            _node_clauses_in(spec),
            MAX_CLAUSES,
            f"clauses{_FEWER}",
        ),
        (
            "affinity and topologySpreadConstraints",
            _pod_clauses_in(spec),
            MAX_CLAUSES,
            f"clauses on pods{_FEWER}",
        ),
    )
    return [
        f"spec.{field}: {count} {what}, more than {most}"
        for field, count, most, what in bounds
        if count > most
    ]


def _node_clauses_in(spec: wire_pods.PodSpec) -> int:
    """How many clauses on nodes; a term without any counts as one."""
    clauses = sum(
        len(one.match_expressions or ()) + len(one.match_fields or ()) or 1
        for one in _node_terms(spec)
    )
    return len(spec.node_selector or ()) + clauses


def _pod_clauses_in(spec: wire_pods.PodSpec) -> int:
    terms = list(terms_of(spec.affinity))
    selectors = [one.label_selector for one in (*(spec.topology_spread_constraints or ()), *terms)]
    selectors += [one.namespace_selector for one in terms]
    return sum(
        len(one.match_labels or ()) + len(one.match_expressions or ())
        for one in selectors
        if one is not None
    )


def selector_bytes(spec: wire_pods.PodSpec) -> int:
    """How much text the pod's selectors hold together, in characters."""
    return (
        labels_size(spec.node_selector)
        + sum(
            expressions_size(one.match_expressions) + expressions_size(one.match_fields)
            for one in _node_terms(spec)
        )
        + sum(selector_size(rule.label_selector) for rule in spec.topology_spread_constraints or ())
        + sum(term_size(term) for term in terms_of(spec.affinity))
    )


def _node_terms(spec: wire_pods.PodSpec) -> list[wire_terms.NodeTerm]:
    """The terms of node affinity, required and preferred."""
    node = spec.affinity.node_affinity if spec.affinity is not None else None
    if node is None:
        return []
    required = (node.required.node_selector_terms if node.required is not None else None) or []
    terms = (*required, *(weighted.preference for weighted in node.preferred or ()))
    return [term for term in terms if term is not None]


def node_affinity(affinity: wire_terms.Affinity | None, problems: list[str]) -> Affinity | None:
    """Required and preferred node terms; None when there are none."""
    node = affinity.node_affinity if affinity is not None else None
    if node is None:
        return None
    where = "spec.affinity.nodeAffinity"
    required = None
    if node.required is not None:
        required = node_terms(
            node.required.node_selector_terms or (), f"{where}.required", problems
        )
    preferred = tuple(
        PreferredTerm(
            max(1, min(100, weighted.weight)),
            _term(weighted.preference, f"{where}.preferred", problems),
        )
        for weighted in node.preferred or ()
        if weighted.preference is not None
    )
    return Affinity(required, preferred) if required is not None or preferred else None


def node_terms(
    terms: Sequence[wire_terms.NodeTerm], where: str, problems: list[str]
) -> tuple[NodeSelectorTerm, ...]:
    """Terms of a node selector; `where` names the field that holds them."""
    return tuple(_term(term, f"{where}[{index}]", problems) for index, term in enumerate(terms))


def _term(term: wire_terms.NodeTerm, where: str, problems: list[str]) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        requirements(term.match_expressions, f"{where}.matchExpressions", problems),
        requirements(term.match_fields, f"{where}.matchFields", problems),
    )


def tolerations(raw: list[wire_terms.Toleration] | None) -> tuple[Toleration, ...]:
    """As they stand; an empty operator means Equal."""
    return tuple(
        Toleration(one.key, one.operator or "Equal", one.value, one.effect, one.toleration_seconds)
        for one in raw or ()
    )


def spread_constraints(
    raw: list[wire_terms.TopologySpread] | None, labels: dict[str, str], problems: list[str]
) -> tuple[SpreadConstraint, ...]:
    """topologySpreadConstraints; matchLabelKeys become clauses with the pod's own values."""
    found: list[SpreadConstraint] = []
    for index, rule in enumerate(raw or ()):
        where = f"spec.topologySpreadConstraints[{index}]"
        hard = _HARD.get(rule.when_unsatisfiable)
        if hard is None or rule.max_skew < 1 or not rule.topology_key:
            problems.append(
                f"{where}: needs topologyKey, maxSkew >= 1 and whenUnsatisfiable of "
                f"{', '.join(_HARD)}"
            )
            continue
        selector = label_selector(rule.label_selector, f"{where}.labelSelector", problems)
        found.append(
            SpreadConstraint(
                label_key(rule.topology_key),
                rule.max_skew,
                hard,
                NOTHING
                if selector is None
                else with_own_labels(selector, labels, rule.match_label_keys),
                max(1, rule.min_domains or 1),
                honor_affinity=rule.node_affinity_policy != _IGNORE,
                honor_taints=rule.node_taints_policy == _HONOR,
            )
        )
    return tuple(found)
