"""What the pods of a batch add themselves to the points of clusters (`ClassKey.brought`).

Example: of three pods of one template two are from cluster a, one from b, and HomeCluster gives a
point at home. They are two kinds of pods: `kind` is 0 0 1, `points` 1 0 and 0 1.
"""

from typing import NamedTuple

import numpy as np

from dispatcher.scheduling.batch.merge_tables import Brought
from dispatcher.scheduling.batch.pod_variants import PodVariants
from dispatcher.scheduling.equivalence.equivalence_class import EquivalenceClass
from dispatcher.scheduling.equivalence.evaluators import GRID
from dispatcher.scheduling.equivalence.static_columns import ClusterColumn
from dispatcher.scheduling.framework import Floats


class BroughtPoints(NamedTuple):
    """`merged`: what the merge adds; `raw` [kinds of pods, plugins, clusters]: the scores that this
    comes from.
    """

    merged: Brought
    raw: Floats


def brought_by(
    eq_class: EquivalenceClass, variants: PodVariants, count: int
) -> BroughtPoints | None:
    """What `count` pods of a refreshed class bring; None if a plugin refuses or skips one of them.
    PluginError.
    """
    kinds = dict[tuple[ClusterColumn, ...], int]()
    kind = list[int]()
    for pod_info in variants.pods if eq_class.brought else variants.pods[:1]:
        columns = eq_class.brought_by(pod_info)
        if columns is None:
            return None
        kind.append(kinds.setdefault(tuple(columns), len(kinds)))
    clusters = max(len(eq_class.fleet.clusters), 1)
    points = [sum((one.points for one in some), np.zeros(clusters)) / GRID for some in kinds]
    raw = [[one.by_cluster for one in some] for some in kinds]
    pods = np.diff([*variants.ats[: len(kind)], count])
    merged = Brought(np.asarray(points), np.repeat(np.asarray(kind, dtype=np.int64), pods))
    return BroughtPoints(merged, np.asarray(raw).reshape(len(kinds), -1, clusters))
