"""What an agent measured on the way to another cluster's agent."""

from shared.model.bounds import Word
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
