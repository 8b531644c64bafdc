"""Gives a pod that waits what its tenant tolerates, on its own object: so do the scheduler, the
executor before a bind, the kubelet, the taint manager and other clusters all know of it.

The API server takes additions to the tolerations of a pod, and nothing else. An order adds no more
than the pod's author could have written himself, and opens no node that is guarded for another
reason than whose it is (`may_be_given`).
"""

from collections.abc import Sequence

import msgspec

from agents.executor.context.failover_mode import Object, written
from agents.executor.objects import pods
from agents.executor.objects.reads import Metadata
from agents.executor.objects.rewrite import Patch, rewrite
from shared.kube.http import Procedure
from shared.kube.verdicts import Answer
from shared.messages import DONE, REFUSED, STALE
from shared.model.pod import Pod, Toleration
from shared.model.tenant import may_be_given


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    tolerations: list[Object] | None = None


class _Stored(msgspec.Struct):
    metadata: Metadata
    spec: _Spec


_TAKEN = "a webhook or policy of this cluster takes off again what is added"
_read = msgspec.json.Decoder(_Stored).decode


def tolerate(pod: Pod, wanted: Sequence[Toleration]) -> Procedure[Answer]:
    """Add those that the pod has not."""
    guarded = next((one for one in wanted if not may_be_given(one.key)), None)
    if guarded is not None:
        return Answer(REFUSED, f'no pod is given a toleration of taint "{guarded.text}"')
    if all(one in pod.tolerations for one in wanted):
        return Answer(DONE)
    what = f'pod "{pod.name}"'

    def decide(stored: _Stored) -> Answer | Patch:
        meta = stored.metadata
        if meta.uid != pod.uid or meta.deletion_timestamp is not None or stored.spec.node_name:
            return Answer(STALE, f"{what} was replaced, is bound, or is being deleted")
        own = stored.spec.tolerations or []
        missing = [one for one in map(written, wanted) if one not in own]
        return {"spec": {"tolerations": [*own, *missing]}} if missing else Answer(DONE)

    def became(stored: _Stored) -> Answer:
        own = stored.spec.tolerations or []
        lost = ", ".join(one.text for one in wanted if written(one) not in own)
        return Answer(REFUSED, f"{_TAKEN}: {lost}") if lost else Answer(DONE)

    path = pods.path(pod.namespace, pod.name)
    return (yield from rewrite(path, what, _read, decide, became=became))
