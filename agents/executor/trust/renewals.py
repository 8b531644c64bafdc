"""How long delegates of failover mode `lease` may go on here without a token of the dispatcher.
Counted on one clock.

Each answer to the dispatcher is a new token. When the dispatcher echoes that token in a later call,
the lease is renewed, as of the moment at which the token was *issued here*. So however late a call
arrives, it renews nothing that its sender does not count: it had our token before it could echo it.
A token of an earlier life of this agent renews nothing.
"""

from agents.executor.bounds.recent import Recent
from shared.model.leases import RESTART_S

_TOKENS = 16  # that may still come back; one is issued every few seconds


class Renewals:
    """`lease_s`: the length of the lease as the dispatcher sent it last, 0 before that."""

    def __init__(self) -> None:
        self.lease_s = 0.0
        self._issued: Recent[str, float] = Recent(_TOKENS)
        self._number = 0
        self._began: float | None = None
        self._renewed: float | None = None

    def token(self, now: float, wall: float) -> str:
        """A new one for the dispatcher to echo; with both clocks in it, so that no other life
        issues the same.
        """
        self._number += 1
        token = f"{self._number} {now!r} {wall!r}"
        self._issued.put(token, now)
        return token

    def renew(self, echo: str, lease_s: float) -> bool:
        """The dispatcher echoed this token. False for one that is not ours, and in a call that a
        later one overtook.
        """
        at = self._issued.get(echo)
        if at is None or (self._renewed is not None and at < self._renewed):
            return False
        self._renewed = at
        self.lease_s = lease_s
        return True

    def lapsed(self, now: float) -> str:
        """Why delegates of this mode may not go on; '' while they may. To be asked from the agent's
        start on.
        """
        if self._renewed is not None:
            late = now - self._renewed >= self.lease_s
            return f"no dispatcher has renewed its lease for {self.lease_s:g} s" if late else ""
        self._began = now if self._began is None else self._began
        late = now - self._began >= RESTART_S
        return (
            f"no dispatcher has renewed its lease in the {RESTART_S:g} s since the agent started"
            if late
            else ""
        )
