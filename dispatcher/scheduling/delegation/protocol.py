"""The delegate protocol as one level-triggered question: what is due for a source pod and its delegates as seen?

Nothing is remembered from one answer to the next: after a crash of anything, the same question on the same world
gives the same step, and every step is idempotent. The order of the rules is the order of the code.

1. Nobody's delegate is collected: its source is surely gone.
2. A stray delegate is collected: its source did not go to that cluster. Until it is gone, its source gets no place.
3. A source that ends takes its delegate with it, and is let go when the delegate is gone.
4. A claimed, unbound source goes on from where it stopped.
5. A source on a proxy node mirrors its delegate, begins to go when the delegate does (a drain, a lost node), and is let
   go when the delegate is surely gone.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dispatcher.model.names import proxy_node_name
from dispatcher.model.pod import Pod


class Step(enum.Enum):
    """What to do next for one source pod."""

    NOTHING = "nothing"
    HOLD = "hold"  # it wants a place, but still runs in a cluster that it did not go to
    QUEUE = "queue"  # it wants a place
    RESUME = "resume"  # claim again for the same place, then create and bind the delegate
    BIND_PROXY = "bind-proxy"
    MIRROR = "mirror"
    DELETE_DELEGATE = "delete-delegate"
    DELETE_SOURCE = "delete-source"  # its delegate is being deleted
    FINISH = "finish"  # let the source go


class Next(NamedTuple):
    """A step and the cluster in which it happens ("" where that is the home cluster)."""

    step: Step
    cluster: str = ""


NOTHING = Next(Step.NOTHING)


@dataclass(frozen=True)
class Situation:
    """All that is seen of one source pod.

    `source_gone`: the pod is surely gone: it was seen and went, or has been missing for the grace time while its
    home was Ready.
    `reachable`: clusters whose agents answer now. `delegate_gone`: clusters in which the delegate is surely absent (it
    was seen and went, or has been missing for the grace time while the cluster was Ready).
    `home_settled`: the home cluster has been Ready for the grace time, and our claim, if we made one, is as old, so
    that a claim cannot be unseen any more.
    """

    home: str
    source: Pod | None
    delegates: Mapping[str, Pod] = field(default_factory=dict)
    source_gone: bool = False
    home_settled: bool = True
    reachable: frozenset[str] = frozenset()
    delegate_gone: frozenset[str] = frozenset()
    mirrored: bytes = b""


def next_step(seen: Situation) -> Next:
    """The one step that is due; NOTHING means wait for the world to change."""
    if seen.source is None:
        return _collect(seen, seen.delegates) if seen.source_gone else NOTHING
    if seen.home not in seen.reachable:
        return NOTHING
    target = _target(seen.home, seen.source)
    stray = _astray(seen, seen.source, target)
    if stray is not None:
        return stray
    if not target:
        return Next(Step.QUEUE) if wants_place(seen.source) else NOTHING
    delegate = seen.delegates.get(target)
    if seen.source.terminating or (seen.source.terminal and not (delegate and delegate.terminal)):
        return _end(seen, seen.source, target, delegate)
    if not seen.source.node:
        return _go_on(seen, target, delegate)
    return _mirror(seen, seen.source, target, delegate)


def _target(home: str, source: Pod) -> str:
    """The cluster the source's delegate belongs in, "" if it has none."""
    claim = source.claim
    if claim is None or claim.cluster == home:
        return ""
    if source.node and source.node != proxy_node_name(claim.cluster):
        return ""  # somebody bound it elsewhere after our claim
    return claim.cluster


def wants_place(source: Pod) -> bool:
    """Whether a pod still is to be scheduled."""
    return not (source.node or source.terminating or source.terminal)


def _astray(seen: Situation, source: Pod, target: str) -> Next | None:
    """What delegates in other clusters than the source's ask for; None: they hold nothing up."""
    strays = {cluster: pod for cluster, pod in seen.delegates.items() if cluster != target}
    if strays and not seen.home_settled:
        return NOTHING
    due = _collect(seen, strays)
    if due is not NOTHING:
        return due
    running = _running(strays)
    holds = running and wants_place(source) and target not in seen.delegates
    return Next(Step.HOLD, running) if holds else None


def _running(strays: Mapping[str, Pod]) -> str:
    """A cluster in which a container of the pod may run, "" if there is none."""
    return next((cluster for cluster in sorted(strays) if strays[cluster].node and not strays[cluster].terminal), "")


def _collect(seen: Situation, delegates: Mapping[str, Pod]) -> Next:
    for cluster in sorted(delegates):
        if cluster in seen.reachable and not delegates[cluster].terminating:
            return Next(Step.DELETE_DELEGATE, cluster)
    return NOTHING


def _end(seen: Situation, source: Pod, target: str, delegate: Pod | None) -> Next:
    if delegate is not None:
        return _collect(seen, {target: delegate})
    # A terminal source that nobody deletes keeps its place in the list; only its finalizer goes.
    due = source.terminating or source.has_finalizer
    return Next(Step.FINISH) if due and target in seen.delegate_gone else NOTHING


def _go_on(seen: Situation, target: str, delegate: Pod | None) -> Next:
    if target not in seen.reachable or (delegate and delegate.terminating):
        return NOTHING
    return Next(Step.BIND_PROXY if delegate and delegate.node else Step.RESUME, target)


def _mirror(seen: Situation, source: Pod, target: str, delegate: Pod | None) -> Next:
    if delegate is None:
        return Next(Step.FINISH) if target in seen.delegate_gone else NOTHING
    if delegate.terminating and not (source.terminal or delegate.terminal):
        return Next(Step.DELETE_SOURCE)
    # A node controller that lost sight of the proxy node has marked the source as not ready, behind our back.
    differs = delegate.status != seen.mirrored or (source.ready != delegate.ready and not source.terminal)
    return Next(Step.MIRROR, target) if delegate.status and differs else NOTHING
