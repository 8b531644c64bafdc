"""The table from intent types to procedures, with the epoch guard in front of them."""

from collections.abc import Callable
from typing import Any

from agents.executor.context.local import Local, Moment
from agents.executor.intents.bind import bind
from agents.executor.intents.carried_changes import update_delegate
from agents.executor.intents.claim import claim, restore_claim, unclaim
from agents.executor.intents.confirm_absent import confirm_no_delegate, confirm_no_source
from agents.executor.intents.delegate import create_delegate, delete_delegate, overtaken
from agents.executor.intents.evict import evict
from agents.executor.intents.finish_source import delete_source, finish_source
from agents.executor.intents.mirror import mirror_status
from agents.executor.intents.report import report_unschedulable
from agents.executor.intents.report_group import report_group
from agents.executor.intents.sign_manifest import sign_manifest
from agents.executor.intents.volumes import bind_volume, select_node
from shared.kube.http import Procedure
from shared.kube.verdicts import outcome
from shared.messages import (
    BOUND,
    DONE,
    REFUSED,
    STALE,
    AnyIntent,
    Bind,
    BindVolume,
    Claim,
    ConfirmNoDelegate,
    ConfirmNoSource,
    CreateDelegate,
    DeleteDelegate,
    DeleteSource,
    Evict,
    FinishSource,
    MirrorStatus,
    Outcome,
    ReportGroup,
    ReportUnschedulable,
    RestoreClaim,
    SelectNode,
    SignManifest,
    Unclaim,
    UpdateDelegate,
)

# Any: each procedure takes its own intent type, which the key beside it names.
PROCEDURES: dict[type[AnyIntent], Callable[[Any, Local, Moment], Procedure[Outcome]]] = {
    Bind: bind,
    Claim: claim,
    Unclaim: unclaim,
    RestoreClaim: restore_claim,
    ConfirmNoDelegate: confirm_no_delegate,
    ConfirmNoSource: confirm_no_source,
    CreateDelegate: create_delegate,
    DeleteDelegate: delete_delegate,
    MirrorStatus: mirror_status,
    DeleteSource: delete_source,
    FinishSource: finish_source,
    ReportUnschedulable: report_unschedulable,
    ReportGroup: report_group,
    BindVolume: bind_volume,
    SelectNode: select_node,
    Evict: evict,
    SignManifest: sign_manifest,
    UpdateDelegate: update_delegate,
}
_PLACING = (Bind, Claim, Unclaim, RestoreClaim, CreateDelegate)


def carry_out(
    intent: AnyIntent, dispatcher_epoch: int, local: Local, now: Moment
) -> Procedure[Outcome]:
    """Carry out one intent. After one that ends an attempt, late copies of that attempt's intents
    are stale.
    """
    if isinstance(intent, _PLACING):
        late = local.epoch_guard.outdated(intent.pod.uid, dispatcher_epoch, intent.epoch)
        if late and isinstance(intent, CreateDelegate):
            return (
                yield from overtaken(intent, late, local)
            )  # stale gives the place away: not without a look
        if late and not isinstance(intent, Unclaim):
            return outcome(intent, STALE, late)
    if isinstance(intent, MirrorStatus | UpdateDelegate):
        what = "status" if isinstance(intent, MirrorStatus) else "files"
        late = local.epoch_guard.outdated(
            f"{intent.pod.uid}/{what}", dispatcher_epoch, intent.epoch
        )
        if late:  # a copy that was long under way: what is newer has been written
            return outcome(intent, STALE, late)
    source = _source_of(intent, local)
    result = yield from PROCEDURES[type(intent)](intent, local, now)
    if source and result.verdict in _ENDS[type(intent)]:
        # Its own epoch: a later attempt than a delegate's may have found it, and its copies are
        # late ones, too.
        local.epoch_guard.invalidate(source, dispatcher_epoch, intent.epoch, result.message)
    return result


# Verdicts after which no attempt up to the intent's own makes anything any more: a late copy of its
# orders must not undo what came since. A delegate that was made and is gone is not made again, also
# where its order arrives twice.
_ENDS: dict[type[AnyIntent], tuple[str, ...]] = {
    Unclaim: (DONE,),
    CreateDelegate: (REFUSED, STALE, BOUND),
    DeleteDelegate: (DONE,),
    ConfirmNoDelegate: (DONE,),
}


def _source_of(intent: AnyIntent, local: Local) -> str:
    """UID of the source whose attempts this intent may take back; '' if it is not of that kind."""
    if isinstance(intent, DeleteDelegate):
        delegate = local.view.pod(intent.pod.uid)
        return delegate.source.uid if delegate is not None and delegate.source is not None else ""
    return intent.pod.uid if type(intent) in _ENDS else ""
