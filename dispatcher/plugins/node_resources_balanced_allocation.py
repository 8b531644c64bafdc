"""Better are nodes that the pod makes fill up more evenly, so that none of a resource is used up
while another idles.

f = requested / allocatable of each of `resources` (at most 1; what a node lacks has no part), d the
standard deviation of f, and balance = 100 * (1 - d), a whole number, rounded down: once with this
pod, once without. score = 50 + (50 + balance with the pod - balance without) / 2, dropping
fractions: 75 where nothing changes. Pods that request none of `resources` are not judged. Source:
kube-scheduler's NodeResourcesBalancedAllocation.
"""

from collections.abc import Hashable
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta

from dispatcher.scheduling.framework import (
    MAX_SCORE,
    SKIP,
    Bools,
    Depends,
    FleetView,
    Floats,
    PodInfo,
    Refuse,
    Rows,
    Score,
    Skip,
)
from dispatcher.scheduling.framework.kernels import kernel
from dispatcher.scheduling.framework.plugin_args import RESOURCE_NAMES, Args
from dispatcher.scheduling.rules.requests import is_judged
from dispatcher.scheduling.rules.whole import EXACT, plus
from shared.model.pod import Pod
from shared.model.resources import CPU, MEMORY

_HALF = MAX_SCORE / 2


class BalanceArgs(Args):
    """What is balanced."""

    resources: Annotated[
        tuple[str, ...], Meta(description="which resources to balance", extra=RESOURCE_NAMES)
    ] = (
        CPU,
        MEMORY,
    )


class NodeResourcesBalancedAllocation(Score[Pod]):
    """Prefers nodes that come into balance."""

    name: ClassVar[str] = "NodeResourcesBalancedAllocation"
    keyed_by_template = True
    depends: ClassVar[Depends] = Depends.NODE

    def __init__(self, resources: tuple[str, ...]) -> None:
        self._resources = resources

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """What the pod requests of the balanced resources."""
        requests = pod_info.pod.requests
        return tuple(requests.get(name, 0) for name in self._resources)

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Pod | Refuse | Skip:
        """The pod; SKIP if it requests none of the balanced resources."""
        return pod_info.pod if any(map(pod_info.pod.requests.get, self._resources)) else SKIP

    def score(self, state: Pod, fleet: FleetView, rows: Rows) -> Floats:
        """The gain in balance."""
        asked = self._asked(state, fleet)
        if _two.fast is not None and len(asked) == 2 and max(amount for _, amount in asked) < EXACT:
            columns: list[Any] = []
            for column, amount in asked:
                columns += [
                    fleet.nodes.allocatable[column][rows],
                    fleet.nodes.requested[column][rows],
                    amount,
                ]
            gains = np.empty(len(columns[0]))
            _two.fast(*columns, gains)
            return gains
        allocatable = fleet.nodes.allocatable[[column for column, _ in asked]][:, rows]
        has = allocatable > 0
        whole = np.maximum(allocatable, 1)
        shares = np.empty((2, len(asked), len(fleet.nodes.live[rows])))
        for at, (column, amount) in enumerate(asked):
            requested = fleet.nodes.requested[column][rows]
            np.divide(plus(requested, amount), whole[at], out=shares[0, at])
            np.divide(requested, whole[at], out=shares[1, at])
        np.minimum(shares, 1.0, out=shares)
        after, before = (np.floor((1.0 - _deviation(one, has)) * MAX_SCORE) for one in shares)
        gain = _HALF + after - before  # -50..150, and its half drops the fraction toward zero
        scores: Floats = _HALF + np.trunc(gain / 2)
        return scores

    def _asked(self, pod: Pod, fleet: FleetView) -> list[tuple[int, int]]:
        """(column, amount) of the resources that have a part; an extended one only if it is
        requested.
        """
        amounts = (
            (name, fleet.axis.column(name), pod.requests.get(name, 0)) for name in self._resources
        )
        return [
            (column, asked)
            for name, column, asked in amounts
            if column is not None and is_judged(name, asked)
        ]


@kernel("ints ints int ints ints int out")
def _two(all0, used0, asked0, all1, used1, asked1, scores):  # type: ignore[no-untyped-def]  # noqa: PLR0913 - columns
    """The score for two resources."""
    for row in range(len(scores)):
        whole0 = all0[row]
        whole1 = all1[row]
        after = before = 0.0
        if whole0 > 0 and whole1 > 0:
            after = abs(
                (
                    min((used0[row] + asked0) / whole0, 1.0)
                    - min((used1[row] + asked1) / whole1, 1.0)
                )
                / 2.0
            )
            before = abs((min(used0[row] / whole0, 1.0) - min(used1[row] / whole1, 1.0)) / 2.0)
        gain = 50.0 + np.floor((1.0 - after) * 100.0) - np.floor((1.0 - before) * 100.0)
        scores[row] = 50.0 + np.trunc(gain / 2)


def _deviation(shares: Floats, has: Bools) -> Floats:
    """[rows] standard deviation of [resources, rows] shares over the resources that the row has."""
    count = has.sum(axis=0)
    total = np.zeros(shares.shape[1])
    squares = np.zeros(shares.shape[1])
    for share, there in zip(
        shares, has, strict=True
    ):  # one after the other, as the sums of the source are rounded
        total += share * there
    mean = total / np.maximum(count, 1)
    for share, there in zip(shares, has, strict=True):
        squares += (share - mean) * (share - mean) * there
    deviation: Floats = np.sqrt(squares / np.maximum(count, 1))
    pair = count == 2
    if pair.any():
        deviation[pair] = _of_two(shares[:, pair], has[:, pair])
    deviation[count < 2] = 0.0
    return deviation


def _of_two(shares: Floats, has: Bools) -> Floats:
    """[rows] half of the distance of the two resources that each row has."""
    two = shares.T[has.T].reshape(-1, 2)
    half: Floats = np.abs((two[:, 0] - two[:, 1]) / 2.0)
    return half
