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

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from msgspec import Meta

from dispatcher.scheduling.framework import (
    MAX_SCORE,
    SKIP,
    DomainPlugin,
    FleetView,
    Floats,
    Ints,
    Part,
    PodInfo,
    Refuse,
    Skip,
)
from dispatcher.scheduling.framework.plugin_args import Args, read_by
from dispatcher.scheduling.rules.datasets import DATASETS, Datasets
from dispatcher.scheduling.rules.named_places import CLUSTER_KEY, clusters_with, near_key, near_of
from dispatcher.scheduling.rules.nearness import filled, least_known
from shared.model import names, nearness

_ANY = "*"
_MOST_PRICE = 1e6


class WrittenPrice(
    msgspec.Struct, forbid_unknown_fields=True, rename={"source": "from", "target": "to"}
):
    """A row in a profile: what a GiB from one cluster to another costs."""

    source: Annotated[str, Meta(min_length=1)]
    target: Annotated[str, Meta(min_length=1)]
    per_gib: Annotated[float, Meta(ge=0, le=_MOST_PRICE)]


Price = tuple[str, str, float]  # from, to, a GiB


def read_prices(raw: object) -> tuple[Price, ...]:
    """[{from: east, to: west, per_gib: 0.02}, ...]."""
    try:
        rows = msgspec.convert(raw, list[WrittenPrice])
    except msgspec.ValidationError as error:
        raise ValueError(f"must be a list of {{from, to, per_gib}}: {error}") from None
    return tuple((row.source, row.target, row.per_gib) for row in rows)


@dataclass(frozen=True)
class _State:
    """`there`: [clusters] how many of the named pods, or 1 for a cluster that has what is named.
    `price`: [clusters] of bytes from there, NaN unknown. `points`: [clusters].
    """

    what: str
    there: Ints
    price: Floats
    points: Floats


class EgressArgs(Args):
    """What bytes between clusters cost."""

    prices: Annotated[
        tuple[Price, ...],
        Meta(
            description="rows {from, to, per_gib}: names of clusters or *; the first that means a "
            "pair holds",
            extra=read_by(read_prices, list[WrittenPrice]),
        ),
    ] = ()
    datasets: Annotated[
        Datasets, Meta(description="name of data: clusters that have it", extra=DATASETS)
    ] = ()


class EgressPrice(DomainPlugin[_State]):
    """Prefers clusters where the pod's traffic costs less."""

    name: ClassVar[str] = "EgressPrice"
    keyed_by_template = True

    def __init__(self, prices: tuple[Price, ...], datasets: Datasets) -> None:
        self._prices = prices
        self._datasets = dict(datasets)
        self._most = max((price for _, _, price in prices), default=0.0)
        # names of the clusters, and [from, to]
        self._known: tuple[tuple[str, ...], Floats] | None = None

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """What is named."""
        near = near_of(pod_info.pod)
        data = _data_of(pod_info)
        return None if near is None and data is None else (near_key(near, pod_info), data)

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> _State | Refuse | Skip:
        """Prices of each cluster; SKIP for a pod that names nothing, or without any price above 0."""
        near = near_of(pod_info.pod)
        data = _data_of(pod_info)
        if self._most <= 0.0 or (near is None and data is None):
            return SKIP
        if near is not None:
            what = str(near)
            there = clusters_with(near, pod_info, fleet)
            by_pods = near.kind == nearness.SERVICE
        else:
            where = self._datasets.get(data or "", ())
            by_pods = False
            what = f"data {data}"
            there = np.fromiter((info.name in where for info in fleet.clusters), dtype=np.int64)
        if not there.any():
            return _State(what, there, np.full(len(there), np.nan), np.zeros(len(there)))
        price = self._to_each(there, fleet, by_pods=by_pods)
        return _State(what, there, price, filled(MAX_SCORE * (1.0 - price / self._most), there > 0))

    def _between_all(self, clusters: tuple[str, ...]) -> Floats:
        """[from, to] prices; looked up once while the clusters are the same."""
        if self._known is None or self._known[0] != clusters:
            self._known = (
                clusters,
                np.array([[self._price(one, other) for other in clusters] for one in clusters]),
            )
        return self._known[1]

    def _to_each(self, there: Ints, fleet: FleetView, *, by_pods: bool) -> Floats:
        sources = np.flatnonzero(there).tolist()
        table = self._between_all(tuple(info.name for info in fleet.clusters))[sources].T
        if by_pods:
            weights = there[sources] / there[sources].sum()
            mean: Floats = table @ weights
            return mean
        return least_known(table)

    def _price(self, source: str, target: str) -> float:
        if source == target:
            return 0.0
        rows = (
            price
            for one, other, price in self._prices
            if one in (source, _ANY) and other in (target, _ANY)
        )
        return next(rows, np.nan)

    def score_parts(self, state: _State, fleet: FleetView) -> Sequence[Part]:
        """By cluster."""
        return (Part(fleet.topology.domain(CLUSTER_KEY), np.append(state.points, 0.0)),)

    def explain(
        self, state: _State, pod_info: PodInfo, fleet: FleetView, row: int
    ) -> Mapping[str, Any]:
        """What is named, and what a GiB from there costs."""
        if not state.there.any():
            return {"from": state.what, "found": "nowhere"}
        price = float(state.price[int(fleet.nodes.cluster[row])])
        return {"from": state.what, "per_gib": "unknown" if np.isnan(price) else round(price, 6)}


def _data_of(pod_info: PodInfo) -> str | None:
    told = pod_info.pod.annotations
    return told.get(names.DATA, told.get(names.REQUIRE_DATA))
