"""Everything that crosses between dispatcher and agents: versioned msgpack bytes, never pickled
objects.

A file a sender and a kind: `reports`, `outcomes` and `telemetry` come from agents, `intents` and
`peers` go to them. Records are positional arrays; a new field is appended with a default, so N and
N-1 read each other. `VERSION` changes only when that is impossible, and a peer of another version
is refused with a clear error.
"""

from shared.messages.codec import WireError, decode, encode, encode_part
from shared.messages.intents import (
    HOME_ONLY,
    LOWER_PRIORITY,
    NODES_DO_NOT_HELP,
    WAITING,
    AnyIntent,
    Bind,
    BindVolume,
    Claim,
    ConfirmNoDelegate,
    ConfirmNoSource,
    CreateDelegate,
    DeleteDelegate,
    DeleteSource,
    Evict,
    FinishSource,
    Intent,
    IntentBatch,
    MirrorStatus,
    ReportUnschedulable,
    RestoreClaim,
    SelectNode,
    SignManifest,
    Unclaim,
    UpdateDelegate,
)
from shared.messages.outcomes import (
    BOUND,
    CLAIMED,
    DELETING,
    DONE,
    OF_CLUSTER,
    OF_NODE,
    OF_POD,
    REFUSED,
    STALE,
    UNKNOWN,
    Outcome,
    OutcomeBatch,
)
from shared.messages.peer_links import LinkReading, PodReach
from shared.messages.peers import (
    NO_SHADOWS,
    Cover,
    Peer,
    Peers,
    PeersAck,
    Shadow,
    Shadows,
    UncountedBudgets,
)
from shared.messages.reports import Changes, Hello
from shared.messages.telemetry import SourceReport, Telemetry, UnreadSignal
from shared.messages.version import VERSION
from shared.model.bounds import NO_PRIORITY
from shared.model.pod import PodRef

__all__ = [
    "BOUND",
    "CLAIMED",
    "DELETING",
    "DONE",
    "HOME_ONLY",
    "LOWER_PRIORITY",
    "NODES_DO_NOT_HELP",
    "NO_PRIORITY",
    "NO_SHADOWS",
    "OF_CLUSTER",
    "OF_NODE",
    "OF_POD",
    "REFUSED",
    "STALE",
    "UNKNOWN",
    "VERSION",
    "WAITING",
    "AnyIntent",
    "Bind",
    "BindVolume",
    "Changes",
    "Claim",
    "ConfirmNoDelegate",
    "ConfirmNoSource",
    "Cover",
    "CreateDelegate",
    "DeleteDelegate",
    "DeleteSource",
    "Evict",
    "FinishSource",
    "Hello",
    "Intent",
    "IntentBatch",
    "LinkReading",
    "MirrorStatus",
    "Outcome",
    "OutcomeBatch",
    "Peer",
    "Peers",
    "PeersAck",
    "PodReach",
    "PodRef",
    "ReportUnschedulable",
    "RestoreClaim",
    "SelectNode",
    "Shadow",
    "Shadows",
    "SignManifest",
    "SourceReport",
    "Telemetry",
    "Unclaim",
    "UncountedBudgets",
    "UnreadSignal",
    "UpdateDelegate",
    "WireError",
    "decode",
    "encode",
    "encode_part",
]
