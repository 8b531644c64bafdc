"""Better are nodes whose resources fill up evenly, so that none is used up while another lies idle.

f = requested with this pod / allocatable of each resource (at most 1); score = 100 * (1 - standard deviation of f).
Pods that request none of `resources` are not judged. Source: kube-scheduler's NodeResourcesBalancedAllocation.
"""

from collections.abc import Hashable
from typing import ClassVar, cast

import numpy as np

from dispatcher.model.pod import Pod
from dispatcher.model.resources import CPU, MEMORY
from dispatcher.scheduling.framework import MAX_SCORE, SKIP, Bools, Depends, Fleet, Floats, Placed, Rows, Score
from dispatcher.scheduling.plugin_args import Arg, ArgTable, names_of_resources


class NodeResourcesBalancedAllocation(Score):
    """Prefers nodes that stay in balance."""

    name: ClassVar[str] = "NodeResourcesBalancedAllocation"
    depends: ClassVar[Depends] = Depends.NODE
    ARGS: ClassVar[ArgTable] = {"resources": Arg((CPU, MEMORY), "which resources to balance", names_of_resources)}

    def __init__(self, resources: tuple[str, ...]) -> None:
        self._resources = resources

    def class_key(self, placed: Placed) -> Hashable:
        """What the pod requests of the balanced resources."""
        requests = placed.pod.requests
        return tuple(requests.get(name, 0) for name in self._resources)

    def pre_filter(self, placed: Placed, fleet: Fleet) -> object:
        """The pod; SKIP if it requests none of the balanced resources."""
        return placed.pod if any(map(placed.pod.requests.get, self._resources)) else SKIP

    def score(self, state: object, fleet: Fleet, rows: Rows) -> Floats:
        """100 * (1 - standard deviation); resources that a node lacks have no part in it."""
        requests = cast(Pod, state).requests
        columns = [(fleet.axis.column(name), requests.get(name, 0)) for name in self._resources]
        known = [(column, asked) for column, asked in columns if column is not None]
        shares = np.zeros((len(known), len(fleet.live[rows])))
        for at, (column, asked) in enumerate(known):
            np.divide(
                fleet.requested[column, rows] + float(asked),
                np.maximum(fleet.allocatable[column, rows], 1),
                out=shares[at],
            )
        np.minimum(shares, 1.0, out=shares)
        lacks = [fleet.allocatable[column, rows] == 0 for column, _ in known]
        if any(one.any() for one in lacks):
            return MAX_SCORE * (1.0 - _deviation(shares, ~np.asarray(lacks)))
        if len(known) == 2:  # the usual case: half of the distance
            scores: Floats = MAX_SCORE * (1.0 - np.abs(shares[0] - shares[1]) / 2.0)
            return scores
        return MAX_SCORE * (1.0 - _deviation(shares, np.ones(shares.shape, dtype=np.bool_)))


def _deviation(shares: Floats, has: Bools) -> Floats:
    """[rows] standard deviation of [resources, rows] shares over the resources that the row has."""
    count = np.maximum(has.sum(axis=0), 1)
    mean = (shares * has).sum(axis=0) / count
    deviation: Floats = np.sqrt((np.square(shares - mean) * has).sum(axis=0) / count)
    return deviation
