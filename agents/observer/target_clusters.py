"""The clusters that a pod's owner names, compared with those that are known: this one, and those of
its proxy nodes.
"""

from collections.abc import Collection, Iterator
from difflib import get_close_matches

from agents.observer.seen import InvalidAnnotation
from shared.model import names
from shared.model.nearness import CLUSTER, read_near
from shared.model.pod import Pod

UNKNOWN_CLUSTER = "UnknownCluster"
MAX_NAMED = 8
NAMING = (names.CLUSTERS, names.NEAR)  # annotations that name clusters


def names_clusters(pod: Pod) -> bool:
    """Whether there is something to compare."""
    return any(key in pod.annotations for key in NAMING)


def unknown_clusters(pod: Pod, known: Collection[str]) -> Iterator[InvalidAnnotation]:
    """Warnings of names that mean nothing here."""
    yield from filter(None, (_of_list(pod, known), _of_near(pod, known)))


def _of_near(pod: Pod, known: Collection[str]) -> InvalidAnnotation | None:
    try:
        near = read_near(pod.annotations.get(names.NEAR, ""))
    except ValueError:  # told of as a value that cannot be read
        return None
    if near.kind != CLUSTER or near.name in known:
        return None
    text = (
        f"metadata.annotations[{names.NEAR}]: {near.name[:63]!r}: no such cluster is known here, "
        "so nothing is near to "
        f"it; {_hint([near.name], known)}"
    )
    return InvalidAnnotation(pod.uid, pod.namespace, pod.name, UNKNOWN_CLUSTER, text)


def _hint(strange: list[str], known: Collection[str]) -> str:
    close = next(
        (match for name in strange[:MAX_NAMED] for match in get_close_matches(name[:63], known, 1)),
        "",
    )
    return f"did you mean {close!r}?" if close else f"known: {', '.join(sorted(known)[:MAX_NAMED])}"


def _of_list(pod: Pod, known: Collection[str]) -> InvalidAnnotation | None:
    """If some of the names mean nothing. If none means anything, the pod waits and is told so
    elsewhere.
    """
    wanted = {
        name for name in map(str.strip, pod.annotations.get(names.CLUSTERS, "").split(",")) if name
    }
    strange = sorted(wanted.difference(known))
    if not strange or len(strange) == len(wanted):
        return None
    shown = ", ".join(repr(name[:63]) for name in strange[:MAX_NAMED])
    text = (
        f"metadata.annotations[{names.CLUSTERS}]: {shown}: no such cluster is known here, so the "
        "pod goes to the "
        f"others of the list alone; {_hint(strange, known)}"
    )
    return InvalidAnnotation(pod.uid, pod.namespace, pod.name, UNKNOWN_CLUSTER, text)
