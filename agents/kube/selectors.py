"""Label selectors of the API -> model selectors, and how much text they hold."""

from agents.kube import wire_terms
from shared.model.labels import IN, NOT_IN, OPERATORS, LabelSelector, Requirement

NOTHING = LabelSelector(
    match_expressions=(Requirement("", IN, ()),)
)  # a null labelSelector selects no pod


def labels_size(labels: dict[str, str] | None) -> int:
    """Characters of all keys and values."""
    return sum(len(key) + len(value) for key, value in labels.items()) if labels else 0


def selector_size(selector: wire_terms.Selector | None) -> int:
    """Characters of a label selector."""
    if selector is None:
        return 0
    return labels_size(selector.match_labels) + expressions_size(selector.match_expressions)


def expressions_size(clauses: list[wire_terms.Expression] | None) -> int:
    """Characters of all clauses."""
    return sum(
        len(clause.key)
        + len(clause.operator)
        + sum(len(value) + 1 for value in clause.values or ())
        for clause in clauses or ()
    )


def requirements(
    clauses: list[wire_terms.Expression] | None, where: str, problems: list[str]
) -> tuple[Requirement, ...]:
    """The clauses; an operator that does not exist is a problem."""
    problems.extend(
        f"{where}: operator {clause.operator[:20]!r} is not one of {', '.join(OPERATORS)}"
        for clause in clauses or ()
        if clause.operator not in OPERATORS
    )
    return tuple(
        Requirement(clause.key, clause.operator, tuple(clause.values or ()))
        for clause in clauses or ()
    )


def label_selector(
    raw: wire_terms.Selector | None, where: str, problems: list[str]
) -> LabelSelector | None:
    """The selector; None for one that is not given."""
    if raw is None:
        return None
    return LabelSelector(
        raw.match_labels or {}, requirements(raw.match_expressions, where, problems)
    )


def with_own_labels(
    selector: LabelSelector,
    labels: dict[str, str],
    match: list[str] | None,
    mismatch: list[str] | None = None,
) -> LabelSelector:
    """`selector` and, for each key of matchLabelKeys and mismatchLabelKeys, the pod's own value or
    any other one.

    API servers since 1.31 (affinity) and 1.34 (spread) have written these clauses already: they are
    not added twice.
    """
    clauses = (
        Requirement(key, operator, (labels[key],))
        for operator, keys in ((IN, match), (NOT_IN, mismatch))
        for key in keys or ()
        if key in labels
    )
    known = selector.match_expressions
    added = tuple(clause for clause in dict.fromkeys(clauses) if clause not in known)
    return LabelSelector(selector.match_labels, known + added) if added else selector
