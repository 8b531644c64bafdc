"""Bytes of HTTP/1.1 answers -> status and body, however the bytes are cut into pieces.

What is not plainly an answer is an error, never a guess: its connection is not used again.
"""

import re
from typing import NamedTuple

MAX_HEAD = 64 * 1024
_NO_BODY = (204, 304)


def _any_case(name: str) -> str:
    return "".join(f"[{letter.upper()}{letter}]" if letter.isalpha() else letter for letter in name)


_SPECIAL = "|".join(map(_any_case, ("content-length", "transfer-encoding", "connection", "retry-after")))
_OTHERS = rf"(?:(?!(?:{_SPECIAL}):)[!#-'*+.0-9A-Za-z^_`|~-]++:[^\r\n]*+\r\n)*+"
# Nearly every answer: one length, and nothing else that would have a say in how it is read.
_USUAL = re.compile(
    rf"HTTP/1\.1 (\d{{3}})(?: [^\r\n]*+)?\r\n{_OTHERS}"
    rf"{_any_case('content-length')}:[ \t]*+(\d{{1,15}})[ \t]*+\r\n{_OTHERS}\r\n".encode()
)


class AnswerError(ValueError):
    """The server sent something that is no answer, or ended before its end."""


class BodyTooLargeError(ValueError):
    """An answer above the bound; reading it on could exhaust the memory."""


class Answer(NamedTuple):
    """`keep`: whether the connection can be used for another request. `retry_after`: the header of that name."""

    status: int
    body: bytes
    keep: bool
    retry_after: bytes = b""


class AnswerReader:
    """Reads one answer after another; `feed` returns the answer that a piece completes.

    `more`: answers that are awaited after the next one, so that bytes behind it belong to them; b"" brings them out.
    """

    def __init__(self, max_body: int) -> None:
        self.max_body = max_body
        self.more = 0
        self._buffer = bytearray()
        self._head: tuple[int, dict[bytes, bytes]] | None = None
        self._length = -1  # of the body as told, -1: not told
        self._chunked = False
        self._parts = bytearray()

    @property
    def begun(self) -> bool:
        """Whether there are bytes of an answer that is not complete."""
        return self._head is not None or bool(self._buffer)

    def feed(self, data: bytes) -> Answer | None:
        """Take a piece; AnswerError or BodyTooLargeError when it cannot be."""
        if self._head is None and not self._buffer and (usual := self._whole(data)) is not None:
            return usual
        self._buffer += data
        while self._head is None:
            if not self._read_head():
                return None
        if self._chunked:
            return self._read_chunks()
        if self._length < 0:
            self._bound(len(self._buffer))
            return None
        if len(self._buffer) < self._length:
            return None
        return self._done(bytes(self._buffer[: self._length]), self._length)

    def _whole(self, data: bytes) -> Answer | None:
        """An answer that is one piece and plain; None where it has to be looked at closely."""
        match = _USUAL.match(data)
        if match is None:
            return None
        status, start = int(match[1]), match.end()
        end = start + int(match[2])
        if status < 200 or status in _NO_BODY or end - start > self.max_body or end > len(data):
            return None
        if end < len(data):
            if not self.more:
                return None
            self._buffer += data[end:]
        return Answer(status, data[start:end], keep=True)

    def end(self) -> Answer | None:
        """The connection has ended: that completes a body of untold length, and cuts off all else."""
        if self._head is not None and not self._chunked and self._length < 0:
            return self._done(bytes(self._buffer), len(self._buffer))
        if self.begun:
            raise AnswerError("the connection ended within an answer")
        return None

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > MAX_HEAD:
                raise AnswerError("the head of the answer has no end")
            return False
        status, headers = _head(bytes(self._buffer[:end]))
        del self._buffer[: end + 4]
        if status >= 200:  # one below announces the answer proper
            self._head = status, headers
            self._measure(status, headers)
        return True

    def _measure(self, status: int, headers: dict[bytes, bytes]) -> None:
        coding = headers.get(b"transfer-encoding", b"").lower()
        length = headers.get(b"content-length", b"")
        if coding not in (b"", b"chunked") or (coding and length):
            raise AnswerError(f"the length of the answer is not clear: {coding!r}, {length!r}")
        self._chunked = bool(coding)
        if status in _NO_BODY:
            self._chunked, self._length = False, 0
        elif length:
            self._length = _number(length, 10)
            self._bound(self._length)

    def _read_chunks(self) -> Answer | None:
        while True:
            line = self._buffer.find(b"\r\n")
            if line < 0:
                if len(self._buffer) > MAX_HEAD:
                    raise AnswerError("a chunk has no size")
                return None
            size = _number(bytes(self._buffer[:line]).partition(b";")[0].strip(), 16)
            if size == 0:
                return self._trailer(line)
            self._bound(len(self._parts) + size)
            start, end = line + 2, line + 2 + size
            if len(self._buffer) < end + 2:
                return None
            if self._buffer[end : end + 2] != b"\r\n":
                raise AnswerError("a chunk is not as long as it says")
            self._parts += self._buffer[start:end]
            del self._buffer[: end + 2]

    def _trailer(self, line: int) -> Answer | None:
        """The last chunk, and header lines after it, which nobody needs."""
        empty = self._buffer.startswith(b"\r\n", line + 2)
        end = line + 2 if empty else self._buffer.find(b"\r\n\r\n", line + 2) + 2
        if not empty and end < 2:
            if len(self._buffer) > MAX_HEAD:
                raise AnswerError("the trailer of the answer has no end")
            return None
        return self._done(bytes(self._parts), end + 2)

    def _done(self, body: bytes, used: int) -> Answer:
        assert self._head is not None  # noqa: S101 - read before any body
        status, headers = self._head
        told = self._chunked or self._length >= 0
        # Bytes that nobody asked for: what follows could be taken for the next answer.
        unasked = len(self._buffer) > used and not self.more
        keep = told and headers.get(b"connection", b"").lower() != b"close" and not unasked
        del self._buffer[: used if self.more else None]
        self._parts.clear()
        self._head, self._length, self._chunked = None, -1, False
        return Answer(status, body, keep, headers.get(b"retry-after", b""))

    def _bound(self, size: int) -> None:
        if size > self.max_body:
            raise BodyTooLargeError(f"the answer is larger than {self.max_body // 1024} KiB")


def _head(raw: bytes) -> tuple[int, dict[bytes, bytes]]:
    first, *lines = raw.split(b"\r\n")
    version, _, rest = first.partition(b" ")
    if version != b"HTTP/1.1" or not rest[:3].isdigit() or rest[3:4] not in (b"", b" "):
        raise AnswerError(f"not an HTTP/1.1 answer: {first[:60]!r}")
    headers: dict[bytes, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        key = name.lower()
        if not colon or not key or key != key.strip():
            raise AnswerError(f"not a header: {line[:60]!r}")
        if key == b"content-length" and headers.get(key, value.strip()) != value.strip():
            raise AnswerError("two lengths of one answer")
        headers[key] = value.strip()
    return int(rest[:3]), headers


def _number(text: bytes, base: int) -> int:
    digits = b"0123456789abcdefABCDEF" if base == 16 else b"0123456789"
    if not text or len(text) > 15 or text.strip(digits):
        raise AnswerError(f"not a length: {text[:20]!r}")
    return int(text, base)
