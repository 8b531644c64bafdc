"""What a policy by fault domains makes of counts of pods, stated as rules that the cycle can
evaluate by itself.

A policy that states its rules is asked once for a whole batch of equal pods: one more pod changes a
few counts alone. The rules give every row what the policy's own methods give it, bit for bit, also
as pods of the class are placed.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from dispatcher.scheduling.framework.fleet_view import Bools, Floats, Ints, SmallInts
from dispatcher.scheduling.framework.kernels import kernel
from dispatcher.scheduling.framework.plugin import MAX_SCORE


class Scale(enum.IntEnum):
    """How the raw scores of the feasible rows become 0..100; `CountedPlugin.normalize` says the
    same.
    """

    AS_IS = 0
    # floor(100 * (raw - least) / (most - least)), 0 if all are equal: as InterPodAffinity scores
    RANGE = 1
    # floor(100 * (largest + least - cost) / largest) of cost = floor(0.5 - (raw - base)), 100 if
    # all cost nothing, 0 where void: as PodTopologySpread scores
    COST = 2


# for what is compiled
RANGE: Final = int(Scale.RANGE)
COST: Final = int(Scale.COST)


def on_scale(scale: Any, raw: Any, least: Any, most: Any, base: Any, void: Any) -> Any:
    """One raw score as points, as `Scale` says; compiled into whatever judges groups of rows.
    `least`, `most`: of the raw scores, or (COST) of the costs.
    """
    if scale == RANGE:
        return np.floor(MAX_SCORE * ((raw - least) / (most - least) if most > least else 0.0))
    if scale == COST:
        if not raw > void:
            return 0.0
        cost = np.floor(0.5 - (raw - base))
        return np.floor(MAX_SCORE * (most + least - cost) / most) if most > 0.0 else MAX_SCORE
    return raw


@dataclass(frozen=True, eq=False)
class RuleCount:
    """Pods by fault domain: `domain` [n] code of each row, -1 unknown; `counts` [domains], an array
    of its own or a window on that of the fleet, whose numbers go on to change.

    `more`: what one more pod of the class adds in its row's domain. `counted` [n]: 1 on rows whose
    pods count, 0 on others; None: all do. `by_host`: every row is a domain of its own, and its code
    is the row.
    """

    domain: SmallInts
    counts: Ints
    more: int
    by_host: bool
    counted: SmallInts | None = None


@kernel("ints bools int int")
def _find_least(counts, present, first, last):  # type: ignore[no-untyped-def]
    """See `least_count`."""
    least = np.iinfo(np.int64).max
    for domain in range(first, last):
        if present[domain] and counts[domain] < least:
            least = counts[domain]
            if least <= 0:
                break
    return least


def least_count(counts: Ints, present: Bools, first: int, last: int) -> int:
    """The least of the counts of the `present` domains, none of which is before `first` or after
    `last`. IndexError where counts are not of these domains.
    """
    if len(counts) != len(present):
        raise IndexError(f"{len(counts)} counts of {len(present)} domains")
    if _find_least.fast is not None:
        columns = np.ascontiguousarray(counts), np.ascontiguousarray(present)
        return int(_find_least.fast(*columns, first, last))
    return int(counts[present].min(initial=np.iinfo(np.int64).max))


@dataclass(frozen=True, eq=False)
class MaxCount:
    """Refuses, with reason `code`, domains that hold more than `most` pods already, without the one
    that is asked about: 0 is one pod a domain. With `elsewhere` rows without a domain.

    `present` [domains]: the least count of these is added to `most`, as maxSkew is counted from the
    emptiest domain; None, or none of them: nothing is. By host they are those whose pods count.
    """

    domain_count: RuleCount
    most: int
    code: int
    elsewhere: int = 0
    present: Bools | None = None

    def __post_init__(self) -> None:
        if self.present is not None and not np.any(self.present):
            object.__setattr__(self, "present", None)

    @property
    def limit(self) -> int:
        """How many pods a domain may hold now."""
        if self.present is None:
            return self.most
        counts = self.domain_count.counts
        return self.most + least_count(counts, self.present, 0, len(self.present))


@dataclass(frozen=True, eq=False)
class RequiredCount:
    """Refuses, with reason `code`, domains that hold no pod, and rows without a domain."""

    domain_count: RuleCount
    code: int


@dataclass(frozen=True, eq=False)
class ScoreTerm:
    """A term of the raw score: factor * count + offset, `elsewhere` on rows without a domain.

    `table` [domains]: what the domain gets instead, whatever its count; `constant` makes such terms.
    ValueError for a table beside a factor, or by host.
    """

    domain_count: RuleCount
    factor: float
    offset: float = 0.0
    elsewhere: float = 0.0
    table: Floats | None = None

    def __post_init__(self) -> None:
        if self.table is not None and (self.factor or self.domain_count.by_host):
            raise ValueError("a term by a table has no factor, and no count by host: use constant")


def constant(domain: SmallInts, table: Floats) -> ScoreTerm:
    """A term that no pod moves: `table` by `domain` code, 0 on rows without a domain."""
    return ScoreTerm(_uncounted(domain, np.zeros(len(table), dtype=np.int64)), 0.0, table=table)


def closed_domains(domain: SmallInts, closed: Bools, code: int) -> MaxCount:
    """Refuses the `closed` domains [domains], whatever pods come."""
    return MaxCount(_uncounted(domain, closed.astype(np.int64)), 0, code)


def _uncounted(domain: SmallInts, counts: Ints) -> RuleCount:
    return RuleCount(domain, counts, more=0, by_host=False)


@dataclass(frozen=True, eq=False)
class CountRules:
    """All a policy says. `refusals`: the first that refuses a row is its reason. Raw score: `base`
    + `score_terms`.

    `lasting`: they go on to hold as pods of the class come; else these are decided one by one.
    `first_pod_exempt`: while all RequiredCounts are zero everywhere, rows that have the domain are
    not refused (the first pod of a set that is affine to itself).

    `sized`: each factor is times ln(domains + 2), as PodTopologySpread weighs keys, where domains
    are those with feasible rows; rows without a domain together count as one more. With
    `needs_all_domains` only rows count that have every domain of the score terms. `void`, with
    Scale.COST: raw scores up to it are worth nothing.
    """

    refusals: Sequence[MaxCount | RequiredCount] = ()
    first_pod_exempt: bool = False
    score_terms: Sequence[ScoreTerm] = ()
    base: float = 0.0
    sized: bool = False
    needs_all_domains: bool = False
    void: float = float("-inf")
    scale: Scale = Scale.AS_IS
    lasting: bool = True

    @property
    def is_exempt(self) -> bool:
        """Whether a RequiredCount refuses no domain now: the pod is the first of its kind."""
        return self.first_pod_exempt and not any(
            isinstance(one, RequiredCount) and one.domain_count.counts.any()
            for one in self.refusals
        )


class Logarithms:
    """ln(size + 2) for sizes from 0 up, the very same numbers for whoever asks."""

    def __init__(self) -> None:
        self._known: Floats = np.log(np.arange(64) + 2.0)

    def up_to(self, size: int) -> Floats:
        """Those of sizes 0 to `size`, and perhaps more."""
        have = len(self._known)
        if size >= have:
            more = np.log(np.arange(have, size + 1 + size // 8) + 2.0)  # of many hosts few are new
            self._known = np.concatenate([self._known, more])
        return self._known


LN = Logarithms()
