"""What a policy can say of rows without being asked about each pod: bounds that hold for all pods.

With them a pod of a class that was never met is decided exactly though few rows are looked at: those that may win, and
those that may be refused. A plugin without bounds is asked about every row, as ever.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from dispatcher.scheduling.framework.fleet_view import FleetView, Floats, Rows
from dispatcher.scheduling.framework.plugin import Filter, S, Score


@dataclass(frozen=True)
class UpperBound:
    """[rows] no score of a pod is higher than `base` - min(`cpu` * C, `most_cpu`) - min(`memory` * M, `most_memory`).

    C and M: milli-CPU and bytes that the pod is expected to use (`requests.least_expected`). All but `base` are
    points, never negative; `cpu` and `memory` per milli-CPU and byte. Rounding may pass it by a millionth.
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
        """For any pod that PreFilter does not skip, as long as the rows stay as they are and the clock is not past
        `until`; None: there is no bound.
        """


class RoomFilter(Filter[S]):
    """A filter by row that lets a pod pass where enough is free, and nowhere else."""

    @abstractmethod
    def wants(self, state: S) -> Sequence[tuple[str, int]] | None:
        """(resource, amount): where all of these are free (allocatable - requested) it refuses nothing, and it refuses
        every other row. None: it may refuse any row.
        """
