"""In-memory state of one cluster's executor. All of it may be lost in a restart: the API server has
the truth.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from agents.executor.bounds.byte_budget import ByteBudget, ByteRate, SharedBudget
from agents.executor.bounds.recent import Recent
from agents.executor.context.copy_table import Copies
from agents.executor.context.event_queue import EventQueue
from agents.executor.context.foreign_bytes import ForeignBudget
from agents.executor.context.ledger import Ledger
from agents.executor.context.relayed_events import ToldEvents
from agents.executor.context.service_table import Services
from agents.executor.context.view import ClusterView
from agents.executor.crossing.policy import ExecutorPolicy
from agents.executor.trust.epoch_guard import EpochGuard
from agents.executor.trust.peers import PeerTable
from agents.executor.trust.renewals import Renewals
from agents.executor.trust.state import ExecutorState
from shared.messages import Shadows
from shared.model.names import FENCED
from shared.model.pod import Pod
from shared.security.keys import OwnKeys, TrustedKeys

PodReader = Callable[[bytes], Pod]
# Bytes of pods that statuses from other clusters rewrite: of one pod, and of all in one other
# cluster. 10,000 pods of 10 KiB may start at once. etcd keeps what was for five minutes by default,
# in 2 GiB.
_STATUS_OF_POD = ByteRate(2 * 2**20, 16 * 2**10)
_STATUS_OF_NAMESPACE = ByteRate(
    128 * 2**20, 2**19
)  # in one other cluster: half of what all have there
_STATUS_OF_CLUSTER = ByteRate(256 * 2**20, 2**20)
_LABELS_OF_NAMESPACE = ByteRate(
    32 * 2**20, 64 * 2**10
)  # of delegates that come under other shadow budgets


class Moment(NamedTuple):
    """Now, twice: `mono` seconds for durations, `wall` seconds since 1970 for timestamps that
    people read.
    """

    mono: float
    wall: float


class Mirrored(NamedTuple):
    """The last status that was written to a source pod (a digest of it), and the resourceVersion
    that this made.
    """

    digest: bytes
    phase: str
    version: str


class Reported(NamedTuple):
    """The last 'unschedulable' that was written to a pod. `since` is when it first became so, as
    RFC 3339.
    """

    reason: str
    message: str
    written: float
    evented: float
    since: str
    nominated: str = ""


class ReportedGroup(NamedTuple):
    """The last condition that was written to a PodGroup, and when."""

    scheduled: bool
    reason: str
    message: str
    written: float


class GivenUp(NamedTuple):
    """A delegate (its UID) of attempt `epoch` that was deleted because admission had changed it too
    much, and why.
    """

    epoch: int
    delegate: str
    why: str


class Made(NamedTuple):
    """A namespace that was made here at `at`, for pods of `cluster`; "": it was there already."""

    cluster: str
    at: float


class KubeletEndpoint(NamedTuple):
    """Where this agent serves as the kubelet of its proxy nodes."""

    address: str
    port: int


# so long what an order has found, or made, is not asked for again: the replicas of one controller
# come together, and the watch may not have shown it yet
KNOWN_S = 10.0


class AtHome(NamedTuple):
    """What was found of an object here, and when: the digest of its content, b"" if there is none;
    None if it does not follow pods. `size`: bytes that were read.
    """

    digest: bytes | None
    at: float
    size: int = 0


@dataclass(slots=True)
class Local:
    """One cluster's executor: its view, its policy, its short memory, and what it has stored.

    `read_pod` makes a model Pod from the JSON of a pod; a pod that cannot be read has `problems`,
    it never raises.
    """

    view: ClusterView
    cluster: str
    read_pod: PodReader
    keys: OwnKeys
    cluster_uid: str = ""
    policy: ExecutorPolicy = field(default_factory=ExecutorPolicy)
    ledger: Ledger = field(default_factory=Ledger)
    epoch_guard: EpochGuard = field(default_factory=EpochGuard)
    state: ExecutorState = field(default_factory=ExecutorState)
    events: EventQueue = field(default_factory=EventQueue)
    mirrored: Recent[str, Mirrored] = field(default_factory=Recent)
    reported: Recent[str, Reported] = field(default_factory=Recent)
    reported_groups: Recent[str, ReportedGroup] = field(default_factory=Recent)  # by UID
    group_version: str = ""  # of the API of PodGroups, by which one was found last
    refused: Recent[str, str] = field(
        default_factory=Recent
    )  # why a status is not mirrored, by UID of the source
    status_bytes_of_pod: ByteBudget = field(
        default_factory=lambda: ByteBudget(_STATUS_OF_POD)
    )  # by its UID
    status_bytes: SharedBudget = field(
        default_factory=lambda: SharedBudget(_STATUS_OF_NAMESPACE, _STATUS_OF_CLUSTER)
    )
    # when a delegate (its UID) was last written that a change of its source is refused
    refusal_shown: Recent[str, float] = field(default_factory=Recent)
    # how often in a row the server failed at a change of a delegate, by its UID
    change_failed: Recent[str, int] = field(default_factory=Recent)
    # what was last told of copies that it reads and that are stale, by UID of a delegate
    stale_told: Recent[str, str] = field(default_factory=Recent)
    told_events: Recent[str, ToldEvents] = field(default_factory=Recent)  # by UID of the source
    misplaced: Recent[str, float] = field(
        default_factory=Recent
    )  # when it was told that others put it on a proxy node
    given_up: Recent[str, GivenUp] = field(default_factory=Recent)  # by UID of the source
    trusted: TrustedKeys = field(default_factory=TrustedKeys)
    renewals: Renewals = field(default_factory=Renewals)
    stopped: Recent[str, str] = field(
        default_factory=Recent
    )  # UID of a delegate, and its version in the view then
    unfinished: dict[str, float] = field(
        default_factory=dict
    )  # UID of a leftover -> when it was first, or last, looked at
    # When a ConfigMap was last found that delegates need (objects/target_needs.py).
    config_maps: Recent[bytes, float] = field(default_factory=lambda: Recent(10_000))
    at_home: Recent[tuple[str, str, str, str], AtHome] = field(
        default_factory=lambda: Recent(10_000)
    )  # by kind, namespace and name; of a Secret also by the cluster to which it follows
    copies: Copies = field(default_factory=Copies)
    services: Services = field(default_factory=Services)
    shadows: Shadows = field(default_factory=Shadows)  # as the dispatcher last said
    uncounted: Recent[str, str] = field(
        default_factory=Recent
    )  # why not all budgets of a pod are kept, by its UID
    kubelet: KubeletEndpoint | None = None
    # kinds of objects that can be fetched from other clusters: none without a way to ask them
    follows: tuple[str, ...] = ()
    # whether Services of others are made here, and ours given to them; None: no way to ask them
    serves: bool | None = None
    server_minor: int = 0  # of this cluster's Kubernetes 1.x; 0: not known
    label_bytes: ByteBudget = field(
        default_factory=lambda: ByteBudget(_LABELS_OF_NAMESPACE)
    )  # by namespace
    # When a ServiceAccount was last found, by namespace and name (objects/accounts.py).
    accounts: Recent[tuple[str, str], float] = field(default_factory=lambda: Recent(10_000))
    made: Recent[str, Made] = field(default_factory=lambda: Recent(1000))  # by namespace
    # When an order last named a namespace, when it was last looked at whether that is empty, and
    # those whose deletion is under way (duties/empty_namespaces.py).
    named: Recent[str, float] = field(default_factory=lambda: Recent(10_000))
    looked_at: Recent[str, float] = field(default_factory=lambda: Recent(10_000))
    leaving: set[str] = field(default_factory=set)
    peers: PeerTable = field(init=False)
    foreign_budget: ForeignBudget = field(init=False)

    def __post_init__(self) -> None:
        self.foreign_budget = ForeignBudget(self.policy.foreign_bytes, self.copies, self.services)
        self.peers = PeerTable(self.cluster)

    def server_went_back(self) -> None:
        """Forget what was written onto pods: etcd was restored from a backup, so it may be missing
        there.
        """
        self.mirrored.clear()
        self.reported.clear()
        self.reported_groups.clear()
        self.copies.doubt()
        self.services.doubt()

    def behind(self, node: str) -> str:
        """The cluster that this node stands for, by our mark; "" for any other, and for one that is
        not seen.
        """
        seen = self.view.node(node)
        return seen.proxy_for if seen is not None else ""

    def is_own(self, node: str) -> bool:
        """Whether the node is seen, and one of this cluster itself: whatever its name, it has a
        kubelet of its own.
        """
        seen = self.view.node(node)
        return seen is not None and not seen.proxy_for

    def fenced(self, proxy: str) -> str:
        """Why nothing may go to the cluster of this proxy node: an operator says that nothing runs
        there; else ''.
        """
        node = self.view.node(proxy)
        if node is None or node.labels.get(FENCED) != "true":
            return ""
        return (
            f'node "{proxy}" has the label {FENCED}: an operator has fenced cluster '
            f'"{node.proxy_for}"'
        )
