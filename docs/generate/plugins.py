"""The page of plugins: what each does, at which points, and every argument with bounds and default."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import yaml

from dispatcher.plugins.registry import ALIASES, REGISTRY, PluginSpec
from dispatcher.scheduling.framework import PluginUse
from dispatcher.scheduling.framework.plugin_args import Arg
from dispatcher.scheduling.profile import DEFAULT_PROFILE
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
    """As a profile would say it, in YAML."""
    return flow(_written(msgspec.to_builtins(arg.default), arg.schema))


def flow(value: Any) -> str:
    """YAML in one line."""
    return yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000).splitlines()[0]


def _written(value: Any, schema: Mapping[str, Any]) -> Any:
    """What plugins keep as rows, as the maps and lists of a profile."""
    if "anyOf" in schema:
        return _written([] if not any(value) else value, schema["anyOf"][0])
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, Sequence) or isinstance(value, str):
        return value
    if schema.get("type") == "array":
        return [_written(one, schema["items"]) for one in value]
    keys = schema.get("properties")
    pairs = zip(keys, value, strict=True) if keys else value
    return {key: _written(one, {}) for key, one in pairs}


def _about(spec: PluginSpec) -> str:
    docstring = inspect.getdoc(spec.plugin) or ""
    return docstring.split("\n\n")[0]


def _used(use: PluginUse | None, spec: PluginSpec) -> str:
    """Whether the default profile has it, how heavy, and with which arguments that are not its own defaults."""
    if use is None:
        return "Not in the default profile."
    weight = f"weight {use.weight:g}" if "Score" in spec.points else "on"
    args = f", with {code(flow(dict(use.args)))}" if use.args else ""
    return f"Default profile: {weight}{args}."


def _section(name: str, spec: PluginSpec, use: PluginUse | None) -> Iterator[str]:
    names = {other for other, ours in ALIASES.items() if ours == name}
    yield f"## {name}"
    also = f" Also named {', '.join(code(one) for one in sorted(names))}." if names else ""
    yield f"{_about(spec)}{also}"
    yield f"Points: {', '.join(spec.points)}. {_used(use, spec)}"
    rows = [
        (code(key), code(default(arg)), bounds(arg.schema), arg.doc[:1].upper() + arg.doc[1:])
        for key, arg in spec.arguments.items()
    ]
    if rows:
        yield table(("argument", "default", "may be", "meaning"), rows)


def render() -> str:
    """The page."""
    uses = {use.name: use for use in DEFAULT_PROFILE.plugins}
    order = [*uses, *(name for name in REGISTRY if name not in uses)]
    sections = [part for name in order for part in _section(name, REGISTRY[name], uses.get(name))]
    return page(
        "Plugins",
        "What a profile may name, and what may stand under `args` there. `global-dispatcher plugin list` tells yours, too. "
        "The order is that of the default profile, then those that are not in it. Weight 0: it does not score. A default below is "
        "the plugin's own, for an argument that `args` leaves out.",
        *sections,
    )
