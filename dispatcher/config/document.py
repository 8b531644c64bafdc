"""A YAML file as plain values that remember their lines, with bounds so that no file can hurt the
reader.

At most 1 MiB, 32 levels deep, no anchors and aliases (a few lines of them can unfold to gigabytes),
one document, no key twice, only plain YAML types.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

import yaml
from yaml.constructor import SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from dispatcher.config.problems import ConfigError, Path, Problem, dotted

MAX_BYTES = 2**20
MAX_DEPTH = 32
_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass
class Document:
    """Plain values, and path -> line of every key and item."""

    file: str
    data: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def line(self, path: Path) -> int:
        """The line of a path, or of the nearest thing around it that is in the file."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def problem(self, path: Path, text: str) -> Problem:
        """A problem at a path of this file."""
        return Problem(self.file, self.line(path), dotted(path), text)


def read_document(path: FilePath) -> Document:
    """Read and bound a file; ConfigError for one that cannot be read or is no plain YAML."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            [Problem(str(path), 0, "", f"cannot be read: {error.strerror or error}")]
        ) from None
    if len(raw) > MAX_BYTES:
        raise ConfigError([Problem(str(path), 0, "", f"is larger than {MAX_BYTES} bytes")])
    return parse_document(raw, str(path))


def parse_document(raw: bytes, file: str) -> Document:
    """The same for the bytes of a file."""
    document = Document(file)
    try:
        _check_shape(raw, document)
        root = yaml.compose(raw, Loader=_LOADER)
        if root is not None:
            document.data = _plain(root, (), document)
    except yaml.MarkedYAMLError as error:
        # what is missing at the end is found missing on the line after it
        last = raw.count(b"\n") + 1
        line = min(error.problem_mark.line + 1, last) if error.problem_mark else 0
        text = " ".join(filter(None, (error.context, error.problem)))
        raise ConfigError([Problem(file, line, "", f"is no YAML: {text}")]) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(
            [Problem(file, 0, "", f"is no YAML: {str(error).splitlines()[0]}")]
        ) from None
    if document.problems:
        raise ConfigError(document.problems)
    return document


def _check_shape(raw: bytes, document: Document) -> None:
    """Refuse aliases and depth before anything recursive looks at the file."""
    depth = 0
    for event in _events(raw):
        if isinstance(event, yaml.AliasEvent):
            raise ConfigError(
                [
                    Problem(
                        document.file,
                        _line(event),
                        "",
                        f"uses the alias *{event.anchor}: write it out",
                    )
                ]
            )
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise ConfigError(
                [
                    Problem(
                        document.file, _line(event), "", f"is nested deeper than {MAX_DEPTH} levels"
                    )
                ]
            )


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


def _events(raw: bytes) -> Iterator[yaml.Event]:
    yield from yaml.parse(raw, Loader=_LOADER)


def _plain(node: Node, path: Path, document: Document) -> Any:
    document.lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, MappingNode):
        return _mapping(node, path, document)
    if isinstance(node, SequenceNode):
        return [_plain(item, (*path, at), document) for at, item in enumerate(node.value)]
    return _scalar(node, path, document)


def _mapping(node: MappingNode, path: Path, document: Document) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, ScalarNode):
            document.problems.append(
                Problem(document.file, line, dotted(path), "a key must be text")
            )
            continue
        key = str(key_node.value)
        here = (*path, key)
        if key in values:
            text = f"given twice, first on line {document.lines[here]}"
            document.problems.append(Problem(document.file, line, dotted(here), text))
            continue
        document.lines[here] = line
        values[key] = _plain(value_node, here, document)
    return values


def _scalar(node: Node, path: Path, document: Document) -> Any:
    try:
        return SafeConstructor().construct_object(node)
    except (yaml.YAMLError, ValueError) as error:
        text = getattr(error, "problem", None) or str(error)
        document.problems.append(
            Problem(document.file, node.start_mark.line + 1, dotted(path), str(text))
        )
        return None
