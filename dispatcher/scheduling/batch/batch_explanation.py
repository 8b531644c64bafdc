"""What the records of all decisions of a batch have in common, however the batch was decided."""

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import msgspec
import numpy as np

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.row import FactSheet
from dispatcher.scheduling.framework import Floats
from dispatcher.scheduling.records.decision_record import Explainers


class BatchContext(Protocol):
    """What a batch keeps for its records. `sheet`: the rows as they were before its first pod came."""

    @property
    def fleet(self) -> FleetState:
        """The fleet it is about."""
        ...

    @property
    def row_explainers(self) -> Explainers:
        """See `RowExplanation`."""
        ...

    @property
    def sheet(self) -> FactSheet:
        """The rows as they were."""
        ...


def gathered(cells: Sequence[tuple[Floats, int]]) -> Floats:
    """[scores, pods] each pod's column of a matrix [scores, rows]."""
    found = np.empty((len(cells[0][0]), len(cells)))
    of_matrix: dict[int, list[int]] = {}
    for at, (matrix, _) in enumerate(cells):
        ats = of_matrix.get(id(matrix))
        if ats is None:
            of_matrix[id(matrix)] = [at]
        else:
            ats.append(at)
    for ats in of_matrix.values():
        found[:, ats] = cells[ats[0]][0][:, [cells[at][1] for at in ats]]
    return found


B = TypeVar("B", bound=BatchContext)


class BatchExplanation(msgspec.Struct, Generic[B], gc=False, eq=False, frozen=True):
    """A decision out of many: put together from what its batch keeps when somebody asks (see
    `DecisionRecord`).
    """

    batch: B

    @property
    def time(self) -> float:
        """When it was taken."""
        return self.batch.sheet.now

    @property
    def fleet(self) -> FleetState:
        """The fleet it is about."""
        return self.batch.fleet

    @property
    def row_explainers(self) -> Explainers:
        """Plugins that explain it from the chosen row alone."""
        return self.batch.row_explainers
