"""The extension points around a decision: PreEnqueue, PostFilter, PreScore, PreBind, Bind,
PostBind.

`framework` has the points of the decision itself. Names, order and meaning are kube-scheduler's; a
plugin implements the points it needs by inheriting these classes. The order of all points, and what
happens at each where no plugin is asked or one raises, is told in docs/extension-points.md.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.framework.cycle_state import CycleState, Skip
from dispatcher.scheduling.framework.fleet_view import Codes, FleetView, Floats, Ints
from dispatcher.scheduling.framework.plugin import Plugin, Refuse, S, Score
from dispatcher.scheduling.framework.pod_info import PodInfo
from shared.messages import AnyIntent
from shared.model.pod import PodId
from shared.model.reasons import Why

RowList = NDArray[np.intp]


class PreEnqueue(Plugin[S]):
    """May the pod enter the queue at all? A refused pod is gated: nobody looks at it until it may."""

    @abstractmethod
    def pre_enqueue(self, pod_info: PodInfo) -> Refuse | None:
        """None: yes. A Refuse: not before the pod changes, or an event that helps against it."""


class PreScore(Score[S]):
    """A Score plugin that prepares its scores from the set of feasible nodes.

    It is asked anew, and all rows are scored anew, whenever anything moved: for plugins that do
    need the whole set.
    """

    @abstractmethod
    def pre_score(self, state: S, pod_info: PodInfo, fleet: FleetView, rows: RowList) -> S | Skip:
        """What `score` is handed instead of PreFilter's `state`; SKIP to add no score. `rows`: the
        feasible ones.
        """


# --- PostFilter
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod on a node that may be evicted for the pod that found no place."""

    pod_id: PodId
    pod_info: PodInfo
    cluster: str  # where it runs
    node: str


@dataclass(frozen=True, slots=True)
class Nomination:
    """PostFilter's answer: the pod will fit `row` once `victims` are gone; that room is its own
    from now on.
    """

    row: int
    victims: tuple[Victim, ...] = ()


@dataclass(frozen=True, slots=True)
class NoHelp:
    """PostFilter's answer: nothing to be done; `message` follows the reasons of the refusal.

    `keeps`: an earlier nomination of the pod stands (its victims are still going); else it is taken
    back.
    """

    message: str
    keeps: bool = False


class VictimBounds(NamedTuple):
    """By row, bounds of what victims come to, above all others where none can help. `priority`: of
    the least important pod there. `victims`: so many are needed. `latest`: if all victims have that
    priority, one has started no later (unix seconds, infinite for one that has not started).
    """

    priority: Ints
    victims: Ints
    latest: Floats


class Trial(Protocol):
    """What-if on the fleet for one refused pod. Whatever is taken out is back when PostFilter has
    answered.
    """

    # refused rows that might fit without some pods, ascending; no others are worth a try
    rows: RowList
    hopeful: RowList  # of these rows those with any pod of lower priority, but for the spared
    spared: Mapping[
        str, int
    ]  # such rows by cluster, where it has refused the pod and may again: nobody is evicted
    evaluated: int  # live rows
    nominated: int | None  # row of the node that the pod is promised already

    @property
    def one_by_one(self) -> bool:
        """Whether a row's answer rests on other rows, too: try rows one after the other."""
        ...

    @property
    def known(self) -> dict[int, Any]:
        """What the plugin found out of rows, by row, kept for pods of this class and priority as
        long as it holds: rows that were touched since are not in it any more. To be written to.
        """
        ...

    def why(self, row: int) -> Why | None:
        """Why the row is refused, None if it is not."""
        ...

    def victim_bounds(self, rows: RowList) -> VictimBounds:
        """What victims on hopeful `rows` come to at least, known without a try."""
        ...

    def lower(self, row: int) -> Sequence[Victim]:
        """Pods on the row of lower priority than the refused one, as far as they may be evicted."""
        ...

    def terminating(self, row: int) -> bool:
        """Whether a pod of lower priority on the row is on its way out already."""
        ...

    def suppose_gone(self, victims: Sequence[Victim]) -> None:
        """As if these were gone."""
        ...

    def restore(self, victims: Sequence[Victim]) -> None:
        """As if these had stayed after all."""
        ...

    def staying(self, row: int, victims: Sequence[Victim]) -> Sequence[bool] | None:
        """Which of all that are there of these may stay if they come back in this order, each if
        all filters still let the pod pass: True by pod; known without a try. None: it has to be
        tried.
        """
        ...

    def codes(self, rows: RowList) -> Codes:
        """What the profile's filters say about `rows` now: 0, or the first reason."""
        ...


class PostFilter(Plugin[S]):
    """Asked when no node is feasible; the first plugin that nominates one ends the point."""

    @abstractmethod
    def post_filter(
        self, cycle: CycleState, pod_info: PodInfo, trial: Trial, fleet: FleetView
    ) -> Nomination | NoHelp | None:
        """A nomination, why there is none, or None for nothing to say."""


# --- binding
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Order:
    """Something that must be done in `cluster` before the bind; `intent`'s id and epoch are filled
    in when it is sent.

    Equal orders are sent once. `about`: for people, what is waited for.
    """

    cluster: str
    intent: AnyIntent
    about: str = field(default="", compare=False)


# A pod waits so long for what PreBind orders: kube-scheduler's bindTimeoutSeconds of volumes.
PRE_BIND_S = 600.0


class PreBind(Plugin[S]):
    """What must be so before the pod is bound (volumes, say)."""

    @abstractmethod
    def pre_bind(
        self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView
    ) -> Refuse | Sequence[Order] | None:
        """None: all is so. Orders: do these, and ask again until it is. A Refuse: give the place
        back.
        """


@dataclass(frozen=True, slots=True)
class Handed:
    """The bind is somebody else's task, named for people; the place is held until the pod is seen
    bound.
    """

    to: str
    deadline_s: float = 300.0


class Bind(Plugin[S]):
    """Binds in place of the agents; the first that does not pass it on with None has it."""

    @abstractmethod
    def bind(
        self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView
    ) -> Handed | Refuse | None:
        """None: not mine (the default: our own Bind or Claim). Handed: it is under way elsewhere."""


class PostBind(Plugin[S]):
    """Told when a pod is bound; nothing it does can change that."""

    @abstractmethod
    def post_bind(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> None:
        """The pod is bound; `row` is -1 if its node is gone by now."""
