"""What fault domains, and the normalising scores that rest on nodes alone, add to the score of each
group of rows.

Normalising needs the set of raw scores of the feasible rows: the groups that hold a feasible row
have them all.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.equivalence.evaluators import PluginEvaluator, finite, weighted
from dispatcher.scheduling.equivalence.partitions import Partition, Partitions
from dispatcher.scheduling.framework import Bools, Codes, Floats, Part, SmallInts
from dispatcher.scheduling.framework.points import PluginError
from dispatcher.scheduling.framework.roles import PluginRole

_MOST_FINALISED = 64
_ONE = np.zeros(1, dtype=np.int64)


class NormalizedColumn(Protocol):
    """Raw scores of few distinct values, one a row: `values[value[row]]` (see `StaticColumn`)."""

    role: PluginRole
    evaluator: PluginEvaluator
    value: SmallInts
    values: list[float]


class GroupScores:
    """What each group adds to the points of its rows, or why it refuses them.

    `codes` [groups]: the first domain filter that refuses the group, else 0. `points` [groups]: the
    weighted scores. `raw`, `normal`: score_at -> [groups]. Points and normal scores hold for the
    groups that `finalise` was told of.
    """

    def __init__(
        self,
        columns: Sequence[NormalizedColumn],
        evaluators: Sequence[PluginEvaluator],
        partitions: Partitions,
    ) -> None:
        self.columns = tuple(columns)
        self.evaluators = tuple(evaluators)
        self._partitions = partitions
        self.partition: Partition | None = None
        self.codes: Codes = np.zeros(1, dtype=np.uint16)
        self.points: Floats = np.zeros(1)
        self.raw: dict[int, Floats] = {}
        self.normal: dict[int, Floats] = {}
        self._filters: list[Sequence[Part]] = [()] * len(self.evaluators)
        self._scores: list[Sequence[Part]] = [()] * len(self.evaluators)
        self._codes: dict[int, NDArray[np.int64]] = {}  # id of an axis -> [groups] its codes
        self._finalised = b""
        self._known: dict[bytes, tuple[Floats, dict[int, Floats]]] = {}

    @property
    def group(self) -> SmallInts:
        """[n] the group of each row."""
        return self._partitions.one_group() if self.partition is None else self.partition.group

    @property
    def size(self) -> int:
        """How many groups there are."""
        return 1 if self.partition is None else self.partition.size

    def ask(self) -> bool:
        """Take the answers by domain. False if there are nearly as many groups as rows, so that this
        does not pay.
        """
        self._finalised = b""
        for at, evaluator in enumerate(self.evaluators):
            self._filters[at] = evaluator.filter_parts()
            self._scores[at] = evaluator.score_parts()
        every = [part for own in (*self._filters, *self._scores) for part in own]
        varied = [column.value for column in self.columns if len(column.values) > 1]
        axes = _distinct(varied, [part.domain for part in every])
        self.partition = self._partitions.of(axes) if axes else None
        if axes and self.partition is None:
            return False
        split = self.partition.axis_codes if self.partition else ()
        self._codes = dict(zip(map(id, axes), split, strict=True))
        self.raw = {}
        for column in self.columns:
            codes = self._codes.get(id(column.value), _ONE)
            self._put(column.role.score_at, np.asarray(column.values or [0.0])[codes])
        self._refuse()
        for evaluator, parts in zip(self.evaluators, self._scores, strict=True):
            self._sum_up(evaluator, parts)
        return True

    def _put(self, at: int | None, raw: Floats) -> None:
        if at is not None:
            self.raw[at] = raw + np.zeros(self.size)

    def _refuse(self) -> None:
        self.codes = np.zeros(self.size, dtype=np.uint16)
        for evaluator, parts in zip(self.evaluators, self._filters, strict=True):
            for part in parts:
                answers = evaluator.answers(part, self._codes[id(part.domain)])
                np.copyto(self.codes, answers, where=self.codes == 0)

    def _sum_up(self, evaluator: PluginEvaluator, parts: Sequence[Part]) -> None:
        at = evaluator.role.score_at
        plugin = evaluator.role.plugin
        if at is None:
            return
        total = np.zeros(self.size)
        for part in parts:
            codes = self._codes.get(id(part.domain))
            if codes is None:
                raise PluginError(
                    plugin.name, "pre_score_domains changed the domains that its parts are about"
                )
            total = total + finite(plugin, evaluator.answers(part, codes))
        self.raw = {**self.raw, at: total}  # others may still read the old scores

    def _pre_score_domains(self, open_: Bools) -> None:
        """Run PreScore by domains, with one feasible row of each open group; it stands for all of
        the group.
        """
        partition = self.partition
        pre_scoring = [
            evaluator
            for evaluator, parts in zip(self.evaluators, self._scores, strict=True)
            if parts and evaluator.pre_scores_domains
        ]
        if partition is None or not pre_scoring or not open_.any():
            return
        rows = np.sort(partition.order[np.asarray(partition.starts)[:-1][open_]])
        for evaluator in pre_scoring:
            evaluator.pre_score_domains(rows)
            self._sum_up(evaluator, evaluator.score_parts())

    def finalise(self, with_rows: Bools) -> Bools:
        """[groups] which take pods; normalise over them. `with_rows`: groups that hold a row which
        row-scoped filters accept.
        """
        open_: Bools = with_rows & (self.codes == 0)
        if self._finalised == (now := open_.tobytes()):
            return open_
        self._finalised = b""  # until all have answered: one may fail
        self._pre_score_domains(open_)
        # Spread returns to the same raw scores every few pods, so results are memoised.
        seen = b"".join([now, *[raw.tobytes() for raw in self.raw.values()]])
        known = self._known.get(seen)
        if known is None:
            self._normalize(open_)
            if len(self._known) >= _MOST_FINALISED:
                self._known.clear()
            known = self._known[seen] = self.points, self.normal
        self.points, self.normal = known
        self._finalised = now
        return open_

    def _normalize(self, open_: Bools) -> None:
        self.points = np.zeros(self.size)
        self.normal = {}
        for evaluator in (*(column.evaluator for column in self.columns), *self.evaluators):
            role = evaluator.role
            if role.score_at is None:
                continue
            normal = self.raw[role.score_at]
            if role.normalizes and open_.any():
                normal = normal.copy()
                normal[open_] = evaluator.normalize(normal[open_])
            self.normal[role.score_at] = normal
            self.points += weighted(normal, role.weight)


def _distinct(*lists: Sequence[SmallInts]) -> list[SmallInts]:
    return list({id(axis): axis for axes in lists for axis in axes}.values())
