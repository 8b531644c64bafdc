"""What of a pod crosses into another cluster: asked by the agent there, and first by the dispatcher's filters.

A toleration without a key, or of a node's role, would open nodes that are kept for others. It is left behind, unless a
row of the target's own policy opens it for pods of that cluster and namespace.
"""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from dispatcher.model.bounds import Names, Word
from dispatcher.model.pod import Need, Needs, Record, Toleration

_ROLES = "node-role.kubernetes.io/"
NEEDED = ("allow", "secrets", "service_accounts")  # lists of a row that a `Need` may name


class Opening(Record, frozen=True):
    """A row of a cluster's policy: what it lets in with pods of these clusters and namespaces, all as shell patterns.

    `tolerations` are keys ("*": also none at all); `allow`, `secrets` and `service_accounts` as in `Need`. `closed`:
    namespaces it keeps out all the same; None: an agent of an older version, which tells only of tolerations.
    `services` "none": these pods call no Services of their namespace.
    """

    clusters: Names
    namespaces: Names
    tolerations: Names
    closed: Names | None = None
    allow: Names = ()
    secrets: Names = ()
    service_accounts: Names = ()
    services: Word = ""

    def covers(self, home: str, namespace: str) -> bool:
        """Whether it is about pods of this cluster and namespace."""
        return matches(self.clusters, home) and matches(self.namespaces, namespace)


def matches(patterns: Iterable[str], text: str) -> bool:
    """Whether any of the shell patterns means `text`."""
    return any(fnmatchcase(text, pattern) for pattern in patterns)


def crosses(key: str, opened: Iterable[str]) -> bool:
    """Whether a toleration of this key ('': of all keys) goes along, where the keys like `opened` are let in."""
    return bool(key and not key.startswith(_ROLES)) or matches(opened, key)


def opened_to(home: str, namespace: str, openings: Iterable[Opening]) -> tuple[str, ...]:
    """The keys that are let in with pods of this cluster and namespace."""
    return tuple(key for row in openings if row.covers(home, namespace) for key in row.tolerations)


def rows_for(home: str, namespace: str, openings: Iterable[Opening] | None) -> tuple[Opening, ...] | None:
    """The rows that let in pods of this cluster and namespace; None if the cluster's policy is not known so far."""
    told = tuple(openings or ())
    if not told or any(row.closed is None for row in told):
        return None
    return tuple(row for row in told if row.covers(home, namespace) and not matches(row.closed or (), namespace))


def unmet(needs: Needs, rows: Sequence[Opening]) -> Need | None:
    """The first need that none of these rows lets in."""
    return next((one for one in needs.of_policy if not _lets_in(one, rows)), None)


def _lets_in(need: Need, rows: Sequence[Opening]) -> bool:
    if need.key not in NEEDED:
        return True  # of an agent that is newer than this dispatcher: the target decides
    return any(matches(getattr(row, need.key), need.word) for row in rows)


def kept_abroad(tolerations: Sequence[Toleration], opened: Iterable[str]) -> tuple[Toleration, ...]:
    """The tolerations that a pod has in another cluster, where the keys like `opened` are let in."""
    patterns = tuple(opened)
    return tuple(one for one in tolerations if crosses(one.key, patterns))
