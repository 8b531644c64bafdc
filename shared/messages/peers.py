"""Dispatcher to agent: the other clusters as their proxy nodes shall show them; and the agent's
answer.
"""

from typing import Annotated

from msgspec import Meta

from shared.messages.peer_links import LinkReading, PodReach
from shared.messages.version import VERSION
from shared.model.bounds import MAX_ROWS, Text, Word
from shared.model.names import OWN_NETWORK
from shared.model.pod import PodRef, Record

SERVICE = "Service"  # a cluster that follows it gives its own, and makes those of others
MAX_KINDS = 16  # of objects that follow pods: every agent is told of them


class Peer(Record, frozen=True):
    """Another cluster as its proxy node shall show it: `allocatable` is what that cluster has free,
    internal units.

    `uid` is the UID of its kube-system namespace, `keys` its public keys as in Hello. `api_ok`: its
    agent said at last that its API server answers. `unrenewed_s`: for so long no lease of it can
    have been renewed; 0 while it is ready. `probe`: where its agent answers probes, as it says
    itself (IP:port); an agent probes what its own settings allow. `follows`: as in PeersAck; None
    while its agent has not said so to this dispatcher. `network`: the pod network that it is part of,
    as an operator has said; None if that is not known. `pod_address`: as in PeersAck.
    """

    cluster: str
    ready: bool
    allocatable: dict[str, int] = {}
    labels: dict[str, str] = {}
    uid: str = ""
    keys: tuple[str, ...] = ()
    api_ok: bool = False
    unrenewed_s: float = 0.0
    probe: str = ""
    follows: tuple[str, ...] | None = ()
    network: Word | None = OWN_NETWORK
    pod_address: str = ""


class Shadow(Record, frozen=True):
    """A budget in the target that keeps budgets of `cluster` for its delegates in `namespace`.

    `keep`: its minAvailable. `always`: delegates that are not Ready may be evicted. `budgets`:
    whose names, for people.
    """

    cluster: str
    namespace: str
    name: str
    keep: int
    always: bool = False
    budgets: str = ""


class Cover(Record, frozen=True):
    """The delegate `pod` belongs under the shadow budget of this name in its namespace; "": under
    none.
    """

    pod: PodRef
    shadow: str


class UncountedBudgets(Record, frozen=True):
    """A pod of the cluster's own that runs elsewhere, and why not all budgets that may select it
    are kept there.
    """

    pod: PodRef
    why: str


class Shadows(Record, frozen=True):
    """All shadow budgets of the clusters `of`; one of theirs that is not listed is removed. Of
    others nothing is said.

    `covers`: delegates of theirs whose label says something else; not always all of them at once.
    `uncounted`: pods whose owners are to be warned, not always all of them either.
    """

    of: tuple[str, ...] = ()
    shadows: tuple[Shadow, ...] = ()
    covers: tuple[Cover, ...] = ()
    uncounted: tuple[UncountedBudgets, ...] = ()


NO_SHADOWS = Shadows()


class Peers(Record, frozen=True):
    """All other clusters; a proxy node of a cluster that is not listed is removed once no pod is
    bound to it.

    `echo` is the word of the last PeersAck of this agent: it renews the lease of its delegates for
    `lease_s`. `network`: the pod network that the agent's cluster is part of.
    """

    dispatcher: str
    dispatcher_epoch: int
    peers: tuple[Peer, ...] = ()
    version: int = VERSION
    echo: str = ""
    lease_s: float = 0.0
    shadows: Shadows = NO_SHADOWS
    network: str = OWN_NETWORK


class PeersAck(Record, frozen=True):
    """The answer to Peers. `word` is another one each time, to be echoed; "" of an agent that knows
    no leases.

    `probe`: where this agent answers probes of others (IP:port), "" nowhere. `links`: what it
    measured to others. `problem`: why its executor carries out no orders now; "": it does, or an
    older one does not say. `follows`: the kinds of objects that its executor fetches from the home
    of the pods that name them, over this dispatcher's gateway; "Service": it also gives its own.
    `pod_address`: where the agent answers as a pod of its cluster to agents of the same pod network
    (IP:port), "" nowhere. `reaches`: which of their pods it reaches.
    """

    cluster: Word
    word: Word = ""
    version: int = VERSION
    probe: Word = ""
    links: Annotated[tuple[LinkReading, ...], Meta(max_length=MAX_ROWS)] = ()
    problem: Text = ""
    follows: Annotated[tuple[Word, ...], Meta(max_length=MAX_KINDS)] = ()
    pod_address: Word = ""
    reaches: Annotated[tuple[PodReach, ...], Meta(max_length=MAX_ROWS)] = ()
