"""What the executor was ordered and did not do, told in the log `audit`: orders with a good signature may still rest on
lies, as of a captured observer. They are told here since the dispatcher's own records may be in the liar's hands.

Orders that do not fit what is there (`stale`) are told, too: lies about pods look like that. How many lines a verdict
has is bounded by a token bucket of AT_ONCE lines that gains one each EVERY_S seconds. Example: of 100 orders that are
refused at once 20 are told, and the next one after 3 s says `unsaid=80`.
"""

from collections.abc import Callable

import structlog

from dispatcher.model.messages import REFUSED, STALE, AnyIntent, CreateDelegate, IntentBatch, Outcome

LOG = structlog.get_logger("audit")
AT_ONCE, EVERY_S = 20, 3.0
_MOST = 500  # characters of a reason


class RefusedOrders:
    """Of one executor. `clock`: seconds that never go back."""

    def __init__(self, cluster: str, clock: Callable[[], float]) -> None:
        self._cluster, self._clock = cluster, clock
        self._left = dict.fromkeys((REFUSED, STALE), (float(AT_ONCE), clock()))
        self._unsaid = dict.fromkeys(self._left, 0)

    def look_at(self, intent: AnyIntent, found: Outcome, batch: IntentBatch) -> None:
        """Tell of an order of this batch if its outcome is `refused` or `stale`."""
        verdict = found.verdict
        if verdict not in self._left:
            return
        (left, at), now = self._left[verdict], self._clock()
        left = min(float(AT_ONCE), left + (now - at) / EVERY_S)
        self._left[verdict] = (left - 1 if left >= 1 else left), now
        if left < 1:
            self._unsaid[verdict] += 1
            return
        unsaid, self._unsaid[verdict] = self._unsaid[verdict], 0
        LOG.warning(
            "an order was not carried out",
            cluster=self._cluster,
            order=type(intent).__name__,
            pod=f"{intent.pod.namespace}/{intent.pod.name}",
            uid=intent.pod.uid,
            source=intent.source.cluster if isinstance(intent, CreateDelegate) else self._cluster,
            dispatcher=batch.dispatcher,
            epoch=batch.dispatcher_epoch,
            verdict=verdict,
            problem=found.message[:_MOST],
            unsaid=unsaid,
        )
