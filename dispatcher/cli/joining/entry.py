"""A cluster's entry in dispatcher.yaml, or under `config` in values of its chart: added to the
text, comments stay.
"""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from dispatcher.config import ConfigError
from dispatcher.config.document import parse_document, read_document
from dispatcher.service.errors import CommandError

Entry = dict[str, str]
_FIXES = {
    "via": "agents that dial in need `via: gateway`",
    "uid": "mend it, or the context",
    "key": "write this one there if you have replaced the cluster's key, and start the dispatcher "
    "again",
}


def entry_of(cluster: str, uid: str, keys: Sequence[str] = ()) -> Entry:
    """What the dispatcher is told of a cluster whose agent dials in: of its public keys (newest
    first, each vouched for by the next one) the oldest, from which the others follow; none where
    they are not known yet.
    """
    return {"name": cluster, "via": "gateway", "uid": uid, **({"key": keys[-1]} if keys else {})}


def flow(entry: Mapping[str, str]) -> str:
    """As a line of YAML."""
    return f"{{{', '.join(f'{key}: {value}' for key, value in entry.items())}}}"


def with_entry(file: Path, entry: Entry, keys: Sequence[str] = ()) -> tuple[str, str]:
    """(the file's text with the entry, what was changed: '' for nothing). Any of `keys` may be the
    key it says.

    CommandError: no such file, another cluster under that name or UID, or a form that cannot be
    edited.
    """
    try:
        text = file.read_text()
        data = read_document(file).data
    except (OSError, UnicodeDecodeError, ConfigError) as error:
        raise CommandError(f"{file}: {getattr(error, 'strerror', None) or error}") from None
    path = _path(file, data)
    clusters = _at(data, path)
    missing = _missing(file, path, clusters, entry, keys)
    if missing == {}:
        return text, ""
    wanted = copy.deepcopy(data)
    changed = _edited(text, path, entry, missing)
    if missing is None:
        _set(wanted, path, [*(clusters or ()), dict(entry)])
        what = f"cluster {entry['name']} added"
    else:
        next(one for one in _at(wanted, path) if one["name"] == entry["name"]).update(missing)
        what = f"{' and '.join(missing)} of cluster {entry['name']} added"
    if not changed or _parsed(changed, file) != wanted:
        raise CommandError(
            f"{file}: cannot be edited in this form: add `- {flow(entry)}` to {'.'.join(path)} by "
            "hand"
        )
    return changed, what


def _path(file: Path, data: Any) -> tuple[str, ...]:
    """Where the list of clusters is."""
    for path in (("clusters",), ("config", "clusters")):
        inner = _at(data, path[:-1])
        if isinstance(inner, dict) and path[-1] in inner:
            return path
    raise CommandError(
        f"{file}: has neither `clusters`, as dispatcher.yaml, nor `config.clusters`, as values of "
        "the dispatcher's "
        "chart: write `clusters: []` where it belongs"
    )


def _at(data: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _set(data: Any, path: tuple[str, ...], value: Any) -> None:
    _at(data, path[:-1])[path[-1]] = value


def _missing(
    file: Path, path: tuple[str, ...], clusters: Any, entry: Entry, keys: Sequence[str]
) -> Entry | None:
    """Keys that the entry of that name lacks; None where there is no such entry. CommandError: it
    says otherwise.
    """
    if not isinstance(clusters or [], list) or not all(
        isinstance(one, dict) for one in clusters or ()
    ):
        raise CommandError(
            f"{file}: {'.'.join(path)} is no list of clusters: `config check` says more"
        )
    found: Entry | None = None
    for at, one in enumerate(clusters or ()):
        key = f"{file}: {'.'.join(path)}[{at}]"
        if one.get("name") == entry["name"]:
            for name, fix in _FIXES.items():
                told = one.get(name, entry.get(name))
                if name in entry and told != entry[name] and not (name == "key" and told in keys):
                    raise CommandError(
                        f"{key}.{name} is {told!r}, and this is {entry[name]!r}: {fix}"
                    )
            found = {name: value for name, value in entry.items() if name not in one}
        elif one.get("uid") == entry["uid"]:
            text = (
                f"{key} is this very cluster (uid {entry['uid']}) by the name "
                f"{one.get('name')!r}: join it as that"
            )
            raise CommandError(text)
    return found


def _parsed(text: str, file: Path) -> Any:
    try:
        return parse_document(text.encode(), str(file)).data
    except ConfigError:
        return None


def _edited(text: str, path: tuple[str, ...], entry: Entry, missing: Entry | None) -> str:
    """The text with the change; '' where its form is none of those known."""
    node: Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    for key in path:
        node = _value(node, key)
    if missing:
        return _completed(text, _entry_node(node, entry["name"]), missing)
    if isinstance(node, SequenceNode) and node.flow_style:
        end = node.end_mark.index - 1
        return f"{text[:end]}{', ' if node.value else ''}{flow(entry)}{text[end:]}"
    if isinstance(node, SequenceNode):
        return _line_after(text, _last(node), f"{' ' * node.start_mark.column}- {flow(entry)}")
    if isinstance(node, ScalarNode):  # `clusters:`, and nothing
        return f"{text[: node.start_mark.index]} [{flow(entry)}]{text[node.end_mark.index :]}"
    return ""


def _completed(text: str, node: Node | None, missing: Entry) -> str:
    if not isinstance(node, MappingNode):
        return ""
    if node.flow_style:
        end = node.end_mark.index - 1
        return f"{text[:end]}, {flow(missing)[1:-1]}{text[end:]}"
    column = node.start_mark.column
    lines = "\n".join(f"{' ' * column}{key}: {value}" for key, value in missing.items())
    return _line_after(text, _last(node), lines)


def _line_after(text: str, node: Node, line: str) -> str:
    end = text.find("\n", node.end_mark.index)
    end = len(text) if end < 0 else end
    return f"{text[:end]}\n{line}{text[end:]}"


def _last(node: Node) -> Node:
    """The last thing within that has an end of its own: a block's is where the next thing begins."""
    while isinstance(node, CollectionNode) and not node.flow_style and node.value:
        node = node.value[-1][1] if isinstance(node, MappingNode) else node.value[-1]
    return node


def _value(node: Node | None, key: str) -> Node | None:
    pairs = node.value if isinstance(node, MappingNode) else ()
    return next((value for name, value in pairs if name.value == key), None)


def _entry_node(node: Node | None, name: str) -> Node | None:
    items = node.value if isinstance(node, SequenceNode) else ()
    return next((one for one in items if getattr(_value(one, "name"), "value", None) == name), None)
