"""The intents of the delegate protocol, made from what is tracked: one function a stage, nothing sent here."""

from dispatcher.model.messages import (
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
    Unclaim,
)
from dispatcher.model.names import CLAIM, DECISION, proxy_node_name
from dispatcher.model.pod import Pod, SourceRef
from dispatcher.scheduling.delegation.flights import Flight, Stage


def ref(pod: Pod) -> PodRef:
    """Which pod, exactly."""
    return PodRef(pod.namespace, pod.name, pod.uid)


def _id(epoch: int, stage: Stage) -> str:
    return f"{epoch}.{stage.value}.1"


def bind(home: str, source: Pod, node: str, epoch: int, why: str, now: float) -> Flight:
    """Bind in the home cluster."""
    intent = Bind(_id(epoch, Stage.BIND), ref(source), epoch, node, {DECISION: why} if why else {})
    return Flight(Stage.BIND, intent, home, home, node, epoch, now)


def claim(home: str, source: Pod, place: tuple[str, str, str], epoch: int, now: float) -> Flight:
    """Claim for another cluster; `place` is its name, its UID and the node."""
    cluster, uid, node = place
    intent = Claim(_id(epoch, Stage.CLAIM), ref(source), epoch, cluster, node, uid)
    return Flight(Stage.CLAIM, intent, home, cluster, node, epoch, now)


def create(
    source_cluster: tuple[str, str], claimed: Flight, answer: Outcome, at_most: dict[str, int], now: float
) -> Flight:
    """Create and bind the delegate that was claimed for; `answer` carries the signed claim and the manifest.

    `source_cluster`: name and UID of the pod's own. `at_most`: see CreateDelegate.
    """
    pod = claimed.intent.pod
    source = SourceRef(*source_cluster, pod.namespace, pod.name, pod.uid, claimed.epoch)
    intent = CreateDelegate(
        _id(claimed.epoch, Stage.CREATE),
        pod,
        claimed.epoch,
        source,
        claimed.node,
        answer.manifest,
        record=answer.record,
        at_most=at_most,
    )
    return Flight(Stage.CREATE, intent, claimed.cluster, claimed.cluster, claimed.node, claimed.epoch, now)


def bind_proxy(home: str, pod: PodRef, cluster: str, node: str, epoch: int, why: str, now: float) -> Flight:
    """Bind the source to the proxy node of the cluster where its delegate is bound."""
    annotations = {DECISION: why} if why else {}
    intent = Bind(_id(epoch, Stage.PROXY), pod, epoch, proxy_node_name(cluster), annotations, proxy=True)
    return Flight(Stage.PROXY, intent, home, cluster, node, epoch, now)


def unclaim(home: str, pod: PodRef, place: tuple[str, str], epoch: int, now: float) -> Flight:
    """Take the marks off: `place`, the cluster and node that was claimed, is given up."""
    intent = Unclaim(_id(epoch, Stage.UNCLAIM), pod, epoch)
    return Flight(Stage.UNCLAIM, intent, home, *place, epoch, now)


def restore(home: str, source: Pod, cluster: str, delegate: Pod, epoch: int, now: float) -> Flight:
    """Write the claim on the source again that its delegate in `cluster` carries."""
    intent = RestoreClaim(_id(epoch, Stage.RESTORE), ref(source), epoch, delegate.annotations.get(CLAIM, ""))
    return Flight(Stage.RESTORE, intent, home, cluster, delegate.node, epoch, now)


def confirm(source: SourceRef, cluster: str, epoch: int, now: float, *, collect: bool) -> Flight:
    """Ask a cluster's API server whether it has no delegate; with `collect`, delete the one that it has."""
    pod = PodRef(source.namespace, source.name, source.uid)
    intent = ConfirmNoDelegate(_id(epoch, Stage.CONFIRM), pod, epoch, source, collect)
    return Flight(Stage.CONFIRM, intent, cluster, cluster, "", epoch, now)


def confirm_source(home: str, source: SourceRef, epoch: int, now: float) -> Flight:
    """Ask the source's API server whether the source is gone."""
    pod = PodRef(source.namespace, source.name, source.uid)
    intent = ConfirmNoSource(_id(epoch, Stage.CONFIRM_SOURCE), pod, epoch)
    return Flight(Stage.CONFIRM_SOURCE, intent, home, home, "", epoch, now)


def mirror(home: str, source: Pod, cluster: str, status: bytes, epoch: int, now: float) -> Flight:
    """Write the delegate's status onto the source."""
    intent = MirrorStatus(_id(epoch, Stage.MIRROR), ref(source), epoch, status)
    return Flight(Stage.MIRROR, intent, home, cluster, source.node, epoch, now, status=status)


def delete_delegate(cluster: str, delegate: Pod, epoch: int, now: float) -> Flight:
    """Delete a delegate."""
    intent = DeleteDelegate(_id(epoch, Stage.DELETE), ref(delegate), epoch)
    return Flight(Stage.DELETE, intent, cluster, cluster, delegate.node, epoch, now)


def delete_source(home: str, source: Pod, epoch: int, now: float) -> Flight:
    """Begin to delete the source, as its delegate is being deleted."""
    intent = DeleteSource(_id(epoch, Stage.DELETE_SOURCE), ref(source), epoch)
    return Flight(Stage.DELETE_SOURCE, intent, home, home, source.node, epoch, now)


def finish(home: str, source: Pod, epoch: int, now: float) -> Flight:
    """Let the source go."""
    intent = FinishSource(_id(epoch, Stage.FINISH), ref(source), epoch)
    return Flight(Stage.FINISH, intent, home, home, source.node, epoch, now)
