"""The downward API: what a container reads of its own pod is the source's, also in another cluster.

In the environment it is written as a value. A file is read from an annotation of ours on the
delegate, to which its reference is rewritten: kubelet writes the value of an annotation as it is,
so one annotation may hold a whole map, and the file follows when that annotation is written anew.
What the running side alone knows (addresses, the node and its zone) it tells, also within the map
of the labels.
"""

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from agents.executor.crossing.fields import Object
from agents.executor.crossing.pod_fields import FIELD_PATHS, RESOLVED, ManifestError
from shared.model.bounds import MAX_MANIFEST
from shared.model.names import (
    CARRIES,
    CLAIM,
    CLAIM_CLUSTER,
    CLAIM_NODE,
    DECISION,
    DOWNWARD,
    EPOCH,
    TOPOLOGY_LABELS,
)

_BY_KEY = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]", re.DOTALL)
_OURS = re.compile(rf"metadata\.annotations\['({re.escape(DOWNWARD)}[0-9a-f]{{10}})'\]")
_DIGEST = 16  # hex characters of what is compared
_DIGITS = 10  # of an annotation's name: 40 bits of a hash of the path
_OF_AGENTS = frozenset(
    (CLAIM, CLAIM_CLUSTER, CLAIM_NODE, DECISION, EPOCH, CARRIES)
)  # no pod that stays at home has them
_NOT_ITS_OWN = _OF_AGENTS.union(TOPOLOGY_LABELS)
_ESCAPED = {
    "\a": "a",
    "\b": "b",
    "\f": "f",
    "\n": "n",
    "\r": "r",
    "\t": "t",
    "\v": "v",
    "\\": "\\",
    '"': '"',
}
_NO_SOURCE = (
    "has not been given its value by the agent of the pod's own cluster: upgrade that agent"
)
_NO_PATH = (
    'is "{}", which this version does not know: what would become of it elsewhere is not known'
)


class _Source:
    """What a pod tells of itself; `account` is the ServiceAccount that it runs as."""

    def __init__(self, metadata: Mapping[str, Any], account: str) -> None:
        self.metadata = metadata
        self._account = account
        self._left = MAX_MANIFEST  # bytes: each text may be asked for any number of times

    def text(self, path: str, field: str) -> str:
        """What `field`, a reference to this path, reads at home."""
        if not self.metadata.get("uid"):
            raise ManifestError(field, _NO_SOURCE)
        text = self._read(path)
        self._left -= len(text.encode())
        if self._left < 0:
            raise ManifestError(
                field,
                f"and others would read more than {MAX_MANIFEST // 1024} KiB of the pod itself",
            )
        return text

    def _read(self, path: str) -> str:
        by_key = _BY_KEY.fullmatch(path)
        if by_key is not None:
            kind, key = by_key.groups()
            return str((self.metadata.get(kind) or {}).get(key, ""))
        if path == "spec.serviceAccountName":
            return self._account
        told = self.metadata.get(path.removeprefix("metadata.")) or {}
        if isinstance(told, str):
            return told
        return formatted({key: value for key, value in told.items() if key not in _NOT_ITS_OWN})


def resolve(spec: Object, metadata: Mapping[str, Any], account: str) -> dict[str, str]:
    """Give the references of a manifest's spec their values, in place; the annotations that its
    files are read from.
    """
    source = _Source(metadata, account)
    for field, variable in _variables(spec):
        selector = (variable.get("valueFrom") or {}).get("fieldRef")
        if selector is not None and (path := _resolvable(selector, f"{field}.valueFrom.fieldRef")):
            del variable["valueFrom"]
            # $ begins a reference to another variable in a value that is written out.
            variable["value"] = source.text(path, f"{field}.valueFrom.fieldRef").replace("$", "$$")
    annotations: dict[str, str] = {}
    for field, file in _files(spec):
        selector = file.get("fieldRef")
        if selector is None:
            continue
        ours = _OURS.fullmatch(selector["fieldPath"])
        if ours is not None:
            key = ours[1]
            text = str((metadata.get("annotations") or {}).get(key, ""))
        elif path := _resolvable(selector, f"{field}.fieldRef"):
            key = _annotation(path)
            text = (
                annotations[key] if key in annotations else source.text(path, f"{field}.fieldRef")
            )
            selector["fieldPath"] = f"metadata.annotations['{key}']"
        else:
            continue
        annotations[key] = text
    return annotations


def shown(annotations: Mapping[str, str]) -> dict[str, str]:
    """Those annotations of a manifest or a delegate that its files are read from."""
    return {key: text for key, text in annotations.items() if key.startswith(DOWNWARD)}


def with_topology(annotations: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, str]:
    """Annotations that files are read from: the map of all labels shows of the topology what
    `labels`, those of the running side, say.
    """
    if _ALL_LABELS not in annotations:
        return dict(annotations)
    lines = {line.partition("=")[0]: line for line in annotations[_ALL_LABELS].split("\n") if line}
    for key in TOPOLOGY_LABELS:
        lines.pop(key, None)
        if key in labels:
            lines[key] = formatted({key: labels[key]})
    return {**annotations, _ALL_LABELS: "\n".join(lines[key] for key in sorted(lines))}


def digest(annotations: Mapping[str, str]) -> str:
    """Of what the files of a delegate with these annotations show of its source; '' if it has none."""
    told = with_topology(shown(annotations), {})
    return sha256(msgspec.json.encode(told, order="sorted")).hexdigest()[:_DIGEST] if told else ""


def formatted(told: Mapping[str, str]) -> str:
    """Labels or annotations as kubelet writes them into a file: lines of key="value", sorted."""
    return "\n".join(f"{key}={_quoted(value)}" for key, value in sorted(told.items()))


def _quoted(text: str) -> str:
    """As Go's %q."""
    return '"' + "".join(map(_shown, text)) + '"'


def _shown(char: str) -> str:
    if char in _ESCAPED:
        return "\\" + _ESCAPED[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _annotation(path: str) -> str:
    """The annotation of ours that shows what a reference to this path reads."""
    return DOWNWARD + sha256(path.encode()).hexdigest()[:_DIGITS]


_ALL_LABELS = _annotation("metadata.labels")


def _resolvable(selector: Object, field: str) -> str:
    """The path of a reference that is given its value at home; '' if the running side gives it."""
    path: str = selector["fieldPath"]
    by_key = _BY_KEY.fullmatch(path)
    decision = FIELD_PATHS.get(path) or FIELD_PATHS.get(
        f"metadata.{by_key[1]}['X']" if by_key else ""
    )
    if decision is None:
        raise ManifestError(field, _NO_PATH.format(path[:80]))
    return path if decision.how == RESOLVED else ""


def _variables(spec: Object) -> Iterator[tuple[str, Object]]:
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            for at, variable in enumerate(container.get("env") or ()):
                yield f"spec.{kind}[{index}].env[{at}]", variable


def _files(spec: Object) -> Iterator[tuple[str, Object]]:
    for index, volume in enumerate(spec.get("volumes") or ()):
        where = f"spec.volumes[{index}]"
        yield from _items(volume.get("downwardAPI"), f"{where}.downwardAPI")
        for at, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            yield from _items(
                source.get("downwardAPI"), f"{where}.projected.sources[{at}].downwardAPI"
            )


def _items(holder: Object | None, where: str) -> Iterator[tuple[str, Object]]:
    for index, file in enumerate((holder or {}).get("items") or ()):
        yield f"{where}.items[{index}]", file
