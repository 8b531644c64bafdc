"""What the executor of this cluster has stored, as an observer in a process of its own reads it. It
writes nothing.

By the public keys stored there the observer tells marks of its cluster from forged ones. So who may
write that Lease can mislead the observer, and nobody else: all others believe keys that the
executor itself has told.
"""

import time
from collections.abc import Callable

from agents.executor.trust.state import CLUSTER, CONFIRMED, OWN_KEYS, ExecutorState, other_name
from shared.kube.client import KubeClient
from shared.kube.http import Procedure

NO_KEYS = (
    "the cluster's executor has not stored its public keys yet: it does with the first word of a "
    "dispatcher"
)


class ExecutorRecord:
    """`problem` says why the executor's word is not known. `keys`: the cluster's public keys, as
    last read.

    `on_keys` is told new keys; `on_confirmed` is called when an operator has confirmed what the API
    server shows, and `went_back` has to be called when that goes back in time: what was confirmed
    before is no answer to it.
    """

    def __init__(
        self,
        cluster: str,
        on_keys: Callable[[tuple[str, ...]], None],
        on_confirmed: Callable[[], None],
    ) -> None:
        self.problem = NO_KEYS
        self.keys = ()
        self.epoch = 0
        self._cluster = cluster
        self._on_keys = on_keys
        self._on_confirmed = on_confirmed
        self._state = ExecutorState()
        self._heeded_at = time.time()

    keys: tuple[str, ...]

    @property
    def not_ours(self) -> str:
        """Why this observer tells of nobody, '' unless the cluster is known to be served under
        another name.
        """
        name = self._state.values.get(CLUSTER, "")
        return other_name(name, self._cluster) if name not in ("", self._cluster) else ""

    def went_back(self) -> None:
        """The API server shows an older world."""
        self._heeded_at = time.time()

    async def read(self, client: KubeClient) -> None:
        """Look once."""
        self.problem = await _driven(self._state.load(), client)
        if self.problem:
            return
        self.epoch = self._state.epoch
        keys = tuple(self._state.values.get(OWN_KEYS, "").split())
        if not keys and not self.keys:
            self.problem = NO_KEYS
        elif keys and keys != self.keys:  # a Lease that was lost is written again
            self.keys = keys
            self._on_keys(keys)
        self._heed(self._state.values.get(CONFIRMED, ""))

    def _heed(self, said: str) -> None:
        try:
            at = float(said or "-inf")
        except ValueError:
            return
        if at > self._heeded_at:
            self._heeded_at = at
            self._on_confirmed()


async def _driven(procedure: Procedure[str], client: KubeClient) -> str:
    """Of a procedure that only reads."""
    request = next(procedure)
    while True:
        answer = await client.send(request)
        try:
            request = procedure.send(answer)
        except StopIteration as done:
            return str(done.value)
