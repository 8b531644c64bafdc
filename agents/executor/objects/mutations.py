"""How mutating admission in the target cluster has changed a delegate: its requests, its node, our
metadata.

Mutation is the right of the target's admins, so only requests, node and priority are checked again,
and that no field was left out as unknown; what else was changed is told (`altered`). But our
labels, annotations and schedulerName must be intact: without them the delegate is not found again,
and another scheduler might bind it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from agents.executor.crossing.manifest import is_given
from agents.executor.crossing.pod_fields import TYPES
from agents.executor.objects.pods import LivePod
from shared.model.crossing import barred_class
from shared.model.names import DELEGATE_SCHEDULER, PREFIX
from shared.model.objects import PriorityClass
from shared.model.pod import Pod
from shared.model.resources import format_quantity

_SHOWN = 8  # resources, containers and fields that a message names
# What is told where admission has added it. API servers add other fields by themselves, each
# version its own.
_ADDED = frozenset(
    (
        *(
            "containers",
            "initContainers",
            "volumes",
            "env",
            "envFrom",
            "volumeMounts",
            "command",
            "args",
            "limits",
        ),
        *(
            "requests",
            "nodeSelector",
            "hostAliases",
            "dnsConfig",
            "runtimeClassName",
            "securityContext",
            "lifecycle",
        ),
        *("livenessProbe", "readinessProbe", "startupProbe"),
    )
)
_SECURITY = ("PodSecurityContext", "SecurityContext")  # each field of these
# Of the target: its accounts, classes and taints.
_ITS_OWN = frozenset(
    (
        *(
            "serviceAccountName",
            "serviceAccount",
            "priority",
            "preemptionPolicy",
            "overhead",
            "tolerations",
        ),
        *("nodeName", "imagePullSecrets"),
    )
)


def foreign(found: LivePod) -> str:
    """Why we must not bind an unbound delegate (another scheduler is to); '' if we may."""
    name = found.spec.scheduler_name
    return "" if name == DELEGATE_SCHEDULER else f'the server gave it to scheduler "{name}"'


def unusable(posted: bytes, made: LivePod, body: bytes, most: int) -> str:
    """Why a delegate just created, with this `body`, is not what was posted, but for its requests;
    '' if it is.

    `most`: the highest value of a PriorityClass that it may have.
    """
    wanted = msgspec.json.decode(posted)
    there = msgspec.json.decode(body)
    changed = _disowned(wanted["metadata"], made) or _dropped(
        wanted["spec"], there.get("spec") or {}
    )
    return changed or _outranks(wanted["spec"], made, most)


def _disowned(metadata: dict[str, Any], made: LivePod) -> str:
    """Whether our metadata, schedulerName or node were changed."""
    for kind, now in (("labels", made.labels), ("annotations", made.annotations)):
        for key, value in metadata[kind].items():
            if key.startswith(PREFIX) and now.get(key) != value:
                return f"the server took our mark off: {kind} {key}"
    return f'the server bound it to node "{made.node}" by itself' if made.node else foreign(made)


def _dropped(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Which field the server has left out, as one does that is too old for it or whose feature gate
    is off; '' if none. The pod would run, and not as it is at home.
    """
    field = next(_lacking(before, after, "PodSpec", "spec"), "")
    how = "upgrade that cluster, turn the feature on there, or remove the field"
    return (
        f"the server left {field} out (its version, a feature gate or a webhook does so): {how}"
        if field
        else ""
    )


def _outranks(spec: dict[str, Any], made: LivePod, most: int) -> str:
    """Why a delegate may not be as important as the server made it, by a PriorityClass that it
    brought; '' if it may.

    Where this cluster's classes are not shown to us, this is the first that is known of their
    values.
    """
    name = spec.get("priorityClassName")
    why = barred_class(name, most, (PriorityClass(name, made.spec.priority),)) if name else ""
    return f"spec.priorityClassName {why}" if why else ""


def altered(posted: bytes, body: bytes) -> str:
    """Which fields of a container, or of its pod, are others than at home, as admission has made
    them; '' if none.
    """
    before, after = (msgspec.json.decode(raw).get("spec") or {} for raw in (posted, body))
    if before.get("automountServiceAccountToken"):
        after = _without_given_token(after)
    fields = list(dict.fromkeys(_altered(before, after, "PodSpec", "spec")))
    more = f" and {len(fields) - _SHOWN} more" if len(fields) > _SHOWN else ""
    return f"{', '.join(fields[:_SHOWN])}{more}" if fields else ""


def _without_given_token(spec: dict[str, Any]) -> dict[str, Any]:
    """The spec without the token that was asked for, which admission adds to each container."""
    volumes = spec.get("volumes") or []
    given = {one["name"] for one in volumes if is_given(one)}
    kept = [one for one in volumes if one["name"] not in given]
    clean = {**spec, "volumes": kept}
    for kind in ("initContainers", "containers"):
        if spec.get(kind):
            clean[kind] = [_unmounted(one, given) for one in spec[kind]]
    return clean


def _unmounted(container: dict[str, Any], volumes: set[str]) -> dict[str, Any]:
    mounts = container.get("volumeMounts") or []
    return {**container, "volumeMounts": [one for one in mounts if one["name"] not in volumes]}


def _altered(before: Any, after: Any, kind: str, field: str) -> Iterator[str]:
    """Fields of a value of this type, or of a list of them, that are others now, or that are new
    and told of.
    """
    if isinstance(before, list) and isinstance(after, list):
        for index, one, other in _pairs(before, after):
            yield from _altered(one, other, kind, f"{field}[{index}]")
        if len(after) > len(before):
            yield field
    elif isinstance(before, dict) and isinstance(after, dict):
        for name, value in after.items():
            known = TYPES[kind].get(name)
            if known is None or name in _ITS_OWN or value == before.get(name):
                continue
            where = f"{field}.{name}"
            if name in before and known.of:
                yield from _altered(before[name], value, known.of, where)
            elif name in before or (value and (name in _ADDED or kind in _SECURITY)):
                yield where


def _lacking(before: Any, after: Any, kind: str, field: str) -> Iterator[str]:
    """Fields of a value of this type, or of a list of them, that are there no more; keys of maps
    are no fields.
    """
    if isinstance(before, list) and isinstance(after, list):
        for index, one, other in _pairs(before, after):
            yield from _lacking(one, other, kind, f"{field}[{index}]")
    elif isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            of = TYPES[kind][name].of
            if name not in after:
                if value or name == "hostUsers":  # other empty values are left out as defaults are
                    yield f"{field}.{name}"
            elif of:
                yield from _lacking(value, after[name], of, f"{field}.{name}")


def _pairs(before: list[Any], after: list[Any]) -> Iterator[tuple[int, Any, Any]]:
    """Entries with what they have become: by their places, or by name where admission has added
    some.
    """
    if len(before) == len(after):
        yield from zip(range(len(before)), before, after, strict=True)
        return
    named = {one.get("name"): one for one in after}
    for index, one in enumerate(before):
        if one.get("name") in named:
            yield index, one, named[one.get("name")]


def growth(wanted: Pod, made: Pod, posted: bytes, body: bytes) -> str:
    """Which requests admission has raised, and by what, in words; '' if none."""
    names = sorted(
        name for name, amount in made.requests.items() if amount > wanted.requests.get(name, 0)
    )
    if not names:
        return ""
    sizes = ", ".join(
        f"{name} {_shown(name, wanted)} -> {_shown(name, made)}" for name in names[:_SHOWN]
    )
    return f"the server made it larger: {sizes} ({_cause(posted, body)})"


def beyond(at_most: Mapping[str, int], made: Pod) -> str:
    """Which requests exceed `at_most` (internal units), in words; '' if none, or if `at_most` is
    empty.
    """
    names = sorted(
        name for name, amount in made.requests.items() if at_most and amount > at_most.get(name, 0)
    )
    shown = (f"{name} {_amount(name, at_most)} -> {_shown(name, made)}" for name in names[:_SHOWN])
    return f"it requests more than was booked for it: {', '.join(shown)}" if names else ""


def _amount(resource: str, amounts: Mapping[str, int]) -> str:
    return format_quantity(resource, amounts.get(resource, 0))


def _shown(resource: str, pod: Pod) -> str:
    return _amount(resource, pod.requests)


def _cause(posted: bytes, body: bytes) -> str:
    before, after = (msgspec.json.decode(raw).get("spec") or {} for raw in (posted, body))
    added = [name for name in _containers(after) if name not in _containers(before)]
    if added:
        what = "containers" if len(added) > 1 else "container"
        return f"{what} {', '.join(added[:_SHOWN])} {'were' if len(added) > 1 else 'was'} added"
    return "overhead was added" if after.get("overhead") else "requests were changed"


def _containers(spec: dict[str, Any]) -> list[str]:
    return [
        str(one.get("name"))
        for kind in ("initContainers", "containers")
        for one in spec.get(kind) or ()
    ]
