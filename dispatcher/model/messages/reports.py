"""Agent to dispatcher: who an agent is, and what changed in its cluster."""

from dispatcher.model.crossing import Opening
from dispatcher.model.messages.version import VERSION
from dispatcher.model.node import Node, Reading
from dispatcher.model.objects import AnyObject, ObjectRef
from dispatcher.model.owner_use import OwnerUse
from dispatcher.model.pod import Pod, Record


class Hello(Record, frozen=True):
    """Who an agent is. `cluster_uid` is the UID of its kube-system namespace.

    `keys` are the cluster's public keys (Ed25519, base64), the one it signs with first. `obeys` is the highest
    dispatcher epoch that its executor has obeyed, in this life or an earlier one.
    """

    cluster: str
    cluster_uid: str
    incarnation: str
    version: int = VERSION
    server_version: str = ""
    keys: tuple[str, ...] = ()
    obeys: int = 0


class Changes(Record, frozen=True):
    """What changed in one cluster after revision `since` up to `revision`.

    `full` means: forget what you knew of this cluster, this is all of it. `synced` is False until the agent has listed
    everything once. `api_ok` is False while its API server does not answer or its watch is silent; `problem` says why.
    `evicts_foreign`: the cluster's policy lets pods of other schedulers be evicted for its own of higher priority.
    `restored`: its API server went back in time (etcd restored from a backup) and that is not reconciled yet: what is
    missing there proves nothing. `keys`: as in Hello. `pods_missing`: those of `pods_gone` that nobody has seen to be
    deleted; they are just absent from a list that came after a gap. `opens`: which tolerations its policy lets in
    beside the harmless ones; None: an agent of an older version, of which that is not known. `confirmed`: how often in
    this life of the agent an operator has confirmed that what its API server shows is meant. `uses`: what pods of
    single owners use, of those of which that is another than before; what is not told of goes on to hold.
    """

    cluster: str
    cluster_uid: str
    incarnation: str
    since: int
    revision: int
    full: bool = False
    synced: bool = True
    api_ok: bool = True
    problem: str = ""
    nodes: tuple[Node, ...] = ()
    nodes_gone: tuple[str, ...] = ()
    pods: tuple[Pod, ...] = ()
    pods_gone: tuple[str, ...] = ()
    readings: tuple[Reading, ...] = ()
    version: int = VERSION
    objects: tuple[AnyObject, ...] = ()
    objects_gone: tuple[ObjectRef, ...] = ()
    evicts_foreign: bool = False
    restored: bool = False
    keys: tuple[str, ...] = ()
    pods_missing: tuple[str, ...] = ()
    opens: tuple[Opening, ...] | None = None
    confirmed: int = 0
    uses: tuple[OwnerUse, ...] = ()
