"""The page of plugins: what each does, at which points, and every argument with bounds and default."""

import inspect
import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from dispatcher.plugins.registry import ALIASES, REGISTRY, PluginSpec
from dispatcher.scheduling.framework.plugin_args import Arg
from docs.generate.markdown import code, page, table


def bounds(schema: Mapping[str, Any]) -> str:
    """'0..1', 'true or false', 'list of {key, max_skew, hard}'."""
    if "anyOf" in schema:
        return " or ".join(bounds(one) for one in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(code(str(one)) for one in schema["enum"])
    match schema.get("type"):
        case "number" | "integer":
            kind = "a whole number, " if schema["type"] == "integer" else ""
            return f"{kind}{schema['minimum']:_}..{schema['maximum']:_}"
        case "boolean":
            return "true or false"
        case "array":
            return f"list of {bounds(schema['items'])}"
        case "object":
            inner, values = schema.get("properties"), schema.get("additionalProperties")
            if inner:
                return f"{{{', '.join(inner)}}}"
            return f"map of text to {bounds(values)}" if values else "map"
    return "text"


def default(arg: Arg) -> str:
    """As JSON, where it is plain."""
    try:
        return code(json.dumps(msgspec.to_builtins(arg.default)))
    except TypeError:
        return ""


def _about(spec: PluginSpec) -> str:
    docstring = inspect.getdoc(spec.plugin) or ""
    return docstring.split("\n\n")[0]


def _section(name: str, spec: PluginSpec) -> Iterator[str]:
    names = {other for other, ours in ALIASES.items() if ours == name}
    yield f"## {name}"
    also = f" Also named {', '.join(code(one) for one in sorted(names))}." if names else ""
    yield f"{_about(spec)}{also}"
    yield f"Points: {', '.join(spec.points)}."
    rows = [
        (code(key), default(arg), bounds(arg.schema), arg.doc[:1].upper() + arg.doc[1:])
        for key, arg in spec.arguments.items()
    ]
    if rows:
        yield table(("argument", "default", "may be", "meaning"), rows)


def render() -> str:
    """The page."""
    sections = [part for name, spec in REGISTRY.items() for part in _section(name, spec)]
    return page(
        "Plugins",
        "What a profile may name, and what may stand under `args` there. `global-dispatcher plugin list` tells yours, too. "
        "The order is that of the default profile as far as it goes.",
        *sections,
    )
