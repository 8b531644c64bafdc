"""How long the core waits for what."""

from dataclasses import dataclass, field

from dispatcher.scheduling.delegation.outbox import Backoff


@dataclass(frozen=True)
class CoreTiming:
    """All in seconds.

    `absence_grace_s`: how long a pod never seen must be missing in a Ready cluster before it counts as gone; more
    than an agent takes to notice a silent watch (90 s). `settle_s`: how long
    a confirmed effect may take to show in the watch. `peers_s`: how often proxy nodes are told the free room.
    `cluster_lost_s`: how long a cluster may be NotReady before its proxy nodes are. `report_s`: least time between two
    different Unschedulable messages of one pod. `retry`: pauses before the same intent is sent again.
    """

    absence_grace_s: float = 100.0
    settle_s: float = 15.0
    peers_s: float = 5.0
    cluster_lost_s: float = 40.0
    report_s: float = 10.0
    retry: Backoff = field(default_factory=Backoff)
