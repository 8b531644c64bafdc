"""How much memory a message takes once it is read, told from its bytes: what one cluster may fill is bounded by it.

    bytes + 56 * values      values: texts, lists, maps and numbers beyond a byte, each an object of its own

msgpack marks each of these with a byte of 0x80 or more, which ASCII texts do not have. Example: a map of 1,000 labels
"aa": "b" takes 5 kB on the wire, and about 115 kB once it is read. What many pods share is counted for each.
"""

from typing import Final

from dispatcher.model.messages.codec import encode
from dispatcher.model.pod import Record

_A_VALUE: Final = 56  # a text's header is 49 bytes, and the place where it is named takes 8
_PIECE: Final = 2**20
# Texts and small numbers; an empty list, None, False and True, of which there is one for all; small negative numbers.
_NO_OBJECT: Final = bytes((*range(0x80), 0x90, 0xC0, 0xC2, 0xC3, *range(0xE0, 0x100)))


def memory_of(data: bytes) -> int:
    """Bytes that a message takes once it is read, about."""
    pieces = (data[at : at + _PIECE] for at in range(0, len(data), _PIECE))
    return len(data) + _A_VALUE * sum(len(piece.translate(None, _NO_OBJECT)) for piece in pieces)


def memory_of_record(record: Record | None) -> int:
    """The same of a part of a message; 0 of None."""
    return 0 if record is None else memory_of(encode(record))
