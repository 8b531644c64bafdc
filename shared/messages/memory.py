"""How much memory a message takes once it is read, told from its bytes: what one cluster may fill
is bounded by it.

    bytes + 56 * values      values: texts, lists, maps and numbers beyond a byte, each an object of its own

msgpack marks each of these with a byte of 0x80 or more. ASCII texts have none, and other texts only
such that begin a character or go on with it (UTF-8): these are no marks, or a text in Greek would
seem to take 50 times as much. Example: a map of 1,000 labels "aa": "b" takes 5 kB on the wire, and
about 115 kB once it is read. What many pods share is counted for each.
"""

from typing import Final

import numpy as np

from shared.messages.codec import encode
from shared.messages.values import A_VALUE, NO_OBJECT, most_values
from shared.model.pod import Record

_PIECE: Final = 2**20
_MARKS: Final = ~np.isin(np.arange(256), list(NO_OBJECT))
_FEW: Final = 256  # marks, as a usual pod has: not worth a look at how many of them are of texts
_FIRST: Final = {
    2: (0xC2, 0xDF),
    3: (0xE0, 0xEF),
    4: (0xF0, 0xF4),
}  # of a character, by how many bytes it has
_NO_FIRST: Final = 0xC0  # bytes from 0x80 to here go on with one


def memory_of(data: bytes) -> int:
    """Bytes that a message takes once it is read, about."""
    values = most_values(data)
    if values > _FEW:
        values = sum(_values(data[at : at + _PIECE]) for at in range(0, len(data), _PIECE))
    return len(data) + A_VALUE * values


def memory_of_record(record: Record | None) -> int:
    """The same of a part of a message; 0 of None."""
    return 0 if record is None else memory_of(encode(record))


def _values(piece: bytes) -> int:
    """How many bytes mark a value."""
    whole = np.frombuffer(piece, dtype=np.uint8)
    at = np.flatnonzero(whole >= 0x80)
    high = whole[at]
    marks = _MARKS[high]
    goes_on = (high[1:] < _NO_FIRST) & (np.diff(at) == 1)
    for length, (first, last) in _FIRST.items():
        many = max(0, len(high) - length + 1)
        begins = (high[:many] >= first) & (high[:many] <= last)
        for behind in range(length - 1):
            begins &= goes_on[behind : behind + many]
        for within in range(length):
            marks[within : within + many] &= ~begins
    return int(np.count_nonzero(marks))
