"""Which tolerations a pod keeps in another cluster: asked by the agent there, and first by the dispatcher's filters.

A toleration without a key, or of a node's role, would open nodes that are kept for others. It is left behind, unless a
row of the target's own policy opens it for pods of that cluster and namespace.
"""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from dispatcher.model.bounds import Names
from dispatcher.model.pod import Record, Toleration

_ROLES = "node-role.kubernetes.io/"


class Opening(Record, frozen=True):
    """Keys of tolerations ("*": also none at all) that a cluster lets in with pods of these clusters and namespaces.

    All are shell patterns.
    """

    clusters: Names
    namespaces: Names
    tolerations: Names


def matches(patterns: Iterable[str], text: str) -> bool:
    """Whether any of the shell patterns means `text`."""
    return any(fnmatchcase(text, pattern) for pattern in patterns)


def crosses(key: str, opened: Iterable[str]) -> bool:
    """Whether a toleration of this key ('': of all keys) goes along, where the keys like `opened` are let in."""
    return bool(key and not key.startswith(_ROLES)) or matches(opened, key)


def opened_to(home: str, namespace: str, openings: Iterable[Opening]) -> tuple[str, ...]:
    """The keys that are let in with pods of this cluster and namespace."""
    rows = (one for one in openings if matches(one.clusters, home) and matches(one.namespaces, namespace))
    return tuple(key for row in rows for key in row.tolerations)


def kept_abroad(tolerations: Sequence[Toleration], opened: Iterable[str]) -> tuple[Toleration, ...]:
    """The tolerations that a pod has in another cluster, where the keys like `opened` are let in."""
    patterns = tuple(opened)
    return tuple(one for one in tolerations if crosses(one.key, patterns))
