"""Lists of an API server, page by page, of a bounded size."""

from collections.abc import Callable
from typing import Any

import msgspec

from shared.kube.http import FORBIDDEN, Procedure, Request
from shared.kube.verdicts import LOOKS, NOT_FOUND, error_text

MOST_READ = 32 * 2**20  # bytes of one list
MOST_OF_PODS = 2**30  # the same, of pods, which others make: nothing of them is kept
OF_PODS = "10"  # a page of pods: each may have more than a mebibyte
_PAGE = "50"  # objects: each may have more than a mebibyte, though few have


class _Page(msgspec.Struct):
    items: list[msgspec.Raw]
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)


class ListError(Exception):
    """Why it is not known what there is. `status`: of the API server's answer, 200 if that was no
    error.
    """

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


def each(
    path: str,
    take: Callable[[bytes], None],
    selector: str = "",
    *,
    page: str = _PAGE,
    most: float = MOST_READ,
) -> Procedure[None]:
    """Take all that a list shows, at most `most` bytes: math.inf where nothing of it is kept. Each
    page is taken in one turn of the event loop. ListError: not all of it is known, whatever was
    taken.
    """
    token = ""
    size = 0
    while True:
        params = {"limit": page}
        params |= {"labelSelector": selector} if selector else {}
        params |= {"continue": token} if token else {}
        for _ in range(LOOKS):
            response = yield Request("GET", path, params=params)
            if not response.unknown:
                break
        if not response.ok:
            raise ListError(f"{path}: {error_text(response)}", response.status)
        size += len(response.body)
        if size > most:
            raise ListError(f"{path}: has more than {most // 2**20} MiB", response.status)
        try:
            read = msgspec.json.decode(response.body, type=_Page)
            for item in read.items:
                take(bytes(item))
            token = read.metadata.get("continue") or ""
        except (msgspec.MsgspecError, KeyError, TypeError, AttributeError) as error:
            raise ListError(
                f"{path}: what is listed cannot be read: {error!r}", response.status
            ) from None
        if not token:
            return


def each_allowed(
    path: str,
    take: Callable[[bytes], None],
    selector: str = "",
    *,
    page: str = _PAGE,
    most: float = MOST_READ,
) -> Procedure[bool]:
    """The same where that may be listed: whether it may. ListError for all else."""
    try:
        yield from each(path, take, selector, page=page, most=most)
    except ListError as error:
        if error.status != FORBIDDEN:
            raise
        return False
    return True


def none_there(error: ListError) -> bool:
    """Whether there is nothing to list: the server knows no such kind."""
    return error.status == NOT_FOUND
