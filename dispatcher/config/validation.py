"""pydantic's findings in the words and with the lines of the file that was read."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from datetime import date
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsError

from dispatcher.config.document import Document
from dispatcher.config.problems import ConfigError, Path, Problem, dotted
from dispatcher.config.sections import ENV_NESTING, ENV_PREFIX, PATTERNS
from dispatcher.scheduling.framework.plugin_args import did_you_mean, shown

M = TypeVar("M", bound=BaseModel)
_SHOWN_KEYS = 4
_GONE: Mapping[Path, str] = {("scheduling",): "remove it, as there are no shards any more"}
_NUMBER = "a number"
_WHOLE = "a whole number"
_TEXT = "text"
_CHOICE = "true or false"
_MAP = "a map of keys"
_LIST = "a list"
# pydantic's types of errors -> what a value must be; in braces what pydantic says of the limit.
_MUST_BE = {
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "a finite number",
    "bool_type": _CHOICE,
    "bool_parsing": _CHOICE,
    "string_type": _TEXT,
    "string_too_short": "text that is not empty",
    "literal_error": "{expected}",
    "greater_than": "greater than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "dict_type": _MAP,
    "model_type": _MAP,
    "model_attributes_type": _MAP,
    "list_type": _LIST,
    "tuple_type": _LIST,
    "too_short": "a list with an entry at least",
    "too_long": "a list with {max_length} entries at most",
}


def validated(model: type[M], document: Document, problems: list[Problem]) -> M:
    """The document as a `model`; every finding is added to `problems`.

    Wrong keys and values are left out of the answer, so that what is right is checked further.
    ConfigError with `problems` if nothing usable is left. An answer with problems must never be
    acted on.
    """
    data = document.data if document.data is not None else {}
    if not isinstance(data, Mapping):
        raise ConfigError(
            [*problems, document.problem((), f"must be a map of keys, not {shown(data)}")]
        )
    try:
        return _made(model, data)
    except ValidationError as error:
        errors = _causes(error.errors(include_url=False))
        problems += [_problem(model, document, one) for one in errors]
        for without in (_without, _without_sections):
            with suppress(ValidationError, LookupError):
                return _made(model, without(data, errors))
        raise ConfigError(problems) from None
    except SettingsError as error:
        field = str(error).partition('"')[2].partition('"')[0]
        text = f"must be JSON, as a section or a list: {error.__cause__}"
        raise ConfigError(
            [*problems, Problem("environment", 0, f"{ENV_PREFIX}{field.upper()}", text)]
        ) from None


def _causes(errors: Sequence[Any]) -> list[Any]:
    """Without lists that are too short for pydantic alone, which counts no item that has a problem
    of its own.
    """
    within = {error["loc"][:end] for error in errors for end in range(len(error["loc"]))}
    return [error for error in errors if error["type"] != "too_short" or error["loc"] not in within]


def _made(model: type[M], data: Mapping[str, Any]) -> M:
    return model(**data) if issubclass(model, BaseSettings) else model.model_validate(data)


def _without(data: Mapping[str, Any], errors: Sequence[Any]) -> dict[str, Any]:
    """A copy without the keys the errors are about; LookupError for one that cannot be left out."""
    copy = deepcopy(dict(data))
    whole = {
        error["loc"][0]
        for error in errors
        if error["type"] == "missing" or isinstance(error["loc"][-1], int)
    }
    for key in whole:  # without an item all later ones would have other lines
        del copy[key]
    for error in errors:
        *parents, last = error["loc"]
        if error["loc"][0] in whole:
            continue
        inner: Any = copy
        for part in parents:
            inner = inner[part]
        inner.pop(last, None)
    return copy


def _without_sections(data: Mapping[str, Any], errors: Sequence[Any]) -> dict[str, Any]:
    """A copy without all that the errors are in, as where an entry is nothing without the wrong
    key.
    """
    wrong = {error["loc"][0] for error in errors if error["loc"]}
    return {key: value for key, value in data.items() if key not in wrong}


def findings(
    model: type[BaseModel], document: Document, error: ValidationError, prefix: Path
) -> list[Problem]:
    """What pydantic found in a part of the document, the part at `prefix`."""
    return [
        _problem(model, document, one, prefix) for one in _causes(error.errors(include_url=False))
    ]


def _problem(model: type[BaseModel], document: Document, error: Any, prefix: Path = ()) -> Problem:
    text = _text(model, tuple(error["loc"]), error)
    path: Path = (*prefix, *error["loc"])
    variable = ENV_PREFIX + ENV_NESTING.join(str(part).upper() for part in path)
    if issubclass(model, BaseSettings) and variable in {name.upper() for name in os.environ}:
        return Problem("environment", 0, variable, text)
    return Problem(document.file, document.line(path), dotted(path), text)


def _text(model: type[BaseModel], path: Path, error: Any) -> str:
    if error["type"] == "extra_forbidden":
        if path in _GONE:
            return f"unknown key: {_GONE[path]}"
        return f"unknown key{did_you_mean(str(path[-1]), keys_at(model, path[:-1]))}"
    if error["type"] == "missing":
        return "is missing"
    if error["type"] == "string_pattern_mismatch":
        return (
            f"{PATTERNS.get(error['ctx']['pattern'], 'is malformed')}, not {shown(error['input'])}"
        )
    if error["type"] == "value_error":  # a check of ours, which says all that is to be said
        return str(error["ctx"]["error"])
    wanted = _MUST_BE.get(error["type"])
    if wanted is None:
        message = str(error["msg"])
        return f"{message[:1].lower()}{message[1:]}, not {shown(error['input'])}"
    if error["type"] == "too_short" and isinstance(error["input"], Mapping):
        wanted = "a map with a key at least"
    limits = {
        key: f"{limit:.15g}" if isinstance(limit, float) else limit
        for key, limit in error.get("ctx", {}).items()
    }
    wanted = wanted.format(**limits) + _of_what(model, path, wanted)
    found = error["input"]
    quoted = wanted == _TEXT and isinstance(found, bool | int | float | date)
    hint = ": put it in quotes" if quoted else ""
    return f"must be {wanted}, not {'empty' if found is None else shown(found)}{hint}"


def _of_what(model: type[BaseModel], path: Path, wanted: str) -> str:
    """' of clusters' for a list, ' (name, context, ...)' for a map of keys, as far as that is
    known.
    """
    key = str(path[-1]) if path else ""
    if wanted == _LIST:
        return f" of {key.replace('_', ' ')}" if key.endswith("s") else ""
    keys = keys_at(model, path) if wanted == _MAP else []
    more = ", ..." if len(keys) > _SHOWN_KEYS else ""
    return f" ({', '.join(keys[:_SHOWN_KEYS])}{more})" if keys else ""


def keys_at(model: type[BaseModel], path: Path) -> list[str]:
    """The keys that may stand at a path of a model."""
    current: Any = model
    for part in path:
        if isinstance(part, int):
            continue
        field = _fields(current).get(part)
        if field is None:
            return []
        current = _inner_model(field.annotation)
    return list(_fields(current))


def _fields(model: Any) -> dict[str, FieldInfo]:
    """Key in the file -> field; empty for what is no model."""
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return {}
    return {info.alias or name: info for name, info in model.model_fields.items()}


def _inner_model(annotation: Any) -> Any:
    """The model inside of tuple[Model, ...], list[Model], Model | None."""
    if get_origin(annotation) is None:
        return annotation
    inner = [_inner_model(one) for one in get_args(annotation)]
    return next(
        (one for one in inner if isinstance(one, type) and issubclass(one, BaseModel)), None
    )
