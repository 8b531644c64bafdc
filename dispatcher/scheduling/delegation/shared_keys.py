"""Clusters that report the same public key: each could sign for the other. They are reported, and
keep working.
"""

from collections.abc import Mapping
from itertools import combinations
from typing import NamedTuple

from dispatcher.scheduling.clusters import ClusterView
from shared.security.signatures import plain_keys


class SharedKey(NamedTuple):
    """Two clusters with a key in common."""

    first: str
    second: str

    @property
    def text(self) -> str:
        """What is the matter, and what to do."""
        return (
            f'clusters "{self.first}" and "{self.second}" have the same key: each can sign for '
            "the other. Give one "
            "of them a key of its own (keySecret of its chart, or key_file), start its agent "
            "again, and make others "
            f"believe it: `global-dispatcher cluster forget-keys` of that cluster"
        )


def of(clusters: Mapping[str, ClusterView]) -> list[SharedKey]:
    """Pairs of clusters that share a key, older ones included, by name."""
    owners: dict[str, list[str]] = {}
    for name in sorted(clusters):
        for key in set(plain_keys(clusters[name].keys)):
            owners.setdefault(key, []).append(name)
    pairs = {SharedKey(*pair) for names in owners.values() for pair in combinations(names, 2)}
    return sorted(pairs)


def problem_of(cluster: str, found: list[SharedKey]) -> str:
    """What of it concerns one cluster, '' if nothing."""
    return "; ".join(pair.text for pair in found if cluster in pair)
