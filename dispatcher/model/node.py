"""The node and its live readings, reduced to what placement needs."""

from dispatcher.model.pod import Record, Toleration

NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "PreferNoSchedule", "NoExecute"


class Taint(Record, frozen=True):
    """core/v1 Taint."""

    key: str
    value: str = ""
    effect: str = NO_SCHEDULE

    def __str__(self) -> str:
        """As kubectl writes it: key=value:effect."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"

    def tolerated_by(self, toleration: Toleration) -> bool:
        """Kubernetes' rule: effect, key and (unless Exists) value must agree; empties widen."""
        if toleration.effect and toleration.effect != self.effect:
            return False
        if toleration.key and toleration.key != self.key:
            return False
        if toleration.operator == "Exists":
            return True
        return bool(toleration.key) and toleration.operator in ("", "Equal") and toleration.value == self.value


class Node(Record, frozen=True):
    """One node. `allocatable` in internal units, rounded down. `bandwidth` in bytes/s per direction, 0 unknown.

    `metrics`: name -> finite number of the annotations under names.METRIC_PREFIX, for plugins.
    """

    name: str
    uid: str = ""
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = False
    allocatable: dict[str, int] = {}
    bandwidth: int = 0
    images: dict[str, int] = {}
    proxy_for: str = ""
    metrics: dict[str, float] = {}


class Reading(Record, frozen=True):
    """Live load of one node: shares 0..1 of its capacity, None unknown, and the age of each in seconds.

    Ages are counted by the agent on its own monotonic clock from the time of the sample, so no two machines'
    clocks are ever compared. `net` is the larger of receive and transmit over the bandwidth.
    """

    node: str
    cpu: float | None = None
    memory: float | None = None
    net: float | None = None
    receive_bytes_s: float | None = None
    transmit_bytes_s: float | None = None
    cpu_age_s: float = 0.0
    memory_age_s: float = 0.0
    net_age_s: float = 0.0
    source: str = ""
