"""Controllers that take pods without a controller for their own, by namespace: few, so that each
pod can ask.

A ReplicaSet of a Deployment is none of them for a delegate: its selector names a label that stays
at home.
"""

from collections.abc import Collection

from shared.model.names import GENERATED_LABELS
from shared.model.objects import AnyWatched, DaemonSet, ReplicaSet, ReplicationController

Adopter = ReplicaSet | ReplicationController | DaemonSet


class Adopters:
    """The controllers whose selectors may mean a delegate, or could not be read."""

    def __init__(self) -> None:
        self._of: dict[str, dict[tuple[str, str], Adopter]] = {}

    def put(self, record: AnyWatched) -> None:
        """An object as it is now."""
        if not isinstance(record, Adopter):
            return
        self.drop(type(record).__name__, record.key)
        if record.selector is None or GENERATED_LABELS.isdisjoint(record.selector.match_labels):
            self._of.setdefault(record.namespace, {})[type(record).__name__, record.key] = record

    def drop(self, kind: str, key: str) -> None:
        """The object is gone, or another one."""
        namespace, _, _ = key.partition("/")
        of = self._of.get(namespace, {})
        if of.pop((kind, key), None) is not None and not of:
            del self._of[namespace]

    def of(self, namespace: str) -> Collection[Adopter]:
        """Those of a namespace."""
        return self._of.get(namespace, {}).values()
