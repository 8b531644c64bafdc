"""What crosses between the dispatcher and the Ray driver: msgpack, four bytes of length (big endian) before each.

The driver runs what Ray unpickles, so nothing that it says is believed: a message is of these types, or the connection
ends. What is in `Answer.body` its reader checks as the answer of any peer.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from dispatcher.service.link import AgentDied, AgentFault, AgentMismatch, AgentMissing, AgentTimeout, LinkError
from shared.model.bounds import MAX_BYTES

MAX_FRAME: Final = MAX_BYTES + 2**20  # the longest message of an agent, and what is around it
MAX_TEXT: Final = 500  # characters of why a call failed
BEAT_S = 1.0  # the dispatcher hears so often that the driver lives

Kind = Literal["timeout", "died", "missing", "fault", "mismatch"]
ERRORS: Final[Mapping[Kind, type[LinkError]]] = {
    "timeout": AgentTimeout,
    "died": AgentDied,
    "missing": AgentMissing,
    "fault": AgentFault,
    "mismatch": AgentMismatch,
}


class Setup(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """First of all: the clusters whose agents are actors."""

    build: str
    clusters: tuple[str, ...]


class Beat(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The driver answers with Alive."""


class Call(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Of a method of `target`, as of `target_of`. Numbers rise."""

    number: int
    target: str
    method: str
    timeout_s: float
    words: tuple[Any, ...]  # each a Word: msgspec takes no union of bytes and str


class Cancel(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Nobody waits for this call any more; it is answered all the same."""

    number: int


class Ready(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """The driver takes calls."""

    build: Annotated[str, Meta(max_length=100)]


class Alive(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """To a Beat, once."""


class Answer(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """To a Call, once."""

    number: int
    body: bytes


class Failure(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """To a Call, once, in place of an Answer."""

    number: int
    kind: Kind
    text: Annotated[str, Meta(max_length=MAX_TEXT)]


ToDriver = Setup | Beat | Call | Cancel
ToDispatcher = Ready | Alive | Answer | Failure
decode_to_driver = msgspec.msgpack.Decoder(ToDriver).decode
decode_to_dispatcher = msgspec.msgpack.Decoder(ToDispatcher).decode
encode = msgspec.msgpack.Encoder().encode


def target_of(cluster: str) -> str:
    """The agent of a cluster."""
    return f"agent:{cluster}"


def failure(number: int, error: LinkError) -> Failure:
    """What is told of a call that has failed so."""
    kind: Kind = next((name for name, one in ERRORS.items() if isinstance(error, one)), "fault")
    text = str(error).encode("utf-8", "replace").decode()  # halves of surrogate pairs cannot be sent
    return Failure(number, kind, text[:MAX_TEXT])
