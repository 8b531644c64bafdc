"""Lists of what names copies, or is one, page by page."""

from collections.abc import Callable
from typing import Any

import msgspec

from agents.executor.objects import pods, references
from agents.executor.objects.references import KINDS
from shared.kube.http import FORBIDDEN, Procedure, Request
from shared.kube.verdicts import error_text

_PAGE = "100"  # pods: each may have a mebibyte, though few have
NO_LIST = "its agent may not list"


def named_in(namespace: str) -> Procedure[set[tuple[str, str]] | str]:
    """Kinds and names of all that the pods of a namespace name, read from the API server; or why
    that is not known.
    """
    named: set[tuple[str, str]] = set()

    def take(pod: bytes) -> None:
        for kind in KINDS.values():
            if kind.hint in pod:
                read = msgspec.json.decode(pod)
                named.update((kind.word, one) for one in references.named(read, kind))

    problem = yield from each(pods.collection(namespace), {"limit": _PAGE}, take)
    return problem or named


class _Page(msgspec.Struct):
    items: list[msgspec.Raw]
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)


def each(path: str, params: dict[str, str], take: Callable[[bytes], None]) -> Procedure[str]:
    """Take all that a list shows, page by page; why not all is known, '' if it is."""
    following = ""
    while True:
        asked = {**params, "continue": following} if following else params
        response = yield Request("GET", path, params=asked)
        if not response.ok:
            return NO_LIST if response.status == FORBIDDEN else f"{path}: {error_text(response)}"
        try:
            page = msgspec.json.decode(response.body, type=_Page)
            for item in page.items:
                take(bytes(item))
        except (msgspec.MsgspecError, KeyError, TypeError, AttributeError) as error:
            return f"{path}: what is listed cannot be read: {error!r}"
        following = page.metadata.get("continue") or ""
        if not following:
            return ""
