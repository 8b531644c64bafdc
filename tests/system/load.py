"""Pods that come while something happens."""

import threading

from tests.system.cluster_api import ClusterApi
from tests.system.dialled import pod

PODS = "/api/v1/namespaces/default/pods"
LOAD_S = 0.1  # between two pods


class Load:
    """A pod every LOAD_S, for each of these clusters in turn, by a thread of its own."""

    def __init__(self, home: ClusterApi, *clusters: str) -> None:
        self._clusters = clusters
        self._home, self._stopped, self._thread = home, threading.Event(), threading.Thread(target=self._go_on)
        self.made = 0

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _go_on(self) -> None:
        while not self._stopped.wait(LOAD_S):
            cluster = self._clusters[self.made % len(self._clusters)]
            assert self._home.create(PODS, pod(f"load-{self.made}", cluster)).status_code == 201
            self.made += 1
