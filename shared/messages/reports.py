"""Agent to dispatcher: who an agent is, and what changed in its cluster."""

from typing import Annotated

from msgspec import Meta

from shared.messages.version import VERSION
from shared.model.bounds import (
    MAX_NAMES,
    MAX_NODES,
    MAX_OBJECTS,
    MAX_PODS,
    MAX_ROWS,
    MAX_USES,
    Names,
    Text,
    Word,
)
from shared.model.crossing import Opening
from shared.model.node import Node, Reading
from shared.model.node_group import NodeGroups
from shared.model.objects import AnyObject, ObjectRef, PriorityClass
from shared.model.owner_use import OwnerUse
from shared.model.pod import Pod, Record


class Hello(Record, frozen=True):
    """Who an agent is. `cluster_uid` is the UID of its kube-system namespace.

    `keys` are the cluster's public keys (Ed25519, base64), the one it signs with first. `obeys` is
    the highest dispatcher epoch that its executor has obeyed, in this life or an earlier one.
    `agent_version` is that of its build, `now` its clock in unix seconds when it answers; 0 from
    agents that do not tell.
    """

    cluster: Word
    cluster_uid: Word
    incarnation: Word
    version: int = VERSION
    server_version: Word = ""
    keys: Names = ()
    obeys: int = 0
    agent_version: Word = ""
    now: float = 0.0


class Changes(Record, frozen=True):
    """What changed in one cluster after revision `since` up to `revision`.

    `full` means: forget what you knew of this cluster, this is all of it. `synced` is False until
    the agent has listed everything once. `api_ok` is False while its API server does not answer or
    its watch is silent; `problem` says why. `evicts_foreign`: the cluster's policy lets pods of
    other schedulers be evicted for its own of higher priority. `restored`: its API server went back
    in time (etcd restored from a backup) and that is not reconciled yet: what is missing there
    proves nothing. `keys`: as in Hello. `pods_missing`: those of `pods_gone` that nobody has seen
    to be deleted; they are just absent from a list that came after a gap. `opens`: which
    tolerations its policy lets in beside the harmless ones; None: an agent of an older version, of
    which that is not known. `confirmed`: how often in this life of the agent an operator has
    confirmed that what its API server shows is meant. `uses`: what pods of single owners use, of
    those of which that is another than before; what is not told of goes on to hold.
    `priority_classes`: all of the cluster; empty: they are not known. `node_groups`: all that are
    seen, where that is news or the report is full; None: no news, or in a full one that none are
    looked for. `runtime_classes`: the names of all; None: they are not known.
    """

    cluster: Word
    cluster_uid: Word
    incarnation: Word
    since: int
    revision: int
    full: bool = False
    synced: bool = True
    api_ok: bool = True
    problem: Text = ""
    nodes: Annotated[tuple[Node, ...], Meta(max_length=MAX_NODES)] = ()
    nodes_gone: Annotated[tuple[Word, ...], Meta(max_length=MAX_NODES)] = ()
    pods: Annotated[tuple[Pod, ...], Meta(max_length=MAX_PODS)] = ()
    pods_gone: Annotated[tuple[Word, ...], Meta(max_length=MAX_PODS)] = ()
    readings: Annotated[tuple[Reading, ...], Meta(max_length=MAX_NODES)] = ()
    version: int = VERSION
    objects: Annotated[tuple[AnyObject, ...], Meta(max_length=MAX_OBJECTS)] = ()
    objects_gone: Annotated[tuple[ObjectRef, ...], Meta(max_length=MAX_OBJECTS)] = ()
    evicts_foreign: bool = False
    restored: bool = False
    keys: Names = ()
    pods_missing: Annotated[tuple[Word, ...], Meta(max_length=MAX_PODS)] = ()
    opens: Annotated[tuple[Opening, ...], Meta(max_length=MAX_ROWS)] | None = None
    confirmed: int = 0
    uses: Annotated[tuple[OwnerUse, ...], Meta(max_length=MAX_USES)] = ()
    priority_classes: Annotated[tuple[PriorityClass, ...], Meta(max_length=MAX_NAMES)] = ()
    node_groups: NodeGroups | None = None
    runtime_classes: Names | None = None
