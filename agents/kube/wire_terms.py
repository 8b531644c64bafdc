"""Selectors, affinity, tolerations and spread as they come over the wire."""

import msgspec

from agents.kube.wire import Int, Long, Text, Wire


class Expression(Wire):
    """One clause of a label or node selector."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class Selector(Wire):
    """metav1 LabelSelector."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[Expression] | None = None


class NodeTerm(Wire):
    """core/v1 NodeSelectorTerm."""

    match_expressions: list[Expression] | None = None
    match_fields: list[Expression] | None = None


class NodeTerms(Wire):
    """core/v1 NodeSelector."""

    node_selector_terms: list[NodeTerm] | None = None


class WeightedTerm(Wire):
    """core/v1 PreferredSchedulingTerm."""

    weight: Int = 1
    preference: NodeTerm | None = None


class NodeAffinity(Wire):
    """core/v1 NodeAffinity."""

    required: NodeTerms | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: list[WeightedTerm] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class PodTerm(Wire):
    """core/v1 PodAffinityTerm."""

    label_selector: Selector | None = None
    namespaces: list[str] | None = None
    topology_key: str = ""
    namespace_selector: Selector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodTerm(Wire):
    """core/v1 WeightedPodAffinityTerm."""

    weight: Int = 1
    pod_affinity_term: PodTerm | None = None


class PodTerms(Wire):
    """core/v1 PodAffinity or PodAntiAffinity."""

    required: list[PodTerm] | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: list[WeightedPodTerm] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class Affinity(Wire):
    """core/v1 Affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodTerms | None = None
    pod_anti_affinity: PodTerms | None = None


class Toleration(Wire):
    """core/v1 Toleration."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Long | None = None


class TopologySpread(Wire):
    """core/v1 TopologySpreadConstraint."""

    max_skew: Int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: Selector | None = None
    min_domains: Int | None = None
    match_label_keys: list[str] | None = None
    node_affinity_policy: Text = None
    node_taints_policy: Text = None
