"""Types of the served kinds: reading an object strictly, and how its lists and maps merge. Data:
schema.json.
"""

import base64
import binascii
import re
import string
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from localfleet.embedded.apiserver import quantity
from localfleet.embedded.apiserver.status import Object

_GO_NAMES = {
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
    list: "array",
    dict: "object",
}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_FRACTION = re.compile(r"\.(\d+)")
_MICRO_DIGITS = 6
_BASE64 = frozenset(string.ascii_letters + string.digits + "+/=")
_INT_RANGE = {"int32": 2**31, "int64": 2**63}


class DecodeError(ValueError):
    """A value of the wrong type, in the words of Go's JSON decoder."""


class Field:
    """The type of one value: a scalar, an object, a list or a map; and how it merges.

    `merge_key` is the strategic-merge key of a list ("" for a list of scalars that merges as a set,
    None: replace); `map_keys` are the keys of the same list under server-side apply; `retain` asks
    for the retainKeys strategy; `omit` says that an empty value is the same as none.
    """

    __slots__ = (
        "_item",
        "atomic",
        "element",
        "kind",
        "map_keys",
        "merge_key",
        "omit",
        "read",
        "retain",
        "set_list",
        "text",
        "type",
    )

    def __init__(self, text: str) -> None:
        self.text = text
        self.kind = (
            "list" if text.startswith("[]") else "map" if text.startswith("{}") else "scalar"
        )
        self.element = Field(text[2:]) if self.kind != "scalar" else None
        self.type: ObjectType | None = None
        if text.startswith("@"):
            self.kind = "object"
            self.type = object_type(text[1:])
        self.merge_key: str | None = None
        self.map_keys: tuple[str, ...] = ()
        self.retain = self.set_list = self.atomic = self.omit = False
        self._item = self.element.read if self.element else _any
        self.read: Callable[[Any, str, str, list[str]], Any] = _READERS.get(text) or getattr(
            self, "_" + self.kind
        )

    def _object(self, value: Any, owner: str, path: str, unknown: list[str]) -> Any:
        if type(value) is not dict or self.type is None:
            raise _mismatch(value, owner, path, self._go_type())
        return self.type.read(value, path, unknown)

    def _list(self, value: Any, owner: str, path: str, unknown: list[str]) -> Any:
        if type(value) is not list:
            raise _mismatch(value, owner, path, self._go_type())
        read = self._item
        return [read(item, owner, f"{path}[{index}]", unknown) for index, item in enumerate(value)]

    def _map(self, value: Any, owner: str, path: str, unknown: list[str]) -> Any:
        if type(value) is not dict:
            raise _mismatch(value, owner, path, self._go_type())
        read = self._item
        if self.text == "{}string":
            return {key: read(item, owner, path, unknown) for key, item in value.items()}
        return {
            key: read(item, owner, f"{path}.{key}", unknown)
            for key, item in value.items()
            if item is not None
        }

    def _go_type(self) -> str:
        prefix = {"list": "[]", "map": "map[string]"}.get(self.kind, "")
        inner = self.element
        if inner is None:
            return "v1." + self.type.short if self.type else self.text
        return prefix + inner._go_type()


class ObjectType:
    """The fields of one kind of object."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.short = name.rpartition(".")[2]
        self.fields: dict[str, Field] = {}
        self.always: tuple[
            tuple[str, Any], ...
        ] = ()  # fields that are never absent, with their zero values
        self.empty: tuple[tuple[str, ObjectType], ...] = ()  # objects that are never absent
        self.numbers: dict[
            int, tuple[str, Field]
        ] = {}  # protobuf number -> field; "" for one that JSON shows inline

    def fill(self, description: Object) -> None:
        """Read the fields; apart from construction, because types refer to each other."""
        for name, text in description["fields"].items():
            field = self.fields[name] = Field(text)
            field.merge_key = description.get("merge", {}).get(name)
            field.map_keys = tuple(description.get("keys", {}).get(name, ()))
            field.retain = name in description.get("retain", ())
            field.set_list = name in description.get("sets", ())
            field.omit = name in description.get("omit", ()) and field.kind != "object"
            field.atomic = name in description.get("atomic", ()) or (
                field.type is not None and _whole(field.type.name)
            )
        always = description.get("always", {})
        self.always = tuple((name, zero) for name, zero in always.items() if zero != {})
        kinds = ((name, self.fields[name].type) for name, zero in always.items() if zero == {})
        self.empty = tuple((name, kind) for name, kind in kinds if kind is not None)
        for name, number in description.get("numbers", {}).items():
            self.numbers[number] = (name, self.fields[name])
        for name, number in description.get("inline", {}).items():
            self.numbers[number] = ("", Field("@" + name))

    def read(self, value: Object, path: str, unknown: list[str]) -> Object:
        """A clean deep copy: nulls and unknown fields dropped (paths appended to `unknown`),
        quantities canonical.

        Raises DecodeError for a value of the wrong type.
        """
        clean: Object = {}
        fields = self.fields
        short = self.short
        for key, item in value.items():
            field = fields.get(key)
            if field is None:
                unknown.append(f"{path}.{key}" if path else key)
            elif item is not None:
                found = field.read(item, short, f"{path}.{key}" if path else key, unknown)
                if found or not field.omit:
                    clean[key] = found
        for key, zero in self.always:
            clean.setdefault(key, zero)
        for key, kind in self.empty:
            if key not in clean:
                clean[key] = kind.read({}, "", unknown)
        return clean


def _mismatch(
    value: Any, owner: str, path: str, go_type: str, *, shown: bool = False
) -> DecodeError:
    where = re.sub(r"\[\d+\]", "", path)
    found = _GO_NAMES.get(type(value), "null")
    if shown and found == "number":
        found += f" {value}"
    return DecodeError(
        f"json: cannot unmarshal {found} into Go struct field {owner}.{where} of type {go_type}"
    )


def _string(value: Any, owner: str, path: str, _: list[str]) -> Any:
    if type(value) is str:
        return value
    if value is None:
        return ""
    raise _mismatch(value, owner, path, "string")


def _bool(value: Any, owner: str, path: str, _: list[str]) -> Any:
    if type(value) is bool:
        return value
    raise _mismatch(value, owner, path, "bool")


def _integer(kind: str) -> Callable[[Any, str, str, list[str]], Any]:
    bound = _INT_RANGE[kind]

    def read(value: Any, owner: str, path: str, _: list[str]) -> Any:
        if type(value) is int and -bound <= value < bound:
            return value
        if type(value) is float and value.is_integer() and abs(value) < bound:
            return int(value)
        raise _mismatch(value, owner, path, kind, shown=True)

    return read


def _double(value: Any, owner: str, path: str, _: list[str]) -> Any:
    if type(value) in (int, float):
        return value
    raise _mismatch(value, owner, path, "float64")


_LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"


def _time(value: Any, owner: str, path: str, _: list[str]) -> Any:
    return _checked_time(value, owner, path, _LAYOUT)


def _checked_time(value: Any, owner: str, path: str, layout: str) -> str:
    if type(value) is not str:
        raise _mismatch(value, owner, path, "string")
    if not _TIME.fullmatch(value):
        shown = value[:80]
        raise DecodeError(f'parsing time "{shown}" as "{layout}": cannot parse "{shown}" as "2006"')
    return value


def _quantity(value: Any, owner: str, path: str, _: list[str]) -> Any:
    if type(value) in (int, float):
        value = str(value)
    if type(value) is not str:
        raise DecodeError(quantity.UNREADABLE)
    try:
        return quantity.canonical(value.strip())
    except quantity.QuantityError as error:
        raise DecodeError(str(error)) from None


def _int_or_string(value: Any, owner: str, path: str, _: list[str]) -> Any:
    if type(value) in (int, str):
        return value
    raise _mismatch(
        value, owner, path, "int32" if type(value) is float else "intstr.IntOrString", shown=True
    )


def _microtime(value: Any, owner: str, path: str, _: list[str]) -> Any:
    _checked_time(value, owner, path, _MICRO_LAYOUT)
    fraction = _FRACTION.search(value)
    digits = fraction[1] if fraction else ""
    if len(digits) != _MICRO_DIGITS:
        rest = value[fraction.end() :] if fraction else value[-1:]
        found, wanted = (
            (digits[_MICRO_DIGITS:] + rest, "Z07:00")
            if len(digits) > _MICRO_DIGITS
            else (rest, ".000000")
        )
        raise DecodeError(
            f'parsing time "{value}" as "{_MICRO_LAYOUT}": cannot parse "{found}" as "{wanted}"'
        )
    return value


def _bytes(value: Any, owner: str, path: str, _: list[str]) -> Any:
    if type(value) is not str:
        raise _mismatch(value, owner, path, "[]uint8")
    try:
        base64.b64decode(value, validate=True)
    except binascii.Error:
        place = next(
            (index for index, letter in enumerate(value) if letter not in _BASE64), len(value)
        )
        raise DecodeError(f"illegal base64 data at input byte {place}") from None
    return value


def _any(value: Any, owner: str, path: str, _: list[str]) -> Any:
    return value


_READERS: dict[str, Callable[[Any, str, str, list[str]], Any]] = {
    "string": _string,
    "bytes": _bytes,
    "bool": _bool,
    "int32": _integer("int32"),
    "int64": _integer("int64"),
    "double": _double,
    "time": _time,
    "microtime": _microtime,
    "quantity": _quantity,
    "intorstring": _int_or_string,
    "any": _any,
}


@cache
def _descriptions() -> Object:
    text = resources.files("localfleet.embedded.apiserver").joinpath("schema.json").read_bytes()
    types: Object = msgspec.json.decode(text)["types"]
    return types


def _whole(name: str) -> bool:
    return bool(_descriptions()[name].get("whole"))


_TYPES: dict[str, ObjectType] = {}


def object_type(name: str) -> ObjectType:
    """The type called `name`, such as "core.v1.Pod"."""
    known = _TYPES.get(name)
    if known is None:
        known = _TYPES[name] = ObjectType(name)
        known.fill(_descriptions()[name])
    return known
