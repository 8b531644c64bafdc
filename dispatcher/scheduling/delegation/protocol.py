"""The delegate protocol as one level-triggered question: what is due for a source pod and its
delegates as seen?

Nothing is remembered from one answer to the next: after a crash of anything, the same question on
the same world gives the same step, and every step is idempotent. Absence is never concluded from
not having been seen: before anything is done because a pod is gone, the API server that has the
last word is asked. The order of the rules is the order of the code.

1. Delegates of a source that is gone are collected, once its own API server has said so.
2. A delegate elsewhere than where its source is bound is collected: the replacement was seen. While
   the source is bound nowhere, the delegate that runs is the pod: the source's claim is restored to
   it.
3. A source that ends takes its delegate with it, also sooner where it is deleted again with less
   time, and is let go when the delegate is gone.
4. A claimed, unbound source whose delegate is bound goes on with it. Without one, a claim that this
   dispatcher has made goes on from where it stopped; any other is no decision of ours (it may be an
   old one that somebody has put back): once its target is proved to have no delegate it is taken
   off, and the pod is queued like any other. If the target is lost before a delegate can have been
   begun there, the claim is taken back.
5. A source on a proxy node mirrors its delegate, begins to go when the delegate does (a drain, a
   lost node), and is let go when the delegate is gone. That it ends or goes, and how, its API
   server has to say first. Marks that somebody took off are restored as the delegate carries them.
   What may change of a pod that runs, and what its files show, follows the source.

A cluster that an operator has fenced in the home cluster ("nothing runs there any more") has no
delegate, whatever was last seen there: its sources are let go or take their claims back, and copies
that show there are deleted.
"""

import enum
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from shared.messages import DELETING
from shared.model.names import PROXY_NODE_PREFIX
from shared.model.pod import TERMINAL, Pod


class Step(enum.Enum):
    """What to do next for one source pod."""

    __hash__ = object.__hash__  # looked up for every pod; Enum's own hash is a call of Python
    NOTHING = "nothing"
    HOLD = "hold"  # it wants a place, but still runs in a cluster that it did not go to
    WAIT = "wait"  # claimed for a cluster that is lost, in which its delegate may run
    QUEUE = "queue"  # it wants a place
    # claim again for the same place, then create and bind the delegate: a decision of our own
    RESUME = "resume"
    UNCLAIM = "unclaim"  # take our marks off
    RESTORE = "restore"  # write the claim again that the delegate carries
    BIND_PROXY = "bind-proxy"
    MIRROR = "mirror"
    # sign the manifest as it is now, then write onto the delegate what has changed
    UPDATE = "update"
    DELETE_DELEGATE = "delete-delegate"
    DELETE_SOURCE = "delete-source"  # its delegate is being deleted
    FINISH = "finish"  # let the source go
    CONFIRM = "confirm"  # ask the target's API server whether it has no delegate
    COLLECT = "collect"  # the same, and delete the one that it has
    # ask the target's API server whether, and how, its delegate has ended or ends
    CONFIRM_END = "confirm-end"
    CONFIRM_SOURCE = "confirm-source"  # ask the source's API server whether the source is gone


class NextStep(NamedTuple):
    """A step and the cluster in which it happens ("" where that is the home cluster)."""

    step: Step
    cluster: str = ""


NOTHING = NextStep(Step.NOTHING)
QUEUE = NextStep(Step.QUEUE)


class ObservedState(msgspec.Struct, frozen=True, gc=False):
    """All that is seen of one source pod.

    `source_gone`: its API server has said that the source is gone. `source_missing`: it is missing
    for so long that its API server is to be asked. `reachable`: clusters whose agents answer now.
    `restored`: clusters that went back in time and are not reconciled. `executor_only`: clusters
    whose executors take orders, but whose observers are away. `observer_only`: the reverse.
    `absent`: clusters whose API servers have said that they have no delegate. `missing`: clusters
    in which the delegate is missing for so long that their API servers are to be asked. `ended`: by
    cluster, how the delegate ends as its API server has said: its final phase, or DELETING.
    `doubted`: it was asked a moment ago, and has not confirmed the end that is shown.
    `home_settled`: the home cluster has been Ready for the grace time, and our claim, if we made
    one, is as old, so that a claim cannot be unseen any more. `decided`: this dispatcher made the
    claim. `untouched`: and nobody can have begun a delegate of it. `disproved`: the API server of
    its target has no delegate, and will make none for this claim or an earlier one. `fenced`:
    clusters of which an operator has said, in the home cluster, that nothing runs there any more.
    `mirrored`: the status that was written last; `generation`: the last that went with one.
    `unshown`: a status was written a moment ago, so that the watch may not show it yet. `paced`:
    several were a moment ago, so that another one that is no end waits.
    `given_up`: its claim was taken off once, and somebody has put it on again: no decision stands
    behind it.
    """

    home: str
    source: Pod | None
    delegates: Mapping[str, Pod] = msgspec.field(default_factory=dict)
    source_gone: bool = False
    source_missing: bool = False
    home_settled: bool = True
    reachable: frozenset[str] = frozenset()
    restored: frozenset[str] = frozenset()
    executor_only: frozenset[str] = frozenset()
    observer_only: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    ended: Mapping[str, str] = msgspec.field(default_factory=dict)
    doubted: bool = False
    decided: bool = False
    untouched: bool = False
    disproved: bool = False
    given_up: bool = False
    mirrored: bytes = b""
    generation: int = 0
    unshown: bool = False
    paced: bool = False
    fenced: frozenset[str] = frozenset()


def next_step(seen: ObservedState) -> NextStep:
    """The one step that is due; NOTHING means wait for the world to change."""
    if seen.source is None:
        return _without_source(seen)
    target = target_of(seen.home, seen.source)
    if seen.home in seen.executor_only:
        return _without_observer(seen, seen.source, target)
    if seen.home not in seen.reachable or seen.home in seen.observer_only:
        return NOTHING
    if not seen.fenced:
        return _with_source(seen, seen.source, target)
    copy = _collect(seen, _fenced_copies(seen, seen.source, target))
    return copy if copy is not NOTHING else _with_source(_without_fenced(seen), seen.source, target)


def _with_source(seen: ObservedState, source: Pod, target: str) -> NextStep:
    stray = _stray_delegates(seen, source, target)
    if stray is not None:
        return stray
    if not target:
        return _local_source(seen, source)
    delegate = seen.delegates.get(target)
    if source.terminating or (source.terminal and not (delegate and delegate.terminal)):
        return _ended_source(seen, source, target, delegate)
    if not source.node:
        return _claimed_source(seen, target, delegate)
    return _on_proxy_node(seen, source, target, delegate)


def target_of(home: str, source: Pod) -> str:
    """The cluster the source's delegate belongs in, "" if it has none. Where it is bound, no
    annotation has a say.

    A pod that bears our marks counts as elsewhere even where its node shows as one of the home
    cluster: a proxy node that somebody has replaced, or stripped of its marks, is no reason to give
    up what runs there.
    """
    node = source.node
    if node:
        if not node.startswith(PROXY_NODE_PREFIX):
            return ""
        ours = source.has_finalizer or source.claim is not None
        return "" if source.at_home and not ours else node.removeprefix(PROXY_NODE_PREFIX)
    return source.claim.cluster if source.claim is not None and source.claim.cluster != home else ""


def wants_place(source: Pod) -> bool:
    """Whether a pod still is to be scheduled."""
    return not (source.node or source.terminating or source.phase in TERMINAL)


def _fenced_copies(seen: ObservedState, source: Pod, target: str) -> dict[str, Pod]:
    """Delegates that show in fenced clusters, but for one that has ended where its ended source is
    bound.
    """
    copies = {cluster: pod for cluster, pod in seen.delegates.items() if cluster in seen.fenced}
    if source.terminal and not source.terminating and target in copies and copies[target].terminal:
        del copies[target]
    return copies


def _without_fenced(seen: ObservedState) -> ObservedState:
    """The same, with the operator's word for what is in fenced clusters: nothing."""
    delegates = {
        cluster: pod for cluster, pod in seen.delegates.items() if cluster not in seen.fenced
    }
    return msgspec.structs.replace(
        seen,
        delegates=delegates,
        absent=seen.absent | seen.fenced,
        restored=seen.restored - seen.fenced,
    )


def _without_source(seen: ObservedState) -> NextStep:
    if not seen.delegates or seen.home in seen.restored:
        return NOTHING
    if seen.source_gone:
        return _collect(seen, seen.delegates)
    return (
        NextStep(Step.CONFIRM_SOURCE)
        if seen.source_missing and seen.home in seen.reachable
        else NOTHING
    )


def _local_source(seen: ObservedState, source: Pod) -> NextStep:
    """What is due for a source that belongs in no other cluster."""
    if not source.has_finalizer:
        return QUEUE if wants_place(source) else NOTHING
    # Marked, and no claim that verifies: somebody took it off, or it is not seen yet.
    return NextStep(Step.UNCLAIM) if source.node or seen.home_settled else NOTHING


def _stray_delegates(seen: ObservedState, source: Pod, target: str) -> NextStep | None:
    """What is due where delegates are in other clusters than the source's target; None: nothing for
    them.
    """
    strays = {cluster: pod for cluster, pod in seen.delegates.items() if cluster != target}
    if not strays:
        return None
    copy = seen.delegates.get(target)
    if not wants_place(source) or (copy is not None and copy.node):
        due = (
            _collect(seen, strays)
            if seen.home not in seen.restored or source.terminating
            else NOTHING
        )
        return due if due is not NOTHING else None
    alive = next((cluster for cluster in sorted(strays) if _goes_on(strays[cluster])), "")
    if alive:
        return _adopt(seen, target, alive)
    dying = next(
        (
            cluster
            for cluster in sorted(strays)
            if strays[cluster].node and not strays[cluster].terminal
        ),
        "",
    )
    return NextStep(Step.HOLD, dying) if dying else None


def _goes_on(delegate: Pod) -> bool:
    """Whether a delegate runs, or has ended by itself, and nobody deletes it."""
    return bool(delegate.node) and not delegate.terminating


def _adopt(seen: ObservedState, target: str, alive: str) -> NextStep:
    """An unbound source whose delegate runs in `alive`: its claim is to say so."""
    if not target:
        return NextStep(Step.RESTORE, alive)
    if target in seen.absent:
        return NextStep(Step.UNCLAIM)
    return (
        NextStep(Step.COLLECT, target) if target in seen.reachable else NextStep(Step.HOLD, alive)
    )


def _collect(seen: ObservedState, delegates: Mapping[str, Pod]) -> NextStep:
    given_s = seen.source.ends_in_s if seen.source is not None else -1
    for cluster in sorted(delegates):
        if cluster in seen.reachable and not delegates[cluster].ends_within(given_s):
            return NextStep(Step.DELETE_DELEGATE, cluster)
    return NOTHING


def _ended_source(seen: ObservedState, source: Pod, target: str, delegate: Pod | None) -> NextStep:
    """What is due for a source that is being deleted, or has ended before its delegate."""
    if delegate is not None:
        return _collect(seen, {target: delegate})
    # A terminal source that nobody deletes keeps its place in the list; only its finalizer goes.
    # One that ends at once is held by others.
    finished = source.terminal and (not source.terminating or source.ends_in_s == 0)
    if (finished and not source.has_finalizer) or target in seen.restored:
        return NOTHING
    if target in seen.absent:
        return NextStep(Step.FINISH)
    return NextStep(Step.COLLECT, target) if target in seen.reachable else NOTHING


def _claimed_source(seen: ObservedState, target: str, delegate: Pod | None) -> NextStep:
    """What is due for a source that is claimed for `target`, and not bound yet."""
    if target in seen.fenced or (seen.given_up and delegate is None):
        return NextStep(Step.UNCLAIM)
    if target not in seen.reachable:
        return NextStep(Step.UNCLAIM) if seen.untouched else NextStep(Step.WAIT, target)
    if delegate and delegate.terminating:
        return NOTHING
    if delegate and delegate.node:
        return NextStep(Step.BIND_PROXY, target)
    return NextStep(Step.RESUME, target) if seen.decided else _undecided_claim(seen, target)


def _undecided_claim(seen: ObservedState, target: str) -> NextStep:
    """A claim that this dispatcher has not made: taken off as soon as no delegate of it can be
    there or come.
    """
    if target in seen.restored:
        return NextStep(Step.WAIT, target)
    return NextStep(Step.UNCLAIM) if seen.disproved else NextStep(Step.CONFIRM, target)


def _on_proxy_node(seen: ObservedState, source: Pod, target: str, delegate: Pod | None) -> NextStep:
    """What is due for a source bound to a proxy node."""
    if target in seen.fenced:
        return _without_delegate(seen, source, target)
    if target not in seen.reachable:
        # its executor marks the pod as not ready; what was last heard from there is no news
        return NOTHING
    marked = source.has_finalizer and source.claim is not None and source.claim.cluster == target
    if delegate is None:
        return _without_delegate(seen, source, target)
    if not marked and not delegate.terminating:
        return NextStep(Step.RESTORE, target)
    if delegate.terminating and not (source.terminal or ends_shown(delegate)):
        return NextStep(Step.DELETE_SOURCE) if _confirmed(seen, target) else _ask_end(seen, target)
    # A node controller that lost sight of the proxy node marks the source as not ready, behind our
    # back; a copy of an older order that arrives late shows what was before.
    shown = (source.phase, source.ready) == (delegate.phase, delegate.ready)
    told = delegate.status == seen.mirrored and not unshown_generation(
        source, delegate, seen.generation
    )
    differs = not told or not (shown or source.terminal or seen.unshown)
    if delegate.status and differs:
        return _show(seen, source, target, delegate)
    return (
        NextStep(Step.UPDATE, target)
        if outdated(source, delegate) and not delegate.terminal
        else NOTHING
    )


def outdated(source: Pod, delegate: Pod) -> bool:
    """Whether what may change of a pod that runs, or what its files show, has changed at home and
    not reached the delegate; agents of an older version tell of none.
    """
    return _differ(source.files, delegate.files) or _live_differs(source.live, delegate.live)


def unshown_generation(source: Pod, delegate: Pod, shown: int) -> bool:
    """Whether another generation than was `shown` last has been seen by the delegate's kubelet."""
    return generation_seen(source, delegate) not in (0, shown)


def generation_seen(source: Pod, delegate: Pod) -> int:
    """The source's generation, where its spec is what the delegate's kubelet has seen; else 0.

    All that may change of a spec has reached the delegate as the source has it now, and its kubelet
    has seen the delegate with that (`Pod.generation`). Generations are counted by each API server
    for itself: the two numbers are never compared. A deletion counts as one.
    """
    if not (source.generation and delegate.generation):
        return 0
    if source.terminating and not delegate.terminating:
        return 0
    return source.generation if _live_is(source.live, delegate.live) else 0


def _live_is(wanted: str, there: str) -> bool:
    """Whether both are told, and the same."""
    if wanted == there:
        return bool(wanted)
    wanted, there = _of_one_format(wanted, there)
    return wanted == there != ""


def _live_differs(wanted: str, there: str) -> bool:
    return wanted != there and _differ(*_of_one_format(wanted, there))


def _of_one_format(wanted: str, there: str) -> tuple[str, str]:
    """Both digests in the newest format (the first character) that both tell: of another one the
    same would never be told.
    """
    found = {one[:1]: one for one in wanted.split(".")}
    other = {one[:1]: one for one in there.split(".")}
    newest = max(found.keys() & other.keys(), default="")
    return found.get(newest, ""), other.get(newest, "")


def _differ(wanted: str, there: str) -> bool:
    return wanted != there and bool(wanted and there)


def _show(seen: ObservedState, source: Pod, target: str, delegate: Pod) -> NextStep:
    """Write the delegate's status. An end is final, and controllers act upon it: its API server
    says which it is.
    """
    ends = ends_shown(delegate)
    if seen.paced and not ends:
        return NOTHING
    if source.terminal or not ends or _confirmed(seen, target):
        return NextStep(Step.MIRROR, target)
    return _ask_end(seen, target)


def _ask_end(seen: ObservedState, target: str) -> NextStep:
    return NOTHING if seen.doubted else NextStep(Step.CONFIRM_END, target)


def _confirmed(seen: ObservedState, target: str) -> bool:
    return confirms(seen.ended.get(target, ""), seen.delegates[target])


def confirms(end: str, delegate: Pod) -> bool:
    """Whether `end`, as its API server has it, is the one at which the delegate is shown; true of
    one that goes on.
    """
    shown = ends_shown(delegate) or ({DELETING} if delegate.terminating else set[str]())
    return shown <= {end}


class _Phase(msgspec.Struct):
    phase: str = ""


_read_phase = msgspec.json.Decoder(_Phase).decode


def ends_shown(delegate: Pod) -> set[str]:
    """The final phases that its observer tells of it: of the pod, and in the status that is written
    at home.

    Home's executor writes no status that cannot be read.
    """
    try:
        written = _read_phase(delegate.status).phase
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        written = ""
    return {delegate.phase, written} & TERMINAL


def _without_observer(seen: ObservedState, source: Pod, target: str) -> NextStep:
    """Where the home's observer is away, the status alone is written, since the home's executor can
    check it.
    """
    delegate = seen.delegates.get(target) if source.node and source.claim is not None else None
    if (
        delegate is None
        or delegate.terminating
        or target not in seen.reachable
        or target in seen.fenced
    ):
        return NOTHING
    news = bool(delegate.status) and delegate.status != seen.mirrored
    return _show(seen, source, target, delegate) if news and not source.terminal else NOTHING


def _without_delegate(seen: ObservedState, source: Pod, target: str) -> NextStep:
    # Else somebody bound it to the proxy node by hand. What was mirrored outlives the marks that a
    # user may take off.
    ours = source.has_finalizer or source.claim is not None or bool(seen.mirrored)
    if not ours or target in seen.restored:
        return NOTHING
    if target in seen.absent:
        return NextStep(Step.FINISH)
    return NextStep(Step.CONFIRM, target) if target in seen.missing else NOTHING
