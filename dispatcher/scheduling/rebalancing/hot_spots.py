"""Which nodes are hot spots: above one threshold at look after look, until they are below another.

One look above the threshold says little: a node that swings is above it for a moment and below it
again without help. Koordinator's LowNodeLoad waits for consecutive abnormal looks for that reason,
and so does this.
"""

from dataclasses import dataclass

import numpy as np

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Floats
from dispatcher.scheduling.rebalancing.rules import RebalancingRules

Place = tuple[str, str]  # cluster, node


@dataclass(frozen=True, slots=True)
class HotSpot:
    """A node, the signal of which it has most, how much (0..1), and since when it has been above
    the threshold.
    """

    place: Place
    row: int
    signal: str
    utilisation: float
    since: float


def highest(fleet: FleetState, spot: HotSpot) -> float:
    """The mean of a hot spot or its last reading, whichever is more: means lag by minutes."""
    column = fleet.signal_axis.column(spot.signal)
    return max(spot.utilisation, float(fleet.used[column, spot.row]) if column is not None else 0.0)


class HotSpots:
    """What was seen at earlier looks, by node."""

    def __init__(self, rules: RebalancingRules) -> None:
        self._rules = rules
        self._above: dict[Place, float] = {}  # since when
        self._hot: dict[Place, float] = {}

    def look(self, fleet: FleetState, carried: Floats) -> list[HotSpot]:
        """Hot spots by what nodes carry ([signals, n]) now, the hottest first. What is unknown is
        never hot.
        """
        rules = self._rules
        most = np.nan_to_num(carried, nan=-np.inf).max(axis=0, initial=-np.inf)
        above = [fleet.name_of(row) for row in np.flatnonzero(most > rules.hot).tolist()]
        self._above = {place: self._above.get(place, fleet.now) for place in above}
        lasting = {
            place: since for place, since in self._above.items() if fleet.now - since >= rules.hot_s
        }
        warm = {
            place: since
            for place, since in self._hot.items()
            if self._most(fleet, most, place) >= rules.cool
        }
        self._hot = lasting | warm
        found = [self._spot(fleet, carried, place) for place in self._hot]
        return sorted(found, key=lambda one: (-one.utilisation, one.place))

    def _most(self, fleet: FleetState, most: Floats, place: Place) -> float:
        row = fleet.row_of(*place)
        return float(most[row]) if row is not None else -np.inf

    def _spot(self, fleet: FleetState, carried: Floats, place: Place) -> HotSpot:
        row = fleet.row_of(*place)
        if row is None:
            raise LookupError(f"{place} is no node any more")
        at = int(np.nanargmax(carried[:, row]))
        return HotSpot(
            place, row, self._rules.signals[at], float(carried[at, row]), self._hot[place]
        )
