"""Read an object, decide what is to be written on it, and write that if it is still as it was read."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec

from agents.executor.objects.reads import Metadata
from shared.kube.http import MERGE_PATCH, Procedure, Request
from shared.kube.verdicts import (
    LOOKS,
    NOT_FOUND,
    POSTPONED,
    TRIES,
    Answer,
    error_text,
    is_ambiguous,
)
from shared.messages import DONE, REFUSED, STALE, UNKNOWN


class Stored(Protocol):
    """An object as it was read."""

    @property
    def metadata(self) -> Metadata:
        """Its metadata."""


S = TypeVar("S", bound=Stored)
R = TypeVar("R")
Patch = dict[str, Any]


def rewrite(
    path: str,
    what: str,
    read: Callable[[bytes], S],
    decide: Callable[[S], Answer | Patch],
    part: str = "",
    became: Callable[[S], Answer] | None = None,
) -> Procedure[Answer]:
    """What `decide` answers: a verdict, or a merge patch, whose writing is tried again after a
    conflict. `part`: the subresource that is written. `became`: what it answers to the object as it
    was stored then, if not all of what was written is sure to stay.

    STALE if there is no such object, which `what` names.
    """
    problem = ""
    for _ in range(TRIES):
        stored = yield from _look_up(path, what, read)
        if isinstance(stored, Answer):
            return stored
        decided = decide(stored)
        if isinstance(decided, Answer):
            return decided
        guard = {"uid": stored.metadata.uid, "resourceVersion": stored.metadata.resource_version}
        body = msgspec.json.encode(
            {**decided, "metadata": {**decided.get("metadata", {}), **guard}}
        )
        response = yield Request("PATCH", f"{path}/{part}" if part else path, body, MERGE_PATCH)
        if response.ok:
            return Answer(DONE) if became is None else _read(response.body, what, read, became)
        problem = error_text(response)
        if response.status != NOT_FOUND and not is_ambiguous(response):
            return Answer(REFUSED, problem)
    return Answer(UNKNOWN, problem)


def missing(what: str) -> Answer:
    """The answer where there is no such object."""
    return Answer(STALE, f"{what} not found")


def _read(
    body: bytes, what: str, read: Callable[[bytes], S], found: Callable[[S], R]
) -> R | Answer:
    try:
        stored = read(body)
    except msgspec.MsgspecError:
        return Answer(UNKNOWN, f"{what} cannot be read")
    return found(stored)


def _look_up(path: str, what: str, read: Callable[[bytes], S]) -> Procedure[S | Answer]:
    problem = ""
    for _ in range(LOOKS):
        response = yield Request("GET", path)
        if response.status == NOT_FOUND:
            return missing(what)
        if response.ok:
            return _read(response.body, what, read, lambda stored: stored)
        problem = error_text(response)
        if not response.unknown and response.status not in POSTPONED:
            return Answer(REFUSED, problem)
    return Answer(UNKNOWN, problem)
