"""Agent to dispatcher: what became of each intent."""

from typing import Annotated

from msgspec import Meta

from shared.messages.version import VERSION
from shared.model.bounds import MAX_NAMES, MAX_ROWS, Amount, Text, Word
from shared.model.pod import Record

BOUND = "bound"
CLAIMED = "claimed"
DONE = "done"
STALE = "stale"
REFUSED = "refused"
UNKNOWN = "unknown"
# What a refusal is about: one node (room, taints), the cluster (namespace, quota, policy), or the
# pod, which can run in its own cluster alone.
OF_NODE = "node"
OF_CLUSTER = "cluster"
OF_POD = "pod"
DELETING = "deleting"  # how a delegate ends that has no final phase: its deletion has begun


class Outcome(Record, frozen=True):
    """What became of one intent.

    bound/claimed/done: it holds now (also when it already held). stale: the world moved on, plan
    again. refused: local policy, re-check or the API server said no; `message` says why, `scope`
    what that is about (OF_NODE, OF_CLUSTER, OF_POD; "" is not said). unknown: neither could be
    learnt; ask again. `requests` of a CreateDelegate: what the delegate requests (effective,
    internal units) as the API server made it, where that is not what the order's manifest requests;
    else empty. With refused: only that size is why. `passing`: refused by a failure (HTTP 5xx, a
    webhook that does not answer), not by a rule: worth asking again soon. `manifest`: of CLAIMED,
    and of a ConfirmNoSource that `preempts`: what crosses. `end`, `delegate_uid`: of a
    ConfirmNoDelegate with `ended` that is done, which end the API server shows of which delegate:
    its final phase (Succeeded, Failed), else DELETING. Empty: there is none, or an older executor
    answers. `left_behind`: of CLAIMED, what of the pod does not go along, as its owner is told.
    """

    id: Word
    uid: Word
    epoch: int
    verdict: Word
    message: Text = ""
    manifest: bytes = b""
    # of CLAIMED: the signed claim; of a ConfirmNoSource that `preempts`: a signed Preemptor
    record: str = ""
    requests: Annotated[dict[str, Amount], Meta(max_length=MAX_NAMES)] = {}
    scope: Word = ""
    passing: bool = False
    end: Word = ""
    delegate_uid: Word = ""
    left_out: Amount = 0
    manifest_of: Word = ""
    left_behind: Text = ""


class OutcomeBatch(Record, frozen=True):
    """Answers in the order of the intents. `obeys`: the dispatcher epoch that this executor obeys,
    `leader`: whose.

    Where it is higher than the batch's own, or another's, a newer dispatcher leads and the sender
    has to stop.
    """

    cluster: Word
    outcomes: Annotated[tuple[Outcome, ...], Meta(max_length=MAX_ROWS)]
    version: int = VERSION
    obeys: int = 0
    leader: Word = ""
