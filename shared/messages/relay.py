"""Agent to agent, over a relayed stream: what is asked of a delegate's containers, and how the
answer begins.

On a stream: the agent of the source opens it with RelayOpen, the agent of the target sends a
challenge of 16 bytes or more, the first answers with a SignedAsk that holds it, the second with a
RelayHead; from then on bytes go both ways.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from shared.model.bounds import Text, Word
from shared.model.pod import Record, SourceRef

LOG: Final = "log"
EXEC: Final = "exec"
ATTACH: Final = "attach"
PORT_FORWARD: Final = "portforward"
VERBS = (LOG, EXEC, ATTACH, PORT_FORWARD)  # subresources of pods
# what all delegates of the source's cluster use: `source` is any of its pods there
METRICS: Final = "metrics"

Pairs = Annotated[tuple[tuple[str, str], ...], Meta(max_length=1_000)]


class RelayOpen(Record, frozen=True):
    """To the gateway: a stream to the agent of `cluster`, about the source pod with this UID."""

    cluster: Word
    pod: Word


class RelayAsk(Record, frozen=True):
    """What is asked, about the delegate of `source` in the cluster `target`, in answer to
    `challenge`.

    `method` GET or POST, `verb` one of VERBS or METRICS, `query` as its subresource takes it,
    `headers` of the upgrade.
    """

    source: SourceRef
    target: Word
    target_uid: Word
    challenge: bytes
    verb: Word
    method: Word
    query: Pairs = ()
    headers: Pairs = ()


class SignedAsk(Record, frozen=True):
    """A RelayAsk, encoded, and the signature of the source's cluster over it."""

    ask: bytes
    signature: bytes


class RelayHead(Record, frozen=True):
    """The answer's HTTP status and headers; from 400 on `text` says why, and nothing follows."""

    status: int
    headers: Pairs = ()
    text: Text = ""


_ENCODE = msgspec.msgpack.Encoder().encode


def encode_relay(message: RelayOpen | RelayAsk | SignedAsk | RelayHead) -> bytes:
    """As it travels."""
    return _ENCODE(message)


decode_open = msgspec.msgpack.Decoder(RelayOpen).decode
decode_ask = msgspec.msgpack.Decoder(RelayAsk).decode
decode_signed = msgspec.msgpack.Decoder(SignedAsk).decode
decode_head = msgspec.msgpack.Decoder(RelayHead).decode
