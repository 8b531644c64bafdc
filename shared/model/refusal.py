"""What a cluster said of a pod: that it refuses it, or how large it makes it; when, and until when
that holds.
"""

from dataclasses import dataclass, field
from typing import Any

from shared.model.resources import format_quantity

ALL_OTHERS = ""  # in the place of a cluster: every one but the pod's own


@dataclass(frozen=True, slots=True)
class ClusterRefusal:
    """Two of the same cluster are equal: what was said, and when, is for people and makes no other
    class of pods.

    `cluster` may be ALL_OTHERS. Times are seconds on the core's clock. `requests`: (resource,
    amount) in internal units, by name, that the server there makes the pod request (a webhook, a
    LimitRange, a RuntimeClass); the pod is placed by them there, and the cluster is not passed
    over.
    """

    cluster: str
    words: str = field(compare=False)
    at: float = field(compare=False)
    until: float = field(compare=False)
    requests: tuple[tuple[str, int], ...] = ()
    passing: bool = False  # a failure that may be over in seconds, and no rule
    # its time has passed, and it is still remembered: nobody is evicted there for the pod
    over: bool = False

    @property
    def holds(self) -> bool:
        """Whether it keeps pods out now: it tells of no size, and its time has not passed."""
        return not (self.requests or self.over)

    def bars(self, cluster: str, home: str) -> bool:
        """Whether a pod of `home` may not go to `cluster` for it."""
        return self.holds and self.concerns(cluster, home)

    def spares(self, cluster: str, home: str) -> bool:
        """Whether nobody may be evicted in `cluster` for a pod of `home` that it may refuse once
        more.
        """
        return self.over and self.concerns(cluster, home)

    def concerns(self, cluster: str, home: str) -> bool:
        """Whether it says anything of a pod of `home` in `cluster`."""
        return cluster != home if self.cluster == ALL_OTHERS else cluster == self.cluster

    @property
    def text(self) -> str:
        """In words that do not change with time: 'cluster west refused it: namespace "shop" does
        not exist'.
        """
        if self.requests:
            sizes = ", ".join(
                f"{name} {format_quantity(name, amount)}" for name, amount in self.requests
            )
            return f"cluster {self.cluster} makes it larger: {sizes}"
        if self.cluster == ALL_OTHERS:
            return f"it cannot go to other clusters: {self.words}"
        return f"cluster {self.cluster} refused it: {self.words}"

    def record(self, now: float) -> dict[str, Any]:
        """{cluster ("" all others), message, ago_s, again_in_s}."""
        ago = max(now - self.at, 0.0)
        left = max(self.until - now, 0.0)
        return {
            "cluster": self.cluster,
            "message": self.words,
            "ago_s": round(ago, 3),
            "again_in_s": round(left, 3),
        }
