"""What crosses the wire, read from the types: which fields each record has, and a message in which all of them say
something.

    python -m tests.shared.messages.wire.schema VERSION       # records those of a release, once, beside this file
"""

import argparse
import enum
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from shared.messages import Changes, Hello, IntentBatch, OutcomeBatch, Peers, PeersAck, Telemetry
from shared.messages.relay import GivenObjects, RelayAsk, RelayHead, RelayOpen, SignedAsk, SignedGiven
from shared.messages.usage import Usage
from shared.security.seals import Header, Seal
from shared.streams.calls import Call

MESSAGES: tuple[type[Any], ...] = (
    Hello,
    Changes,
    IntentBatch,
    OutcomeBatch,
    Peers,
    PeersAck,
    Telemetry,
    RelayOpen,
    RelayAsk,
    RelayHead,
    SignedAsk,
    GivenObjects,
    SignedGiven,
    Usage,
    Header,
    Seal,
    Call,
)
FORMATS: Mapping[str, Any] = {".msgpack": msgspec.msgpack, ".sent": msgspec.json}  # by the names of recorded files
RECORDED = Path(__file__).parent / "recorded"
Rows = dict[str, list[str]]


def suffix_of(kind: type[Any]) -> str:
    """Of the file that has the bytes of such a message."""
    return ".msgpack" if kind.__struct_config__.array_like else ".sent"


def format_of(kind: type[Any]) -> Any:
    """What encodes and decodes such a message."""
    return FORMATS[suffix_of(kind)]


def walked() -> Iterator[inspect.StructType]:
    """Every record that some message holds, once."""
    seen: set[type[Any]] = set()
    todo = [inspect.type_info(one) for one in MESSAGES]
    while todo:
        kind = todo.pop()
        todo += inner(kind)
        if isinstance(kind, inspect.StructType) and kind.cls not in seen:
            seen.add(kind.cls)
            todo += [field.type for field in kind.fields]
            yield kind


def inner(kind: Any) -> list[Any]:
    """The types that a container is made of."""
    parts = [getattr(kind, name, None) for name in ("item_type", "key_type", "value_type", "type")]
    found = [*getattr(kind, "types", ()), *getattr(kind, "item_types", ()), *parts]
    return [one for one in found if isinstance(one, inspect.Type)]


def fields() -> Rows:
    """Record -> its fields in the order in which they are sent; a tag, where it has one, comes first."""
    found = {}
    for one in walked():
        tag = [f"tag {one.tag}"] if one.tag is not None else []
        found[name_of(one)] = [*tag, *(field.name for field in one.fields)]
    return dict(sorted(found.items()))


def name_of(kind: inspect.StructType) -> str:
    """With its module: an order and a volume's claim have one name."""
    return f"{kind.cls.__module__.rpartition('.')[2]}.{kind.cls.__name__}"


def sample(kind: Any, name: str = "one") -> Any:
    """A value of this type, as it is on the wire, in which every field of every record says something of its own."""
    match kind:
        case inspect.StructType():
            if not kind.array_like:
                return {field.name: _field(field) for field in kind.fields}
            tag = [kind.tag] if kind.tag is not None else []
            return [*tag, *(_field(field) for field in kind.fields)]
        case inspect.UnionType():
            return sample(next(one for one in kind.types if not isinstance(one, inspect.NoneType)), name)
        case inspect.VarTupleType() | inspect.ListType() | inspect.SetType() | inspect.FrozenSetType():
            return [sample(one, name) for one in _choices(kind.item_type)]
        case inspect.TupleType():
            return [sample(one, f"{name}-{at}") for at, one in enumerate(kind.item_types)]
        case inspect.DictType():
            return {sample(kind.key_type, f"{name}-key"): sample(kind.value_type, name)}
        case inspect.Metadata():
            return sample(kind.type, name)
    return next(make(kind, name) for of, make in _SCALARS.items() if isinstance(kind, of))


_SCALARS: dict[type[Any], Callable[[Any, str], Any]] = {
    inspect.LiteralType: lambda kind, name: kind.values[-1],
    inspect.EnumType: lambda kind, name: next(iter(kind.cls)).value,
    inspect.BoolType: lambda kind, name: True,
    inspect.IntType: lambda kind, name: 1 + len(name),
    inspect.FloatType: lambda kind, name: 0.5 + len(name),
    inspect.BytesType: lambda kind, name: name.encode(),
    inspect.StrType: lambda kind, name: name,
    inspect.AnyType: lambda kind, name: name,
}


def _choices(kind: Any) -> list[Any]:
    """One of each kind that a list may hold."""
    return list(kind.types) if isinstance(kind, inspect.UnionType) else [kind]


def _field(field: inspect.Field) -> Any:
    if field.name == "version":
        return field.default
    value = sample(field.type, field.name)
    if value is True and field.default is True:
        return False
    return value


Raw = list[Any] | dict[str, Any]
_MORE = "of the next version"


def longer(kind: Any, raw: Any) -> Any:
    """A message as a peer tells it whose records all have one field more."""
    return reshaped(kind, raw, lambda _, record: {**record, _MORE: 1} if isinstance(record, dict) else [*record, _MORE])


def as_read_by(then: Rows, kind: Any, raw: Any) -> Any:
    """What of a message a peer reads that knows these fields of each record (`fields`)."""

    def known(of: inspect.StructType, record: Raw) -> Raw:
        names = then[name_of(of)]
        return {name: record[name] for name in names} if isinstance(record, dict) else record[: len(names)]

    return reshaped(kind, raw, known)


def reshaped(kind: Any, raw: Any, change: Callable[[inspect.StructType, Raw], Raw]) -> Any:
    """A message with each record in it, as it is on the wire, changed: the innermost first."""
    if raw is None:
        return None
    match kind:
        case inspect.StructType():
            return change(kind, _inside(kind, raw, change))
        case inspect.UnionType():
            by_tag = {one.tag: one for one in kind.types if isinstance(one, inspect.StructType)}
            (other, *_) = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
            return reshaped(by_tag[raw[0]] if len(by_tag) > 1 else other, raw, change)
        case inspect.VarTupleType():
            return [reshaped(kind.item_type, one, change) for one in raw]
        case inspect.TupleType():
            return [reshaped(one, value, change) for one, value in zip(kind.item_types, raw, strict=True)]
        case inspect.DictType():
            return {key: reshaped(kind.value_type, value, change) for key, value in raw.items()}
        case inspect.Metadata():
            return reshaped(kind.type, raw, change)
    return raw


def _inside(kind: inspect.StructType, raw: Raw, change: Callable[[inspect.StructType, Raw], Raw]) -> Raw:
    """A record with those in it changed."""
    if isinstance(raw, dict):
        return {field.name: reshaped(field.type, raw[field.name], change) for field in kind.fields}
    at = 0 if kind.tag is None else 1
    said = [reshaped(field.type, one, change) for field, one in zip(kind.fields, raw[at:], strict=True)]
    return [*raw[:at], *said]


def told(value: Any) -> Any:
    """What was read, by names, as JSON has it; fields that say no more than their default are left out."""
    if isinstance(value, msgspec.Struct):
        said = {field.name: getattr(value, field.name) for field in msgspec.structs.fields(value)}
        defaults = {field.name: field.default for field in msgspec.structs.fields(value)}
        kept = {name: told(one) for name, one in said.items() if one != defaults[name] or name == "version"}
        return {type(value).__name__: kept}
    if isinstance(value, dict):
        return {str(told(key)): told(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [told(one) for one in value]
    if isinstance(value, set | frozenset):
        return sorted(map(told, value))
    if isinstance(value, bytes):
        return value.decode()
    return value.value if isinstance(value, enum.Enum) else value


def record(version: str) -> None:
    """Write what this version says into a folder of its own; never over one that is there."""
    folder = RECORDED / version
    folder.mkdir(parents=True)
    (folder / "fields.json").write_text(json.dumps(fields(), indent=1) + "\n")
    for kind in MESSAGES:
        said = format_of(kind).encode(sample(inspect.type_info(kind)))
        (folder / f"{kind.__name__}{suffix_of(kind)}").write_bytes(said)
        read = told(format_of(kind).decode(said, type=kind))
        (folder / f"{kind.__name__}.json").write_text(json.dumps(read, indent=1) + "\n")


def version(text: str) -> str:
    """As `argparse` wants it: a version of ours, such as 0.12.0."""
    if not re.fullmatch(r"\d+\.\d+\.\d+\S*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no version such as 0.12.0")
    return text


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.shared.messages.wire.schema", description=__doc__)
    parser.add_argument("version", metavar="VERSION", type=version, help="of the release, such as 0.12.0")
    record(parser.parse_args().version)
