"""Detects a watch that has lost objects: its count is compared with the server's, at the same
resourceVersion only.

The server is asked now and then for its version and its count (a list of one). The watch's own
count is comparable when it passes that version; or when it has brought nothing at all for
`patience_s`, so that nothing more seems to come.
"""

from dataclasses import dataclass

from shared.model.backoff import Backoff

RELIST_AFTER = 2  # comparisons in a row that differ
# between two lists for this reason, if lists do not help
FIRST_REST_S = 30.0
LONGEST_REST_S = 900.0


@dataclass(frozen=True, slots=True)
class ServerCount:
    """The server's version and how many objects of a kind it had then; None: it does not say."""

    version: int
    count: int | None = None


class WatchCount:
    """One watch. `doubts`: comparisons in a row that differ. Times are monotonic seconds."""

    def __init__(self, patience_s: float = 4.0) -> None:
        self.doubts = 0
        self._patience_s = patience_s
        self._expected: ServerCount | None = None
        self._counted_at = 0.0
        self._watch_at = 0  # the watch's version when the server was asked
        self._blind = False
        self._rests = 0
        self._not_before = float("-inf")

    def listed(self, *, complete: bool) -> None:
        """A new list; `complete`: each of its objects could be counted."""
        self.doubts = 0
        self._expected = None
        self._blind = not complete

    def uncounted(self) -> None:
        """The watch brought an object without identity: nothing is compared until the next list."""
        self._blind = True

    def compare_soon(self, server: ServerCount, watch_at: int, own: int, now: float) -> None:
        """Compare the server's count with the `own` objects of a watch at `watch_at`: now, or once
        it is as far.
        """
        if self._blind or server.count is None or not server.version:
            self._expected = None
            return
        if self._expected is not None and self._waits(watch_at, own, now):
            return
        self._expected = server
        self._counted_at = now
        self._watch_at = watch_at
        if watch_at == server.version:
            self._compare(own)
        elif watch_at > server.version:
            self._expected = None  # it has gone on since; the next count may be caught

    def _waits(self, watch_at: int, own: int, now: float) -> bool:
        """Whether the earlier count is still to be passed. A watch that stands still is taken as it
        is.
        """
        if watch_at != self._watch_at:
            self._counted_at = now
            self._watch_at = watch_at
            return True
        if now - self._counted_at < self._patience_s:
            return True
        self._compare(own)
        return False

    def passes(self, version: int) -> bool:
        """Whether an event of this version is the first above the server's count: the moment to
        compare.
        """
        return self._expected is not None and version > self._expected.version

    def passing(self, own: int) -> None:
        """The watch has brought all up to the server's count and nothing after it, and has `own`
        objects.
        """
        self._compare(own)

    def _compare(self, own: int) -> None:
        expected = self._expected
        self._expected = None
        if expected is None:
            return
        if own != expected.count:
            self.doubts += 1
            return
        self.doubts = self._rests = 0
        self._not_before = float("-inf")

    def differs(self, own: int) -> bool:
        """Whether there is reason to ask again soon."""
        return self.doubts > 0 or (self._expected is not None and self._expected.count != own)

    def wants_list(self, now: float) -> bool:
        """Whether the watch is to be listed anew."""
        return self.doubts >= RELIST_AFTER and now >= self._not_before

    def rest(self, now: float, jitter: float) -> None:
        """It is listed anew: the next time after a rest that doubles while lists do not help.
        `jitter`: 0.5 to 1.
        """
        self._not_before = now + jitter * Backoff(FIRST_REST_S, LONGEST_REST_S).after(
            self._rests + 1
        )
        self._rests = min(self._rests + 1, 16)
        self.doubts = 0
        self._expected = None
