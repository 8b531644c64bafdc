"""Arguments of plugins as plain tables: key -> (default, what it means, check). A check answers with the value as the
plugin wants it, or raises ValueError that says what is wrong in words for the person who wrote the profile.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

Check = Callable[[object], Any]
_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL_KEY = re.compile(rf"([a-z0-9][-a-z0-9.]{{0,252}}/)?{_NAME}")


@dataclass(frozen=True)
class Arg:
    """One argument. `default` has passed `check`; `doc` says meaning and unit."""

    default: Any
    doc: str
    check: Check


ArgTable = Mapping[str, Arg]


@dataclass(frozen=True)
class ArgProblem:
    """What is wrong with one argument."""

    key: str
    text: str


def check_args(table: ArgTable, given: Mapping[str, object]) -> tuple[dict[str, Any], list[ArgProblem]]:
    """The complete arguments (defaults filled in) and everything that is wrong with those given."""
    values = {key: arg.default for key, arg in table.items()}
    problems = []
    for key, raw in given.items():
        arg = table.get(key)
        if arg is None:
            problems.append(ArgProblem(key, f"unknown argument{did_you_mean(key, table)}"))
            continue
        try:
            values[key] = arg.check(raw)
        except ValueError as error:
            problems.append(ArgProblem(key, str(error)))
    return values, problems


def did_you_mean(word: str, known: Mapping[str, object] | Sequence[str]) -> str:
    """'; did you mean X?' for a near miss, else '; known: ...'; empty if nothing is known."""
    names = list(known)
    close = get_close_matches(word, names, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; known: {', '.join(names)}" if names else ""


def shown(value: object, limit: int = 60) -> str:
    """A value as it may safely stand in a message."""
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + "..."


def number(low: float, high: float) -> Check:
    """A finite number within [low, high]."""

    def check(raw: object) -> float:
        if isinstance(raw, bool) or not isinstance(raw, int | float) or not math.isfinite(raw):
            raise ValueError(f"must be a number from {low:g} to {high:g}, not {shown(raw)}")
        if not low <= raw <= high:
            raise ValueError(f"must be from {low:g} to {high:g}, not {shown(raw)}")
        return float(raw)

    return check


def whole_number(low: int, high: int) -> Callable[[object], int]:
    """A whole number within [low, high]."""

    def check(raw: object) -> int:
        value = number(low, high)(raw)
        if value != int(value):
            raise ValueError(f"must be a whole number, not {shown(raw)}")
        return int(value)

    return check


def texts(raw: object) -> tuple[str, ...]:
    """A list of texts, each once; may be empty."""
    if not isinstance(raw, list | tuple) or not all(isinstance(one, str) and one for one in raw):
        raise ValueError(f"must be a list of texts, not {shown(raw)}")
    return tuple(dict.fromkeys(raw))


def label_key(raw: object) -> str:
    """The key of a label."""
    if not isinstance(raw, str) or not _LABEL_KEY.fullmatch(raw):
        raise ValueError(f"must be the key of a label, such as example.com/team, not {shown(raw)}")
    return raw


def yes_or_no(raw: object) -> bool:
    """True or false."""
    if not isinstance(raw, bool):
        raise ValueError(f"must be true or false, not {shown(raw)}")
    return raw


def one_of(*choices: str) -> Check:
    """One of a few words."""

    def check(raw: object) -> str:
        if raw not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}, not {shown(raw)}")
        return str(raw)

    return check


def resource_weights(raw: object) -> tuple[tuple[str, int], ...]:
    """{resource: weight} with at least one resource and weights 1 to 100, as kube-scheduler's `resources`."""
    if not isinstance(raw, Mapping) or not raw:
        raise ValueError(f"must map resources to weights, for example {{cpu: 1, memory: 1}}, not {shown(raw)}")
    weight = whole_number(1, 100)
    pairs = []
    for name, value in raw.items():
        if not isinstance(name, str):
            raise ValueError(f"resource {shown(name)} must be text")
        try:
            pairs.append((name, weight(value)))
        except ValueError as error:
            raise ValueError(f"weight of {name} {error}") from None
    return tuple(pairs)


def names_of_resources(raw: object) -> tuple[str, ...]:
    """A list of at least one resource name, each once."""
    if not isinstance(raw, list | tuple) or not raw or not all(isinstance(name, str) for name in raw):
        raise ValueError(f"must be a list of resources, for example [cpu, memory], not {shown(raw)}")
    if len(set(raw)) != len(raw):
        raise ValueError(f"names a resource twice: {shown(raw)}")
    return tuple(raw)
