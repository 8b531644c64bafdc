"""SignManifest and UpdateDelegate: files of a delegate that show labels or annotations of its
source follow these.

The source's executor signs the manifest as it is now, under the claim that the pod bears; the
delegate's takes from it the annotations of ours that files are read from, and of these only those
that the delegate has from its beginning.
"""

import msgspec

from agents.executor import downward, events, manifest, pods, references
from agents.executor.delegate import delegate_name, unsigned
from agents.executor.local import Local, Moment
from agents.executor.pods import LivePod, Lookup, guarded_patch
from shared.kube.http import Procedure
from shared.kube.verdicts import NOT_FOUND, TRIES, Answer, error_text, is_ambiguous, outcome
from shared.messages import (
    DONE,
    REFUSED,
    STALE,
    UNKNOWN,
    Outcome,
    PodRef,
    SignManifest,
    UpdateDelegate,
)
from shared.model.pod import SourceRef
from shared.security import signatures
from shared.security.signatures import SignedClaim


def sign_manifest(intent: SignManifest, local: Local, now: Moment) -> Procedure[Outcome]:
    """Read the pod, and sign its manifest for the place where it runs; a refusal is told to its
    owner once.
    """
    look = yield from pods.look_up(intent.pod.namespace, intent.pod.name)
    if not look.answered:
        return outcome(intent, UNKNOWN, look.problem)
    claimed = _claimed(look.pod, intent.pod, local)
    if claimed is None:
        return outcome(
            intent,
            STALE,
            f"pod {intent.pod.namespace}/{intent.pod.name} does not run elsewhere by a claim",
        )
    try:
        sanitised = yield from references.for_another_cluster(
            look.body, intent.pod.namespace, claimed.target, local, now
        )
    except manifest.ManifestError as error:
        why = f"what files show of the pod is not changed where it runs: {error}"
        if local.refused.get(intent.pod.uid) != why:
            local.refused.put(intent.pod.uid, why)
            events.invalid_annotation(local, intent.pod, "FilesNotUpdated", why, now)
        return outcome(intent, REFUSED, why)
    mark = local.keys.sign_claim(
        msgspec.structs.replace(claimed, digest=signatures.digest_of(sanitised))
    )
    return msgspec.structs.replace(outcome(intent, DONE), manifest=sanitised, record=mark)


def _claimed(pod: LivePod | None, ref: PodRef, local: Local) -> SignedClaim | None:
    """Our claim by which the pod runs elsewhere, None where it does not."""
    if pod is None or pod.uid != ref.uid or pod.terminating or pod.terminal:
        return None
    claimed = pod.claimed(local.keys.public)
    return claimed if claimed is not None and local.behind(pod.node) == claimed.target else None


def update_delegate(intent: UpdateDelegate, local: Local, now: Moment) -> Procedure[Outcome]:
    """Write the annotations that differ, if the source's cluster has signed for them."""
    no = unsigned(intent, local)
    if no is not None:
        return outcome(intent, *no)
    try:
        wanted = downward.shown(
            msgspec.json.decode(manifest.sanitise(intent.manifest))["metadata"]["annotations"]
        )
    except manifest.ManifestError as error:
        return outcome(intent, REFUSED, str(error))
    answer = Answer(UNKNOWN)
    for _ in range(TRIES):
        look = yield from pods.look_up(intent.source.namespace, delegate_name(intent.source))
        answer = yield from _write(look, wanted, intent.source, local, now)
        if answer.verdict != UNKNOWN:
            break
    return outcome(intent, *answer)


def _write(
    look: Lookup, wanted: dict[str, str], source: SourceRef, local: Local, now: Moment
) -> Procedure[Answer]:
    """Onto the delegate as it was just read; UNKNOWN where it is to be read again."""
    if not look.answered:
        return Answer(UNKNOWN, look.problem)
    name = delegate_name(source)
    pod = look.pod
    if pod is None or pod.terminating or pod.terminal or not _is_of(pod, source, local):
        return Answer(STALE, f"no delegate {source.namespace}/{name} of this pod goes on")
    shown = downward.shown(pod.annotations)
    wanted = downward.with_topology(wanted, pod.labels)
    changed = {key: wanted[key] for key, text in shown.items() if wanted.get(key, text) != text}
    if not changed:
        return Answer(DONE)
    more = sum(len(text.encode()) - len(shown[key].encode()) for key, text in changed.items())
    full = local.foreign_budget.full(source, more, local.view) if more > 0 else ""
    if no_room := full or local.foreign_budget.too_fast(source, now.mono):
        return Answer(REFUSED, no_room)
    response = yield guarded_patch(
        PodRef(source.namespace, name, pod.uid), pod, {"annotations": changed}
    )
    if response.ok:
        local.foreign_budget.spend(source, now.mono, len(look.body) + more)
        return Answer(DONE)
    again = is_ambiguous(response) or response.status == NOT_FOUND
    return Answer(UNKNOWN if again else REFUSED, error_text(response))


def _is_of(pod: LivePod, source: SourceRef, local: Local) -> bool:
    signed = pod.delegated(local.keys.public)
    return signed is not None and (signed.source.cluster_uid, signed.source.uid) == (
        source.cluster_uid,
        source.uid,
    )
