"""Which of the marks on this cluster's pods its own executor has made. What does not verify counts
for nothing.

A pod with a claim that is not ours is an ordinary pod; a pod that says it is a delegate and is not
is a pod of somebody else that takes room. Both are told once. Only our own public keys are needed:
our executor signs a delegate's proof after it has verified the claim that another cluster signed.
"""

import msgspec

from agents.observer.seen import PodSeen
from shared.model import names
from shared.model.pod import Pod, SourceRef, without_claim
from shared.security import signatures

_CLAIM = (
    f"annotation {names.CLAIM} is not signed by this cluster for this pod, or finalizer "
    f"{names.FINALIZER} is gone: "
    f"it is ignored; to narrow where a pod may run, use {names.CLUSTERS}"
)
_PROOF = (
    f"label {names.DELEGATE_LABEL} says that this pod is a delegate, but this cluster has not "
    "signed for it: it is "
    f"treated as a pod of another scheduler; remove the label"
)


class MarkVerifier:
    """Verifies the marks of pods by the public keys of their own cluster. No keys: nothing
    verifies.
    """

    def __init__(self, keys: tuple[str, ...]) -> None:
        self.keys = keys

    def verify(self, seen: PodSeen) -> tuple[PodSeen, str]:
        """The pod with the marks that verify, and a warning for its owner ('' mostly)."""
        pod = seen.pod
        if pod is None:
            return seen, ""
        if pod.source is not None:
            return (
                (seen, "")
                if self._is_delegate(pod, pod.source)
                else (_as_foreign(seen, pod), _PROOF)
            )
        if pod.claim is not None and not self._is_claimed(pod):
            return msgspec.structs.replace(
                seen, pod=without_claim(pod)
            ), "" if pod.terminating else _CLAIM
        marked = names.CLAIM in pod.annotations and pod.claim is None
        return seen, _CLAIM if marked else ""

    def _is_claimed(self, pod: Pod) -> bool:
        mark = pod.annotations[names.CLAIM]
        signed = signatures.read_claim(mark)
        if signed is None or not (
            pod.has_finalizer or pod.node
        ):  # one that is bound stays what it is
            return False
        source = signed.source
        same = (source.uid, source.namespace, source.name) == (pod.uid, pod.namespace, pod.name)
        return same and signatures.is_claim_of(self.keys, mark)

    def _is_delegate(self, pod: Pod, source: SourceRef) -> bool:
        mark = pod.annotations[names.CLAIM]
        proof = pod.annotations.get(names.DELEGATE_PROOF, "")
        return source.namespace == pod.namespace and signatures.is_proof_of(
            self.keys, pod.uid, mark, proof
        )


def _as_foreign(seen: PodSeen, pod: Pod) -> PodSeen:
    if not pod.node or pod.terminal:
        return msgspec.structs.replace(seen, pod=None)
    return msgspec.structs.replace(seen, pod=msgspec.structs.replace(pod, source=None, status=b""))
