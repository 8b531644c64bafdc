"""README.md of each chart: the first sentence of each value's comment in values.yaml, which
explains every key.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from docs.generate.markdown import code, page, table

CHARTS = Path(__file__).parents[2] / "helm"
NAMES = ("dispatcher", "agent")
_LONGEST = 80  # characters of a default; longer ones are in values.yaml


def _comment(lines: list[str], line: int) -> str:
    """What stands right above a line."""
    first = line
    while first > 0 and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return " ".join(one.lstrip(" #").removeprefix("-- ") for one in lines[first:line])


def _first_sentence(meaning: str) -> str:
    return re.split(r"(?<=[a-z0-9)`])\. (?=[A-Z])", meaning, maxsplit=1)[0].removesuffix(".")


def _default(lines: list[str], node: yaml.Node) -> str:
    text = node.value if isinstance(node, yaml.ScalarNode) else ""
    if isinstance(node, yaml.ScalarNode):
        return f'"{text}"' if node.style else text
    if not isinstance(node, yaml.CollectionNode) or not node.flow_style:
        return ""
    start, end = node.start_mark, node.end_mark
    shown = lines[start.line][start.column : end.column] if start.line == end.line else ""
    return shown if len(shown) <= _LONGEST else ""


def _is_leaf(value: yaml.Node) -> bool:
    return not isinstance(value, yaml.MappingNode) or bool(value.flow_style)


def _rows(lines: list[str], root: yaml.MappingNode) -> Iterator[tuple[str, str, str]]:
    """(value, its default, meaning). Of a section there is no default, and its own meaning, else that
    of its first key.
    """
    for key, value in root.value:
        meaning = _comment(lines, key.start_mark.line)
        if _is_leaf(value):
            yield (
                code(key.value),
                code(_default(lines, value)) or "see values.yaml",
                _first_sentence(meaning),
            )
        else:
            keys = [one for one, _ in value.value]
            first = _comment(lines, keys[0].start_mark.line)
            yield (
                code(key.value),
                "",
                _first_sentence(meaning or first),
            )


def render(chart: str) -> str:
    """One chart's page; ValueError if its values are no mapping."""
    folder = CHARTS / chart
    text = (folder / "values.yaml").read_text()
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode):
        raise ValueError(f"{folder / 'values.yaml'} is no mapping")
    said = yaml.safe_load((folder / "Chart.yaml").read_text())
    return page(
        f"Chart: {chart}",
        said["description"],
        "## Values",
        "[values.yaml](values.yaml) (`helm show values`) says of each key what it means, also of "
        "those in sections. What stands under "
        "`config` has [a page](../../docs/reference/configuration.md).",
        table(("value", "default", "meaning"), _rows(text.splitlines(), root)),
    )
