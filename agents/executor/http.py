"""API requests and answers as plain data, so that the executor decides what to write without knowing how.

A procedure of the executor is a generator: it yields a `Request`, is sent the `Response`, and returns its result.
The shell drives many of them at once; a test drives one by hand.
"""

from collections.abc import Generator
from typing import TypeVar

import msgspec

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
_WEBHOOK_FAILED = b"Internal error occurred: failed calling webhook"


class Request(msgspec.Struct, frozen=True, gc=False):
    """One call to the API server. `path` starts with /api or /apis; `body` is encoded JSON."""

    method: str
    path: str
    body: bytes = b""
    content_type: str = JSON
    params: dict[str, str] = {}


class Response(msgspec.Struct, frozen=True, gc=False):
    """The answer. `status` 0 means that none came (timeout, reset): the effect is unknown, `body` says why.

    `head`: how an answer begins that is larger than the caller takes; empty otherwise.
    """

    status: int
    body: bytes = b""
    retry_after_s: float = 0.0
    head: bytes = b""

    @property
    def ok(self) -> bool:
        """Whether the server said 2xx."""
        return 200 <= self.status < 300

    @property
    def unknown(self) -> bool:
        """Whether the effect may or may not have happened: no answer, or a server error.

        A webhook that fails is no such error, though kube-apiserver answers 500: nothing was stored yet.
        """
        return self.status == 0 or (self.status >= 500 and _WEBHOOK_FAILED not in self.body)


Result = TypeVar("Result")
Procedure = Generator[Request, Response, Result]
