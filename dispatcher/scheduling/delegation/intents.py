"""The intents of the delegate protocol, built from a tracked pod: a function per intent kind.
Nothing is sent here.
"""

from collections.abc import Sequence
from itertools import repeat

import msgspec

from dispatcher.scheduling.delegation.in_flight import InFlightIntent, IntentKind
from dispatcher.scheduling.delegation.protocol import generation_seen
from dispatcher.scheduling.records.decision import Decision
from shared.messages import (
    Bind,
    Claim,
    ConfirmNoDelegate,
    ConfirmNoSource,
    CreateDelegate,
    DeleteDelegate,
    DeleteSource,
    FinishSource,
    MirrorStatus,
    Outcome,
    PodRef,
    RestoreClaim,
    SignManifest,
    Unclaim,
    UpdateDelegate,
)
from shared.model.names import CLAIM, DECISION, proxy_node_name
from shared.model.pod import Pod, SourceRef

# Enum attributes are slow to look up
_BIND = IntentKind.BIND
_WORDS = {kind: kind.value for kind in IntentKind}


def ref(pod: Pod) -> PodRef:
    """Which pod, exactly."""
    return PodRef(pod.namespace, pod.name, pod.uid)


def _id(epoch: int, kind: IntentKind) -> str:
    return f"{epoch}.{_WORDS[kind]}.1"


def bind(home: str, source: Pod, node: str, epoch: int, why: str, now: float) -> InFlightIntent:
    """Bind in the home cluster."""
    intent = Bind(_id(epoch, _BIND), ref(source), epoch, node, {DECISION: why} if why else {})
    return InFlightIntent(_BIND, intent, home, home, node, epoch, now)


def bind_all(
    decisions: Sequence[Decision], epochs: Sequence[int], now: float
) -> list[InFlightIntent]:
    """`bind` each where it was decided, in one home cluster."""
    home = decisions[0].cluster
    pods = [one.pod_info.pod for one in decisions]
    refs = map(
        PodRef,
        [pod.namespace for pod in pods],
        [pod.name for pod in pods],
        [pod.uid for pod in pods],
    )
    nodes = [one.node for one in decisions]
    why = [{DECISION: one.summary()} for one in decisions]
    sent = map(Bind, [_id(epoch, _BIND) for epoch in epochs], refs, epochs, nodes, why)
    return list(
        map(
            InFlightIntent,
            repeat(_BIND),
            sent,
            repeat(home),
            repeat(home),
            nodes,
            epochs,
            repeat(now),
        )
    )


def claim(
    home: str, source: Pod, place: tuple[str, str, str], epoch: int, now: float
) -> InFlightIntent:
    """Claim for another cluster; `place` is its name, its UID and the node."""
    cluster, uid, node = place
    intent = Claim(_id(epoch, IntentKind.CLAIM), ref(source), epoch, cluster, node, uid)
    return InFlightIntent(IntentKind.CLAIM, intent, home, cluster, node, epoch, now)


def create(
    source_cluster: tuple[str, str],
    claimed: InFlightIntent,
    answer: Outcome,
    at_most: dict[str, int],
    now: float,
    *,
    services: bool = False,
) -> InFlightIntent:
    """Create and bind the delegate that was claimed for; `answer` carries the signed claim and the
    manifest. One of a group is only created: `bind_made` follows.

    `source_cluster`: name and UID of the pod's own. `at_most`, `services`: see CreateDelegate.
    """
    pod = claimed.intent.pod
    source = SourceRef(*source_cluster, pod.namespace, pod.name, pod.uid, claimed.epoch)
    intent = CreateDelegate(
        _id(claimed.epoch, IntentKind.CREATE),
        pod,
        claimed.epoch,
        source,
        claimed.node,
        answer.manifest,
        record=answer.record,
        at_most=at_most,
        services=services,
        unbound=claimed.joint,
    )
    return InFlightIntent(
        IntentKind.CREATE,
        intent,
        claimed.cluster,
        claimed.cluster,
        claimed.node,
        claimed.epoch,
        now,
        joint=claimed.joint,
    )


def bind_made(created: InFlightIntent, uid: str, now: float) -> InFlightIntent:
    """Bind the delegate with this UID, which was created and left unbound."""
    intent = created.intent
    if not isinstance(intent, CreateDelegate):
        raise TypeError(f"a {created.kind.value} has made no delegate")
    intent = msgspec.structs.replace(
        intent, id=f"{created.epoch}.{_WORDS[created.kind]}.made", unbound=False, made=uid
    )
    return InFlightIntent(
        IntentKind.CREATE,
        intent,
        created.cluster,
        created.cluster,
        created.node,
        created.epoch,
        now,
        attempts=created.attempts,
        joint=True,
        made=True,
    )


def bind_proxy(
    home: str, pod: PodRef, place: tuple[str, str], epoch: int, why: str, now: float
) -> InFlightIntent:
    """Bind the source to the proxy node of the cluster where its delegate is bound (`place`:
    cluster, node).
    """
    annotations = {DECISION: why} if why else {}
    intent = Bind(
        _id(epoch, IntentKind.PROXY), pod, epoch, proxy_node_name(place[0]), annotations, proxy=True
    )
    return InFlightIntent(IntentKind.PROXY, intent, home, *place, epoch, now)


def unclaim(
    home: str, pod: PodRef, place: tuple[str, str], epoch: int, now: float
) -> InFlightIntent:
    """Take the marks off: `place`, the cluster and node that was claimed, is given up."""
    intent = Unclaim(_id(epoch, IntentKind.UNCLAIM), pod, epoch)
    return InFlightIntent(IntentKind.UNCLAIM, intent, home, *place, epoch, now)


def restore(
    home: str, source: Pod, cluster: str, delegate: Pod, epoch: int, now: float
) -> InFlightIntent:
    """Write the claim on the source again that its delegate in `cluster` carries."""
    intent = RestoreClaim(
        _id(epoch, IntentKind.RESTORE), ref(source), epoch, delegate.annotations.get(CLAIM, "")
    )
    return InFlightIntent(IntentKind.RESTORE, intent, home, cluster, delegate.node, epoch, now)


def confirm(
    source: SourceRef, cluster: str, epoch: int, now: float, *, collect: bool
) -> InFlightIntent:
    """Ask a cluster's API server whether it has no delegate; with `collect`, delete the one that it
    has.
    """
    pod = PodRef(source.namespace, source.name, source.uid)
    intent = ConfirmNoDelegate(_id(epoch, IntentKind.CONFIRM), pod, epoch, source, collect)
    return InFlightIntent(IntentKind.CONFIRM, intent, cluster, cluster, "", epoch, now)


def confirm_end(source: SourceRef, cluster: str, epoch: int, now: float) -> InFlightIntent:
    """Ask a cluster's API server whether the delegate has ended, or is being deleted."""
    pod = PodRef(source.namespace, source.name, source.uid)
    intent = ConfirmNoDelegate(_id(epoch, IntentKind.CONFIRM_END), pod, epoch, source, ended=True)
    return InFlightIntent(IntentKind.CONFIRM_END, intent, cluster, cluster, "", epoch, now)


def confirm_source(home: str, source: SourceRef, epoch: int, now: float) -> InFlightIntent:
    """Ask the source's API server whether the source is gone."""
    pod = PodRef(source.namespace, source.name, source.uid)
    intent = ConfirmNoSource(_id(epoch, IntentKind.CONFIRM_SOURCE), pod, epoch)
    return InFlightIntent(IntentKind.CONFIRM_SOURCE, intent, home, home, "", epoch, now)


def mirror(
    home: str, source: Pod, cluster: str, told: tuple[Pod, bool], epoch: int, now: float
) -> InFlightIntent:
    """Write the delegate's status onto the source; `told`: the delegate, and `routed` as in
    MirrorStatus. Both agents have to know what follows.
    """
    delegate, routed = told
    status = delegate.status
    carries = delegate.carries if source.live else ""
    generation = generation_seen(source, delegate)
    intent = MirrorStatus(
        _id(epoch, IntentKind.MIRROR), ref(source), epoch, status, routed, carries, generation
    )
    return InFlightIntent(
        IntentKind.MIRROR,
        intent,
        home,
        cluster,
        source.node,
        epoch,
        now,
        status=status,
        generation=generation,
    )


def sign(home: str, source: Pod, place: tuple[str, str], epoch: int, now: float) -> InFlightIntent:
    """Sign the manifest of a source that runs at `place` (cluster, node) as it is now."""
    intent = SignManifest(_id(epoch, IntentKind.SIGN), ref(source), epoch)
    return InFlightIntent(IntentKind.SIGN, intent, home, *place, epoch, now)


def update(
    signed: InFlightIntent, answer: Outcome, source: SourceRef, now: float
) -> InFlightIntent:
    """Write what was signed onto the delegate; `source` as the delegate carries it."""
    cluster = signed.cluster
    node = signed.node
    epoch = signed.epoch
    name = _id(epoch, IntentKind.UPDATE)
    intent = UpdateDelegate(
        name, signed.intent.pod, epoch, source, node, answer.manifest, answer.record
    )
    return InFlightIntent(IntentKind.UPDATE, intent, cluster, cluster, node, epoch, now)


def delete_delegate(
    cluster: str, delegate: Pod, grace_s: int, epoch: int, now: float
) -> InFlightIntent:
    """Delete a delegate, if its cluster has signed that it is this source's; `grace_s` as in
    DeleteDelegate.
    """
    intent = DeleteDelegate(
        _id(epoch, IntentKind.DELETE), ref(delegate), epoch, delegate.source, grace_s
    )
    return InFlightIntent(IntentKind.DELETE, intent, cluster, cluster, delegate.node, epoch, now)


def delete_source(
    home: str, source: Pod, delegate: Pod | None, epoch: int, now: float
) -> InFlightIntent:
    """Begin to delete the source, as its delegate is being deleted, None where that is not seen any
    more.
    """
    status, grace_s = (delegate.status, delegate.ends_in_s) if delegate is not None else (b"", -1)
    intent = DeleteSource(_id(epoch, IntentKind.DELETE_SOURCE), ref(source), epoch, status, grace_s)
    return InFlightIntent(IntentKind.DELETE_SOURCE, intent, home, home, source.node, epoch, now)


def finish(home: str, source: Pod, target_uid: str, epoch: int, now: float) -> InFlightIntent:
    """Let the source go; `target_uid` is that of the cluster without a delegate."""
    intent = FinishSource(_id(epoch, IntentKind.FINISH), ref(source), epoch, target_uid)
    return InFlightIntent(IntentKind.FINISH, intent, home, home, source.node, epoch, now)
