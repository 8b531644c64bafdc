"""Order of the queue: higher spec.priority first, then who has waited longer.

Pods of equal priority that were queued in the same second are one turn: the queue decides them
class by class (what it promises is in scheduling/queue.py). Source: kube-scheduler's PrioritySort.
Where there are tenants, those of equal priority take turns by their shares (scheduling/
fair_order.py). Unit: priority is Kubernetes' integer, time is seconds on the core's clock.
"""

from collections.abc import Hashable
from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import Meta

from dispatcher.scheduling.fair_order import Turns
from dispatcher.scheduling.fair_shares import DecayedShares, LedgerShares
from dispatcher.scheduling.framework import Depends, Plugin, PodInfo
from dispatcher.scheduling.framework.plugin_args import Args
from dispatcher.scheduling.quota import QuotaLedger

# far below what a user can tell; long enough that a burst of several Deployments is in one turn or
# two
TURN_S = 1.0
Order = Literal["after_priority", "before_priority", "ignored"]
AFTER_PRIORITY: Final = "after_priority"
BEFORE_PRIORITY: Final = "before_priority"
IGNORED: Final = "ignored"


class SortArgs(Args):
    """How tenants take turns."""

    tenants: Annotated[
        Order,
        Meta(
            description="when the share of a tenant says who goes first: among pods of equal"
            " priority, before priority (which then orders the pods of each tenant), or never"
        ),
    ] = AFTER_PRIORITY
    half_life_s: Annotated[
        float,
        Meta(
            ge=0,
            le=1e8,
            description="shares are of what was used lately: what was used so many seconds ago"
            " counts half; 0: of what is used now",
        ),
    ] = 0.0


class PrioritySort(Plugin[None]):
    """QueueSort by (-priority, second of queueing), tenants of equal priority by their shares."""

    name: ClassVar[str] = "PrioritySort"
    keyed_by_template = True
    depends: ClassVar[Depends] = Depends.STATIC

    def __init__(
        self,
        ledger: QuotaLedger | None = None,
        tenants: Order = AFTER_PRIORITY,
        half_life_s: float = 0.0,
    ) -> None:
        self._ledger = ledger
        self._tenants = tenants
        self._half_life_s = half_life_s

    def sort_key(self, pod_info: PodInfo, queued_at: float) -> tuple[Any, ...]:
        """Smallest first; in a turn the queue goes by class, then by time and id, so that ties are
        deterministic.
        """
        return -pod_info.pod.priority, queued_at // TURN_S

    def turns(self) -> Turns | None:
        """How tenants take turns; None: they do not, or there are none."""
        ledger = self._ledger
        if ledger is None or not ledger.tenants or self._tenants == IGNORED:
            return None
        half_life_s = self._half_life_s
        shares = DecayedShares(ledger, half_life_s) if half_life_s else LedgerShares(ledger)
        return Turns(shares, self._rank_of)

    def _rank_of(self, pod_info: PodInfo) -> tuple[Any, ...]:
        return () if self._tenants == BEFORE_PRIORITY else (-pod_info.pod.priority,)

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """Order in the queue has no part in where a pod may go."""
        return None
