"""What a gateway actor is made with. Its code is that of its Ray node, which may be older or newer than the dispatcher:
what the one tells and the other does not know is passed over.
"""

import hashlib
import logging
import re
from collections.abc import Iterable
from contextlib import suppress
from copy import deepcopy
from typing import Any, Protocol, TypeVar

import msgspec
from pydantic import ValidationError

from dispatcher.config.sections import GatewaySection, Section
from shared.version import version

S = TypeVar("S", bound=Section)
_NAME = re.compile(r"gateway-(\d+)")


class NamedSettings(Protocol):
    """What it takes to make an actor and to tell it from others."""

    @property
    def name(self) -> str:
        """Under which it is found in NAMESPACE."""
        ...

    def encoded(self) -> bytes:
        """As the actor is given it."""
        ...


class ActorSettings(msgspec.Struct, frozen=True):
    """What an actor is made with, as JSON; other settings, byte for byte, mean another actor.

    `build` is the version of the dispatcher that makes it. Fields that come later have defaults, as an older dispatcher
    does not send them. No field is ever renamed, taken out or given another type: an actor of another version could
    read nothing then.
    """

    build: str
    number: int
    section: dict[str, Any]
    clusters: tuple[str, ...]
    log_level: str

    @property
    def name(self) -> str:
        """Under which it is found in NAMESPACE."""
        return actor_name(self.number)

    @property
    def known_level(self) -> str:
        """`log_level`; `info` where this version does not know the word."""
        return self.log_level if self.log_level.upper() in logging.getLevelNamesMapping() else "info"

    def encoded(self) -> bytes:
        """As the actor is given it."""
        return msgspec.json.encode(self)


def decoded(encoded: bytes) -> tuple[ActorSettings, tuple[str, ...]]:
    """As an actor reads it, and which fields this version does not know. ValueError: it cannot be read."""
    try:
        told = msgspec.json.decode(encoded, type=dict[str, msgspec.Raw])
        known = msgspec.json.decode(encoded, type=ActorSettings)
        return known, tuple(key for key in told if key not in ActorSettings.__struct_fields__)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"what the dispatcher tells it to do cannot be read: {error}") from None


def settings_of(section: GatewaySection, clusters: tuple[str, ...], log_level: str) -> tuple[ActorSettings, ...]:
    """Of each actor that the configuration asks for."""
    told = section.model_dump(mode="json")
    build = version()
    return tuple(ActorSettings(build, number, told, clusters, log_level) for number in range(section.actors))


def actor_name(number: int) -> str:
    """Of the actors of a fleet, counted from 0."""
    return f"gateway-{number}"


def beyond(number: int, names: Iterable[str]) -> list[str]:
    """Which of these are names of actors that a fleet of `number` actors does not have."""
    found = ((name, _NAME.fullmatch(name)) for name in names)
    return [name for name, match in found if match and int(match[1]) >= number]


def digest_of(encoded: bytes) -> str:
    """Tells settings apart. Of the bytes, as another version would lose or add fields by reading and writing them."""
    return hashlib.sha256(encoded).hexdigest()


def section_of(told: dict[str, Any], kind: type[S]) -> tuple[S, tuple[str, ...]]:
    """The section that a dispatcher tells, and which keys of it, dotted, this version does not know: they are left out.

    ValueError names the keys that cannot be used.
    """
    try:
        return kind.model_validate(told), ()
    except ValidationError as error:
        unknown = [one["loc"] for one in error.errors() if one["type"] == "extra_forbidden"]
    known = deepcopy(told)
    for *parents, last in unknown:
        inner: Any = known
        with suppress(LookupError, TypeError):  # a path into a union names the type that was tried, too: that key stays
            for part in parents:
                inner = inner[part]
            del inner[last]
    try:
        return kind.model_validate(known), tuple(map(_dotted, unknown))
    except ValidationError as error:
        wrong = "; ".join(": ".join(filter(None, (_dotted(one["loc"]), one["msg"]))) for one in error.errors())
        raise ValueError(f"what the dispatcher tells it to do cannot be used: {wrong}") from None


def _dotted(path: tuple[int | str, ...]) -> str:
    return ".".join(map(str, path))
