"""Inter-pod affinity and anti-affinity of the API -> model terms. The reader fills in what the pod
itself decides.
"""

from collections.abc import Iterator

from agents.kube import wire, wire_terms
from agents.kube.selectors import label_selector, labels_size, selector_size, with_own_labels
from shared.model.pod import PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm
from shared.model.topology import label_key


def pod_affinity(
    raw: wire_terms.PodTerms | None,
    meta: wire.Meta,
    labels: dict[str, str],
    where: str,
    problems: list[str],
) -> PodAffinity | None:
    """The terms of podAffinity or podAntiAffinity (`where` names the field); None when there are
    none.
    """
    if raw is None or not (raw.required or raw.preferred):
        return None
    required = tuple(
        _term(one, meta, labels, f"{where}.required[{index}]", problems)
        for index, one in enumerate(raw.required or ())
    )
    preferred = tuple(
        WeightedPodAffinityTerm(
            max(1, min(100, one.weight)),
            _term(one.pod_affinity_term, meta, labels, f"{where}.preferred[{index}]", problems),
        )
        for index, one in enumerate(raw.preferred or ())
        if one.pod_affinity_term is not None
    )
    return PodAffinity(required, preferred) if required or preferred else None


def _term(
    raw: wire_terms.PodTerm,
    meta: wire.Meta,
    labels: dict[str, str],
    where: str,
    problems: list[str],
) -> PodAffinityTerm:
    if not raw.topology_key:
        problems.append(
            f"{where}.topologyKey: empty; name a node label such as kubernetes.io/hostname"
        )
    selector = label_selector(raw.label_selector, f"{where}.labelSelector", problems)
    if selector is not None:
        selector = with_own_labels(selector, labels, raw.match_label_keys, raw.mismatch_label_keys)
    spaces = label_selector(raw.namespace_selector, f"{where}.namespaceSelector", problems)
    named = raw.namespaces or ()
    own = (meta.namespace,) if not named and spaces is None else ()
    return PodAffinityTerm(
        label_key(raw.topology_key), selector, tuple(sorted({*named, *own})), spaces
    )


def terms_of(affinity: wire_terms.Affinity | None) -> Iterator[wire_terms.PodTerm]:
    """Every term of both kinds, required and preferred."""
    for kind in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity is not None else ():
        if kind is not None:
            yield from kind.required or ()
            yield from (
                one.pod_affinity_term
                for one in kind.preferred or ()
                if one.pod_affinity_term is not None
            )


def term_size(term: wire_terms.PodTerm) -> int:
    """Characters of a term."""
    return (
        selector_size(term.label_selector)
        + selector_size(term.namespace_selector)
        + labels_size(dict.fromkeys(term.namespaces or (), ""))
        + sum(
            len(key) for key in (*(term.match_label_keys or ()), *(term.mismatch_label_keys or ()))
        )
    )
