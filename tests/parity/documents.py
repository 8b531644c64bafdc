"""Text to plain documents, as kubectl reads it: YAML or JSON, several after one another; timestamps stay text."""

import json
from collections.abc import Iterator
from typing import Any

import yaml

_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_KEPT_AS_TEXT = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value")
_DECODER = json.JSONDecoder()
_BLANKS = " \t\r\n\ufeff"


class _Loader(_BASE):  # type: ignore[misc]
    """Safe YAML without the types that JSON has not."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in found if tag not in _KEPT_AS_TEXT]
        for first, found in _BASE.yaml_implicit_resolvers.items()
    }


def documents(text: str) -> list[Any]:
    """All documents, plain JSON values; ValueError that says what cannot be read."""
    text = text.lstrip(_BLANKS)
    found = _json(text) if text[:1] in {"{", "["} else None
    if found is None:
        try:
            found = list(yaml.load_all(text, Loader=_Loader))
        except yaml.YAMLError as error:
            raise ValueError(str(error)) from None
        except RecursionError:
            raise ValueError("is nested too deep") from None
    return [_plain(document, f"document {at + 1}") for at, document in enumerate(found)]


def _json(text: str) -> list[Any] | None:
    """JSON documents one after the other; None if it is none: YAML has curly brackets, too."""
    try:
        return list(_one_by_one(text))
    except (ValueError, RecursionError):
        return None


def _one_by_one(text: str) -> Iterator[Any]:
    at = 0
    while at < len(text):
        document, end = _DECODER.raw_decode(text, at)
        yield document
        at = end + len(text[end:]) - len(text[end:].lstrip(_BLANKS))


def _plain(document: Any, where: str) -> Any:
    """The document as JSON would hold it: keys are text, and there is no infinity and no loop."""
    try:
        return json.loads(json.dumps(document, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{where}: holds what JSON cannot: {error}") from None
