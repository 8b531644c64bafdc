"""Lists of what names copies, or is one, page by page.

Each page is taken in one turn of the event loop, and whoever makes pods says how large they are: of
pods, which may have a mebibyte and a half each, no more than the API server's JSON is gone through.
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from agents.executor.objects import pods
from shared.kube.http import FORBIDDEN, Procedure, Request
from shared.kube.verdicts import error_text
from shared.model.copy_names import HASH

_PAGE = "10"  # pods, of some 2 ms a mebibyte, whatever is in them
NO_LIST = "its agent may not list"
_NAMED = re.compile(rb'-(%b)"' % HASH.encode())  # how the name of a copy ends; JSON escapes none


def named_in(namespace: str) -> Procedure[set[str] | str]:
    """The hashes in the names of copies that the pods of a namespace name, as the API server has
    them; or why that is not known. Of what they say otherwise some may look like one: it stays.
    """
    named: set[bytes] = set()
    take = lambda page: named.update(_NAMED.findall(page))  # noqa: E731
    problem = yield from _pages(pods.collection(namespace), {"limit": _PAGE}, take)
    return problem or {one.decode() for one in named}


class _Page(msgspec.Struct):
    items: msgspec.Raw
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)


class _Items(msgspec.Struct):
    items: list[msgspec.Raw]


def each(path: str, params: dict[str, str], take: Callable[[bytes], None]) -> Procedure[str]:
    """Take all that a list shows; why not all is known, '' if it is."""

    def take_page(page: bytes) -> None:
        for item in msgspec.json.decode(page, type=_Items).items:
            take(bytes(item))

    return (yield from _pages(path, params, take_page))


def _pages(path: str, params: dict[str, str], take: Callable[[bytes], None]) -> Procedure[str]:
    """The same, page by page."""
    following = ""
    while True:
        asked = {**params, "continue": following} if following else params
        response = yield Request("GET", path, params=asked)
        if not response.ok:
            return NO_LIST if response.status == FORBIDDEN else f"{path}: {error_text(response)}"
        try:
            page = msgspec.json.decode(response.body, type=_Page)
            if bytes(memoryview(page.items)[:1]) != b"[":
                raise TypeError("items")
            take(response.body)
        except (msgspec.MsgspecError, KeyError, TypeError, AttributeError) as error:
            return f"{path}: what is listed cannot be read: {error!r}"
        following = page.metadata.get("continue") or ""
        if not following:
            return ""
