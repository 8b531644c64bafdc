"""Reading Kubernetes' protobuf, in which kubectl's typed clients send new objects. Answers are
always JSON.
"""

import base64
import datetime as dt
import struct
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from localfleet.embedded.apiserver.schema import Field, ObjectType, object_type
from localfleet.embedded.apiserver.status import Object, bad_request

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT = 0
_FIXED64 = 1
_BYTES = 2
_FIXED32 = 5
_MAX_DEPTH = 60


def read(sent: bytes, type_name: Callable[[str, str], str | None]) -> Object:
    """The object in `sent` as JSON data; `type_name(apiVersion, kind)` names its type, None for an
    empty one.

    ApiError 400 when it cannot be read.
    """
    if not sent.startswith(_MAGIC):
        raise bad_request(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
    try:
        version, kind, raw = _envelope(sent[len(_MAGIC) :])
        name = type_name(version, kind)
        body = _message(raw, object_type(name), 0) if name else {}
    except (IndexError, ValueError, struct.error, OverflowError) as error:
        raise bad_request(f"protobuf: cannot be decoded: {error}") from None
    return {"apiVersion": version, "kind": kind} | body


def _envelope(data: bytes) -> tuple[str, str, bytes]:
    parts = {number: value for number, _, value in _walk(data)}
    meta = {
        number: value.decode()
        for number, _, value in _walk(parts.get(1, b""))
        if isinstance(value, bytes)
    }
    return meta.get(1, ""), meta.get(2, ""), parts.get(2, b"")


def _walk(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """(number, wire type, value) of each field: an int, or bytes."""
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        number = tag >> 3
        wire = tag & 7
        if wire == _VARINT:
            value, place = _varint(data, place)
            yield number, wire, value
            continue
        if wire == _BYTES:
            size, place = _varint(data, place)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {wire}")
        if place + size > len(data):
            raise ValueError("unexpected end")
        yield number, wire, data[place : place + size]
        place += size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
        if shift > 63:
            raise ValueError("number too long")


def _message(data: bytes, kind: ObjectType, depth: int) -> Object:
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    found: Object = {}
    for number, _, value in _walk(data):
        name, field = kind.numbers.get(number, ("", None))
        if field is None:
            continue
        if not name:
            found |= _value(value, field, depth)
        elif field.kind == "list" and field.element is not None:
            found.setdefault(name, []).append(_value(value, field.element, depth))
        elif field.kind == "map" and field.element is not None:
            entry = {part: inner for part, _, inner in _walk(value)}
            found.setdefault(name, {})[entry.get(1, b"").decode()] = _value(
                entry.get(2, b""), field.element, depth
            )
        else:
            found[name] = _value(value, field, depth)
    return found


def _value(value: Any, field: Field, depth: int) -> Any:
    if field.type is not None:
        return _message(value, field.type, depth + 1)
    return _SCALARS[field.text](value)


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _first(value: bytes, number: int = 1) -> Any:
    return next((inner for found, _, inner in _walk(value) if found == number), None)


def _time(value: bytes) -> str | None:
    """RFC 3339; the zero time is no time."""
    parts = {number: inner for number, _, inner in _walk(value)}
    if not parts.get(1) and not parts.get(2):
        return None
    moment = dt.datetime.fromtimestamp(_signed(parts.get(1, 0)), dt.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _micro_time(value: bytes) -> str | None:
    text = _time(value)
    if text is None:
        return None
    nanos = _first(value, 2) or 0
    return f"{text[:-1]}.{nanos // 1000:06d}Z"


def _int_or_string(value: bytes) -> int | str:
    parts = {number: inner for number, _, inner in _walk(value)}
    if parts.get(1):
        text: bytes = parts.get(3, b"")
        return text.decode()
    return _signed(parts.get(2, 0))


def _raw(value: bytes) -> Any:
    inner = _first(value)
    return msgspec.json.decode(inner) if inner else {}


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "string": bytes.decode,
    "bytes": lambda value: base64.b64encode(value).decode(),
    "bool": bool,
    "int32": _signed,
    "int64": _signed,
    "double": lambda value: struct.unpack("<d", value)[0],
    "quantity": lambda value: (_first(value) or b"").decode() or "0",
    "time": _time,
    "microtime": _micro_time,
    "intorstring": _int_or_string,
    "any": _raw,
}
