"""Agent to agent, over a relayed stream: what is asked of a delegate's containers, and how the
answer begins.

On a stream: the agent of the source opens it with RelayOpen, the agent of the target sends a
challenge of 16 bytes or more, the first answers with a SignedAsk that holds it, the second with a
RelayHead; from then on bytes go both ways.

With the verb OBJECTS it is the agent of the target that asks, of the agent of the source: it opens
the stream and signs what it asks; the RelayHead is followed by a SignedGiven, and that is all.
"""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from shared.model.bounds import MAX_NAMES, MAX_ROWS, Text, Word
from shared.model.pod import PodRef, Record, SourceRef

LOG: Final = "log"
EXEC: Final = "exec"
ATTACH: Final = "attach"
PORT_FORWARD: Final = "portforward"
VERBS = (LOG, EXEC, ATTACH, PORT_FORWARD)  # subresources of pods
# what all delegates of the source's cluster use: `source` is any of its pods there
METRICS: Final = "metrics"
# what delegates in `target` name of the home of `source`, which is any source of them
OBJECTS: Final = "objects"
# of an object that was asked for: unchanged, as it is, not there, kept back, to be asked for again
SAME: Final = "same"
CONTENT: Final = "content"
ABSENT: Final = "absent"
DENIED: Final = "denied"
LATER: Final = "later"
WITHDRAWN: Final = "kept"  # its owner does not let it be there: a copy goes
MOST_PODS: Final = 256  # of one ask
MOST_GIVEN = 6 * 1024 * 1024  # bytes of one answer
MOST_OBJECT = MOST_GIVEN // 3  # of one object in it: etcd takes less

Pairs = Annotated[tuple[tuple[str, str], ...], Meta(max_length=1_000)]


class WantedObject(Record, frozen=True):
    """An object that a pod names. `digest`: of the content that the asker has, b"" if none."""

    kind: Word
    name: Word
    digest: bytes = b""


class PodWants(Record, frozen=True):
    """A source pod, and of what it names what its delegate's cluster asks for."""

    pod: PodRef
    objects: Annotated[tuple[WantedObject, ...], Meta(max_length=MAX_NAMES)]


class Given(Record, frozen=True):
    """One object: SAME, CONTENT, ABSENT, DENIED, LATER or WITHDRAWN; `text` says why it is kept
    back. `key`: of the digests of a Secret.
    """

    state: Word
    content: bytes = b""
    text: Text = ""
    key: bytes = b""

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("state", self.state), ("bytes", len(self.content))]

    def __repr__(self) -> str:
        return f"Given({self.state!r}, {len(self.content)} bytes, {self.text!r})"


class GivenObjects(Record, frozen=True):
    """One for each object that was asked for, in that order."""

    given: Annotated[tuple[Given, ...], Meta(max_length=MAX_ROWS)]


class SignedGiven(Record, frozen=True):
    """GivenObjects, encoded, and the signature of the source's cluster over that and the ask. It
    crosses sealed to who asked, if that gave a key (shared.security.sealing).
    """

    given: bytes
    signature: bytes


class RelayOpen(Record, frozen=True):
    """To the gateway: a stream to the agent of `cluster`, about the source pod with this UID, which
    is of that cluster or of the asker's.
    """

    cluster: Word
    pod: Word


class RelayAsk(Record, frozen=True):
    """What is asked, about the delegate of `source` in the cluster `target`, in answer to
    `challenge`.

    `method` GET or POST, `verb` one of VERBS, METRICS or OBJECTS, `query` as its subresource takes
    it, `headers` of the upgrade. `wants`, `nonce`, `seal`: of OBJECTS; the nonce is the asker's, so
    that no earlier answer fits; to the key `seal` (X25519, of this question alone) the answer is
    sealed; b"" of an agent of an older version, which gets no Secrets.
    """

    source: SourceRef
    target: Word
    target_uid: Word
    challenge: bytes
    verb: Word
    method: Word
    query: Pairs = ()
    headers: Pairs = ()
    wants: Annotated[tuple[PodWants, ...], Meta(max_length=MOST_PODS)] = ()
    nonce: bytes = b""
    seal: bytes = b""


class SignedAsk(Record, frozen=True):
    """A RelayAsk, encoded, and the signature over it of the cluster that asks."""

    ask: bytes
    signature: bytes


class RelayHead(Record, frozen=True):
    """The answer's HTTP status and headers; from 400 on `text` says why, and nothing follows.
    `sealed`: what follows is.
    """

    status: int
    headers: Pairs = ()
    text: Text = ""
    sealed: bool = False


_ENCODE = msgspec.msgpack.Encoder().encode


def encode_relay(
    message: RelayOpen | RelayAsk | SignedAsk | RelayHead | GivenObjects | SignedGiven,
) -> bytes:
    """As it travels."""
    return _ENCODE(message)


decode_open = msgspec.msgpack.Decoder(RelayOpen).decode
decode_ask = msgspec.msgpack.Decoder(RelayAsk).decode
decode_signed = msgspec.msgpack.Decoder(SignedAsk).decode
decode_head = msgspec.msgpack.Decoder(RelayHead).decode
decode_given = msgspec.msgpack.Decoder(GivenObjects).decode
decode_signed_given = msgspec.msgpack.Decoder(SignedGiven).decode
