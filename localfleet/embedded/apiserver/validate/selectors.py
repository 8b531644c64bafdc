"""Label and field selectors in their query-string form, as `kubectl -l` and `--field-selector` send
them.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from localfleet.embedded.apiserver.status import Object, bad_request
from localfleet.embedded.apiserver.validate import label_query
from shared.model.labels import Requirement

Matcher = Callable[[Object], bool]

_UNESCAPED_COMMA = re.compile(r"(?<!\\),")
_TERM = re.compile(r"(.*?)(!=|==|=)(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\([\\,=])")
_COMMON_FIELDS = ("metadata.name", "metadata.namespace")


@lru_cache(maxsize=512)
def parse_fields(text: str) -> tuple[tuple[str, bool, str], ...]:
    """Read a field selector into (path, equal, value) terms."""
    terms = []
    for part in filter(None, _UNESCAPED_COMMA.split(text)):
        match = _TERM.fullmatch(part.strip())
        if match is None:
            raise bad_request(f"invalid selector: '{text[:200]}'; can't understand '{part[:80]}'")
        terms.append((match[1], match[2] != "!=", _ESCAPE.sub(r"\1", match[3])))
    return tuple(terms)


def field_value(obj: Object, path: str) -> str:
    """The text a field selector compares: '' for what is absent, 'true' and 'false' for booleans."""
    if path == "source":  # of an event, which names who reports it here or there
        path = "source.component" if (obj.get("source") or {}).get("component") else _REPORTER
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return "false" if path in _BOOLEAN_FIELDS else ""
    return str(value).lower() if isinstance(value, bool) else str(value)


_REPORTER = "reportingComponent"
_BOOLEAN_FIELDS = frozenset({"spec.unschedulable", "spec.hostNetwork"})


def matcher(
    labels: str, fields: str, known_fields: tuple[str, ...], renamed: Callable[[str], str] = str
) -> Matcher | None:
    """One function for both selectors, None when everything matches. `renamed` leads from a field
    to its path.
    """
    requirements = label_query.parse(labels) if labels else ()
    terms = parse_fields(fields) if fields else ()
    for path, _, _ in terms:
        if path in known_fields or path in _COMMON_FIELDS:
            continue
        if known_fields:
            raise bad_request(f"field label not supported: {path[:80]}")
        listed = ", ".join(f'"{field}"' for field in _COMMON_FIELDS)
        raise bad_request(f'"{path[:80]}" is not a known field selector: only {listed}')
    terms = tuple((renamed(path), equal, value) for path, equal, value in terms)
    if not requirements and not terms:
        return None

    def matches(obj: Object) -> bool:
        found = obj["metadata"].get("labels") or {}
        return all(clause.matches(found) for clause in requirements) and all(
            (field_value(obj, path) == value) is equal for path, equal, value in terms
        )

    return matches


def label_selector_matches(selector: Object, labels: dict[str, str]) -> bool:
    """Whether a metav1.LabelSelector (matchLabels and matchExpressions) selects `labels`; empty
    selects all.
    """
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    clauses = selector.get("matchExpressions") or []
    return all(
        Requirement(clause["key"], clause["operator"], tuple(clause.get("values") or ())).matches(
            labels
        )
        for clause in clauses
    )
