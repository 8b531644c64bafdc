"""Bytes of a watch -> lines, with a bound on their length."""

_HEAD = 64 * 1024  # bytes of a line that is too long
_ENDLESS = 16  # bounds: a stream of which nothing but one line comes is none


class LineTooLongError(ValueError):
    """A line far above the bound: the stream cannot be followed any further."""


class CutLine(bytes):
    """How a line above the bound begins."""


class Lines:
    """Collects chunks; `feed` returns the complete lines so far, without newline and without empty
    ones.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take a chunk. Of a line above the bound no more is kept, and comes out, than how it
        begins.
        """
        first, newline, rest = chunk.partition(b"\n")
        self._take(first)
        if not newline:
            return []
        whole, *lines = [self._line(), *rest.split(b"\n")]
        begun = lines.pop()
        self._parts = []
        self._size = 0
        self._take(begun)
        found = [whole, *(one if len(one) <= self._max else CutLine(one[:_HEAD]) for one in lines)]
        return [line for line in found if line]

    def _take(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._max:
            self._parts = [b"".join(self._parts)[:_HEAD]]
        if self._size > _ENDLESS * self._max:
            raise LineTooLongError(
                f"a watch event is larger than {_ENDLESS * self._max // 1024} KiB"
            )

    def _line(self) -> bytes:
        line = b"".join(self._parts)
        return line if self._size <= self._max else CutLine(line)
