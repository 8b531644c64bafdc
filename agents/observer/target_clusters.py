"""The clusters that a pod's owner names, compared with those that are known: this one, and those of its proxy nodes."""

from collections.abc import Collection
from difflib import get_close_matches

from agents.observer.seen import InvalidAnnotation
from dispatcher.model import names
from dispatcher.model.pod import Pod

UNKNOWN_CLUSTER = "UnknownCluster"
MAX_NAMED = 8


def unknown_clusters(pod: Pod, known: Collection[str]) -> InvalidAnnotation | None:
    """A warning if some of the names mean nothing. If none means anything, the pod waits and is told so elsewhere."""
    wanted = {name for name in map(str.strip, pod.annotations.get(names.CLUSTERS, "").split(",")) if name}
    strange = sorted(wanted.difference(known))
    if not strange or len(strange) == len(wanted):
        return None
    shown = ", ".join(repr(name[:63]) for name in strange[:MAX_NAMED])
    close = next((match for name in strange[:MAX_NAMED] for match in get_close_matches(name[:63], known, 1)), "")
    hint = f"did you mean {close!r}?" if close else f"known: {', '.join(sorted(known)[:MAX_NAMED])}"
    text = (
        f"metadata.annotations[{names.CLUSTERS}]: {shown}: no such cluster is known here, so the pod goes to the "
        f"others of the list alone; {hint}"
    )
    return InvalidAnnotation(pod.uid, pod.namespace, pod.name, UNKNOWN_CLUSTER, text)
