"""What a pod asks of a node's resources, and what it is expected to use."""

from dispatcher.scheduling.framework import PodInfo
from shared.model.pod import Pod
from shared.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, is_scalar

# kube-scheduler's DefaultMilliCPURequest and DefaultMemoryRequest: what a pod without requests is
# taken to use.
DEFAULT_CPU = 100
DEFAULT_MEMORY = 200 * 2**20


def nonzero_request(pod: Pod) -> tuple[int, int]:
    """(milli-CPU, bytes) the pod is expected to use: as its reader reckoned, else its requests or
    the defaults.
    """
    if pod.expected is not None:
        return pod.expected
    return pod.requests.get(CPU) or DEFAULT_CPU, pod.requests.get(MEMORY) or DEFAULT_MEMORY


def expected_request(pod_info: PodInfo) -> tuple[int, int]:
    """(milli-CPU, bytes) the pod counts as until readings show it: by what its owner's pods use,
    else as above.
    """
    return pod_info.counts_as or nonzero_request(pod_info.pod)


def is_judged(resource: str, asked: int) -> bool:
    """Whether a resource has a part in how full a node is, where the node has it."""
    always = resource in (CPU, MEMORY, EPHEMERAL_STORAGE)
    return always or (asked > 0 and is_scalar(resource))


def requested(pod: Pod) -> list[tuple[str, int]]:
    """(resource, amount) the pod takes on its node, the implicit one pod included."""
    return [*[one for one in pod.requests.items() if one[0] != PODS], (PODS, 1)]
