"""Pods that come, and some that go, while something happens."""

import threading
from collections.abc import Callable
from typing import Any

from tests.system.cluster_api import ClusterApi

PODS = "/api/v1/namespaces/default/pods"
LOAD_S = 0.1  # between two pods
STAYS = 4


class Load:
    """A pod `load-N` every `every_s`, by a thread of its own, as a user who knows nothing of dispatchers makes them.

    `pod_of`: its manifest by N. `deletes`: every third is deleted again, `STAYS` pods later: wherever it is on its way.
    """

    def __init__(
        self,
        home: ClusterApi,
        pod_of: Callable[[int], dict[str, Any]],
        every_s: float = LOAD_S,
        *,
        deletes: bool = False,
    ) -> None:
        self._pod_of, self._every_s = pod_of, every_s
        self._home, self._stopped, self._thread = home, threading.Event(), threading.Thread(target=self._go_on)
        self._deletes = deletes
        self.made, self.deleted = 0, 0

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _go_on(self) -> None:
        while not self._stopped.wait(self._every_s):
            assert self._home.create(PODS, self._pod_of(self.made)).status_code == 201
            self.made += 1
            gone = self.made - STAYS
            if self._deletes and gone >= 0 and gone % 3 == 0:
                assert self._home.delete(f"{PODS}/load-{gone}") == 200
                self.deleted += 1
