"""README.md of each chart: a table of its values, made of the comments of values.yaml."""

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


def _rows(lines: list[str], node: yaml.MappingNode, prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Rows of a mapping's keys; below a section those that no comment explains stand in the section's own row."""
    for key, value in node.value:
        name, meaning = f"{prefix}{key.value}", _comment(lines, key.start_mark.line)
        if prefix and not meaning and _is_leaf(value):
            continue
        if _is_leaf(value):
            yield code(name), code(_default(lines, value)) or "see values.yaml", meaning
        elif name in ("profiles", "config"):  # configs/profiles and docs/reference/configuration.md explain these
            yield code(name), "see values.yaml", meaning
        else:
            plain = _plain(lines, value)
            if meaning or plain:
                yield code(name), code(plain), meaning
            yield from _rows(lines, value, f"{name}.")


def _plain(lines: list[str], node: yaml.MappingNode) -> str:
    """Keys of a section that no comment explains, with their defaults: `host: 0.0.0.0, port: 7480`."""
    plain = [(key, value) for key, value in node.value if _is_leaf(value) and not _comment(lines, key.start_mark.line)]
    return ", ".join(f"{key.value}: {_default(lines, value) or '...'}" for key, value in plain)


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
        "A section's row has the keys of it that need no word, with their defaults. What stands under `config` is told in "
        "[the reference](../../docs/reference/configuration.md); values.yaml has the chart's own defaults for it.",
        table(("key", "default", "meaning"), _rows(text.splitlines(), root)),
    )
