"""The scheduling framework: what a plugin may read, and the extension points it may implement.

Names and order are kube-scheduler's (k8s.io/kube-scheduler framework). All points work on *rows*: a
row is one node of one cluster. A plugin implements only the points it needs, by inheriting the
mixins below, and reads the fleet through the view that it is handed (`fleet_view`).

Points about one pod (PostFilter, Reserve, Permit, PreBind, Bind, PostBind) take its CycleState
first, as in kube-scheduler. PreFilter, PreScore, Filter and Score take none: their answers are kept
for all pods of a class, so they must not rest on one pod's cycle; what kube-scheduler's plugins put
there between these points is the typed `state`. `unreserve` and `restore` take none, either: after
a restart they come for pods whose cycle was another process's.

Laws: never log, never mutate the fleet, never raise for an expected rejection, no clock
(`fleet.now`), no randomness. An exception in a plugin rejects the one pod it was raised for, with
the plugin's name.
"""

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, cast

from typing_extensions import TypeVar

from dispatcher.scheduling.framework.cycle_state import CycleState, Skip
from dispatcher.scheduling.framework.derived import NOTHING, Derived
from dispatcher.scheduling.framework.fleet_view import Codes, FleetView, Floats, Ints, Rows
from dispatcher.scheduling.framework.hints import ClusterEvent
from dispatcher.scheduling.framework.pod_info import NO_TURN, PodInfo, QuotaTurn
from shared.model.pod import PodId
from shared.model.reasons import Reason, Why

S = TypeVar(
    "S", default=Any
)  # what a plugin answers in PreFilter and is handed at the later points
S_contra = TypeVar("S_contra", contravariant=True, default=Any)

MAX_SCORE = 100.0


class Depends(enum.Enum):
    """What one placement makes stale in a plugin's answers for other pods of the same class."""

    STATIC = "static"  # nothing: answers depend on the node object alone (labels, taints)
    NODE = "node"  # the touched row
    DOMAIN = "domain"  # every row that shares a fault domain with the touched row
    FLEET = "fleet"  # every row


@dataclass(frozen=True)
class Refuse:
    """An expected refusal of the pod as a whole (no node is looked at)."""

    why: Why


def refuse(reason: Reason, argument: str = "") -> Refuse:
    """A refusal from the closed list of reasons."""
    return Refuse(Why(reason, argument))


class WaitingRoom(Protocol):
    """The pods that hold a place and wait for a Permit plugin, as that plugin sees them
    (`Plugin.attach`).
    """

    def waiting(self) -> Sequence[tuple[PodId, PodInfo]]:
        """All pods that wait for any plugin, longest first."""
        ...

    def allow(self, pod_id: PodId, plugin: str) -> None:
        """`plugin` has no objection any more; a pod that nobody else lets wait goes on. Unknown
        pods are ignored.
        """
        ...

    def reject(self, pod_id: PodId, plugin: str, why: Why) -> None:
        """The pod's place is given back, whoever else lets it wait. Unknown pods are ignored."""
        ...


class Plugin(ABC, Generic[S]):
    """Base of every policy. `name` is the key in profiles; S is what it answers in PreFilter and is
    handed later.
    """

    name: ClassVar[str]
    depends: ClassVar[Depends] = Depends.NODE
    # Whether `class_key` is the same for pods that differ in `model.pod.OWN_FIELDS` and in names of
    # their claims alone, as long as the plugin lives: asked once for a template then, else of every
    # pod. It says the same of `fleet_key` for pods without volumes, as long as nothing in the fleet
    # moves.
    keyed_by_template: bool = False
    # Fields of Pod or PodInfo, or keys of annotations: of a pod in which all are empty it is not
    # asked, see `framework.asked`. Not inherited. (): it is asked of every pod.
    reads: tuple[str, ...] = ()
    # whether it has hard constraints that count other pods for pods without any of their own
    spreads_all: bool = False
    # The reasons for which it alone refuses. It may name those of `Reasons` besides.
    REASONS: ClassVar[tuple[Reason, ...]] = ()
    # what the fleet is to keep of readings for it, beside shares and means
    derives: Derived = NOTHING

    def attach(self, room: WaitingRoom) -> None:
        """Called once: where a Permit plugin finds the pods that wait, to allow or reject them."""

    def hint(self, event: ClusterEvent, pod_info: PodInfo) -> bool:
        """Whether an event that helps against one of its REASONS is worth a new try of a pod that
        it refused; asked once a class.
        """
        return True

    def hint_key(self, pod_info: PodInfo) -> Hashable:
        """What `hint_any` is to know of a pod that waits: a tenant, a namespace. Equal for equal
        class keys.
        """
        return None

    def hint_any(self, event: ClusterEvent, key: Hashable) -> bool:
        """Whether such an event may help any pod of this `hint_key`: asked once for all of them,
        before `hint`.
        """
        return True

    @abstractmethod
    def class_key(self, pod_info: PodInfo) -> Hashable:
        """Everything of the pod that this plugin looks at: equal keys must mean equal answers."""

    def fleet_key(self, pod_info: PodInfo, fleet: FleetView) -> Hashable:
        """What else of the pod matters because of what the fleet holds now (terms of placed pods
        that match it).

        Two pods get equal answers if their class keys and their fleet keys are equal. It is asked
        right before a decision, of every pod: it must be cheap, and no key may come back with
        another meaning.
        """
        return None

    def key_without_home(self, pod_info: PodInfo, fleet: FleetView) -> Hashable:
        """Instead of `class_key`, for pods that are decided with others: pods of several homes
        whose keys are equal get equal answers. Of a pod that some filter lets go to no node of its
        home now (`Filter.possible_clusters`), but for scores of nodes that this filter refuses.

        Who only scores, `by_cluster` and without normalising, is asked for the latter alone: else
        each pod brings its scores along.

        None: `class_key` holds. Not inherited. What it says is kept for pods of equal class keys as
        by `fleet.of_clusters`.
        """
        return None

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> S | Refuse | Skip:
        """State for this pod class: SKIP, a Refuse, or any value that the other points are handed."""
        return cast(S, None)  # of a plugin without state: Plugin[None]

    def refresh(
        self, state: S | Refuse | Skip, pod_info: PodInfo, fleet: FleetView
    ) -> S | Refuse | Skip:
        """The same when no node and no object has changed since `state` was made, but pods or
        counts have.

        What rests on nodes alone (eligible domains, say) is taken over from `state`, so that this
        is cheap.
        """
        return self.pre_filter(pod_info, fleet)


class QueueSort(Protocol):
    """Orders the queue."""

    def sort_key(self, pod_info: PodInfo, queued_at: float) -> tuple[Any, ...]:
        """A sortable key, smallest first; the cycle appends the pod's key so that ties are
        deterministic.
        """
        ...


class Filter(Plugin[S]):
    """A hard rule."""

    @abstractmethod
    def filter(self, state: S, fleet: FleetView, rows: Rows) -> Codes:
        """[len(rows)] 0 where the pod may go, else a code of `fleet.reasons`."""

    def open_rows(self, state: S, fleet: FleetView) -> tuple[Ints, int] | None:
        """The live rows where the pod may go, ascending, and the one code that `filter` has for all
        others; None where that is not known for less than `filter` takes. Asked of STATIC filters.
        """
        return None

    def possible_clusters(self, pod_info: PodInfo, fleet: FleetView) -> frozenset[str] | None:
        """The clusters that hold all nodes that it lets the pod be on now; None where that takes
        long to tell. Not inherited; kept as `Plugin.key_without_home` is.
        """
        return None

    def closed_clusters(self, pod_info: PodInfo, fleet: FleetView) -> Codes | None:
        """[clusters] why the pod may go to no node of a cluster, whatever node that is; 0 where it
        may. None: to all.

        Domains of clusters that a pod may not enter are none of its own: hard spread does not wait
        for them to fill.
        """
        return None


def closes_clusters(plugin: Filter[Any]) -> bool:
    """Whether it keeps pods out of whole clusters."""
    return type(plugin).closed_clusters is not Filter.closed_clusters


class ClusterFilter(Filter[Codes]):
    """A hard rule about whole clusters: PreFilter answers [clusters] 0 where the pod may go, else a
    reason code.
    """

    depends: ClassVar[Depends] = Depends.STATIC

    def filter(self, state: Codes, fleet: FleetView, rows: Rows) -> Codes:
        """The code of each node's cluster."""
        codes: Codes = state[fleet.nodes.cluster[rows]]
        return codes

    def closed_clusters(self, pod_info: PodInfo, fleet: FleetView) -> Codes | None:
        """What PreFilter answers; a pod that it refuses as a whole waits for that, and not for a
        cluster.
        """
        codes = self.pre_filter(pod_info, fleet)
        return None if isinstance(codes, Refuse | Skip) else codes


class RoomFilter(Filter[S]):
    """A filter by row that lets a pod pass where enough is free, and nowhere else."""

    @abstractmethod
    def wants(self, state: S) -> Sequence[tuple[str, int]] | None:
        """(resource, amount): where all of these are free (allocatable - requested) it refuses
        nothing, and it refuses every other row. None: it may refuse any row.
        """


class Score(Plugin[S]):
    """A preference."""

    @abstractmethod
    def score(self, state: S, fleet: FleetView, rows: Rows) -> Floats:
        """[len(rows)] raw score, bigger is better; 0..100 unless the plugin has a `normalize`.

        Rows that no filter lets pass may be among `rows`: what is said of them is not used.
        """

    normalizes: ClassVar[bool] = False  # whether it has a `normalize`; not to be set

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.normalizes = cls.normalize is not Score.normalize

    def normalize(self, raw: Floats) -> Floats:
        """Raw scores of the feasible rows to 0..100. Without it `score` answers these itself.

        It rests on the set of scores alone: equal ones get equal answers, however often and in
        which order they come.
        """
        return raw


class ClusterScore(Score[Floats]):
    """A preference for whole clusters: PreFilter answers [clusters] points."""

    depends: ClassVar[Depends] = Depends.STATIC

    def score(self, state: Floats, fleet: FleetView, rows: Rows) -> Floats:
        """The points of each node's cluster."""
        points: Floats = state[fleet.nodes.cluster[rows]]
        return points


class Reserve(Plugin[S]):
    """Bookkeeping beside the node's room: called when a place is assumed, and its exact inverse."""

    @abstractmethod
    def reserve(
        self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView
    ) -> Refuse | None:
        """Book; a Refuse books nothing."""

    @abstractmethod
    def unreserve(
        self, pod_info: PodInfo, row: int, fleet: FleetView
    ) -> Callable[[], object] | None:
        """Give back what reserve booked; the pod may be a later version of that one, with the same
        requests. May return what books the very same again, for a pod that was only supposed gone;
        None: `restore` does.
        """

    def restore(self, pod_info: PodInfo, row: int, fleet: FleetView) -> None:
        """Book what is already so, of a pod that no cycle of ours has decided, without the right to
        refuse; `row`: -1 if its node is not known. By default as `reserve` does.
        """
        self.reserve(CycleState(), pod_info, row, fleet)

    def batch_key(self, key: Hashable) -> Hashable:
        """What of its `class_key` pods have in common that `fits` and `reserve_all` may be handed
        together; by default all of it. Not inherited.
        """
        return key

    def too_large(self, pod_info: PodInfo, fleet: FleetView) -> Mapping[str, str] | None:
        """Of a pod that must not be bound in a larger size than was booked: the clusters for whose
        true size of it (`PodInfo.sizes`) nothing can be booked now, and why: they are passed over.
        None: it may be bound in any size.
        """
        return None

    def waits(self, pod_info: PodInfo, *, waits: bool) -> bool:
        """A pod waits that was refused for quota alone, or does so no more, whatever it does
        instead. Whether others may have waited behind it, which can go now.
        """
        return False

    def quota_turn(self, pod_info: PodInfo) -> QuotaTurn:
        """Of which quota the pod is charged, and its turn; NO_TURN: of none."""
        return NO_TURN


class Permit(Plugin[S]):
    """The last word before a place leaves as an intent: None to go, a Refuse, or seconds to wait
    (gangs).
    """

    @abstractmethod
    def permit(
        self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView
    ) -> Refuse | float | None:
        """None: go. A Refuse: give the place back. A number: hold the place that many seconds at
        most.
        """


@dataclass(frozen=True)
class PluginUse:
    """One line of a profile: which plugin, with which weight (scores only) and checked arguments."""

    name: str
    weight: float = 1.0
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Canary:
    """That a profile decides `percent` (0..100) of the pods that name the profile `of`, in its
    place.
    """

    of: str
    percent: float


@dataclass(frozen=True)
class Profile:
    """Plugins, weights and arguments under one schedulerName, in the order in which filters run."""

    scheduler_name: str
    plugins: tuple[PluginUse, ...]
    canary: Canary | None = None
