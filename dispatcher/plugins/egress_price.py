"""Better are clusters to which bytes from what the pod names cost less.

What it names is as for Nearness (`global-dispatcher.io/near`) and DataLocality (`data`,
`require-data`; where data is says `datasets` here, too). Bytes are taken to flow from there to the
pod, as answers and data mostly do.

    price(c) = the least price from a cluster that has what is named to c, 0 within one cluster
               (of a service: the mean over its pods)
    score    = 100 * (1 - price(c) / the highest price of the table)

The first row of `prices` that means both clusters holds; `*` means any. A pair that no row means is
unknown, neither cheap nor dear: such a cluster gets the mean of those other clusters of which the
price is known, or 50. Unit: one currency a GiB, the same in all rows. Source: linear in what is
paid; ours.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from msgspec import Meta

from dispatcher.scheduling.framework import MAX_SCORE, Bools, FleetView, Floats, Ints, PodInfo
from dispatcher.scheduling.framework.plugin_args import Args
from dispatcher.scheduling.rules.datasets import DATASETS, Datasets
from dispatcher.scheduling.rules.named_places import (
    CLUSTER_KEY,
    DATA,
    PlacePlugin,
    Places,
    data_of,
    near_of,
)
from dispatcher.scheduling.rules.nearness import filled, least_known
from shared.model import names
from shared.model.nearness import SERVICE, Near
from shared.model.pod import Pod


class Price(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    rename={"source": "from", "target": "to"},
):
    """What a GiB from one cluster to another costs."""

    source: Annotated[str, Meta(min_length=1)]
    target: Annotated[str, Meta(min_length=1)]
    per_gib: Annotated[float, Meta(ge=0, le=1e6)]


class EgressArgs(Args):
    """What bytes between clusters cost."""

    prices: Annotated[
        tuple[Price, ...],
        Meta(
            description="rows {from, to, per_gib}: names of clusters or *; the first that means a "
            "pair holds"
        ),
    ] = ()
    datasets: Annotated[
        Datasets, Meta(description="name of data: clusters that have it", extra=DATASETS)
    ] = ()


class EgressPrice(PlacePlugin):
    """Prefers clusters where the pod's traffic costs less."""

    name: ClassVar[str] = "EgressPrice"
    reads = (names.NEAR, names.DATA, names.REQUIRE_DATA)

    def __init__(self, prices: tuple[Price, ...], datasets: Datasets) -> None:
        self._prices = prices
        self.datasets = dict(datasets)
        self._most = max((one.per_gib for one in prices), default=0.0)
        self._between = lru_cache(maxsize=1)(self._table)

    def named(self, pod: Pod) -> Near | None:
        """What it is near to, or else data; nothing without any price above 0."""
        return (near_of(pod) or data_of(pod)) if self._most > 0.0 else None

    def costs(
        self, near: Near, there: Ints, pod_info: PodInfo, fleet: FleetView
    ) -> Mapping[str, Floats]:
        """The price of a GiB to each cluster, NaN where it is unknown."""
        sources = np.flatnonzero(there)
        table = self._between(tuple(info.name for info in fleet.clusters))[sources].T
        if near.kind == SERVICE:
            return {CLUSTER_KEY: table @ (there[sources] / there[sources].sum())}
        return {CLUSTER_KEY: least_known(table)}

    def _table(self, clusters: tuple[str, ...]) -> Floats:
        """[from, to] prices."""
        table = np.full((len(clusters), len(clusters)), np.nan)
        for one in reversed(self._prices):
            table[np.ix_(_meant(one.source, clusters), _meant(one.target, clusters))] = one.per_gib
        np.fill_diagonal(table, 0.0)
        return table

    def points(self, costs: Mapping[str, Floats], there: Ints) -> Mapping[str, Floats]:
        """What is saved of the highest price."""
        saved = MAX_SCORE * (1.0 - costs[CLUSTER_KEY] / self._most)
        return {CLUSTER_KEY: filled(saved, there > 0)}

    def explain(
        self, state: Places, pod_info: PodInfo, fleet: FleetView, row: int
    ) -> Mapping[str, Any]:
        """What is named, and what a GiB from there costs."""
        what = f"data {state.near.name}" if state.near.kind == DATA else str(state.near)
        if not state.there.any():
            return {"from": what, "found": "nowhere"}
        price = float(state.costs[CLUSTER_KEY][fleet.nodes.cluster[row]])
        return {"from": what, "per_gib": "unknown" if np.isnan(price) else round(price, 6)}


def _meant(name: str, clusters: tuple[str, ...]) -> Bools:
    return np.fromiter((name in (one, "*") for one in clusters), dtype=np.bool_)
