"""What a pod asks of a node's resources, and what it is expected to use."""

from collections.abc import Iterator

from dispatcher.model.pod import Pod
from dispatcher.model.resources import CPU, MEMORY, PODS

# kube-scheduler's DefaultMilliCPURequest and DefaultMemoryRequest: what a pod without requests is taken to use.
DEFAULT_CPU = 100
DEFAULT_MEMORY = 200 * 2**20


def nonzero_request(pod: Pod) -> tuple[int, int]:
    """(milli-CPU, bytes) the pod is expected to use: as its reader reckoned, else its requests or the defaults."""
    if pod.expected is not None:
        return pod.expected
    return pod.requests.get(CPU) or DEFAULT_CPU, pod.requests.get(MEMORY) or DEFAULT_MEMORY


def requested(pod: Pod) -> Iterator[tuple[str, int]]:
    """(resource, amount) the pod takes on its node, the implicit one pod included."""
    for resource, amount in pod.requests.items():
        if resource != PODS:
            yield resource, amount
    yield PODS, 1
