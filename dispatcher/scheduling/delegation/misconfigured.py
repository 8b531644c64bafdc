"""What is wrong with how clusters are configured, told to the operator; nothing is done about it.

Clusters that report the same public key: each could sign for the other. And clusters that are not
configured, but have pods of ours: one was renamed, or removed from the configuration too early. It
may be put back, and only an operator can know.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import combinations
from typing import NamedTuple

from dispatcher.scheduling.clusters import ClusterView
from dispatcher.scheduling.delegation.protocol import target_of
from dispatcher.scheduling.delegation.tracking import Tracked
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


def shared_keys_of(clusters: Mapping[str, ClusterView]) -> list[SharedKey]:
    """Pairs of clusters that share a key, older ones included, by name."""
    owners: dict[str, list[str]] = {}
    for name in sorted(clusters):
        for key in set(plain_keys(clusters[name].keys)):
            owners.setdefault(key, []).append(name)
    pairs = {SharedKey(*pair) for names in owners.values() for pair in combinations(names, 2)}
    return sorted(pairs)


def problem_with_keys(cluster: str, found: list[SharedKey]) -> str:
    """What of it concerns one cluster, '' if nothing."""
    return "; ".join(pair.text for pair in found if cluster in pair)


class UnconfiguredCluster(NamedTuple):
    """A cluster that is not configured: our pods that went there, and delegates here of its pods."""

    cluster: str
    went: int
    came: int

    @property
    def text(self) -> str:
        """What is the matter, and what to do."""
        return (
            f'cluster "{self.cluster}" is not one of this dispatcher\'s, but {self.went} pods '
            "went there and "
            f"{self.came} of its pods run here: nothing is done about them. Put it back into the "
            "configuration, or "
            f"`global-dispatcher cluster leave {self.cluster} --lost` if it never comes back"
        )


def unconfigured_of(
    tracked: Iterable[Tracked], clusters: Collection[str]
) -> list[UnconfiguredCluster]:
    """Clusters that are not among `clusters`, by name, and what there is of them."""
    went: Counter[str] = Counter()
    came: Counter[str] = Counter()
    for one in tracked:
        source = one.source or one.vanished
        target = target_of(one.home, source) if source is not None else ""
        if target and target not in clusters:
            went[target] += 1
        if one.delegates and one.home not in clusters:
            came[one.home] += len(one.delegates)
    return [
        UnconfiguredCluster(name, went[name], came[name])
        for name in sorted(went.keys() | came.keys())
    ]
