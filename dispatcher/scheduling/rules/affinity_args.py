"""Node affinity as people write it in a profile, read as `model.pod.Affinity`.

Either clauses of which all must hold, [{key: pool, operator: In, values: [batch]}], or Kubernetes'
own nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [...]},
preferredDuringSchedulingIgnoredDuringExecution: [{weight, preference}, ...]}.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from dispatcher.scheduling.framework.plugin_args import shown, whole_number
from shared.model.labels import (
    EXISTS,
    GT,
    LT,
    NOT_EXISTS,
    OPERATORS,
    NodeSelectorTerm,
    PreferredTerm,
    Requirement,
)
from shared.model.pod import Affinity

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_TERM_KEYS = ("matchExpressions", "matchFields")


class WrittenClause(msgspec.Struct, forbid_unknown_fields=True):
    """A clause in a profile."""

    key: Annotated[str, Meta(min_length=1)]
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"] = "In"
    values: list[str] = []


def added_affinity(raw: object) -> Affinity:
    """The terms that `raw` asks for; ValueError names what cannot be read."""
    if isinstance(raw, list | tuple):
        clauses = _clauses(raw)
        return Affinity((NodeSelectorTerm(clauses),)) if clauses else Affinity()
    if not isinstance(raw, Mapping) or not set(raw) <= {_REQUIRED, _PREFERRED}:
        raise ValueError(
            f"must be a list of {{key, operator, values}} or hold {_REQUIRED}, {_PREFERRED}"
        )
    return Affinity(
        _required(raw.get(_REQUIRED)), tuple(_preferred(one) for one in _list(raw.get(_PREFERRED)))
    )


def _required(raw: object) -> tuple[NodeSelectorTerm, ...] | None:
    if raw is None:
        return None
    if (
        not isinstance(raw, Mapping)
        or set(raw) != {"nodeSelectorTerms"}
        or not raw["nodeSelectorTerms"]
    ):
        raise ValueError(f"{_REQUIRED} must hold nodeSelectorTerms, at least one, not {shown(raw)}")
    return tuple(_term(one) for one in _list(raw["nodeSelectorTerms"]))


def _preferred(raw: object) -> PreferredTerm:
    if not isinstance(raw, Mapping) or set(raw) != {"weight", "preference"}:
        raise ValueError(f"each of {_PREFERRED} must hold weight and preference, not {shown(raw)}")
    try:
        weight = whole_number(1, 100)(raw["weight"])
    except ValueError as error:
        raise ValueError(f"weight {error}") from None
    return PreferredTerm(weight, _term(raw["preference"]))


def _term(raw: object) -> NodeSelectorTerm:
    if not isinstance(raw, Mapping) or not set(raw) <= set(_TERM_KEYS):
        raise ValueError(f"a term must hold {' or '.join(_TERM_KEYS)}, not {shown(raw)}")
    return NodeSelectorTerm(*(_clauses(_list(raw.get(key))) for key in _TERM_KEYS))


def _list(raw: object) -> list[Any] | tuple[Any, ...]:
    if raw is None:
        return ()
    if not isinstance(raw, list | tuple):
        raise ValueError(f"must be a list, not {shown(raw)}")
    return raw


def _clauses(raw: list[Any] | tuple[Any, ...]) -> tuple[Requirement, ...]:
    return tuple(_clause(item) for item in raw)


def _clause(raw: object) -> Requirement:
    if not isinstance(raw, Mapping) or not set(raw) <= {"key", "operator", "values"}:
        raise ValueError(f"must hold {{key, operator, values}}, not {shown(raw)}")
    key = raw.get("key")
    operator = raw.get("operator", "In")
    values = raw.get("values", [])
    if not isinstance(key, str) or not key:
        raise ValueError(f"a clause needs a label key, not {shown(key)}")
    if operator not in OPERATORS:
        raise ValueError(
            f"operator of {key} must be one of {', '.join(OPERATORS)}, not {shown(operator)}"
        )
    if not isinstance(values, list | tuple) or not all(isinstance(value, str) for value in values):
        raise ValueError(
            f"values of {key} must be a list of texts (quote true, numbers), not {shown(values)}"
        )
    _check_count(key, operator, len(values))
    return Requirement(key, operator, tuple(values))


def _check_count(key: str, operator: str, values: int) -> None:
    wanted = (
        "no values"
        if operator in (EXISTS, NOT_EXISTS)
        else "one value"
        if operator in (GT, LT)
        else "values"
    )
    if {"no values": values == 0, "one value": values == 1, "values": values > 0}[wanted]:
        return
    raise ValueError(f"operator {operator} of {key} needs {wanted}, not {values}")
