"""One intent at a time per pod: which was sent, and what each verdict leads to.

The table is the whole protocol on the sending side. A verdict UNKNOWN never frees anything: the same intent is sent
again until its effect is learnt, because the place may be taken already.
"""

import enum
from dataclasses import dataclass

from dispatcher.model.messages import BOUND, CLAIMED, DONE, REFUSED, STALE, UNKNOWN, AnyIntent
from dispatcher.model.pod import Pod


class Stage(enum.Enum):
    """What is in the air for a pod."""

    BIND = "bind"
    CLAIM = "claim"
    CREATE = "create"
    PROXY = "proxy"
    UNCLAIM = "unclaim"
    RESTORE = "restore"
    CONFIRM = "confirm"
    CONFIRM_SOURCE = "confirm-source"
    MIRROR = "mirror"
    DELETE = "delete"
    DELETE_SOURCE = "delete-source"
    FINISH = "finish"


PLACING = frozenset((Stage.BIND, Stage.CLAIM, Stage.CREATE, Stage.PROXY, Stage.UNCLAIM))
# What nobody wants any more once the source ends. How far it came is asked then (COLLECT), and not by trying on.
ENDED_WITH_SOURCE = frozenset((Stage.CREATE, Stage.PROXY, Stage.UNCLAIM, Stage.MIRROR, Stage.DELETE_SOURCE))


class Move(enum.Enum):
    """What a verdict leads to."""

    SETTLE = "settle"  # it holds: wait until the watch shows it
    CREATE = "create"  # claimed: go on with the delegate
    PROXY = "proxy"  # the delegate is bound: go on with the source
    UNCLAIM = "unclaim"  # the target said no: take the claim back
    GIVE_BACK = "give-back"  # forget the place, queue again with back-off
    AGAIN = "again"  # the same intent again, later
    LATER = "later"  # refused, and it holds no place: look at the world again, after a pause that grows
    ABSENT = "absent"  # the API server has no such pod
    DROP = "drop"  # nothing holds: look at the world again


MOVES: dict[tuple[Stage, str], Move] = {
    (Stage.BIND, BOUND): Move.SETTLE,
    (Stage.BIND, STALE): Move.GIVE_BACK,
    (Stage.BIND, REFUSED): Move.GIVE_BACK,
    (Stage.CLAIM, CLAIMED): Move.CREATE,
    (Stage.CLAIM, STALE): Move.GIVE_BACK,
    (Stage.CLAIM, REFUSED): Move.GIVE_BACK,
    (Stage.CREATE, BOUND): Move.PROXY,
    (Stage.CREATE, STALE): Move.UNCLAIM,
    (Stage.CREATE, REFUSED): Move.UNCLAIM,
    (Stage.PROXY, BOUND): Move.SETTLE,
    (Stage.PROXY, STALE): Move.DROP,
    (Stage.PROXY, REFUSED): Move.AGAIN,
    (Stage.UNCLAIM, DONE): Move.SETTLE,
    (Stage.UNCLAIM, STALE): Move.DROP,
    (Stage.UNCLAIM, REFUSED): Move.AGAIN,
    (Stage.RESTORE, DONE): Move.SETTLE,
    (Stage.RESTORE, STALE): Move.DROP,
    (Stage.RESTORE, REFUSED): Move.LATER,
    (Stage.CONFIRM, DONE): Move.ABSENT,
    (Stage.CONFIRM, STALE): Move.DROP,
    (Stage.CONFIRM, REFUSED): Move.LATER,
    (Stage.CONFIRM_SOURCE, DONE): Move.ABSENT,
    (Stage.CONFIRM_SOURCE, STALE): Move.DROP,
    (Stage.CONFIRM_SOURCE, REFUSED): Move.LATER,
    (Stage.MIRROR, DONE): Move.DROP,
    (Stage.MIRROR, STALE): Move.DROP,
    (Stage.MIRROR, REFUSED): Move.LATER,
    (Stage.DELETE, DONE): Move.SETTLE,
    (Stage.DELETE, STALE): Move.DROP,
    (Stage.DELETE, REFUSED): Move.LATER,
    (Stage.DELETE_SOURCE, DONE): Move.SETTLE,
    (Stage.DELETE_SOURCE, STALE): Move.DROP,
    (Stage.DELETE_SOURCE, REFUSED): Move.LATER,
    (Stage.FINISH, DONE): Move.SETTLE,
    (Stage.FINISH, STALE): Move.DROP,
    (Stage.FINISH, REFUSED): Move.LATER,
}


def move_for(stage: Stage, verdict: str) -> Move:
    """What a verdict leads to; UNKNOWN and anything unheard of mean the same intent again."""
    return Move.AGAIN if verdict == UNKNOWN else MOVES.get((stage, verdict), Move.AGAIN)


@dataclass
class Flight:
    """One pod's intent in the air (or settling), sent to `via`; `cluster`/`node` is the place that it is about."""

    stage: Stage
    intent: AnyIntent
    via: str
    cluster: str
    node: str
    epoch: int
    sent_at: float
    attempts: int = 1
    settling: bool = False
    again_at: float = float("inf")  # when to send the same intent once more
    status: bytes = b""  # what a MIRROR carries
    fresh: bool = False  # a CLAIM by a decision of this life, not the resumption of an earlier one

    @property
    def waits(self) -> bool:
        """Whether it is not in the air now, but to be sent again."""
        return self.again_at != float("inf")


def settled(flight: Flight, source: Pod | None, delegate: Pod | None) -> bool:
    """Whether the watch now shows what a settling flight brought about."""
    if flight.stage in (Stage.BIND, Stage.PROXY):
        return source is None or bool(source.node)
    if flight.stage is Stage.UNCLAIM:
        return source is None or not (source.claim or source.has_finalizer)
    if flight.stage is Stage.RESTORE:
        return source is None or source.claim is not None
    if flight.stage is Stage.DELETE:
        return delegate is None or delegate.terminating
    if flight.stage is Stage.DELETE_SOURCE:
        return source is None or source.terminating
    return source is None or not source.has_finalizer
