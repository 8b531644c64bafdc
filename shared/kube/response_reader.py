"""Bytes of HTTP/1.1 responses -> status and body, however the bytes are cut into pieces; httptools
(llhttp) reads them.

What is not plainly an answer is an error, never a guess: its connection is not used again.
"""

from collections import deque
from typing import NamedTuple

from httptools import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserUpgrade,
    HttpResponseParser,
)

MAX_HEAD = 64 * 1024
_NO_BODY = (204, 304)
_TOLD = frozenset((b"content-length", b"transfer-encoding", b"retry-after"))


class ResponseError(ValueError):
    """The server sent something that is no answer, or ended before its end."""


class BodyTooLargeError(ValueError):
    """An answer above the bound; reading it on could exhaust the memory. `head` is how it begins,
    if that is known.
    """

    def __init__(self, text: str, head: bytes = b"") -> None:
        super().__init__(text)
        self.head = head


class RawResponse(NamedTuple):
    """`keep`: whether the connection can be used for another request. `retry_after`: the header of
    that name.
    """

    status: int
    body: bytes
    keep: bool
    retry_after: bytes = b""


class ResponseReader:
    """Reads one answer after another; `feed` returns the answer that a piece completes.

    `more`: answers that are awaited after the next one, so that bytes behind it belong to them; b""
    brings them out.
    """

    def __init__(self, max_body: int) -> None:
        self.max_body = max_body
        self.more = 0
        self.begun = False  # whether there are bytes of an answer that is not complete
        self._parser = HttpResponseParser(self)
        self._complete: deque[RawResponse] = deque()
        self._problem: ValueError | None = None  # after the answers that are complete
        self._begin()

    def feed(self, data: bytes) -> RawResponse | None:
        """Take a piece; ResponseError or BodyTooLargeError when it cannot be."""
        if data and self._problem is None:
            self._parse(data)
        if self._complete:
            answer = self._complete.popleft()
            # Bytes that nobody asked for: what follows could be taken for the next answer.
            unasked = not self.more and (self._complete or self.begun or self._problem is not None)
            return answer._replace(keep=False) if unasked else answer
        if self._problem is not None:
            raise self._problem
        return None

    def end(self) -> RawResponse | None:
        """The connection has ended: that completes a body of untold length, and cuts off all else."""
        if self._untold:
            self.on_message_complete()
            return self._complete.popleft()
        if self.begun:
            raise ResponseError("the connection ended within an answer")
        return None

    def _parse(self, data: bytes) -> None:
        self._idle += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            ours = error.__context__ if isinstance(error, HttpParserCallbackError) else None
            self._problem = (
                ours
                if isinstance(ours, ValueError)
                else ResponseError(f"not an HTTP/1.1 answer: {error}")
            )
        if self._problem is None and self.begun and self._idle > MAX_HEAD:
            self._problem = ResponseError("a head, a trailer or the size of a chunk has no end")

    def _begin(self) -> None:
        self._headers: dict[bytes, bytes] = {}
        self._parts: list[bytes] = []
        self._size = 0  # of the parts
        self._idle = 0  # bytes since the last that were of use
        self._status = 0  # as soon as the head was read
        self._keep = self._untold = False

    # --- called by httptools; what they raise ends the parsing
    # -------------------------------------------------------

    def on_message_begin(self) -> None:
        """The first byte."""
        self.begun = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or after the head a trailer, which nobody needs."""
        if not self._status and (key := name.lower()) in _TOLD:
            self._headers[key] = value.strip()

    def on_headers_complete(self) -> None:
        """How long is the body?"""
        self._status = self._parser.get_status_code()
        self._idle = 0
        if self._parser.get_http_version() != "1.1":
            raise ResponseError("another version than HTTP/1.1")
        coding = self._headers.get(b"transfer-encoding", b"").lower()
        length = self._headers.get(b"content-length", b"")
        bodiless = self._status < 200 or self._status in _NO_BODY
        if (
            coding not in (b"", b"chunked")
            or (coding and length)
            or (bodiless and (coding or int(length or 0)))
        ):
            raise ResponseError(f"the length of the answer is not clear: {coding!r}, {length!r}")
        self._bound(int(length or 0))
        self._untold = not (coding or length or bodiless)
        self._keep = self._parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        """A piece of it."""
        self._idle = 0
        self._size += len(body)
        self._bound(self._size)
        self._parts.append(body)

    def on_message_complete(self) -> None:
        """An answer, unless it only announces the answer proper."""
        if self._status >= 200:
            body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            retry_after = self._headers.get(b"retry-after", b"")
            self._complete.append(RawResponse(self._status, body, self._keep, retry_after))
        self.begun = False
        self._begin()

    def _bound(self, size: int) -> None:
        if size > self.max_body:
            raise BodyTooLargeError(f"the answer is larger than {self.max_body // 1024} KiB")
