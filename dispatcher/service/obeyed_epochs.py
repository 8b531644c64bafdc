"""Which dispatcher epoch each agent reports that it obeys, and how much of that is believed.

An agent's word ends a leader term, and the next epoch is above it. Whoever has taken over one
cluster can say anything, so one cluster alone can end one term and raise the epoch by `MOST_AHEAD`:
what it says beyond sets it alone aside. What most clusters say raises the epoch by `MOST_TOGETHER`
a term, so that whoever has taken over most of them does not use up the epochs, for good, in one.
"""

from collections.abc import Callable, Collection

import structlog

from dispatcher.service.clock import Clock
from dispatcher.service.term import MOST_EPOCHS, Deposed

MOST_AHEAD = 1000  # terms that other dispatchers may have led unseen by this one and by its Lease
MOST_TOGETHER = 1_000_000  # the same that most clusters confirm, as after a loss of the Lease
QUARANTINE_S = 300.0  # after the last word that was not believed

log = structlog.get_logger("leader")


class ObeyedEpochs:
    """The words of the agents of `clusters`, and which of these clusters are in quarantine.

    A word is confirmed by the Lease, if that is lost, or by more than half of all clusters.
    """

    def __init__(
        self, clusters: Collection[str] = (), clock: Callable[[], float] | None = None
    ) -> None:
        self._clusters = frozenset(clusters)
        self._clock = clock or Clock()
        self._words: dict[str, int] = {}  # by cluster, as last heard
        self._against: dict[
            str, int
        ] = {}  # by cluster, the epoch of the last term that its word was against
        self._deposed_by: set[str] = set()  # clusters that have ended a term, confirmed by nobody
        self._quarantine: dict[str, tuple[str, float]] = {}  # by cluster: why, and until when

    def note(self, cluster: str, epoch: int) -> None:
        """An agent obeys this epoch."""
        self._words[cluster] = epoch

    def highest(self, known: int) -> int:
        """The highest epoch that agents obey, as far as it is believed; `known` at the least, which
        others tell of.
        """
        most = self._majority()
        reached = max(known, min(most, known + MOST_TOGETHER)) if most < MOST_EPOCHS else known
        limit = min(reached + MOST_AHEAD, MOST_EPOCHS - 1)
        for cluster, word in sorted(self._words.items()):
            if word > limit:
                log.error(
                    "an agent's word is not believed",
                    cluster=cluster,
                    obeys=word,
                    believed_up_to=limit,
                )
        return max([reached, *(word for word in self._words.values() if word <= limit)])

    def believes(self, by: Deposed, epoch: int, *, lease_holds: bool) -> bool:
        """Whether the term of this epoch ends by a word against it; if not, the cluster is in
        quarantine from now on.

        `lease_holds`: this dispatcher holds its Lease all the same.
        """
        self.note(by.cluster, by.epoch)
        self._against[by.cluster] = epoch
        if by.epoch < MOST_EPOCHS and (not lease_holds or self._most_are_against(epoch)):
            self._deposed_by.clear()
            self._quarantine.clear()
            return True
        if by.epoch <= epoch + MOST_AHEAD and by.cluster not in self._deposed_by:
            self._deposed_by.add(by.cluster)
            return True
        self._set_aside(by, epoch)
        return False

    def distrust(self, cluster: str) -> str:
        """Why a cluster is in quarantine, '' if it is not."""
        why, until = self._quarantine.get(cluster, ("", 0.0))
        return why if self._clock() < until else ""

    def begin(self) -> None:
        """A new term, above all that is believed: each cluster may show that it obeys it."""
        self._quarantine.clear()

    def _majority(self) -> int:
        """The highest epoch that more than half of the clusters have reached, 0 if so many were not
        heard.
        """
        words = sorted(self._words.values(), reverse=True)
        place = len(self._clusters) // 2
        return words[place] if len(words) > place else 0

    def _most_are_against(self, epoch: int) -> bool:
        against = sum(1 for one in self._against.values() if one == epoch)
        return bool(self._clusters) and against > len(self._clusters) / 2

    def _set_aside(self, by: Deposed, epoch: int) -> None:
        why = (
            f"quarantined: {by.why}, which neither the Lease nor most other clusters confirm "
            f"(epoch {epoch} leads). "
            "Its agent lies, or another dispatcher gives it orders: stop that one, or give both "
            "the same "
            "leader_election; then restart this dispatcher. What the agent obeys is kept in its "
            "cluster: Lease "
            "global-dispatcher-agent.state of namespace kube-node-lease; delete it once nobody "
            "gives orders there"
        )
        if not self.distrust(by.cluster):
            log.error(
                "a cluster is in quarantine; the others go on", cluster=by.cluster, problem=why
            )
        self._quarantine[by.cluster] = (why, self._clock() + QUARANTINE_S)
