"""Better are nodes that have the pod's images (of containers and volumes) already, the more bytes
the better.

An image counts its size times the share of all nodes that have it, so that a node with a rare image
is not flooded. score = 100 * (sum over images - 23 MiB) / (1000 MiB an image - 23 MiB), the sum
taken as at least 23 MiB and at most 1000 MiB an image; whole numbers, rounded down. Source:
kube-scheduler's ImageLocality (1.37).
"""

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

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

_MIB = 1024 * 1024
_LEAST = 23 * _MIB
_MOST = 1000 * _MIB


class ImageLocality(Score[Floats]):
    """Prefers nodes where less has to be pulled."""

    name: ClassVar[str] = "ImageLocality"
    keyed_by_template = True
    reads = ("images", "volume_images")
    depends: ClassVar[Depends] = Depends.STATIC

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """The images, in any order; None without."""
        pod = pod_info.pod
        return tuple(sorted(map(normalised, (*pod.images, *pod.volume_images)))) or None

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Floats | Refuse | Skip:
        """[n] the score of every node; SKIP if no node has any of the images."""
        pod = pod_info.pod
        names = [normalised(image) for image in (*pod.images, *pod.volume_images)]
        held = [(name, fleet.images.nodes_with(name)) for name in names]
        if not any(nodes for _, nodes in held):
            return SKIP
        total = int(np.count_nonzero(fleet.nodes.live))
        found = np.zeros(fleet.n, dtype=np.int64)
        for name, nodes in held:
            if nodes:
                found += (fleet.images.sizes(name) * (nodes / total)).astype(np.int64)
        most = _MOST * max(len(names), 1)
        share = int(MAX_SCORE) * (np.clip(found, _LEAST, most) - _LEAST) // (most - _LEAST)
        scores: Floats = share.astype(np.float64)
        return scores

    def score(self, state: Floats, fleet: FleetView, rows: Rows) -> Floats:
        """What PreFilter found."""
        return state[rows]


def normalised(image: str) -> str:
    """The name under which a node lists an image: with the tag `latest` where none is said."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
