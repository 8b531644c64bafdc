"""What the executor was ordered and did not do, told in the log `audit`: orders with a good
signature may still rest on lies, as of a captured observer. They are told here since the
dispatcher's own records may be in the liar's hands.

Orders that do not fit what is there (`stale`) are told, too: lies about pods look like that. Of
each verdict and kind of order AT_ONCE lines are written, and one more each EVERY_S seconds: many of
one kind hide none of another. How long a line is is bounded, too: names in orders are of any
length.
"""

from collections.abc import Callable

import structlog

from shared.messages import REFUSED, STALE, AnyIntent, CreateDelegate, IntentBatch, Outcome
from shared.model.token_buckets import TokenBuckets

LOG = structlog.get_logger("audit")
AT_ONCE = 20
EVERY_S = 3.0
# characters of a reason, and of what an order names
_MOST = 500
_MOST_NAMED = 300


class RefusedOrders:
    """Of one executor. `clock`: seconds that never go back."""

    def __init__(self, cluster: str, clock: Callable[[], float]) -> None:
        self._cluster = cluster
        self._clock = clock
        self._lines = TokenBuckets(AT_ONCE, 1 / EVERY_S)

    def look_at(self, intent: AnyIntent, found: Outcome, batch: IntentBatch) -> None:
        """Tell of an order of this batch if its outcome is `refused` or `stale`."""
        if (verdict := found.verdict) not in (REFUSED, STALE):
            return
        if (unsaid := self._lines.admit(self._clock(), (verdict, type(intent)))) is None:
            return
        LOG.warning(
            "an order was not carried out",
            cluster=self._cluster,
            order=type(intent).__name__,
            pod=f"{intent.pod.namespace}/{intent.pod.name}"[:_MOST_NAMED],
            uid=intent.pod.uid[:_MOST_NAMED],
            source=intent.source.cluster[:_MOST_NAMED]
            if isinstance(intent, CreateDelegate)
            else self._cluster,
            dispatcher=batch.dispatcher[:_MOST_NAMED],
            epoch=batch.dispatcher_epoch,
            verdict=verdict,
            problem=found.message[:_MOST],
            unsaid=unsaid,
        )
