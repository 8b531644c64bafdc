"""Shadow PodDisruptionBudgets: make the Eviction API here respect the budgets of the delegates'
home clusters.

The Eviction API asks the budgets of its own cluster alone. So for budgets of another cluster that
select delegates here there is a PodDisruptionBudget of ours beside them. What it keeps is the
dispatcher's word, which sees both clusters; which pods it may mean is checked here: delegates of
that cluster in that namespace, by a label that agents alone write. Each label is one more version
of a whole pod in etcd: a namespace has a rate of bytes for them. The last word holds while the
dispatcher is away.
"""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec

from agents.executor.context.local import Local, Moment
from agents.executor.context.reconcile_task import ReconcileTask
from agents.executor.objects import events, pods
from agents.executor.objects.reads import Metadata
from shared.kube.deletes import delete_request
from shared.kube.http import MERGE_PATCH, Procedure, Request
from shared.kube.verdicts import CONFLICT, NOT_FOUND, error_text
from shared.messages import Cover, Shadow
from shared.model import names
from shared.model.objects import PodDisruptionBudget
from shared.model.pod import Pod


class _Found(msgspec.Struct):
    metadata: Metadata
    spec: dict[str, Any]


def reconcile_tasks(local: Local, now: Moment) -> Iterator[ReconcileTask]:
    """Tasks that are due now: budgets to create, change or delete, and delegates whose budget label
    is wrong.
    """
    said_ = local.shadows
    wanted = {
        (one.namespace, one.name): one
        for one in said_.shadows
        if one.name.startswith(names.BUDGET_PREFIX)
    }
    seen = {(one.namespace, one.name): one for one in local.view.budgets()} if said_.of else {}
    for key, shadow in wanted.items():
        if not _agrees(seen.get(key), shadow):
            yield _duty(shadow.namespace, shadow.name, _keep(shadow))
    for key, known in seen.items():
        if known.shadow_of in said_.of and known.shadow_of and key not in wanted:
            yield _duty(
                known.namespace, known.name, _remove(known.namespace, known.name, known.shadow_of)
            )
    for cover in said_.covers:
        pod = local.view.pod(cover.pod.uid)
        if pod is not None and _may_cover(
            pod, cover, wanted.get((pod.namespace, cover.shadow)), said_.of
        ):
            yield ReconcileTask(pod.uid, pod.namespace, _cover(cover, local, now))


def warn_uncounted(local: Local, now: Moment) -> None:
    """A Warning event for each pod of this cluster that runs elsewhere without all of its budgets,
    once a cause.
    """
    for one in local.shadows.uncounted:
        known = local.view.pod(one.pod.uid)
        if (
            known is not None
            and known.source is None
            and local.uncounted.get(one.pod.uid) != one.why
        ):
            local.uncounted.put(one.pod.uid, one.why)
            events.budgets_not_kept(local, one.pod, one.why, now)


def _duty(namespace: str, name: str, procedure: Procedure[str]) -> ReconcileTask:
    return ReconcileTask(f"budget {namespace}/{name}", namespace, procedure)


def _agrees(known: PodDisruptionBudget | None, shadow: Shadow) -> bool:
    return known is not None and (known.keep, known.always, known.shadow_of) == (
        shadow.keep,
        shadow.always,
        shadow.cluster,
    )


def _may_cover(pod: Pod, cover: Cover, shadow: Shadow | None, of: tuple[str, ...]) -> bool:
    """Whether the label may and must be written: on a delegate, for a budget of its home cluster,
    and not yet there.
    """
    if (
        pod.source is None
        or pod.terminating
        or pod.terminal
        or pod.labels.get(names.BUDGET, "") == cover.shadow
    ):
        return False
    if not cover.shadow:
        return pod.source.cluster in of
    return shadow is not None and shadow.cluster == pod.source.cluster


def _cover(cover: Cover, local: Local, now: Moment) -> Procedure[str]:
    ref = cover.pod
    if local.label_bytes.wait_s(ref.namespace, now.mono):
        return (
            f"pods of namespace {ref.namespace} come under other budgets of their own cluster too "
            "often for their "
            "size: they wait"
        )
    body = {"metadata": {"uid": ref.uid, "labels": {names.BUDGET: cover.shadow or None}}}
    response = yield Request(
        "PATCH", pods.path(ref.namespace, ref.name), msgspec.json.encode(body), MERGE_PATCH
    )
    if response.ok:
        local.label_bytes.spend(ref.namespace, now.mono, len(response.body))
    if response.ok or response.status in (NOT_FOUND, CONFLICT):
        return ""  # done, or another pod has its name now
    return (
        f"pod {ref.namespace}/{ref.name} is not under the budget of its own cluster: "
        f"{error_text(response)}"
    )


def _collection(namespace: str) -> str:
    return f"/apis/policy/v1/namespaces/{quote(namespace, safe='')}/poddisruptionbudgets"


def _path(namespace: str, name: str) -> str:
    return f"{_collection(namespace)}/{quote(name, safe='')}"


def _spec(shadow: Shadow) -> dict[str, Any]:
    # Delegates have no controller here that could be asked how many there ought to be: only a
    # number works.
    return {
        "minAvailable": shadow.keep,
        "selector": {"matchLabels": {names.BUDGET: shadow.name}},
        "unhealthyPodEvictionPolicy": "AlwaysAllow" if shadow.always else "IfHealthyBudget",
    }


def _keep(shadow: Shadow) -> Procedure[str]:
    """Create the budget, or patch it; one of the same name that agents have not made is left alone,
    with an error.
    """
    what = f'budgets of cluster "{shadow.cluster}" are not kept by {shadow.namespace}/{shadow.name}'
    response = yield Request("GET", _path(shadow.namespace, shadow.name))
    if response.ok:
        return (yield from _change(shadow, _read(response.body), what))
    if response.status != NOT_FOUND:
        return f"{what}: {error_text(response)}"
    labels = {names.BUDGET_OF: shadow.cluster}
    told = {names.BUDGETS: shadow.budgets}
    metadata = {
        "name": shadow.name,
        "namespace": shadow.namespace,
        "labels": labels,
        "annotations": told,
    }
    body = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": _spec(shadow),
    }
    response = yield Request("POST", _collection(shadow.namespace), msgspec.json.encode(body))
    return "" if response.ok or response.status == CONFLICT else f"{what}: {error_text(response)}"


def _change(shadow: Shadow, found: _Found, what: str) -> Procedure[str]:
    if (found.metadata.labels or {}).get(names.BUDGET_OF) != shadow.cluster:
        return f"{what}: a PodDisruptionBudget of this name is there that is not ours"
    spec = _spec(shadow)
    if all(found.spec.get(key) == value for key, value in spec.items()):
        return ""  # the view does not show it yet
    body = {"metadata": _exactly(found), "spec": _in_place_of(found.spec, spec)}
    path = _path(shadow.namespace, shadow.name)
    response = yield Request("PATCH", path, msgspec.json.encode(body), MERGE_PATCH)
    return (
        ""
        if response.ok or response.status in (NOT_FOUND, CONFLICT)
        else f"{what}: {error_text(response)}"
    )


def _in_place_of(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """A merge patch that turns `old` into `new`: fields that somebody added become null."""
    patch: dict[str, Any] = dict.fromkeys(old)
    for key, value in new.items():
        inner = old.get(key)
        patch[key] = (
            _in_place_of(inner, value)
            if isinstance(value, dict) and isinstance(inner, dict)
            else value
        )
    return patch


def _exactly(found: _Found) -> dict[str, str]:
    return {"uid": found.metadata.uid, "resourceVersion": found.metadata.resource_version}


def _remove(namespace: str, name: str, cluster: str) -> Procedure[str]:
    """Delete a budget that is not wanted any more, with UID and resourceVersion as preconditions."""
    response = yield Request("GET", _path(namespace, name))
    if response.ok:
        found = _read(response.body)
        if (found.metadata.labels or {}).get(names.BUDGET_OF) != cluster:
            return ""
        exactly = (found.metadata.uid, found.metadata.resource_version)
        response = yield delete_request(_path(namespace, name), *exactly)
    if response.ok or response.status in (NOT_FOUND, CONFLICT):
        return ""
    return (
        f'budget {namespace}/{name} of cluster "{cluster}" cannot be removed: '
        f"{error_text(response)}"
    )


def _read(body: bytes) -> _Found:
    return msgspec.json.decode(body, type=_Found)
