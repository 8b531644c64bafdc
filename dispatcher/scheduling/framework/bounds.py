"""What a policy can say of rows without being asked about each pod: bounds that hold for all pods.

With them a pod of a class that was never met is decided exactly though few rows are looked at:
those that may win, and those that may be refused. A plugin without bounds is asked about every row,
as ever.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dispatcher.scheduling.framework.fleet_view import FleetView, Floats, Rows
from dispatcher.scheduling.framework.kernels import kernel
from dispatcher.scheduling.framework.plugin import Filter, S, Score

Fall = tuple[
    Floats, Floats, float
]  # [rows] by what a score falls with a unit more, and at most; and its weight


@dataclass(frozen=True)
class UpperBound:
    """[rows] no score of a pod is higher than `base` - min(`cpu` * C, `most_cpu`) - min(`memory` *
    M, `most_memory`).

    C and M: milli-CPU and bytes that the pod is expected to use (`requests.least_expected`). All
    but `base` are points, never negative; `cpu` and `memory` per milli-CPU and byte. Rounding may
    pass it by a millionth.
    """

    base: Floats
    cpu: Floats
    most_cpu: Floats
    memory: Floats
    most_memory: Floats


class BoundedScore(Score[S]):
    """A score by row, without normalising, that knows how high it may get."""

    @abstractmethod
    def upper_bound(self, fleet: FleetView, rows: Rows, until: float) -> UpperBound | None:
        """For any pod that PreFilter does not skip, as long as the rows stay as they are and the
        clock is not past `until`; None: there is no bound.
        """


class RoomFilter(Filter[S]):
    """A filter by row that lets a pod pass where enough is free, and nowhere else."""

    @abstractmethod
    def wants(self, state: S) -> Sequence[tuple[str, int]] | None:
        """(resource, amount): where all of these are free (allocatable - requested) it refuses
        nothing, and it refuses every other row. None: it may refuse any row.
        """


@kernel("floats floats float out out")
def _add(fall, most, weight, slope, end):  # type: ignore[no-untyped-def]
    """One bound more (see `fall_together`)."""
    for row in range(len(slope)):
        if fall[row] > 0.0:
            slope[row] += fall[row] * weight
            end[row] = min(end[row], most[row] / fall[row])


def fall_together(falls: Sequence[Fall], rows: int) -> tuple[Floats, Floats]:
    """[rows] by what several bounds fall together, and at most: until the first of them has come to
    its end.

    One that falls by 2 a CPU, at most 10 in all, and one by 1, at most 3: by 3 a CPU, at most 9,
    that is for 3 CPUs.
    """
    slope = np.zeros(rows)
    end = np.full(rows, np.inf)
    for fall, most, weight in falls:
        if _add.fast is not None:
            _add.fast(fall, most, weight, slope, end)
            continue
        slope += fall * weight
        np.minimum(
            end, np.divide(most, fall, out=np.full(len(end), np.inf), where=fall > 0.0), out=end
        )
    return slope, np.multiply(slope, end, out=np.zeros(len(end)), where=slope > 0.0)
