"""The forms an answer can take: whole objects, metadata alone, or table rows; one object, a list,
or a watch event.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from localfleet.embedded.apiserver.resources import Resource
from localfleet.embedded.apiserver.show import events, tables
from localfleet.embedded.apiserver.status import Object
from localfleet.embedded.apiserver.store import Record

WHOLE = ""
METADATA = "PartialObjectMetadata"
TABLE = "Table"
_META_VERSION = "meta.k8s.io/v1"
_encode = msgspec.json.Encoder().encode


def wanted(accept: str, *, of_list: bool = False) -> str | None:
    """The form an Accept header asks for, its first choice that we have; None if there is none.

    One object may be asked for as PartialObjectMetadata, a list as PartialObjectMetadataList."""
    if not accept:
        return WHOLE
    for choice in accept.split(","):
        media, *parameters = (part.strip() for part in choice.split(";"))
        given = dict(part.split("=", 1) for part in parameters if "=" in part)
        kind = given.get("as", "")
        if media not in (
            "application/json",
            "*/*",
            "application/*",
            "application/yaml",
            "text/plain",
        ):
            continue
        if not kind:
            return WHOLE
        if given.get("g") == "meta.k8s.io" and given.get("v", "v1") == "v1":
            if kind == TABLE:
                return TABLE
            if kind == METADATA + ("List" if of_list else ""):
                return METADATA
    return None


def partial(record: Record) -> bytes:
    """metav1.PartialObjectMetadata of a record."""
    found = record.forms.get(METADATA)
    if found is None:
        found = record.forms[METADATA] = _encode(_partial(record.object))
    return found


def _partial(obj: Object) -> Object:
    return {"kind": METADATA, "apiVersion": _META_VERSION, "metadata": obj["metadata"]}


def whole(row: Resource, record: Record) -> bytes:
    """The object itself, as `row` shows it."""
    if not row.stored_as:
        return record.body()
    found = record.forms.get(row.group)
    if found is None:
        found = record.forms[row.group] = _encode(events.from_core(record.object))
    return found


class Shape:
    """One form for one client: `include` is what a table row carries of its object (Metadata,
    Object or None).

    `now` is the clock (unix seconds) that ages are told by.
    """

    def __init__(self, row: Resource, form: str, include: str, now: Callable[[], float]) -> None:
        self.row = row
        self.form = form
        self.include = include
        self.now = now
        self._headed = False

    def one(self, record: Record) -> bytes:
        """One object."""
        if self.form == TABLE:
            return self._table(
                [record], {"resourceVersion": record.object["metadata"].get("resourceVersion", "")}
            )
        return partial(record) if self.form == METADATA else whole(self.row, record)

    def many(self, records: Sequence[Record], meta: Object) -> bytes:
        """A list with `meta` as its ListMeta."""
        if self.form == TABLE:
            return self._table(records, meta)
        if self.form == METADATA:
            head: Object = {
                "kind": METADATA + "List",
                "apiVersion": _META_VERSION,
                "metadata": meta,
            }
            return _listed(head, (partial(record) for record in records))
        head = {
            "kind": self.row.kind + "List",
            "apiVersion": self.row.api_version,
            "metadata": meta,
        }
        return _listed(head, (_untyped(self.row, whole(self.row, record)) for record in records))

    def event(self, kind: str, record: Record) -> bytes:
        """One line of a watch."""
        return b'{"type":"' + kind.encode() + b'","object":' + self._in_watch(record) + b"}\n"

    def _in_watch(self, record: Record) -> bytes:
        if self.form != TABLE:
            return self.one(record)
        # columns come with the first event alone
        headed = self._headed
        self._headed = True
        return self._table(
            [record],
            {"resourceVersion": record.object["metadata"]["resourceVersion"]},
            headed=headed,
        )

    def _table(self, records: Sequence[Record], meta: Object, *, headed: bool = False) -> bytes:
        cells = tables.layout(self.row).cells
        now = self.now()
        rows = [
            {"cells": cells(record.object, now)} | self._row_object(record) for record in records
        ]
        columns = None if headed else tables.definitions(self.row)
        table = {
            "kind": TABLE,
            "apiVersion": _META_VERSION,
            "metadata": meta,
            "columnDefinitions": columns,
        }
        return _encode(table | {"rows": rows})

    def _row_object(self, record: Record) -> Object:
        if self.include == "None":
            return {"object": None}
        body = whole(self.row, record) if self.include == "Object" else partial(record)
        return {"object": msgspec.Raw(body)}


def _untyped(row: Resource, body: bytes) -> bytes:
    """An object without its kind and apiVersion, which its list tells; they come first in what is
    stored.
    """
    for first in (
        f'{{"apiVersion":"{row.api_version}","kind":"{row.kind}",',
        f'{{"kind":"{row.kind}",',
    ):
        if body.startswith(first.encode()):
            return b"{" + body[len(first) :]
    return body


def _listed(head: Object, items: Iterable[bytes]) -> bytes:
    return _encode(head)[:-1] + b',"items":[' + b",".join(items) + b"]}"
