"""API requests and answers as plain data, so that the executor decides what to write without
knowing how.

A procedure of the executor is a generator: it yields a `Request`, is sent the `Response`, and
returns its result. The shell drives many of them at once; a test drives one by hand.
"""

import re
from collections.abc import Generator
from typing import ClassVar, TypeVar

import msgspec

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
FORBIDDEN = 403
TOO_BUSY = 429
SERVER_ERROR = 500  # HTTP statuses from here on are failures
_WEBHOOK_FAILED = b"Internal error occurred: failed calling webhook"
# The cause that kube-apiserver gives where a namespace takes nothing since it is being deleted.
_NAMESPACE_ENDS = re.compile(rb'"reason"\s*:\s*"NamespaceTerminating"')
# How kube-apiserver begins the message of what a webhook, or an admission policy, has denied.
_DENIED = re.compile(
    rb'"message"\s*:\s*"(?:admission webhook \\".{1,300}?\\" denied the request'
    rb"|.{1,600}? is forbidden: ValidatingAdmissionPolicy '.{1,300}?' with binding '.{1,300}?' denied request: )"
)


class Request(msgspec.Struct, frozen=True, gc=False):
    """One call to the API server. `path` starts with /api or /apis; `body` is encoded JSON.

    `elsewhere`: others are asked, not the API server, and it needs none of its slots.
    """

    elsewhere: ClassVar[bool] = False
    method: str
    path: str
    body: bytes = b""
    content_type: str = JSON
    params: dict[str, str] = {}
    accept: str = JSON


class Response(msgspec.Struct, frozen=True, gc=False):
    """The answer. `code` 0 means that none came (timeout, reset): the effect is unknown, `body`
    says why.

    `head`: how an answer begins that is larger than the caller takes; empty otherwise.
    """

    code: int
    body: bytes = b""
    retry_after_s: float = 0.0
    head: bytes = b""

    @property
    def status(self) -> int:
        """The HTTP status, but 403 for whatever a webhook or an admission policy has denied.

        Each chooses the status of its denial, and means by none what the API server itself means by
        it: that the object exists or is gone (409, 404), credentials to renew (401), too much to do
        (429), unknown (5xx).
        """
        return FORBIDDEN if self._denied else self.code

    @property
    def _denied(self) -> bool:
        return self.code >= 400 and _DENIED.search(self.body) is not None

    @property
    def ok(self) -> bool:
        """Whether the server said 2xx."""
        return 200 <= self.code < 300

    @property
    def unknown(self) -> bool:
        """Whether the effect may or may not have happened: no answer, or a server error.

        A webhook that fails is no such error, though kube-apiserver answers 500: nothing was stored
        yet.
        """
        return self.code == 0 or (self.status >= SERVER_ERROR and _WEBHOOK_FAILED not in self.body)

    @property
    def passing(self) -> bool:
        """Whether what is refused may be taken a little later: a webhook failed, or denies as one
        that is too busy, or the namespace is on its way out, and may be made anew.
        """
        if self.code == TOO_BUSY or self.code >= SERVER_ERROR:
            return True
        return self.code == FORBIDDEN and _NAMESPACE_ENDS.search(self.body) is not None


Result = TypeVar("Result")
Procedure = Generator[Request, Response, Result]
