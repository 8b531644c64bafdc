"""What the records of all decisions of a batch have in common, however the batch was decided."""

from typing import Generic, Protocol, TypeVar

import msgspec

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.row import FactSheet
from dispatcher.scheduling.records.decision_record import Explainers


class BatchContext(Protocol):
    """What a batch keeps for its records. `sheet`: the rows as they were before its first pod came."""

    @property
    def fleet(self) -> FleetState:
        """The fleet it is about."""
        ...

    @property
    def row_explainers(self) -> Explainers:
        """See `RowRecord`."""
        ...

    @property
    def sheet(self) -> FactSheet:
        """The rows as they were."""
        ...


B = TypeVar("B", bound=BatchContext)


class BatchRecord(msgspec.Struct, Generic[B], gc=False, eq=False, frozen=True):
    """A decision out of many: put together from what its batch keeps when somebody asks (see `DecisionRecord`)."""

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
