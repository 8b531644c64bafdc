"""Arguments of plugins, declared once: a Struct whose fields say default, bounds and meaning.

    class QuietArgs(Args): most: Annotated[float, Meta(ge=0, le=1, description="share above which a
    node is loud")] = 0.5

Checks of profiles, the page of the reference, the JSON schema and that of the chart's values are
made of it. A field that needs more than bounds names its reader (`read_by`), which answers with the
value as the plugin wants it, or raises ValueError that says what is wrong in words for the person
who wrote the profile.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta, inspect

Check = Callable[[object], Any]
_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL = rf"([a-z0-9][-a-z0-9.]{{0,252}}/)?{_NAME}"
_LABEL_KEY = re.compile(_LABEL)


class Args(msgspec.Struct):
    """Base of all; alone it is a plugin without arguments."""


def read_by(check: Check, written: Any = None) -> dict[str, Any]:
    """For `Meta(extra=...)`: `check` reads the field. `written`: its type in a profile, where that
    is another one.
    """
    return {"check": check, "written": written}


@dataclass(frozen=True)
class Arg:
    """One argument. `default` is as the plugin wants it; `doc` says meaning and unit; `schema` what
    may be written.
    """

    default: Any
    doc: str
    check: Check
    schema: Mapping[str, Any]


ArgTable = Mapping[str, Arg]


@cache
def table_of(args: type[Args]) -> ArgTable:
    """The arguments by name. TypeError for a field whose type needs a reader and names none."""
    return {field.name: _arg(field) for field in msgspec.structs.fields(args)}


def _arg(field: msgspec.structs.FieldInfo) -> Arg:
    told = {}
    extra = {}
    kind = inspect.type_info(field.type)
    if isinstance(kind, inspect.Metadata):
        told = kind.extra_json_schema or {}
        extra = kind.extra or {}
        kind = kind.type
    written = field.type if extra.get("written") is None else extra["written"]
    schema = {**_inlined(msgspec.json.schema(written)), **told}
    made = field.default_factory
    return Arg(
        field.default if made is msgspec.NODEFAULT else made(),
        told.get("description", ""),
        extra.get("check") or _check_of(field.name, kind),
        schema,
    )


def _check_of(name: str, kind: inspect.Type) -> Check:
    match kind:
        case inspect.BoolType():
            return yes_or_no
        case inspect.LiteralType(values=values):
            return one_of(*(str(one) for one in values))
        case inspect.IntType(ge=int(low), le=int(high)):
            return whole_number(low, high)
        case inspect.FloatType(ge=int() | float() as low, le=int() | float() as high):
            return number(low, high)
        case inspect.StrType(min_length=1):
            return text
    return _check_of_many(name, kind)


def _check_of_many(name: str, kind: inspect.Type) -> Check:
    match kind:
        case inspect.VarTupleType(item_type=inspect.StrType()):
            return texts
        case inspect.VarTupleType(item_type=inspect.StructType(cls=cls)):
            return rows_of(cls)
        case inspect.DictType(value_type=value_type):
            return _map_of(_check_of(name, value_type))
    raise TypeError(f"argument {name} needs bounds, or a reader: read_by")


def rows_of(kind: type[msgspec.Struct]) -> Check:
    """A list of maps, each with the fields of a Struct, as a tuple of these."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    required = {key for key, field in fields.items() if field.required}
    checks = {key: _arg(field).check for key, field in fields.items()}
    told = ", ".join(fields)

    def row(raw: object) -> msgspec.Struct:
        if not isinstance(raw, Mapping) or not required <= raw.keys() <= fields.keys():
            raise ValueError(f"each must hold {told}, not {shown(raw)}")
        return kind(**{fields[key].name: _of(key, checks[key], one) for key, one in raw.items()})

    def check(raw: object) -> tuple[msgspec.Struct, ...]:
        if not isinstance(raw, list | tuple):
            raise ValueError(f"must be a list of {{{told}}}, not {shown(raw)}")
        return tuple(row(one) for one in raw)

    return check


def _map_of(value: Check) -> Check:
    def check(raw: object) -> dict[str, Any]:
        if not isinstance(raw, Mapping) or not all(isinstance(name, str) and name for name in raw):
            raise ValueError(f"must map names to values, not {shown(raw)}")
        return {name: _of(shown(name), value, one) for name, one in raw.items()}

    return check


def _of(name: str, check: Check, value: object) -> Any:
    try:
        return check(value)
    except ValueError as error:
        raise ValueError(f"{name} {error}") from None


def _inlined(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema without references."""
    known = schema.get("$defs", {})

    def plain(part: Any) -> Any:
        if isinstance(part, list):
            return [plain(one) for one in part]
        if not isinstance(part, Mapping):
            return part
        if "$ref" in part:
            return plain(known[part["$ref"].rpartition("/")[2]])
        return {key: plain(one) for key, one in part.items() if key not in ("$defs", "title")}

    return cast(dict[str, Any], plain(schema))


def schema_of(args: type[Args]) -> dict[str, Any]:
    """JSON schema of what a profile may say under `args`."""
    properties = {name: dict(arg.schema) for name, arg in table_of(args).items()}
    return {"type": "object", "additionalProperties": False, "properties": properties}


@dataclass(frozen=True)
class ArgProblem:
    """What is wrong with one argument."""

    key: str
    text: str


def check_args(
    table: ArgTable, given: Mapping[str, object]
) -> tuple[dict[str, Any], list[ArgProblem]]:
    """The complete arguments (defaults filled in) and everything that is wrong with those given."""
    values = {key: arg.default for key, arg in table.items()}
    problems = []
    for key, raw in given.items():
        arg = table.get(key)
        if arg is None:
            problems.append(ArgProblem(key, f"unknown argument{did_you_mean(key, table)}"))
            continue
        try:
            values[key] = arg.check(raw)
        except ValueError as error:
            problems.append(ArgProblem(key, str(error)))
    return values, problems


def did_you_mean(word: str, known: Mapping[str, object] | Sequence[str]) -> str:
    """'; did you mean X?' for a near miss, else '; known: ...'; empty if nothing is known."""
    names = list(known)
    close = get_close_matches(word, names, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; known: {', '.join(names)}" if names else ""


def shown(value: object, limit: int = 60) -> str:
    """A value as it may safely stand in a message."""
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + "..."


def is_finite_number(value: object) -> bool:
    """Whether a value is a number that a float can hold; no truth value."""
    try:
        return (
            isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        )
    except OverflowError:  # an int of more than 308 digits
        return False


def number(low: float, high: float) -> Check:
    """A finite number within [low, high]."""

    def check(raw: object) -> float:
        if not isinstance(raw, int | float) or not is_finite_number(raw):
            raise ValueError(f"must be a number from {low:g} to {high:g}, not {shown(raw)}")
        if not low <= raw <= high:
            raise ValueError(f"must be from {low:g} to {high:g}, not {shown(raw)}")
        return float(raw)

    return check


def whole_number(low: int, high: int) -> Callable[[object], int]:
    """A whole number within [low, high]."""

    def check(raw: object) -> int:
        value = number(low, high)(raw)
        if value != int(value):
            raise ValueError(f"must be a whole number, not {shown(raw)}")
        return int(value)

    return check


def text(raw: object) -> str:
    """A text that says something."""
    if not isinstance(raw, str) or not raw:
        raise ValueError(f"must be a text, not {shown(raw)}")
    return raw


def texts(raw: object) -> tuple[str, ...]:
    """A list of texts, each once; may be empty."""
    if not isinstance(raw, list | tuple) or not all(isinstance(one, str) and one for one in raw):
        raise ValueError(f"must be a list of texts, not {shown(raw)}")
    return tuple(dict.fromkeys(raw))


def label_key(raw: object) -> str:
    """The key of a label."""
    if not isinstance(raw, str) or not _LABEL_KEY.fullmatch(raw):
        raise ValueError(f"must be the key of a label, such as example.com/team, not {shown(raw)}")
    return raw


def yes_or_no(raw: object) -> bool:
    """True or false."""
    if not isinstance(raw, bool):
        raise ValueError(f"must be true or false, not {shown(raw)}")
    return raw


def one_of(*choices: str) -> Check:
    """One of a few words."""

    def check(raw: object) -> str:
        if raw not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}, not {shown(raw)}")
        return str(raw)

    return check


def resource_weights(raw: object) -> tuple[tuple[str, int], ...]:
    """{resource: weight} with at least one resource and weights 1 to 100, as kube-scheduler's
    `resources`.
    """
    if not isinstance(raw, Mapping) or not raw:
        raise ValueError(
            f"must map resources to weights, for example {{cpu: 1, memory: 1}}, not {shown(raw)}"
        )
    weight = whole_number(1, 100)
    pairs = []
    for name, value in raw.items():
        if not isinstance(name, str):
            raise ValueError(f"resource {shown(name)} must be text")
        try:
            pairs.append((name, weight(value)))
        except ValueError as error:
            raise ValueError(f"weight of {name} {error}") from None
    return tuple(pairs)


def names_of_resources(raw: object) -> tuple[str, ...]:
    """A list of at least one resource name, each once."""
    if (
        not isinstance(raw, list | tuple)
        or not raw
        or not all(isinstance(name, str) for name in raw)
    ):
        raise ValueError(
            f"must be a list of resources, for example [cpu, memory], not {shown(raw)}"
        )
    if len(set(raw)) != len(raw):
        raise ValueError(f"names a resource twice: {shown(raw)}")
    return tuple(raw)


LABEL_KEY = read_by(label_key, Annotated[str, Meta(pattern=f"^{_LABEL}$")])
RESOURCE_WEIGHTS = read_by(
    resource_weights, Annotated[dict[str, Annotated[int, Meta(ge=1, le=100)]], Meta(min_length=1)]
)
RESOURCE_NAMES = read_by(
    names_of_resources,
    Annotated[list[str], Meta(min_length=1, extra_json_schema={"uniqueItems": True})],
)
