"""Which nodes are hot, with hysteresis: brought up to date where samples are taken, and as readings
grow old.

Hot and no more hot lie apart (`HotRule.enter`, `leave`), and the mean decides: by one threshold on
the last reading nodes would take turns in being refused. `hot_since` holds, by rule and row, the
time of the sample that made the node hot; NaN: it is not. The mask of a row has a bit for each rule
by which it is shown as hot.
"""

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.fleet.columns import RowStore
from dispatcher.scheduling.fleet.nodes import NodeTable
from dispatcher.scheduling.framework import Bools, Floats, SmallInts
from dispatcher.scheduling.framework.derived import HotRule

MAX_RULES = 31  # bits of the mask


def updated_mask(
    fleet: NodeTable, store: RowStore, rules: tuple[HotRule, ...], now: float
) -> SmallInts:
    """[n] the mask as of `now`; writes `hot_since`."""
    mask = np.zeros(fleet.n, dtype=np.int32)
    takes = fleet.live & fleet.ready & ~fleet.unschedulable
    for at, rule in enumerate(rules[:MAX_RULES]):
        since = _since(fleet, rule, store.hot_since[at, : fleet.n], now)
        store.hot_since[at, : fleet.n] = since
        hot = ~np.isnan(since)
        if hot.any():
            mask |= _shown(fleet.cluster, hot, takes, rule.most).astype(np.int32) << at
    return mask


def _since(fleet: NodeTable, rule: HotRule, since: Floats, now: float) -> Floats:
    """[n] `hot_since` of one rule with the readings as they are."""
    column = fleet.signal_axis.column(rule.signal)
    if column is None or column >= len(fleet.used):
        return np.full(fleet.n, np.nan)
    mean = fleet.used_mean[column]
    used = fleet.used[column]
    sampled_at = fleet.used_at[column]
    fresh = fleet.live & (now - sampled_at < rule.stale_s)
    enters = fresh & (mean >= rule.enter) & (used >= rule.enter)
    stays = fresh & ~np.isnan(since) & (mean > rule.leave)
    found: Floats = np.where(stays, since, np.where(enters, sampled_at, np.nan))
    return found


def _shown(cluster: SmallInts, hot: Bools, takes: Bools, most: float) -> NDArray[np.bool_]:
    """[n] the hot nodes of clusters where no more than `most` of the nodes that take pods are hot."""
    count = int(cluster.max()) + 1
    of_all = np.bincount(cluster[takes], minlength=count)
    of_hot = np.bincount(cluster[takes & hot], minlength=count)
    return hot & (of_hot <= most * of_all)[cluster]
