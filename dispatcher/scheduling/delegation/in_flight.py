"""The state machine of a pod's one in-flight intent: what was sent, and what each verdict of the
agent leads to.

`TRANSITIONS` is the whole protocol on the sending side. A verdict UNKNOWN never frees anything: the
same intent is sent again until its effect is known, because the node's room may be taken already.
Nothing is sent here: see `outbox`.
"""

import enum

import msgspec

from shared.messages import BOUND, CLAIMED, DONE, REFUSED, STALE, AnyIntent, DeleteDelegate
from shared.model.pod import Pod


class IntentKind(enum.Enum):
    """What an in-flight intent does."""

    __hash__ = object.__hash__  # looked up for every pod; Enum's own hash is a call of Python
    BIND = "bind"
    CLAIM = "claim"
    CREATE = "create"
    PROXY = "proxy"
    UNCLAIM = "unclaim"
    RESTORE = "restore"
    CONFIRM = "confirm"
    CONFIRM_SOURCE = "confirm-source"
    CONFIRM_END = "confirm-end"
    MIRROR = "mirror"
    DELETE = "delete"
    DELETE_SOURCE = "delete-source"
    FINISH = "finish"
    SIGN = "sign"
    UPDATE = "update"


PLACING = frozenset(
    (IntentKind.BIND, IntentKind.CLAIM, IntentKind.CREATE, IntentKind.PROXY, IntentKind.UNCLAIM)
)
BINDING = frozenset((IntentKind.BIND, IntentKind.PROXY))
# What nobody wants any more once the source ends. How far it came is asked then (COLLECT), and not
# by trying on.
ENDED_WITH_SOURCE = frozenset(
    (
        IntentKind.CREATE,
        IntentKind.PROXY,
        IntentKind.UNCLAIM,
        IntentKind.CONFIRM_END,
        IntentKind.MIRROR,
        IntentKind.DELETE_SOURCE,
        IntentKind.SIGN,
        IntentKind.UPDATE,
    )
)


# A change that is written onto a delegate is due as long as it does not show, and must hold up
# nothing else of its pod: a status, an end.
LET_GO = frozenset((IntentKind.SIGN, IntentKind.UPDATE))


class Transition(enum.Enum):
    """What a verdict leads to."""

    __hash__ = object.__hash__  # Enum's own is a call of Python
    SETTLE = "settle"  # it holds: wait until the watch shows it
    CREATE = "create"  # claimed: go on with the delegate
    MADE = "made"  # the delegate is there, and not bound: go on once all of its group are
    PROXY = "proxy"  # the delegate is bound: go on with the source
    UNCLAIM = "unclaim"  # the target said no: take the claim back
    GIVE_BACK = "give-back"  # forget the place, queue again with back-off
    AGAIN = "again"  # the same intent again, later
    # it was refused, or does not show, and holds no place: look at the world again, after a pause
    # that grows
    LATER = "later"
    ABSENT = "absent"  # the API server has no such pod
    UPDATE = "update"  # signed as it is now: go on with the delegate
    ENDED = "ended"  # it has said whether the pod goes on, and how it ends
    DROP = "drop"  # nothing holds: look at the world again


# UNKNOWN, and every pair without a row, mean AGAIN; LATER of those that are LET_GO.
TRANSITIONS: dict[tuple[IntentKind, str], Transition] = {
    (IntentKind.BIND, BOUND): Transition.SETTLE,
    (IntentKind.BIND, STALE): Transition.GIVE_BACK,
    (IntentKind.BIND, REFUSED): Transition.GIVE_BACK,
    (IntentKind.CLAIM, CLAIMED): Transition.CREATE,
    (IntentKind.CLAIM, STALE): Transition.GIVE_BACK,
    (IntentKind.CLAIM, REFUSED): Transition.GIVE_BACK,
    (IntentKind.CREATE, BOUND): Transition.PROXY,
    (IntentKind.CREATE, DONE): Transition.MADE,
    (IntentKind.CREATE, STALE): Transition.UNCLAIM,
    (IntentKind.CREATE, REFUSED): Transition.UNCLAIM,
    (IntentKind.PROXY, BOUND): Transition.SETTLE,
    (IntentKind.PROXY, STALE): Transition.DROP,
    (IntentKind.PROXY, REFUSED): Transition.AGAIN,
    (IntentKind.UNCLAIM, DONE): Transition.SETTLE,
    (IntentKind.UNCLAIM, STALE): Transition.DROP,
    (IntentKind.UNCLAIM, REFUSED): Transition.AGAIN,
    (IntentKind.RESTORE, DONE): Transition.SETTLE,
    (IntentKind.RESTORE, STALE): Transition.DROP,
    (IntentKind.RESTORE, REFUSED): Transition.LATER,
    (IntentKind.CONFIRM, DONE): Transition.ABSENT,
    (IntentKind.CONFIRM, STALE): Transition.DROP,
    (IntentKind.CONFIRM, REFUSED): Transition.LATER,
    (IntentKind.CONFIRM_SOURCE, DONE): Transition.ABSENT,
    (IntentKind.CONFIRM_SOURCE, STALE): Transition.DROP,
    (IntentKind.CONFIRM_SOURCE, REFUSED): Transition.LATER,
    (IntentKind.CONFIRM_END, DONE): Transition.ENDED,
    (IntentKind.CONFIRM_END, STALE): Transition.ENDED,
    (IntentKind.CONFIRM_END, REFUSED): Transition.LATER,
    (IntentKind.MIRROR, DONE): Transition.DROP,
    (IntentKind.MIRROR, STALE): Transition.DROP,
    (IntentKind.MIRROR, REFUSED): Transition.LATER,
    (IntentKind.DELETE, DONE): Transition.SETTLE,
    (IntentKind.DELETE, STALE): Transition.DROP,
    (IntentKind.DELETE, REFUSED): Transition.LATER,
    (IntentKind.DELETE_SOURCE, DONE): Transition.SETTLE,
    (IntentKind.DELETE_SOURCE, STALE): Transition.DROP,
    (IntentKind.DELETE_SOURCE, REFUSED): Transition.LATER,
    (IntentKind.FINISH, DONE): Transition.SETTLE,
    (IntentKind.FINISH, STALE): Transition.DROP,
    (IntentKind.FINISH, REFUSED): Transition.LATER,
    (IntentKind.SIGN, DONE): Transition.UPDATE,
    (IntentKind.SIGN, STALE): Transition.LATER,
    (IntentKind.SIGN, REFUSED): Transition.LATER,
    (IntentKind.UPDATE, DONE): Transition.LATER,
    (IntentKind.UPDATE, STALE): Transition.LATER,
    (IntentKind.UPDATE, REFUSED): Transition.LATER,
}


class InFlightIntent(msgspec.Struct, gc=False):
    """The intent of one pod that is not finished, sent to cluster `via`; it is about a place on
    `cluster`/`node`.

    `settling`: the agent has confirmed it, and the watch does not show its effect yet.
    """

    kind: IntentKind
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
    generation: int = 0  # likewise
    fresh: bool = False  # a CLAIM by a decision of this life, not the resumption of an earlier one
    doubted_at: float = float("inf")  # when it first failed
    words: str = ""  # why it failed last
    joint: bool = False  # of a member of a group, which starts together with others
    made: bool = False  # of a CREATE: the delegate is there, and only to be bound
    held: bool = False  # it is not sent before all of these have got as far
    # the group is given back: what was begun for this member is undone
    withdrawn: bool = False

    @property
    def waits(self) -> bool:
        """Whether it failed, and waits to be sent again."""
        return self.again_at != float("inf")

    @property
    def doubt(self) -> str:
        """Of one that has failed, for people: what is not known, and why."""
        what = (
            f'what came of the order "{self.kind.value}" to cluster {self.via} is not known, and '
            "it is sent again"
        )
        return f"{what}: {self.words or 'its agent did not answer'}"


def settled(in_flight: InFlightIntent, source: Pod | None, delegate: Pod | None) -> bool:
    """Whether the watch now shows the effect of a settling intent."""
    if in_flight.kind in BINDING:
        return source is None or bool(source.node)
    if in_flight.kind is IntentKind.UNCLAIM:
        return source is None or not (source.claim or source.has_finalizer)
    if in_flight.kind is IntentKind.RESTORE:
        return source is None or source.claim is not None
    if isinstance(in_flight.intent, DeleteDelegate):
        return delegate is None or delegate.ends_within(in_flight.intent.grace_s)
    if in_flight.kind is IntentKind.DELETE_SOURCE:
        return source is None or source.terminating
    return source is None or not source.has_finalizer
