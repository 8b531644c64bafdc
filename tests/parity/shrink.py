"""A failing case made small: whatever can be left out of it without its ceasing to fail is left out."""

import copy
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from tests.parity.case import Case

_MOST_TRIES = 2000
_NEEDED = {"metadata", "name", "namespace", "uid", "kind", "apiVersion", "nodeName", "containers", "status", "spec"}


def shrink(case: Case, fails: Callable[[Case], bool]) -> Case:
    """A part of the case that still fails."""
    tries = 0
    smaller: Case | None = case
    while smaller is not None:
        case, smaller = smaller, None
        for candidate in _candidates(case):
            tries += 1
            if tries > _MOST_TRIES:
                return case
            if _fails(candidate, fails):
                smaller = candidate
                break
    return case


def _fails(candidate: Case, fails: Callable[[Case], bool]) -> bool:
    """One that cannot be judged at all, since something is gone that had to be there, is none."""
    with suppress(Exception):
        return fails(candidate)
    return False


def _candidates(case: Case) -> Iterator[Case]:
    """The case with one thing less: pods and nodes first, then parts of them."""
    for field in ("bound", "nodes", "pending", "objects"):
        items = getattr(case, field)
        for at in range(len(items) if field != "pending" else 0):
            yield _with(case, field, items[:at] + items[at + 1 :])
    for field in ("pending", "bound", "nodes"):
        items = getattr(case, field)
        for at, item in enumerate(items):
            for path in _paths(item):
                yield _with(case, field, [*items[:at], _without(item, path), *items[at + 1 :]])


def _with(case: Case, field: str, items: list[Any]) -> Case:
    return Case(**{**vars(case), field: items})


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Everything in a manifest that may be left out, the large things before the small ones in them."""
    keys: list[Any] = (
        list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    )
    for key in keys:
        if key not in _NEEDED and not (path and path[-1] == "containers" and len(value) == 1):
            yield (*path, key)
        yield from _paths(value[key], (*path, key))


def _without(item: Any, path: tuple[Any, ...]) -> Any:
    made = copy.deepcopy(item)
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return made
