"""What the executor was ordered and did not do, told in the log `audit`: orders with a good signature may still rest on
lies, as of a captured observer. They are told here since the dispatcher's own records may be in the liar's hands.

Orders that do not fit what is there (`stale`) are told, too: lies about pods look like that. How many lines there are
is bounded by token buckets of AT_ONCE lines that gain one each EVERY_S seconds, one for each verdict and kind of order:
many of one kind hide none of another. Example: of 100 binds that are refused at once 20 are told, and the next one
after 3 s says `unsaid=80`. How long a line is is bounded, too: names in orders are of any length.
"""

from collections import Counter
from collections.abc import Callable

import structlog

from dispatcher.model.messages import REFUSED, STALE, AnyIntent, CreateDelegate, IntentBatch, Outcome

LOG = structlog.get_logger("audit")
AT_ONCE, EVERY_S = 20, 3.0
_MOST, _MOST_NAMED = 500, 300  # characters of a reason, and of what an order names


class RefusedOrders:
    """Of one executor. `clock`: seconds that never go back."""

    def __init__(self, cluster: str, clock: Callable[[], float]) -> None:
        self._cluster, self._clock = cluster, clock
        self._left: dict[tuple[str, type], tuple[float, float]] = {}  # lines, and when they were so many
        self._unsaid: Counter[tuple[str, type]] = Counter()

    def look_at(self, intent: AnyIntent, found: Outcome, batch: IntentBatch) -> None:
        """Tell of an order of this batch if its outcome is `refused` or `stale`."""
        verdict, kind, now = found.verdict, (found.verdict, type(intent)), self._clock()
        if verdict not in (REFUSED, STALE):
            return
        left, at = self._left.get(kind, (float(AT_ONCE), now))
        left = min(float(AT_ONCE), left + (now - at) / EVERY_S)
        self._left[kind] = (left - 1 if left >= 1 else left), now
        if left < 1:
            self._unsaid[kind] += 1
            return
        unsaid, self._unsaid[kind] = self._unsaid[kind], 0
        LOG.warning(
            "an order was not carried out",
            cluster=self._cluster,
            order=type(intent).__name__,
            pod=f"{intent.pod.namespace}/{intent.pod.name}"[:_MOST_NAMED],
            uid=intent.pod.uid[:_MOST_NAMED],
            source=intent.source.cluster[:_MOST_NAMED] if isinstance(intent, CreateDelegate) else self._cluster,
            dispatcher=batch.dispatcher[:_MOST_NAMED],
            epoch=batch.dispatcher_epoch,
            verdict=verdict,
            problem=found.message[:_MOST],
            unsaid=unsaid,
        )
