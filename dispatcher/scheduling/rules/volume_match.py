"""Which persistent volumes a claim without one may be bound to: the order of preference, before
nodes are looked at.

Source: k8s.io/component-helpers/storage/volume, FindMatchingVolume, as kube-scheduler calls it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from shared.model.labels import IN
from shared.model.objects import PersistentVolume, PersistentVolumeClaim

AVAILABLE = "Available"


@dataclass(frozen=True)
class Candidates:
    """Volumes for one claim, best first; a volume that is kept for the claim leaves no choice."""

    volumes: tuple[PersistentVolume, ...]

    @cached_property
    def by_label(self) -> tuple[dict[str, dict[str, int]], list[int]]:
        """label -> value -> the first volume that is tied to it; and those that say more than that,
        or nothing.
        """
        tied: dict[str, dict[str, int]] = {}
        rest: list[int] = []
        for index, volume in enumerate(self.volumes):
            terms = volume.node_affinity or ()
            clauses = (
                terms[0].match_expressions if len(terms) == 1 and not terms[0].match_fields else ()
            )
            if len(clauses) == 1 and clauses[0].operator == IN and clauses[0].readable:
                by_value = tied.setdefault(clauses[0].key, {})
                for value in clauses[0].values:
                    by_value.setdefault(value, index)
            else:
                rest.append(index)
        return tied, rest


def is_kept_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume's claimRef is this claim; without a UID there, the name decides."""
    return volume.claim == claim.key and volume.claim_uid in ("", claim.uid)


@dataclass(frozen=True)
class VolumesFor:
    """The volumes of a cluster that a claim may get: `free` by storage class, `kept` by the claim
    that they name.
    """

    free: Mapping[str, Sequence[PersistentVolume]]
    kept: Mapping[str, Sequence[PersistentVolume]]

    def worth_a_look(self, claim: PersistentVolumeClaim) -> Iterator[PersistentVolume]:
        """Among these are all that `candidates` finds."""
        return chain(self.kept.get(claim.key, ()), self.free.get(claim.storage_class or "", ()))


def volumes_for(volumes: Mapping[str, PersistentVolume]) -> VolumesFor:
    """By whom they may be used."""
    free: dict[str, list[PersistentVolume]] = {}
    kept: dict[str, list[PersistentVolume]] = {}
    for volume in volumes.values():
        if volume.claim:
            kept.setdefault(volume.claim, []).append(volume)
        elif volume.phase == AVAILABLE:
            free.setdefault(volume.storage_class, []).append(volume)
    return VolumesFor(free, kept)


def candidates(claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume]) -> Candidates:
    """The volumes of its class that would do, smallest first, equal ones by name."""
    wanted = [
        volume
        for volume in volumes
        if volume.storage_class == (claim.storage_class or "") and _could(volume, claim)
    ]
    kept = [volume for volume in wanted if is_kept_for(volume, claim)]
    if kept:
        return Candidates((min(kept, key=lambda volume: volume.name),))
    free = (volume for volume in wanted if _suits(volume, claim))
    return Candidates(tuple(sorted(free, key=lambda volume: (volume.capacity, volume.name))))


def _could(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """What even a volume that is kept for the claim must be."""
    return (
        (not volume.claim or is_kept_for(volume, claim))
        and volume.capacity >= claim.request
        and volume.block == claim.block
        and volume.attributes_class == claim.attributes_class
        and not volume.terminating
    )


def _suits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return (
        volume.phase == AVAILABLE
        and set(claim.access_modes) <= set(volume.access_modes)
        and (claim.selector is None or claim.selector.matches(volume.labels))
    )
