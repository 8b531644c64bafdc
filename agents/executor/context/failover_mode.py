"""What keeps a pod from being replaced while its copy in a lost cluster may still run: tolerations
without an end.

Seen on a real control plane (Kubernetes 1.36: kube-apiserver, kube-controller-manager, a Service):

- A proxy node with Ready=False gets `not-ready:NoExecute` within 10 s. One whose Lease and status
  nobody renews (our agent is away) turns Unknown after 50 s and gets `unreachable:NoExecute`. The
  taint manager then deletes the pods on it after their tolerationSeconds (300, put there by
  DefaultTolerationSeconds, unless the pod says otherwise). Our finalizer would keep the deleted
  pod, but its ReplicaSet makes a new one at once, beside the copy that still runs.
- Of several tolerations of one taint the taint manager goes by the *first*. Ours, without seconds,
  before the pod's own keep it for ever; behind them they do nothing.
- The API server takes additions to the tolerations of a pod, bound or not, and other
  tolerationSeconds. It takes ours off again, too, as long as one that differs in nothing but its
  seconds remains.
- Where Ready=False is *written*, as we do, the node controller marks no pod as not ready (it does
  so only where it changes the condition itself). So that is ours to do (`proxy_pods.py`); the
  endpoint is gone within a second of it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from shared.model.leases import LEASE
from shared.model.node import NO_EXECUTE, Taint
from shared.model.pod import Toleration

# when a copy in a lost cluster may be replaced
STRICT = "strict"
ASAP = "asap"
Object = Mapping[str, Any]  # core/v1 Toleration as JSON
_TAINTS = tuple(
    Taint(f"node.kubernetes.io/{name}", "", NO_EXECUTE) for name in ("not-ready", "unreachable")
)


def mode_of(text: str | None, *, stopped: bool = False) -> str:
    """The mode that a pod's annotation asks for; whatever is not known is `strict`, under which
    nothing runs twice.

    `lease` is as `strict` until its delegate has `stopped`, and as `asap` from then on.
    """
    return ASAP if text == ASAP or (text == LEASE and stopped) else STRICT


def tolerations_for(mode: str, current: Sequence[Object]) -> list[Object]:
    """The tolerations of a source pod that another cluster runs, or of any pod for `asap`:
    Kubernetes' own way.

    Equal to `current` where nothing is to be changed.
    """
    if mode == ASAP:
        return [
            one
            for at, one in enumerate(current)
            if not (_is_ours(one) and _has_twin(one, current, at))
        ]
    missing = [taint for taint in _TAINTS if not _for_ever(taint, [_read(one) for one in current])]
    return [*map(_ours, missing), *current]


def stays(mode: str, tolerations: Sequence[Toleration]) -> bool:
    """Whether a pod with these has what `tolerations_for` would give it."""
    if mode == STRICT:
        return all(_for_ever(taint, tolerations) for taint in _TAINTS)
    objects = [written(one) for one in tolerations]
    return not any(_is_ours(one) and _has_twin(one, objects, at) for at, one in enumerate(objects))


def _for_ever(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    first = next((one for one in tolerations if taint.tolerated_by(one)), None)
    return first is not None and first.seconds is None


def _ours(taint: Taint) -> Object:
    return {"key": taint.key, "operator": "Exists", "effect": taint.effect}


def _is_ours(one: Object) -> bool:
    return any(one == _ours(taint) for taint in _TAINTS)


def _has_twin(one: Object, current: Sequence[Object], at: int) -> bool:
    """Whether there is another one behind it that differs in its seconds at most."""
    return any(
        {key: twin[key] for key in twin if key != "tolerationSeconds"} == one
        for twin in current[at + 1 :]
    )


def written(one: Toleration) -> Object:
    """As Kubernetes writes it."""
    said = {"key": one.key, "operator": one.operator, "value": one.value, "effect": one.effect}
    return {key: word for key, word in said.items() if word} | (
        {} if one.seconds is None else {"tolerationSeconds": one.seconds}
    )


def _read(one: Object) -> Toleration:
    return Toleration(
        one.get("key") or "",
        one.get("operator") or "Equal",
        one.get("value") or "",
        one.get("effect") or "",
        one.get("tolerationSeconds"),
    )
