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
    return yaml.safe_dump(
        value, default_flow_style=True, sort_keys=False, width=10_000
    ).splitlines()[0]


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
    """Whether the default profile has it, how heavy, and with which arguments that are not its own
    defaults.
    """
    if use is None:
        return "-"
    weight = f"{use.weight:g}" if "Score" in spec.points else "on"
    args = f", {code(flow(dict(use.args)))}" if use.args else ""
    return f"{weight}{args}"


def _plugin(name: str, use: PluginUse | None) -> tuple[str, ...]:
    """A row of the table of plugins."""
    spec = REGISTRY[name]
    names = sorted(other for other, ours in ALIASES.items() if ours == name)
    also = f" Also named {', '.join(map(code, names))}." if names else ""
    return (code(name), f"{_about(spec)}{also}", ", ".join(spec.points), _used(use, spec))


def _arguments(spec: PluginSpec) -> tuple[tuple[str, ...], ...]:
    """Rows of its arguments."""
    return tuple(
        (code(key), code(default(arg)), bounds(arg.schema), arg.doc[:1].upper() + arg.doc[1:])
        for key, arg in spec.arguments.items()
    )


def _sections(order: Sequence[str]) -> Iterator[str]:
    """The arguments of plugins; those that have equal ones share a section."""
    names: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for name in order:
        names.setdefault(_arguments(REGISTRY[name]), []).append(name)
    for rows, of in names.items():
        if rows:
            yield f"## {', '.join(of)}"
            yield table(("argument", "default", "may be", "meaning"), rows)


def render() -> str:
    """The page."""
    uses = {use.name: use for use in DEFAULT_PROFILE.plugins}
    order = [*uses, *(name for name in REGISTRY if name not in uses)]
    return page(
        "Plugins",
        "What a profile may name, in the order of the default profile, then those that are not in "
        "it; below, what may stand under "
        "`args`. `global-dispatcher plugin list` tells yours, too. A default is the plugin's own, "
        "for an argument that `args` "
        "leaves out.",
        table(
            ("plugin", "what it does", "points", "weight in the default profile"),
            (_plugin(name, uses.get(name)) for name in order),
        ),
        *_sections(order),
    )
