"""The part of the dispatcher chart's schema that says which arguments plugins take: made of their
declarations.
"""

import json
import re
from pathlib import Path
from typing import Any

from dispatcher.plugins.registry import ALIASES, REGISTRY, canonical
from dispatcher.scheduling.framework.plugin_args import schema_of

SCHEMA = Path(__file__).parents[2] / "helm" / "dispatcher" / "values.schema.json"
_PART = re.compile(
    r'( *)"required": \["name"\](?:,\n *"allOf": \[\n(?: *\{"if": [^\n]*\n)* *\])?(?=\n *\}\n '
    r'*\}\n *\},\n *"anyOf": \[\{"required": \["plugins"\])'
)


def conditions() -> list[dict[str, Any]]:
    """For each plugin that we know: what its `args` may be. Plugins of others take any."""
    return [
        {
            "if": {"properties": {"name": {"const": name}}},
            "then": {"properties": {"args": schema_of(REGISTRY[canonical(name, REGISTRY)].args)}},
        }
        for name in (*REGISTRY, *ALIASES)
    ]


def with_arguments(text: str) -> str:
    """The schema's text with what holds now; ValueError if the place is not found."""

    def part(found: re.Match[str]) -> str:
        indent = found[1]
        lines = ",\n".join(f"{indent}  {json.dumps(one)}" for one in conditions())
        return f'{indent}"required": ["name"],\n{indent}"allOf": [\n{lines}\n{indent}]'

    made, count = _PART.subn(part, text)
    if count != 1:
        raise ValueError(f"{SCHEMA} has {count} places for the arguments of plugins, not one")
    return made
