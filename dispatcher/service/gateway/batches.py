"""What a dispatcher and a gateway actor say to each other: few and large messages, msgpack on the wire.

`boot` names one life of an actor: numbers of calls' answers and of connections mean nothing in another one.

What an actor tells is bounded (`shared.model.bounds`), as that of an agent: who has captured one says anything. The
limits are far above what actors of 200 clusters with two agents each tell: 400 times who serves a role, 200 counts, a
few calls of each agent, and at worst, where all agents open as many streams at once as they may (`StreamLimit`), 51,200
questions.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from shared.model.bounds import MAX_ROWS, Names, Text, Word
from shared.streams.calls import Call

MAX_ANSWERS: Final = 100_000  # in one message, questions among them

# what came of a call: see `remote.py`
ANSWER = 0
DIED = 1
FAULT = 2
MISFIT = 3
WAY = 4  # no answer, but a question of the actor's own: a RelayWay


class Asked(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One call: `number` is the dispatcher's, `line` the connection that it is for."""

    number: int
    line: int
    call: Call


class RelayWay(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """To the dispatcher: may `home` ask `target` about the delegate of its pod with this UID, and who has `target`?"""

    home: Word
    target: Word
    pod: Word


class Way(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The answer to question `number`: why not, else the actor (and which life of it) that `target` is connected to."""

    number: int
    why: str = ""
    actor: str = ""
    boot: str = ""


class Batch(msgspec.Struct, array_like=True, frozen=True):
    """From the dispatcher: new calls, the numbers of those it has given up, connections that another has taken over,
    and answers to questions.
    """

    boot: str
    calls: tuple[Asked, ...] = ()
    given_up: tuple[int, ...] = ()
    replaced: tuple[int, ...] = ()
    ways: tuple[Way, ...] = ()


class Answered(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What came of one call: the agent's bytes, or the text of the failure."""

    number: int
    verdict: int
    body: bytes


class Served(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Who serves a role of a cluster: connection `line`, made at `since` with a certificate that ends at `until` (both
    Unix time, s; `until` 0: an older actor does not tell); `line` 0: nobody, and why.
    """

    cluster: Word
    role: Word
    line: int = 0
    since: float = 0.0
    reason: Text = ""
    until: float = 0.0


class Collected(msgspec.Struct, array_like=True, frozen=True):
    """To the dispatcher: answers up to number `upto`, who is connected, if that is not state `state` any more, and how
    many streams of each cluster were refused in this life (`StreamLimit.refused`). `build` is the version of the
    actor's code ("": it does not tell), and `passed_over` are settings that it was made with and does not know.
    """

    boot: Word
    upto: int
    answers: Annotated[tuple[Answered, ...], Meta(max_length=MAX_ANSWERS)]
    state: int
    served: Annotated[tuple[Served, ...], Meta(max_length=MAX_ROWS)] | None = None
    refused: Annotated[dict[Word, Annotated[int, Meta(ge=0)]], Meta(max_length=MAX_ROWS)] = {}
    build: Word = ""
    passed_over: Names = ()


class Passed(msgspec.Struct, array_like=True, frozen=True):
    """Between actors: messages (kind, stream, body) of relayed streams, batch `number` of a link (see `peers.py`).

    `sender` is an actor's name, `to_boot` the life of the other that it means, `opens` says whose link it is.
    """

    sender: Word
    boot: Word
    to_boot: Word
    link: Word
    opens: bool
    number: int
    messages: Annotated[tuple[tuple[int, int, bytes], ...], Meta(max_length=MAX_ROWS)] = ()


class Since(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Up to where a dispatcher has what an actor told: answers, and who is connected."""

    session: str
    boot: str = ""
    upto: int = 0
    state: int = 0


encode_any = msgspec.msgpack.Encoder().encode
decode_batch = msgspec.msgpack.Decoder(Batch).decode
decode_collected = msgspec.msgpack.Decoder(Collected).decode
decode_passed = msgspec.msgpack.Decoder(Passed).decode
decode_way = msgspec.msgpack.Decoder(RelayWay).decode
decode_since = msgspec.msgpack.Decoder(Since).decode
