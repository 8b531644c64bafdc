"""What an agent measured on the way to another cluster's agent.

`LinkReading` is of the round trip to where that agent says that it is reached, if the settings of
both ends allow it: decisions may go by it. `PodReach` is whether pods of a network that is declared
to be one reach each other at their own addresses: nothing is decided by it.
"""

from shared.model.bounds import Text, Word
from shared.model.names import UNTRIED
from shared.model.pod import Record


class LinkReading(Record, frozen=True):
    """Round trips from the cluster that tells it to `cluster`, of its last probes.

    `rtt_ms`: median, `jitter_ms`: mean difference of one round trip and the next, `loss`: share
    0..1 of round trips that were lost. `age_s`: since the last probe that came back.
    """

    cluster: Word
    rtt_ms: float
    jitter_ms: float = 0.0
    loss: float = 0.0
    age_s: float = 0.0


class PodReach(Record, frozen=True):
    """Whether a pod of the cluster that tells it, the agent's own, reaches the agent's pod of
    `cluster` at `address` (IP:port).

    `state`: REACHED, UNREACHED or UNTRIED, for `for_s` seconds. `tries`, `failed`: the last ones.
    `problem`: why the last one failed, or none is made.
    """

    cluster: Word
    state: Word = UNTRIED
    address: Word = ""
    for_s: float = 0.0
    tries: int = 0
    failed: int = 0
    problem: Text = ""
