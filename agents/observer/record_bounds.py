"""What is told of one pod is bounded, in bytes and in the memory that the dispatcher needs for it.

Of a pod that waits and is too large nothing but what it is and takes is told, with a problem, so
that it waits. What a pod on a node means to others is told all the same. Labels that are too large
are left out, and it is told that they are (`Pod.labels_cut`): whoever counts pods by labels then
knows that this one may be among them. Anti-affinity that is too large is told as keeping all pods
away, which keeps more away than it says, and never fewer.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from shared.messages.values import A_VALUE, most_memory_of
from shared.model import names
from shared.model.labels import LabelSelector
from shared.model.pod import Pod, PodAffinity, PodAffinityTerm

MAX_RECORD = 32 * 1024  # bytes of what is told of a pod, without its status
MAX_MEMORY = 512 * 1024  # bytes of memory that it may take: 1,000 host ports take half of it
MAX_LABELS = 16 * 1024  # bytes of memory of labels: 100 labels of 50 characters
MAX_PROBLEMS = 8
_LARGEST = 3  # fields that are named of a pod of which more would have to be told
_CUT = {  # what may be large of a pod and is told as nothing then, and what it is in the manifest
    "labels": "metadata.labels",
    "annotations": "metadata.annotations",
    "node_selector": "spec.nodeSelector",
    "affinity": "spec.affinity.nodeAffinity",
    "tolerations": "spec.tolerations",
    "ports": "ports of spec.containers",
    "spread": "spec.topologySpreadConstraints",
    "images": "image of spec.containers",
    "volume_images": "image of spec.volumes",
    "pod_affinity": "spec.affinity.podAffinity",
    "pod_anti_affinity": "spec.affinity.podAntiAffinity",
    "volumes": "spec.volumes",
    "resource_claims": "spec.resourceClaims",
    "gates": "spec.schedulingGates",
    "owner": "metadata.ownerReferences",
}
_NOTHING = Pod(uid="", namespace="", name="")
_KEPT_LABELS = (names.DELEGATE_LABEL, names.BUDGET)
# What a pod on a node means to others there and beside: told in any case, within the bounds of its
# own.
_HELD = ("labels", "ports", "pod_affinity", "pod_anti_affinity", "volumes")
_EVERYBODY = LabelSelector()
_FEW_NAMED = 16


def memory_of_labels(labels: dict[str, str]) -> int:
    """Bytes of memory that labels take."""
    return sum([len(key) + len(value) for key, value in labels.items()]) + 2 * A_VALUE * len(labels)


def memory_of_pod(pod: Pod) -> int:
    """Bytes of memory that a pod takes at most, without its status."""
    return _sizes(pod)[1]


def _sizes(pod: Pod) -> tuple[int, int]:
    """Bytes of what is told of a pod, and of the memory that it takes. Annotations may be in any
    letters.
    """
    plain = msgspec.msgpack.encode(msgspec.structs.replace(pod, annotations={}, status=b""))
    annotations = len(msgspec.msgpack.encode(pod.annotations)) if pod.annotations else 0
    return len(plain) + annotations, most_memory_of(plain) + annotations


def within_bounds(pod: Pod) -> tuple[Pod, int]:
    """The same, or where too much would have to be told of it, what it is and takes, with a problem
    that says so; and the memory that this takes.
    """
    told = pod
    if memory_of_labels(pod.labels) > MAX_LABELS:
        most = f"{MAX_LABELS // 1024} KiB of memory ({2 * A_VALUE} bytes each beside their text)"
        told = without_labels(pod, f"metadata.labels: they take more than {most}, remove some")
    whole, memory = _sizes(told)
    if whole > MAX_RECORD:
        told = _cut(told, len, f"{MAX_RECORD // 1024} KiB")
    elif memory > MAX_MEMORY:
        told = _cut(told, most_memory_of, f"{MAX_MEMORY // 1024} KiB of memory")
    else:
        return told, memory
    return told, memory_of_pod(told)


def _cut(pod: Pod, size_of: Callable[[bytes], int], most: str) -> Pod:
    """What remains of a pod that takes more than that, with the fields of it that take most, by
    this size.
    """
    sizes = {name: size_of(msgspec.msgpack.encode(getattr(pod, name))) for name in _CUT}
    largest = sorted(sizes, key=lambda name: sizes[name], reverse=True)[:_LARGEST]
    said = ", ".join(f"{_CUT[name]} {-(-sizes[name] // 1024)} KiB" for name in largest)
    problem = (
        f"what decides about this pod takes more than {most}, name fewer and shorter values: {said}"
    )
    told = reduced(pod, problem)
    small = len(msgspec.msgpack.encode(pod.annotations)) < MAX_RECORD // 2
    return msgspec.structs.replace(told, annotations=pod.annotations) if small else told


def reduced(pod: Pod, problem: str) -> Pod:
    """What a pod is and takes, and on a node what it means to others; its labels if they are not
    too large.
    """
    kept: dict[str, Any] = {
        name: getattr(pod if pod.node and name in _HELD else _NOTHING, name) for name in _CUT
    }
    told = msgspec.structs.replace(
        pod, **kept, problems=(*pod.problems[: MAX_PROBLEMS - 1], problem)
    )
    if not pod.node:
        return _unlabelled(told, pod.labels)
    return told if memory_of_pod(told) <= MAX_MEMORY else _widened(told)


def without_labels(pod: Pod, problem: str) -> Pod:
    """A pod whose labels are not told but for those that agents give it."""
    told = msgspec.structs.replace(pod, problems=(*pod.problems[: MAX_PROBLEMS - 1], problem))
    return _unlabelled(told, pod.labels)


def beyond_share(pod: Pod, problem: str) -> Pod:
    """A pod of a namespace whose pods take too much: the least that is told of one that waits, or
    is on a node.
    """
    return _widened(without_labels(pod, problem)) if pod.node else reduced(pod, problem)


def _unlabelled(pod: Pod, labels: dict[str, str]) -> Pod:
    own = {key: labels[key] for key in _KEPT_LABELS if key in labels}
    return msgspec.structs.replace(pod, labels=own, labels_cut=pod.labels_cut or own != labels)


def _widened(pod: Pod) -> Pod:
    """A pod on a node, of whose affinity is told what bars others: of each term the domains that it
    keeps free.
    """
    anti = pod.pod_anti_affinity
    told = PodAffinity(required=tuple(map(_all_of, anti.required))) if anti is not None else None
    # Affinity of a pod on a node has a say in scores alone.
    return msgspec.structs.replace(pod, pod_affinity=None, pod_anti_affinity=told)


def _all_of(term: PodAffinityTerm) -> PodAffinityTerm:
    """The same about all pods of its namespaces; of all namespaces where it selects them, or names
    many.
    """
    if term.namespace_selector is None and len(term.namespaces) <= _FEW_NAMED:
        return msgspec.structs.replace(term, selector=_EVERYBODY)
    return PodAffinityTerm(term.topology_key, _EVERYBODY, namespace_selector=_EVERYBODY)
