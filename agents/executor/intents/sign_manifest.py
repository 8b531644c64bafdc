"""SignManifest: a source that runs elsewhere has changed, so its manifest is signed anew, under the
claim that the pod bears. UpdateDelegate, the other half, is in `carried_changes`.
"""

import msgspec

from agents.executor.context.local import Local, Moment
from agents.executor.crossing import live, manifest
from agents.executor.objects import events, pods, source_manifest
from agents.executor.objects.pods import LivePod
from shared.kube.http import Procedure
from shared.kube.verdicts import outcome
from shared.messages import DONE, REFUSED, STALE, UNKNOWN, Outcome, PodRef, SignManifest
from shared.security import signatures
from shared.security.signatures import SignedClaim


def sign_manifest(intent: SignManifest, local: Local, now: Moment) -> Procedure[Outcome]:
    """Read the pod, and sign its manifest for the place where it runs; a refusal is told to its
    owner once. Of debug containers that never go along the observer tells.
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
        crossing, _ = manifest.without_refused(look.body)
        sanitised = yield from source_manifest.for_another_cluster(
            crossing, intent.pod.namespace, claimed.target, local, now
        )
    except source_manifest.NotKnownError as error:  # soon: nothing of it is the owner's to mend
        return outcome(intent, UNKNOWN, str(error))
    except manifest.ManifestError as error:
        why = f"no change of the pod is made where it runs: {error}"
        _tell(intent.pod, why, local, now)
        return outcome(intent, REFUSED, why)
    try:
        live.digests(live.parts(msgspec.json.decode(sanitised)))
    except manifest.ManifestError as error:  # its files follow all the same
        _tell(intent.pod, str(error), local, now)
    mark = local.keys.sign_claim(
        msgspec.structs.replace(claimed, digest=signatures.digest_of(sanitised))
    )
    return msgspec.structs.replace(outcome(intent, DONE), manifest=sanitised, record=mark)


def _tell(ref: PodRef, why: str, local: Local, now: Moment) -> None:
    if local.refused.get(ref.uid) != why:
        local.refused.put(ref.uid, why)
        events.invalid_annotation(local, ref, events.CHANGE_REFUSED, why, now)


def _claimed(pod: LivePod | None, ref: PodRef, local: Local) -> SignedClaim | None:
    """Our claim by which the pod runs elsewhere, None where it does not."""
    if pod is None or pod.uid != ref.uid or pod.terminating or pod.terminal:
        return None
    claimed = pod.claimed(local.keys.public)
    return claimed if claimed is not None and local.behind(pod.node) == claimed.target else None
