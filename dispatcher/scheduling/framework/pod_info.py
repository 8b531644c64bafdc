"""A pod as plugins are handed it: with the cluster it was submitted in and what clusters said of
it.
"""

from collections.abc import Mapping

import msgspec

from shared.model.pod import Pod
from shared.model.refusal import ClusterRefusal
from shared.model.resources import CPU, MEMORY


class PodInfo(msgspec.Struct, frozen=True, gc=False):
    """A pod with the cluster it was submitted in, and what clusters said of it, as the cycle hands
    it to plugins.
    """

    pod: Pod
    home: str  # cluster of submission
    refused: tuple[
        ClusterRefusal, ...
    ] = ()  # by which clusters, a while ago; and where the server makes it larger
    # (milli-CPU, bytes) by what its owner's pods use, if that is known
    counts_as: tuple[int, int] | None = None

    @property
    def sizes(self) -> tuple[ClusterRefusal, ...]:
        """Of `refused` those that say how large a cluster makes it."""
        return tuple([one for one in self.refused if one.requests]) if self.refused else ()

    @property
    def over(self) -> tuple[ClusterRefusal, ...]:
        """Of `refused` those whose time has passed."""
        return tuple([one for one in self.refused if one.over]) if self.refused else ()

    def at(self, cluster: str) -> "PodInfo":
        """The same with the pod as the server of `cluster` makes it, as far as that is known: what
        it takes there.

        Wherever a place in one cluster is booked, promised or charged, it is by this.
        """
        if not self.refused:
            return self
        size = next((one for one in self.sizes if one.cluster == cluster), None)
        return (
            msgspec.structs.replace(self, pod=_enlarged(self.pod, dict(size.requests)))
            if size is not None
            else self
        )


def _enlarged(pod: Pod, made: Mapping[str, int]) -> Pod:
    requests = {
        name: max(pod.requests.get(name, 0), made.get(name, 0))
        for name in pod.requests.keys() | made
    }
    if pod.expected is None:
        return msgspec.structs.replace(pod, requests=requests)
    cpu, memory = pod.expected
    expected = max(cpu, requests.get(CPU, 0)), max(memory, requests.get(MEMORY, 0))
    return msgspec.structs.replace(pod, requests=requests, expected=expected)
