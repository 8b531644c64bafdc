"""What a message takes once it is read, at most: told from its bytes without any library (see
`memory`).
"""

from typing import Final

A_VALUE: Final = 56  # a text's header is 49 bytes, and the place where it is named takes 8
# Texts and small numbers; an empty list, None, False and True, of which there is one for all; small
# negative numbers.
NO_OBJECT: Final = bytes((*range(0x80), 0x90, 0xC0, 0xC2, 0xC3, *range(0xE0, 0x100)))


def most_values(data: bytes) -> int:
    """How many bytes may mark a value: those of texts in other letters than ASCII do as well."""
    return len(data.translate(None, NO_OBJECT))


def most_memory_of(data: bytes) -> int:
    """Bytes that a message takes once it is read, at most, about."""
    return len(data) + A_VALUE * most_values(data)
