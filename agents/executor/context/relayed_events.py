"""Which events of a delegate its source is told of: each once, once more when it goes on, and never
a flood. What is normal takes no room from Warnings.
"""

import hashlib
from collections.abc import Iterable

from shared.model.delegate_events import DelegateEvent, goes_on
from shared.model.token_buckets import TokenBuckets

# of each type at once, then one in so many seconds: client-go's EventSourceObjectSpamFilter
BURST = 25
EVERY_S = 300.0
OLD_S = 600.0  # since an event happened: after a restart none that is old, as it was told then


class ToldEvents:
    """Of one source. What was told is remembered by a digest of its texts, as long as the delegate
    shows it.
    """

    __slots__ = ("_known", "_room")

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[int, float]] = {}  # count and time
        self._room = TokenBuckets(BURST, 1 / EVERY_S)

    def new(
        self, happened: Iterable[DelegateEvent], mono: float, wall: float, *, normal: bool = True
    ) -> list[DelegateEvent]:
        """Those that are to be told now; no `normal` ones where it is False. One that finds no room
        is told with a later status, if it is not old then.
        """
        found = []
        known = {}
        for one in happened:
            digest = hashlib.sha256(
                f"{one.reason}\0{one.message}\0{one.normal}".encode("utf-8", "replace")
            ).digest()[:16]
            before = self._known.get(digest)
            if before is not None and not goes_on(one, *before):
                known[digest] = before
                continue
            if wall - one.at < OLD_S:
                if (one.normal and not normal) or self._room.admit(mono, one.normal) is None:
                    continue
                found.append(one)
            known[digest] = one.count, one.at
        self._known = known
        return found
