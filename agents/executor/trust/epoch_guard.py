"""Fencing by epoch: only the newest dispatcher, and of each pod only the newest attempt, may still
place anything.

A dispatcher that was paused, or a message that was delayed, may arrive after a newer one. Its
intents are stale.
"""

from typing import NamedTuple

from agents.executor.bounds.recent import Recent


class _Seen(NamedTuple):
    dispatcher_epoch: int
    epoch: int
    invalidated: bool
    why: str = ""


class EpochGuard:
    """Highest dispatcher epoch seen, and per pod the highest attempt of that dispatcher."""

    def __init__(self) -> None:
        self.dispatcher = ""
        self.dispatcher_epoch = -1
        self._attempts: Recent[str, _Seen] = Recent()

    def superseded(self, dispatcher: str, epoch: int) -> str:
        """Record a dispatcher's epoch; why it is superseded by a newer dispatcher, '' if it is the
        newest.
        """
        if epoch > self.dispatcher_epoch:
            self.dispatcher = dispatcher
            self.dispatcher_epoch = epoch
        if (dispatcher, epoch) == (self.dispatcher, self.dispatcher_epoch):
            return ""
        return (
            f"superseded dispatcher: {dispatcher!r} speaks with epoch {epoch}, "
            f"but {self.dispatcher!r} with epoch {self.dispatcher_epoch} was heard"
        )

    def outdated(self, uid: str, dispatcher_epoch: int, epoch: int) -> str:
        """Record an attempt for a pod; why it is outdated, '' if it is the newest and was not
        invalidated.
        """
        seen = self._attempts.get(uid)
        if seen is None or (dispatcher_epoch, epoch) > seen[:2]:
            self._attempts.put(uid, _Seen(dispatcher_epoch, epoch, invalidated=False))
            return ""
        if (dispatcher_epoch, epoch) < seen[:2]:
            return f"attempt {epoch} is superseded by attempt {seen.epoch}"
        return (
            ": ".join(filter(None, (f"attempt {epoch} was given up", seen.why)))
            if seen.invalidated
            else ""
        )

    def is_over(self, uid: str, epoch: int) -> bool:
        """Whether this attempt was undone, refused or done, or a newer one was, and none has been
        heard since.
        """
        seen = self._attempts.get(uid)
        return seen is not None and seen.invalidated and epoch <= seen.epoch

    def invalidate(self, uid: str, dispatcher_epoch: int, epoch: int, why: str = "") -> None:
        """Reject late copies of this attempt's intents from now on: it was undone, or was refused."""
        seen = self._attempts.get(uid)
        if seen is None or (dispatcher_epoch, epoch) >= seen[:2]:
            self._attempts.put(uid, _Seen(dispatcher_epoch, epoch, invalidated=True, why=why))
