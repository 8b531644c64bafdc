"""Whether the leader has signed a message, for this cluster and for now: looked at before anything
of it is decoded.

Each is let through once: who has to send something again signs it anew. Orders may overtake each
other on their way; word of the other clusters is let through in the order in which the leader has
signed it.
"""

import heapq
from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from agents.executor.bounds.recent import Recent
from shared.security.seals import LIFE_S, PEERS, Audience, Header, Seal, read_header, read_seal

UNSIGNED = "unsigned"
UNREADABLE = "unreadable"
CERTIFICATE = "certificate"
SIGNATURE = "signature"
AUDIENCE = "audience"
EXPIRED = "expired"
EARLY = "early"
OVERTAKEN = "overtaken"
REPEATED = "repeated"
EPOCH = "epoch"
REASONS = (
    UNSIGNED,
    UNREADABLE,
    CERTIFICATE,
    SIGNATURE,
    AUDIENCE,
    EXPIRED,
    EARLY,
    OVERTAKEN,
    REPEATED,
    EPOCH,
)
_LIVES = 64  # of dispatchers, of which it is known what they have sent
_NUMBERS = 1024  # of batches of a life that were taken: more never overtake one that is waited for

# The key of a dispatcher's certificate (DER) that is good at this time (seconds since 1970), or why
# it is not.
KeyOf = Callable[[bytes, float], Ed25519PublicKey | str]


class Refused(Exception):  # noqa: N818 - reads as what happened
    """The message is not obeyed. `reason` is one of REASONS; the text says more, and what to do."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(f"refused ({reason}): {text}")
        self.reason = reason


class _Taken:
    """The numbers that were taken: the highest `most` of them, and none below those is taken any
    more.

    Worked example, `most` 2: of 1, 3, 2, 3, 4, 1 the second 3 was taken before; with 2 and then 4,
    first 1 and then 2 are forgotten, so that 1 is below what is remembered: neither is taken.
    """

    def __init__(self, most: int = _NUMBERS) -> None:
        self._most = most
        self._below = 0
        self._numbers: set[int] = set()
        self._lowest: list[int] = []  # the same, as a heap

    def take(self, number: int) -> bool:
        """Whether it is new."""
        if number <= self._below or number in self._numbers:
            return False
        self._numbers.add(number)
        heapq.heappush(self._lowest, number)
        if len(self._lowest) > self._most:
            self._below = heapq.heappop(self._lowest)
            self._numbers.discard(self._below)
        return True


class OrderCheck:
    """Of one agent. `skew_s`: how far its clock may be from the dispatcher's."""

    def __init__(self, key_of: KeyOf, *, take_unsigned: bool = False, skew_s: float = 60.0) -> None:
        self._key_of = key_of
        self._take_unsigned = take_unsigned
        self._skew_s = skew_s
        self._numbers: Recent[str, int] = Recent(_LIVES)  # of the latest PEERS of each life
        self._taken: Recent[str, _Taken] = Recent(_LIVES)  # ORDERS of each life

    def check(
        self, kind: str, body: bytes, data: bytes, audience: Audience, now: float
    ) -> Header | None:
        """What was signed of this message, None of one without a seal that is taken all the same.
        Refused.
        """
        if not data:
            if self._take_unsigned:
                return None
            raise Refused(UNSIGNED, _UNSIGNED)
        taken = read_seal(data)
        if taken is None:
            raise Refused(UNREADABLE, "its seal cannot be read: upgrade the older side")
        header = self._signed(taken, body, now)
        self._check_audience(header, kind, audience)
        self._check_time(header, now)
        if kind == PEERS:
            self._check_order(header)
        else:
            self._check_new(header)
        return header

    def _signed(self, taken: Seal, body: bytes, now: float) -> Header:
        key = self._key_of(taken.certificate, now)
        if isinstance(key, str):
            raise Refused(CERTIFICATE, key)
        header = read_header(taken, key, body)
        if header is None:
            raise Refused(
                SIGNATURE,
                "the dispatcher's key has not signed this: it was changed on the way, or forged",
            )
        return header

    def _check_audience(self, header: Header, kind: str, audience: Audience) -> None:
        if header.kind != kind:
            raise Refused(AUDIENCE, f"it was signed as {header.kind}, and came as {kind}")
        if not audience.uid:
            raise Refused(
                AUDIENCE,
                "this agent does not know yet which cluster it serves: its API server has to "
                "answer",
            )
        if (header.cluster, header.cluster_uid) != audience[:2]:
            meant = (
                f"cluster {header.cluster[:64]!r} (kube-system "
                f"{header.cluster_uid[:64] or 'not known yet'})"
            )
            raise Refused(
                AUDIENCE,
                f"it was signed for {meant}; this is {audience.cluster!r} ({audience.uid})",
            )
        if header.incarnation != audience.incarnation:
            raise Refused(
                AUDIENCE,
                "it was signed for this agent before it restarted, or for another one of the "
                "cluster",
            )

    def _check_time(self, header: Header, now: float) -> None:
        late = now - header.expires
        early = header.expires - LIFE_S - now
        if late > self._skew_s:
            raise Refused(
                EXPIRED,
                f"it expired {late:.0f} s ago by this agent's clock: it was held back on the way, "
                f"or {_CLOCKS}",
            )
        if not early <= self._skew_s:  # also what is no number
            raise Refused(
                EARLY, f"it was signed {early:.0f} s ahead of this agent's clock: {_CLOCKS}"
            )

    def _check_order(self, header: Header) -> None:
        latest = self._numbers.get(header.life)
        if latest is not None and header.number <= latest:
            raise Refused(
                OVERTAKEN, "a later word of the same dispatcher came before it, or it came before"
            )
        self._numbers.put(header.life, header.number)

    def _check_new(self, header: Header) -> None:
        taken = self._taken.get(header.life) or _Taken()
        if not taken.take(header.number):
            raise Refused(
                REPEATED,
                f"it is number {header.number} of this dispatcher, which came before: {_AGAIN}",
            )
        self._taken.put(header.life, taken)


_CLOCKS = "the clocks of the two differ; compare them (NTP)"
_AGAIN = "whoever carries the bytes has sent it again, or it is far too late"
_UNSIGNED = (
    "the leader has not signed it: give the dispatcher a signing key (`signing` of "
    "dispatcher.yaml, `global-dispatcher "
    "join` makes it), or take it unsigned for now (`orders.unsigned: take` of agent.yaml)"
)
