"""What is due for a pod whose case is common, found out from little: the same as from all that is observed of it."""

from collections.abc import Mapping

from dispatcher.scheduling.clusters import ClusterView
from dispatcher.scheduling.delegation.in_flight import IntentKind
from dispatcher.scheduling.delegation.protocol import NOTHING, NextStep, Step, ends_shown, files_differ, target_of
from dispatcher.scheduling.delegation.tracking import Tracked, another_than_claimed

# Enum attributes are slow to look up
_BIND = IntentKind.BIND
_PROXY = IntentKind.PROXY
_AFTER_ANSWER = frozenset((IntentKind.CREATE, IntentKind.PROXY))  # of remote pods, sent on another one's answer


def awaits_watch(tracked: Tracked) -> bool:
    """Whether all that a pod waits for is its bind at home, just answered, and that the watch shows it."""
    in_flight = tracked.in_flight
    source = tracked.source
    if in_flight is None or source is None or in_flight.kind is not _BIND:
        return False
    return not (source.node or source.claim or tracked.delegates)


def awaits_answer(tracked: Tracked) -> bool:
    """Whether the next order of a remote pod has left just now, or its bind to the proxy node is confirmed: until the
    answer comes, or the watch shows the bind, a look would find no step.
    """
    in_flight = tracked.in_flight
    source = tracked.source
    if in_flight is None or source is None or in_flight.kind not in _AFTER_ANSWER or in_flight.waits:
        return False
    if in_flight.settling and (in_flight.kind is not _PROXY or source.node):
        return False
    return not (source.terminating or tracked.gone or tracked.said_gone or tracked.vanished)


def is_at_rest(tracked: Tracked) -> bool:
    """Whether a look would find nothing to do, whether its cluster is Ready or not: the pod stands on a node of its own
    cluster, and nothing is asked for it, missing, or marked as ours.
    """
    source = tracked.source
    if source is None or not source.node or source.claim is not None or source.has_finalizer:
        return False
    if tracked.in_flight is not None or tracked.delegates or tracked.queued or tracked.item is not None:
        return False
    return tracked.vanished is None and not target_of(tracked.pod_id[0], source)


def step_of_mirrored(tracked: Tracked, clusters: Mapping[str, ClusterView], now: float) -> NextStep | None:
    """`next_step` of a source that stands on its proxy node with its marks, beside its one delegate, neither of them
    ending, ended or said to be gone, whose files show what they ought to, where no cluster is fenced. Nearly all remote
    pods are such; None: more must be known.
    """
    source = tracked.source
    if source is None or not source.node or source.claim is None or not source.has_finalizer:
        return None
    target = source.claim.cluster
    delegate = tracked.delegates.get(target)
    if delegate is None or len(tracked.delegates) > 1 or tracked.said_gone:
        return None
    if target_of(tracked.pod_id[0], source) != target:
        return None
    ends = delegate.terminating or delegate.terminal or source.terminating or source.terminal
    if ends or files_differ(source, delegate):
        return None
    shows = now < tracked.mirrored_until or (source.phase, source.ready) == (delegate.phase, delegate.ready)
    if not delegate.status or (delegate.status == tracked.mirrored and shows):
        return NOTHING
    if ends_shown(delegate):
        return None
    home = clusters[tracked.pod_id[0]]
    view = clusters.get(target)
    if view is None or not (home.ready and home.takes_orders and view.ready) or another_than_claimed(source, view):
        return None
    return NOTHING if now < tracked.mirror_at else NextStep(Step.MIRROR, target)
