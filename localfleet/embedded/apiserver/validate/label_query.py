"""Label selectors in their query-string form, read as apimachinery's labels.Parse reads them, with
its words.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from localfleet.embedded.apiserver.status import ApiError, FieldError, bad_request
from localfleet.embedded.apiserver.validate import validation
from shared.model.labels import EXISTS, GT, IN, LT, NOT_EXISTS, NOT_IN, Requirement

_TOKEN = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+|$)")
_SPECIAL = frozenset({"==", "!=", "=", "!", "(", ")", ",", "<", ">", ""})
_OPERATORS = {"in": IN, "notin": NOT_IN, "=": IN, "==": IN, "!=": NOT_IN, ">": GT, "<": LT}
_LISTING = ("in", "notin")
_EXPECTED_OPERATORS = "in, notin, =, ==, !=, gt, lt"
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)


class _Reader:
    """The tokens of one selector; "" is its end."""

    def __init__(self, text: str) -> None:
        self._tokens = [match[1] for match in _TOKEN.finditer(text)]
        self._next = 0

    def peek(self) -> str:
        """The next token."""
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def take(self) -> str:
        """The next token, and on."""
        found = self.peek()
        self._next += 1
        return found

    def word(self) -> str:
        """The next token, which must be a word."""
        found = self.take()
        if found in _SPECIAL:
            raise _UnreadableError(f"found '{found}', expected: identifier")
        return found


class _UnreadableError(ValueError):
    """Why a requirement cannot be read."""


class _Clause(NamedTuple):
    key: str
    sign: str  # "", "!", or an operator
    values: tuple[str, ...] = ()


@lru_cache(maxsize=512)
def parse(text: str) -> tuple[Requirement, ...]:
    """Read a label selector; ApiError 400 says where it cannot be read."""
    reader = _Reader(text)
    requirements = []
    if reader.peek() in _SPECIAL - {"!", ""}:
        raise bad_request(f"found '{reader.peek()}', expected: !, identifier, or 'end of string'")
    while reader.peek():
        requirements.append(_requirement(reader))
        after = reader.take()
        if after == "":
            break
        if after != ",":
            raise bad_request(f"found '{after}', expected: ',' or 'end of string'")
        if reader.peek() in _SPECIAL - {"!"}:
            raise bad_request(f"found '{reader.peek()}', expected: identifier after ','")
    return tuple(requirements)


def _requirement(reader: _Reader) -> Requirement:
    try:
        clause = _clause(reader)
        _check(clause)
    except _UnreadableError as error:
        raise _wrapped(str(error)) from None
    if clause.sign in ("", "!"):
        return Requirement(clause.key, NOT_EXISTS if clause.sign else EXISTS)
    return Requirement(clause.key, _OPERATORS[clause.sign], clause.values)


def _wrapped(why: str) -> ApiError:
    return bad_request(f"unable to parse requirement: {why}")


def _clause(reader: _Reader) -> _Clause:
    absent = reader.peek() == "!"
    if absent:
        reader.take()
    key = reader.word()
    if problems := validation.label_key(key):
        raise _UnreadableError(str(FieldError("invalid", "<nil>", problems[0], key)))
    if absent or reader.peek() in ("", ","):
        return _Clause(key, "!" if absent else "")
    sign = reader.take()
    if sign not in _OPERATORS:
        raise _UnreadableError(f"found '{sign}', expected: {_EXPECTED_OPERATORS}")
    return _Clause(key, sign, _listed(reader) if sign in _LISTING else _single(reader))


def _single(reader: _Reader) -> tuple[str, ...]:
    return ("",) if reader.peek() in ("", ",") else (reader.word(),)


def _listed(reader: _Reader) -> tuple[str, ...]:
    found = reader.take()
    if found != "(":
        raise _UnreadableError(f"found '{found}' expected: '('")
    values = []
    value = ""
    while True:
        found = reader.take()
        if found in (",", ")"):
            values.append(value)
            value = ""
        if found == ")":
            return tuple(dict.fromkeys(values))
        if found in _SPECIAL - {","} or (value and found != ","):
            raise _UnreadableError(f"found '{found}', expected: ',' or ')'")
        value = "" if found == "," else found


def _check(clause: _Clause) -> None:
    for index, value in enumerate(clause.values):
        if clause.sign in "<>" and not _INTEGER.fullmatch(value):
            detail = "for 'Gt', 'Lt' operators, the value must be an integer"
            raise _UnreadableError(str(FieldError("invalid", f"values[{index}]", detail, value)))
        if problems := validation.label_value(value):
            raise _UnreadableError(
                str(FieldError("invalid", f"values[{index}][{clause.key}]", problems[0], value))
            )
