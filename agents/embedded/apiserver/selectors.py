"""Label and field selectors in their query-string form, as `kubectl -l` and `--field-selector` send them."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from agents.embedded.apiserver.status import ApiError, Object, bad_request
from dispatcher.model.labels import EXISTS, GT, IN, LT, NOT_EXISTS, NOT_IN, Requirement

Matcher = Callable[[Object], bool]

_SET = re.compile(r"([^\s!=,<>()]+)\s+(in|notin)\s*\(([^()]*)\)")
_COMPARE = re.compile(r"([^\s!=,<>()]+)\s*(==|=|!=|>|<)\s*([^\s!=,<>()]*)")
_PRESENCE = re.compile(r"(!?)\s*([^\s!=,<>()]+)")
_OPERATORS = {"=": IN, "==": IN, "!=": NOT_IN, ">": GT, "<": LT}
_NAME = re.compile(r"([A-Za-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_COMMON_FIELDS = ("metadata.name", "metadata.namespace")


@lru_cache(maxsize=512)
def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Read a label selector; ApiError 400 says where it cannot be read."""
    requirements, position = [], 0
    while position < len(text.rstrip()):
        requirement, position = _clause(text, position)
        if not _NAME.fullmatch(requirement.key):
            raise _unreadable(f'key: Invalid value: "{requirement.key[:80]}": must be a qualified name')
        requirements.append(requirement)
    return tuple(requirements)


def _clause(text: str, position: int) -> tuple[Requirement, int]:
    position += len(text[position:]) - len(text[position:].lstrip())
    if match := _SET.match(text, position):
        key, word, values = match.groups()
        listed = tuple(value.strip() for value in values.split(","))
        found = Requirement(key, IN if word == "in" else NOT_IN, listed)
    elif match := _COMPARE.match(text, position):
        key, sign, value = match.groups()
        found = Requirement(key, _OPERATORS[sign], (value,))
    elif match := _PRESENCE.match(text, position):
        found = Requirement(match[2], NOT_EXISTS if match[1] else EXISTS)
    else:
        raise _unreadable(f"couldn't parse the selector string: found '{text[position : position + 40]}'")
    rest = text[match.end() :]
    after = rest.lstrip()
    if after and not after.startswith(","):
        raise _unreadable(f"found '{after[:40]}', expected: ',' or 'end of string'")
    if after == ",":
        raise _unreadable("found '', expected: identifier after ','")
    return found, match.end() + len(rest) - len(after) + (1 if after else 0)


def _unreadable(why: str) -> ApiError:
    return bad_request(f"unable to parse requirement: {why}")


@lru_cache(maxsize=512)
def parse_fields(text: str) -> tuple[tuple[str, bool, str], ...]:
    """Read a field selector into (path, equal, value) terms."""
    terms = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        match = re.fullmatch(r"([^=!]+?)(==|=|!=)(.*)", part)
        if match is None:
            raise bad_request(f"invalid selector: '{text[:200]}'; can't understand '{part[:80]}'")
        terms.append((match[1], match[2] != "!=", match[3]))
    return tuple(terms)


def field_value(obj: Object, path: str) -> str:
    """The text a field selector compares: '' for what is absent, 'true' and 'false' for booleans."""
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return "false" if path in _BOOLEAN_FIELDS else ""
    return str(value).lower() if isinstance(value, bool) else str(value)


_BOOLEAN_FIELDS = frozenset({"spec.unschedulable", "spec.hostNetwork"})


def matcher(labels: str, fields: str, known_fields: tuple[str, ...], what: str) -> Matcher | None:
    """One function for both selectors, None when everything matches. `what` names the resource in errors."""
    requirements = parse_labels(labels) if labels else ()
    terms = parse_fields(fields) if fields else ()
    for path, _, _ in terms:
        if path not in known_fields and path not in _COMMON_FIELDS:
            looked_for = f'that match label selector "{labels[:200]}", field selector "{fields[:200]}"'
            raise bad_request(f'Unable to find "{what}" {looked_for}: field label not supported: {path[:80]}')
    if not requirements and not terms:
        return None

    def matches(obj: Object) -> bool:
        found = obj["metadata"].get("labels") or {}
        return all(clause.matches(found) for clause in requirements) and all(
            (field_value(obj, path) == value) is equal for path, equal, value in terms
        )

    return matches


def label_selector_matches(selector: Object, labels: dict[str, str]) -> bool:
    """Whether a metav1.LabelSelector (matchLabels and matchExpressions) selects `labels`; empty selects all."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    clauses = selector.get("matchExpressions") or []
    return all(
        Requirement(clause["key"], clause["operator"], tuple(clause.get("values") or ())).matches(labels)
        for clause in clauses
    )
