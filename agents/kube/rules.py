"""Where a pod may go by its own spec: selectors, node affinity, tolerations, spread. Bounded in size before use."""

from collections.abc import Iterable
from typing import NamedTuple

from agents.kube import wire
from agents.kube.effective import host_ports
from dispatcher.model.labels import IN, OPERATORS, LabelSelector, NodeSelectorTerm, PreferredTerm, Requirement
from dispatcher.model.pod import Affinity, HostPort, SpreadConstraint, Toleration
from dispatcher.model.topology import level_of

MAX_SELECTOR_BYTES = 64 * 1024
MAX_RULES = 256
MAX_CONTAINERS = 64
_NOTHING = LabelSelector(match_expressions=(Requirement("", IN, ()),))  # a null labelSelector selects no pod
_HARD = {"DoNotSchedule": True, "ScheduleAnyway": False}


class Placement(NamedTuple):
    """The fields of a pod that say where it may go."""

    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[HostPort, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()


def placement(spec: wire.PodSpec, labels: dict[str, str], problems: list[str]) -> Placement:
    """Read the placement rules; a pod with too much of them gets a problem and none, so that it costs nobody time."""
    too_much = _too_much(spec)
    problems.extend(too_much)
    if too_much:
        return Placement()
    hard_pod_affinity(spec.affinity, problems)
    storage(spec, problems)
    return Placement(
        spec.node_selector or {},
        node_affinity(spec.affinity, problems),
        tolerations(spec.tolerations),
        host_ports(spec, problems),
        spread_constraints(spec.topology_spread_constraints, labels, problems),
    )


def _too_much(spec: wire.PodSpec) -> list[str]:
    size = selector_bytes(spec)
    bounds = (
        ("containers", len(spec.containers or ()) + len(spec.init_containers or ()), MAX_CONTAINERS, "containers"),
        ("tolerations", len(spec.tolerations or ()), MAX_RULES, "entries"),
        ("topologySpreadConstraints", len(spec.topology_spread_constraints or ()), MAX_RULES, "entries"),
        ("volumes", len(spec.volumes or ()), MAX_RULES, "entries"),
        ("nodeSelector, affinity and topologySpreadConstraints", size, MAX_SELECTOR_BYTES, "characters of selectors"),
    )
    return [f"spec.{field}: {count} {what}, more than {most}" for field, count, most, what in bounds if count > most]


def selector_bytes(spec: wire.PodSpec) -> int:
    """How much text the pod's selectors hold together, in characters."""
    return (
        labels_size(spec.node_selector)
        + sum(_expressions_size(clauses) for clauses in _node_clauses(spec.affinity))
        + sum(_selector_size(rule.label_selector) for rule in spec.topology_spread_constraints or ())
    )


def labels_size(labels: dict[str, str] | None) -> int:
    """Characters of all keys and values."""
    return sum(len(key) + len(value) for key, value in labels.items()) if labels else 0


def _node_clauses(affinity: wire.Affinity | None) -> Iterable[list[wire.Expression] | None]:
    node = affinity.node_affinity if affinity is not None else None
    if node is None:
        return
    required = (node.required.node_selector_terms if node.required is not None else None) or []
    for term in (*required, *(weighted.preference for weighted in node.preferred or ())):
        if term is not None:
            yield term.match_expressions
            yield term.match_fields


def _selector_size(selector: wire.Selector | None) -> int:
    if selector is None:
        return 0
    return labels_size(selector.match_labels) + _expressions_size(selector.match_expressions)


def _expressions_size(clauses: list[wire.Expression] | None) -> int:
    return sum(
        len(clause.key) + len(clause.operator) + sum(len(value) + 1 for value in clause.values or ())
        for clause in clauses or ()
    )


def node_affinity(affinity: wire.Affinity | None, problems: list[str]) -> Affinity | None:
    """Required and preferred node terms; None when there are none."""
    node = affinity.node_affinity if affinity is not None else None
    if node is None:
        return None
    where = "spec.affinity.nodeAffinity"
    required = None
    if node.required is not None:
        terms = node.required.node_selector_terms or ()
        required = tuple(_term(term, f"{where}.required[{index}]", problems) for index, term in enumerate(terms))
    preferred = tuple(
        PreferredTerm(max(1, min(100, weighted.weight)), _term(weighted.preference, f"{where}.preferred", problems))
        for weighted in node.preferred or ()
        if weighted.preference is not None
    )
    return Affinity(required, preferred) if required is not None or preferred else None


def _term(term: wire.NodeTerm, where: str, problems: list[str]) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        _requirements(term.match_expressions, f"{where}.matchExpressions", problems),
        _requirements(term.match_fields, f"{where}.matchFields", problems),
    )


def _requirements(clauses: list[wire.Expression] | None, where: str, problems: list[str]) -> tuple[Requirement, ...]:
    problems.extend(
        f"{where}: operator {clause.operator[:20]!r} is not one of {', '.join(OPERATORS)}"
        for clause in clauses or ()
        if clause.operator not in OPERATORS
    )
    return tuple(Requirement(clause.key, clause.operator, tuple(clause.values or ())) for clause in clauses or ())


def hard_pod_affinity(affinity: wire.Affinity | None, problems: list[str]) -> None:
    """Required inter-pod rules would be broken by leaving them out, so they are a problem; preferred ones are not."""
    if affinity is None:
        return
    for field, terms in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        if terms is not None and terms.required:
            problems.append(
                f"spec.affinity.{field}.requiredDuringSchedulingIgnoredDuringExecution: not supported; "
                f"use topologySpreadConstraints or the preferred form"
            )


def storage(spec: wire.PodSpec, problems: list[str]) -> None:
    """Volumes and devices that bind a pod to a cluster or node are not supported yet: a problem, never a guess."""
    for index, volume in enumerate(spec.volumes or ()):
        for kind, claim in (("persistentVolumeClaim", volume.persistent_volume_claim), ("ephemeral", volume.ephemeral)):
            if claim is not None:
                problems.append(f"spec.volumes[{index}].{kind}: not supported; claims bind a pod to one cluster")
    if spec.resource_claims:
        problems.append("spec.resourceClaims: not supported; request an extended resource instead")


def tolerations(raw: list[wire.Toleration] | None) -> tuple[Toleration, ...]:
    """As they stand; an empty operator means Equal."""
    return tuple(
        Toleration(one.key, one.operator or "Equal", one.value, one.effect, one.toleration_seconds) for one in raw or ()
    )


def spread_constraints(
    raw: list[wire.TopologySpread] | None, labels: dict[str, str], problems: list[str]
) -> tuple[SpreadConstraint, ...]:
    """topologySpreadConstraints; matchLabelKeys become clauses with the pod's own values."""
    found: list[SpreadConstraint] = []
    for index, rule in enumerate(raw or ()):
        where = f"spec.topologySpreadConstraints[{index}]"
        hard = _HARD.get(rule.when_unsatisfiable)
        if hard is None or rule.max_skew < 1 or not rule.topology_key:
            problems.append(f"{where}: needs topologyKey, maxSkew >= 1 and whenUnsatisfiable of {', '.join(_HARD)}")
            continue
        selector = _spread_selector(rule, labels, f"{where}.labelSelector", problems)
        found.append(
            SpreadConstraint(level_of(rule.topology_key), rule.max_skew, hard, selector, max(1, rule.min_domains or 1))
        )
    return tuple(found)


def _spread_selector(
    rule: wire.TopologySpread, labels: dict[str, str], where: str, problems: list[str]
) -> LabelSelector:
    raw = rule.label_selector
    if raw is None:
        return _NOTHING
    own = tuple(Requirement(key, IN, (labels[key],)) for key in rule.match_label_keys or () if key in labels)
    return LabelSelector(raw.match_labels or {}, _requirements(raw.match_expressions, where, problems) + own)
