"""Better are nodes on which the pod costs less.

    cost  = price of the node * the pod's share of it: the larger of CPU and memory, at least of 100m and 200 MiB
    score = 100 * the least cost of a feasible node / cost; so twice as dear is half as good

The price is that of the node's value of a label (`prices`) times the factor of its cluster
(`clusters`). A node without a price is neither cheap nor dear: it gets the mean of the different
scores of others. Where no node has a price, all get 100. Unit: one currency an hour, the same in
all rows. Source: cost by the larger share as OpenCost allocates a node's cost to pods; that scores
are ratios is ours.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta

from dispatcher.scheduling.framework import (
    MAX_SCORE,
    SKIP,
    Depends,
    FleetView,
    Floats,
    PodInfo,
    Refuse,
    Rows,
    Score,
    Skip,
)
from dispatcher.scheduling.framework.coded_values import ByCode
from dispatcher.scheduling.framework.plugin_args import LABEL_KEY, Args
from dispatcher.scheduling.rules.requests import nonzero_request
from shared.model.resources import CPU, MEMORY

_UNPRICED = 1.0  # raw score of a node without a price; those with one have minus their cost


class PriceArgs(Args):
    """What nodes cost."""

    label: Annotated[
        str, Meta(description="node label whose values have prices", extra=LABEL_KEY)
    ] = "node.kubernetes.io/instance-type"
    prices: Annotated[
        dict[str, Annotated[float, Meta(ge=1e-6, le=1e6)]],
        Meta(description="value of the label: price of a whole node an hour"),
    ] = {}
    clusters: Annotated[
        dict[str, Annotated[float, Meta(ge=1e-3, le=1e3)]],
        Meta(description="name of a cluster: factor on its prices, else 1"),
    ] = {}


@dataclass(frozen=True)
class _Asked:
    """`factors`: [clusters]."""

    cpu: int
    memory: int
    factors: Floats


class NodePrice(Score[_Asked]):
    """Prefers nodes on which the pod costs less."""

    name: ClassVar[str] = "NodePrice"
    keyed_by_template = True
    depends: ClassVar[Depends] = Depends.STATIC

    def __init__(
        self, label: str, prices: Mapping[str, float], clusters: Mapping[str, float]
    ) -> None:
        self._label = label
        self._prices = prices
        self._factors = clusters
        self._by_code = ByCode[str](
            lambda value: self._prices.get(value, np.nan), np.float64, np.nan
        )

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """What the pod is taken to use."""
        return nonzero_request(pod_info.pod) if self._prices else None

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> _Asked | Refuse | Skip:
        """What it is taken to use, and factors; SKIP where nothing has a price."""
        if not self._prices:
            return SKIP
        factors = [self._factors.get(info.name, 1.0) for info in fleet.clusters]
        return _Asked(*nonzero_request(pod_info.pod), np.array(factors))

    def score(self, state: _Asked, fleet: FleetView, rows: Rows) -> Floats:
        """Minus the cost; _UNPRICED where it is unknown."""
        nodes = fleet.nodes
        prices = self._by_code.of(nodes.label_values(self._label))
        price = prices[nodes.label(self._label)[rows]] * state.factors[nodes.cluster[rows]]
        cost = price * np.maximum(
            _share(CPU, state.cpu, fleet, rows), _share(MEMORY, state.memory, fleet, rows)
        )
        raw: Floats = np.where(np.isnan(cost), _UNPRICED, -cost)
        return raw

    def normalize(self, raw: Floats) -> Floats:
        """The cheapest over each; the mean of the different ones for what has no price."""
        priced = raw <= 0.0
        if not priced.any():
            return np.full(len(raw), MAX_SCORE)
        cost = np.where(priced, -raw, 1.0)
        found = MAX_SCORE * (cost[priced].min() / cost)
        scores: Floats = np.where(priced, found, np.unique(found[priced]).mean())
        return scores

    def explain(
        self, state: _Asked, pod_info: PodInfo, fleet: FleetView, row: int
    ) -> Mapping[str, Any]:
        """What the pod costs there an hour."""
        raw = float(self.score(state, fleet, slice(row, row + 1))[0])
        return {"cost_per_hour": "unknown" if raw == _UNPRICED else round(-raw, 9)}


def _share(resource: str, amount: int, fleet: FleetView, rows: Rows) -> Floats:
    """[rows] of each node's allocatable; NaN where it has none."""
    column = fleet.axis.column(resource)
    has = np.asarray(fleet.nodes.allocatable[column][rows], dtype=np.float64)
    share: Floats = np.divide(amount, has, out=np.full(len(has), np.nan), where=has > 0)
    return share
