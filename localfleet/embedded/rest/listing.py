"""LIST: one consistent state of a resource, in one answer or in pages."""

import base64
import binascii
from collections import OrderedDict
from typing import NamedTuple

import msgspec

from localfleet.embedded.api import Api
from localfleet.embedded.apiserver.resources import Resource
from localfleet.embedded.apiserver.show.forms import Shape
from localfleet.embedded.apiserver.status import (
    ApiError,
    FieldError,
    Object,
    bad_option,
    bad_request,
    expired,
    future_version,
    supported,
    unexplained,
)
from localfleet.embedded.apiserver.store import Record

_KEPT_SNAPSHOTS = 64
_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without "
    "the continue parameter."
)


class Query(NamedTuple):
    """The parameters of a list or a watch."""

    labels: str = ""
    fields: str = ""
    version: str = ""
    match: str = ""
    limit: int = 0
    token: str = ""


class _Token(msgspec.Struct):
    """A continue token: which snapshot, and how many items of it were already given."""

    v: int
    offset: int
    what: str


class Lists:
    """Answers lists. A paged list is a snapshot that later pages come from; the oldest snapshots
    are dropped (410).
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._snapshots: OrderedDict[tuple[int, str], list[Record]] = OrderedDict()

    def answer(self, row: Resource, namespace: str, query: Query, shape: Shape) -> bytes:
        """The encoded list; ApiError 400 for parameters, 410 for what is no longer kept, 504 for
        the future.
        """
        what = f"{row.key}/{namespace}?{query.labels}&{query.fields}"
        if query.token:
            if query.version:
                raise bad_request("specifying resource version is not allowed when using continue")
            token = _decode_token(query.token)
            records = self._snapshots.get((token.v, token.what))
            if token.what != what or records is None:
                raise expired(_TOO_OLD)
            return self._page(records, token, query, shape)
        check_version(self._api.objects.version, query)
        records = self._api.select(row, namespace, query.labels, query.fields)
        version = self._api.objects.version
        # Version 0 is answered from the real server's cache, which knows no pages.
        if not query.limit or len(records) <= query.limit or query.version == "0":
            return shape.many(records, {"resourceVersion": str(version)})
        self._snapshots[version, what] = records
        while len(self._snapshots) > _KEPT_SNAPSHOTS:
            self._snapshots.popitem(last=False)
        return self._page(records, _Token(version, 0, what), query, shape)

    def _page(self, records: list[Record], token: _Token, query: Query, shape: Shape) -> bytes:
        end = token.offset + query.limit if query.limit else len(records)
        meta: Object = {"resourceVersion": str(token.v)}
        left = len(records) - end
        if left > 0:
            following = msgspec.json.encode(_Token(token.v, end, token.what))
            meta["continue"] = base64.urlsafe_b64encode(following).decode().rstrip("=")
            if not query.labels and not query.fields:
                meta["remainingItemCount"] = left
        return shape.many(records[token.offset : end], meta)


def _decode_token(text: str) -> _Token:
    try:
        padded = text + "=" * (-len(text) % 4)
        return msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Token)
    except (binascii.Error, msgspec.DecodeError, ValueError):
        raise bad_request(
            "invalid continue token: continue key is not valid: it cannot be decoded"
        ) from None


def check_version(current: int, query: Query) -> None:
    """Whether a list at this resourceVersion can be answered from the current state."""
    try:
        asked = parse_version(query.version)
    except ApiError as error:
        raise bad_request(f"invalid resource version: {error}") from None
    if query.match and not query.version:
        raise _forbidden(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        )
    if query.match == "Exact" and asked == 0:
        detail = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        raise _forbidden("resourceVersionMatch", detail)
    if query.match not in ("", "Exact", "NotOlderThan"):
        detail = 'supported values: "Exact", "NotOlderThan", ""'
        raise _list_error(FieldError("unsupported", "resourceVersionMatch", detail, query.match))
    if asked is not None and asked > current:
        raise future_version(asked, current)
    exactly = query.match == "Exact" or (query.limit and not query.match and asked)
    if exactly and asked != current:
        raise expired("The resourceVersion for the provided list is too old.")


def parse_version(text: str) -> int | None:
    """A resourceVersion as a number, None if not given; ApiError 500, as a watch answers, for
    anything else.
    """
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 20:
        shown = text[:40]
        detail = f'strconv.ParseUint: parsing "{shown}": invalid syntax'
        raise unexplained(str(FieldError("invalid", "resourceVersion", detail, shown)))
    return int(text)


def _forbidden(field: str, why: str) -> ApiError:
    return _list_error(FieldError("forbidden", field, why))


def _list_error(error: FieldError) -> ApiError:
    return bad_option("ListOptions", error)


def check_watch(query: Query, initial: str) -> None:
    """Whether sendInitialEvents and resourceVersionMatch of a watch fit together."""
    if initial and query.match != "NotOlderThan":
        detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        errors = [FieldError("forbidden", "resourceVersionMatch", detail)]
        if query.match:
            known = supported(("NotOlderThan",))
            errors.append(
                FieldError("unsupported", "resourceVersionMatch", known, query.match[:40])
            )
        raise bad_option("ListOptions", *errors)
    if query.match and not initial:
        detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        raise _forbidden("resourceVersionMatch", detail)
