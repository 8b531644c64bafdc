"""Nodes must match nodeSelector and required node affinity, and are better the more preferred affinity they match.

raw = sum of the weights (1-100) of the preferred terms that the node matches; score = 100 * raw / largest raw.
`added_affinity` holds further required terms for all pods of the profile. Source: kube-scheduler's NodeAffinity.
"""

from collections.abc import Hashable, Mapping
from typing import ClassVar, cast

import numpy as np

from dispatcher.model.labels import OPERATORS, NodeSelectorTerm, Requirement
from dispatcher.model.pod import Pod
from dispatcher.model.reasons import Reason
from dispatcher.scheduling.eligibility import LabelMasks, selection_key
from dispatcher.scheduling.framework import (
    MAX_SCORE,
    SKIP,
    Codes,
    Depends,
    Filter,
    Fleet,
    Floats,
    Placed,
    Rows,
    Score,
)
from dispatcher.scheduling.plugin_args import Arg, ArgTable, shown


def _terms(raw: object) -> tuple[NodeSelectorTerm, ...]:
    """[{key, operator, values}, ...]: clauses of which all must hold."""
    if not isinstance(raw, list | tuple):
        raise ValueError(f"must be a list of {{key, operator, values}}, not {shown(raw)}")
    clauses = tuple(_clause(item) for item in raw)
    return (NodeSelectorTerm(clauses),) if clauses else ()


def _clause(raw: object) -> Requirement:
    if not isinstance(raw, Mapping) or not set(raw) <= {"key", "operator", "values"}:
        raise ValueError(f"must hold {{key, operator, values}}, not {shown(raw)}")
    key, operator, values = raw.get("key"), raw.get("operator", "In"), raw.get("values", [])
    if not isinstance(key, str) or not key:
        raise ValueError(f"a clause needs a label key, not {shown(key)}")
    if operator not in OPERATORS:
        raise ValueError(f"operator of {key} must be one of {', '.join(OPERATORS)}, not {shown(operator)}")
    if not isinstance(values, list | tuple) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"values of {key} must be a list of texts (quote true, numbers), not {shown(values)}")
    return Requirement(key, operator, tuple(values))


class NodeAffinity(Filter, Score):
    """Filter on what is required, score on what is preferred."""

    name: ClassVar[str] = "NodeAffinity"
    depends: ClassVar[Depends] = Depends.STATIC
    normalizes: ClassVar[bool] = True
    ARGS: ClassVar[ArgTable] = {
        "added_affinity": Arg((), "clauses {key, operator, values} that every pod's node must satisfy", _terms)
    }

    def __init__(self, added_affinity: tuple[NodeSelectorTerm, ...]) -> None:
        self._added = added_affinity
        self._masks = LabelMasks()

    def class_key(self, placed: Placed) -> Hashable:
        """nodeSelector, required and preferred terms; None without."""
        preferred = placed.pod.affinity.preferred if placed.pod.affinity else ()
        selection = selection_key(placed.pod)
        return (selection, preferred) if preferred else selection

    def pre_filter(self, placed: Placed, fleet: Fleet) -> object:
        """The pod; SKIP if nothing is asked for."""
        return SKIP if self.class_key(placed) is None and not self._added else placed.pod

    def filter(self, state: object, fleet: Fleet, rows: Rows) -> Codes:
        """AFFINITY where a required term or the selector does not match."""
        mask = self._masks.selected(cast(Pod, state), fleet, rows)
        if self._added:
            mask &= self._masks.any_term(self._added, fleet, rows)
        codes: Codes = ~mask * np.uint16(fleet.reasons.code(Reason.AFFINITY))
        return codes

    def score(self, state: object, fleet: Fleet, rows: Rows) -> Floats:
        """Sum of the weights of the matching preferred terms."""
        pod = cast(Pod, state)
        scores = np.zeros(len(fleet.live[rows]))
        for preferred in pod.affinity.preferred if pod.affinity else ():
            scores += preferred.weight * self._masks.term(preferred.term, fleet, rows)
        return scores

    def normalize(self, raw: Floats) -> Floats:
        """The best node gets 100; all 0 if no term matches anywhere."""
        most = raw.max(initial=0.0)
        return raw * (MAX_SCORE / most) if most > 0 else raw
