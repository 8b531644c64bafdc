"""A request as the bytes of HTTP/1.1; what is alike in all requests of a session is rendered once."""

import re
from urllib.parse import SplitResult

from shared.kube.http import Request

USER_AGENT = "global-dispatcher-agent"
_PLAIN = re.compile(r"[!-~]+")
_VALUE = re.compile(r"[ -~]*")


class Rendering:
    """Requests to one server; ValueError for what would break one."""

    def __init__(self, url: SplitResult) -> None:
        self._prefix = url.path.rstrip("/")
        self._netloc = url.netloc.rpartition("@")[2]
        self._authorization = ""
        # by content type and what is accepted, for the authorization above
        self._heads: dict[tuple[str, str], str] = {}

    def render(self, request: Request, authorization: str) -> bytes:
        """Head and body. `authorization` is the header's value, '' for none."""
        if authorization != self._authorization:
            self._heads = {}
            self._authorization = authorization
        kind = request.content_type if request.body else ""
        head = self._heads.get((kind, request.accept)) or self._head(kind, request.accept)
        target = self._prefix + request.path
        if not _PLAIN.fullmatch(target):
            raise ValueError(f"not to be sent: {target[:200]!r}")
        return f"{request.method} {target}{head}{len(request.body)}\r\n\r\n".encode() + request.body

    def _head(self, content_type: str, accept: str) -> str:
        headers = {
            "Host": self._netloc,
            "Accept": accept,
            "User-Agent": USER_AGENT,
            "Content-Type": content_type,
            "Authorization": self._authorization,
        }
        if not all(map(_VALUE.fullmatch, headers.values())):
            raise ValueError("not to be sent: a header that is not plain text")
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if value)
        head = self._heads[content_type, accept] = f" HTTP/1.1\r\n{lines}Content-Length: "
        return head
