"""Bytes of a watch -> lines, with a bound on their length."""


class LineTooLongError(ValueError):
    """A line above the bound: the stream cannot be followed any further."""


class Lines:
    """Collects chunks; `feed` returns the complete lines so far, without newline and without empty ones."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take a chunk; LineTooLongError if the unfinished line, or a finished one, is above the bound."""
        first, newline, rest = chunk.partition(b"\n")
        self._parts.append(first)
        self._size += len(first)
        if self._size > self._max:
            raise LineTooLongError(f"a watch event is larger than {self._max // 1024} KiB")
        if not newline:
            return []
        lines = [b"".join(self._parts), *rest.split(b"\n")]
        self._parts = [lines.pop()]
        self._size = len(self._parts[0])
        if self._size > self._max:
            raise LineTooLongError(f"a watch event is larger than {self._max // 1024} KiB")
        return [line for line in lines if line]
