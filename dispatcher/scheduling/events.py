"""What goes into the core and what comes out of it: plain data, the whole surface between core and
world.
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from dispatcher.scheduling.records.decision import Decision
from shared.messages import (
    NO_SHADOWS,
    AnyIntent,
    Changes,
    LinkReading,
    Outcome,
    Peer,
    PodReach,
    Shadows,
)
from shared.model.names import OWN_NETWORK


@dataclass(frozen=True)
class ClusterChanged:
    """An agent reported; an empty report still proves that it lives. `executor`: as of ClusterView.
    `memory`: bytes that the report takes, about.
    """

    changes: Changes
    executor: bool | None = None
    memory: int = 0


@dataclass(frozen=True)
class FoldOn:
    """Go on with a large report of a cluster that was taken in only in part
    (`SchedulerCore.folding`).
    """

    cluster: str


@dataclass(frozen=True)
class ClusterSilent:
    """An agent did not answer in time or died: nothing new goes there until it reports again.
    `executor`: as of ClusterView.
    """

    cluster: str
    problem: str
    executor: bool | None = None


@dataclass(frozen=True)
class Answered:
    """Outcomes of intents sent to a cluster."""

    cluster: str
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True)
class Unanswered:
    """A batch whose call failed: what happened to its intents is unknown until the cluster's truth
    is seen again.
    """

    cluster: str
    intent_ids: tuple[str, ...]
    problem: str


@dataclass(frozen=True)
class Unsent:
    """A batch whose call was never begun, since the cluster's agent is known to be away: none of it
    was done.
    """

    cluster: str
    intent_ids: tuple[str, ...]


@dataclass(frozen=True)
class PeersAcknowledged:
    """An agent has answered to peers: the token in its answer is echoed from now on, and renews its
    leases.

    `probe`, `links`, `follows`, `pod_address`, `reaches`: as in PeersAck. `refuses`: it carries out
    no orders, as it says; it is told of peers all the same.
    """

    cluster: str
    probe: str = ""
    links: tuple[LinkReading, ...] = ()
    refuses: bool = False
    follows: tuple[str, ...] = ()
    pod_address: str = ""
    reaches: tuple[PodReach, ...] = ()


@dataclass(frozen=True)
class PeersRefused:
    """An agent obeys nothing that we sign (its clock, an authority that it does not trust): it
    takes no orders, until it acknowledges peers, which are told on as a probe.
    """

    cluster: str


@dataclass(frozen=True)
class Tick:
    """Time has passed: run scheduling cycles (at most `budget` pods), flush back-offs, repair
    delegations.

    `budget` None: all but the scheduling cycles, which a `Decide` asks for.
    """

    budget: int | None = 1000


def _never() -> bool:
    return False


def _stopped() -> float:
    return 0.0


@dataclass(frozen=True)
class Decide:
    """Run scheduling cycles, of at most `budget` pods: what a Tick does besides, so that each can
    be timed alone.

    `enough` is asked after each class of pods, and between pods that are decided one by one,
    whether to leave the rest for the next Decide. `clock` tells the CPU seconds that were spent, by
    which pods that take long are set aside. `in_rounds`: another follows at once, so this one ends
    as soon as the first pod of a tenant is decided that came while others wait.
    """

    budget: int = 1000
    enough: Callable[[], bool] = _never
    clock: Callable[[], float] = _stopped
    in_rounds: bool = False


Event = (
    ClusterChanged
    | FoldOn
    | ClusterSilent
    | Answered
    | Unanswered
    | Unsent
    | PeersAcknowledged
    | PeersRefused
    | Tick
    | Decide
)


@dataclass(frozen=True)
class SendIntents:
    """Send these to one cluster's agent, in order, in one call."""

    cluster: str
    intents: tuple[AnyIntent, ...]


@dataclass(frozen=True)
class SendPeers:
    """Tell one cluster's agent what its proxy nodes shall show. `encoded`: the same peers, encoded
    once for all. `network`: the pod network that its cluster is part of.
    """

    cluster: str
    peers: tuple[Peer, ...]
    shadows: Shadows = NO_SHADOWS
    encoded: tuple[msgspec.Raw, ...] = ()
    network: str = OWN_NETWORK


class Decided(msgspec.Struct, frozen=True, gc=False):
    """One decision, for metrics and the journal; `decision.record()` makes the explain record when
    it is wanted.

    `attempts`: how many there were for its pod with this one, since it came into the queue at
    `queued_at`.
    """

    decision: Decision
    attempts: int = 1
    queued_at: float = 0.0


@dataclass(frozen=True)
class OperatorWarning:
    """Something for the operator's log: a plugin failed (its pod is parked, others go on), or a
    cluster needs care.

    `error`: a fault of the dispatcher's own, to be logged with its traceback.
    """

    text: str
    error: Exception | None = None


@dataclass(frozen=True)
class OperatorNotice:
    """Something for the operator's log that is not wrong."""

    text: str


Effect = SendIntents | SendPeers | Decided | OperatorWarning | OperatorNotice
