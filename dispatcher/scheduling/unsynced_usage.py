"""Quota usage of clusters that have not synced since this process started: as persisted earlier, or
unknown.

A pod is charged once its cluster of submission has shown it. Until then its tenant uses more than
is seen; so what was charged last for pods of that cluster counts, as far as it is not seen
elsewhere (as delegates), and where nothing is remembered the tenant waits. Amounts are internal
units.
"""

from collections.abc import Mapping, Sequence

from dispatcher.scheduling.framework import ClusterInfo
from shared.model.resources import Resources

PersistedUsage = Mapping[
    str, Mapping[str, Mapping[str, int]]
]  # cluster of submission -> tenant -> resource -> amount
_NOTHING: Mapping[str, int] = {}


class UnsyncedUsage:
    """Charges by cluster of submission. `remembered`: as of the end of the last life, at least;
    None: nothing is.

    A cluster that is missing there is unknown, and so are its charges. `wait`: tenants wait for the
    unknown; else it counts as nothing. `raised`: (tenant, cluster) charged more since somebody
    emptied it. `version` grows when `unseen` may have changed.
    """

    def __init__(self, remembered: PersistedUsage | None = None, *, wait: bool = True) -> None:
        self.remembered: PersistedUsage = remembered or {}
        self._wait = wait
        self._charged: dict[tuple[str, str], Resources] = {}
        self._names: list[str] = []
        self._silent: dict[str, int] = {}  # never synced in this life -> index in the fleet
        self.raised: set[tuple[str, str]] = set()
        self.version = 0

    def begin(self, remembered: PersistedUsage | None, *, wait: bool) -> None:
        """A leader term begins: as if no cluster had been heard. What is charged stays so."""
        self.remembered = remembered or {}
        self._wait = wait
        self._names = []
        self._silent = {}
        self.version += 1

    def forget(self) -> None:
        """What is remembered means nothing any more: clusters that are not heard are unknown."""
        self.remembered = {}
        self.version += 1

    def note(self, tenant: str, home: str, amounts: Mapping[str, int], sign: int) -> None:
        """A pod of `home` is charged (1), or its charge given back (-1)."""
        held = self._charged.setdefault((tenant, home), {})
        for resource, amount in amounts.items():
            left = held.get(resource, 0) + sign * amount
            if left:
                held[resource] = left
            else:
                held.pop(resource, None)  # pods that are gone may have called it anything
        if sign > 0:
            self.raised.add((tenant, home))
        if home in self._silent:
            self.version += 1

    def refresh(self, clusters: Sequence[ClusterInfo]) -> None:
        """Learn which clusters have been heard; a cluster keeps its place in `clusters` for ever."""
        for at in range(len(self._names), len(clusters)):
            self._names.append(clusters[at].name)
            self._silent[clusters[at].name] = at
            self.version += 1
        if self._silent:
            for name in [name for name, at in self._silent.items() if clusters[at].synced]:
                del self._silent[name]
                self.version += 1

    def unknown(self) -> str:
        """A cluster of which nothing is known that a tenant has to wait for, '' if there is none."""
        if not (self._wait and self._silent):
            return ""
        return min((name for name in self._silent if name not in self.remembered), default="")

    def unseen(self, tenant: str) -> Resources:
        """What a tenant is charged beside what is seen."""
        more: Resources = {}
        for home in self._silent:
            seen = self._charged.get((tenant, home), _NOTHING)
            for resource, amount in self.remembered.get(home, {}).get(tenant, _NOTHING).items():
                if amount > seen.get(resource, 0):
                    more[resource] = more.get(resource, 0) + amount - seen.get(resource, 0)
        return more

    def charged(self, tenant: str, home: str) -> Mapping[str, int]:
        """What is charged now for pods of one cluster, as far as it is seen; no zeros."""
        return self._charged.get((tenant, home), _NOTHING)

    @property
    def silent(self) -> Sequence[str]:
        """Clusters that have not been heard since the start."""
        return sorted(self._silent)

    def known(self) -> dict[str, dict[str, Resources]]:
        """All that the next life should remember: of clusters not heard, what was remembered (or
        more, if seen).
        """
        usage: dict[str, dict[str, Resources]] = {}
        for home in self._silent:
            if home in self.remembered:
                usage[home] = {
                    tenant: dict(amounts) for tenant, amounts in self.remembered[home].items()
                }
        usage |= {home: {} for home in self._names if home not in self._silent}
        for (tenant, home), amounts in self._charged.items():
            if home in usage:
                kept = usage[home].setdefault(tenant, {})
                kept |= {
                    name: max(kept.get(name, 0), amount)
                    for name, amount in amounts.items()
                    if amount
                }
        return usage
