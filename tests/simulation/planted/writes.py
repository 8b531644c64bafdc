"""Writes without their guards."""

from typing import Any

import msgspec

from tests.simulation.planted import stories
from tests.simulation.planted.scripted import Hint
from tests.simulation.planted.table import Patches, plant


def _without(body: bytes, *keys: str) -> bytes:
    made = msgspec.json.decode(body)
    for part in (made.get("metadata", {}), made.get("preconditions", {})):
        for key in keys:
            part.pop(key, None)
    return msgspec.json.encode(made)


@plant("a pod is deleted by its name, whoever has it now", hint=Hint(stories.replaced_while_deleted))
def delete_without_uid(patches: Patches) -> None:
    from agents.executor.objects import pods

    real = pods.delete_request

    def delete_request(ref: Any, grace_seconds: int | None = None, version: str = "") -> Any:
        request = real(ref, grace_seconds, version)
        return msgspec.structs.replace(request, body=_without(request.body, "uid"))

    patches.set(pods, "delete_request", delete_request)


@plant("a pod is bound by its name, whoever has it now", hint=Hint(stories.replaced_while_bound))
def bind_without_uid(patches: Patches) -> None:
    from agents.executor.objects import binding

    real = binding._request

    def request(*args: Any) -> Any:
        made = real(*args)
        return msgspec.structs.replace(made, body=_without(made.body, "uid", "resourceVersion"))

    patches.set(binding, "_request", request)


@plant("claims and finalizers are written over whatever is there", hint=Hint(stories.marked_by_another))
def patch_without_guard(patches: Patches) -> None:
    from agents.executor.intents import claim, finish_source
    from agents.executor.objects import pods

    real = pods.guarded_patch

    def guarded_patch(ref: Any, pod: Any, metadata: Any) -> Any:
        request = real(ref, pod, metadata)
        return msgspec.structs.replace(request, body=_without(request.body, "resourceVersion"))

    for module in (claim, finish_source, pods):
        patches.set(module, "guarded_patch", guarded_patch)


@plant("a bind is not held to the version that was seen unclaimed", hint=Hint(stories.unclaimed_in_a_late_view))
def bind_whatever_is_claimed(patches: Patches) -> None:
    from agents.executor.intents import bind
    from agents.executor.objects import binding

    patches.set(bind, "bind_unclaimed", lambda ref, node, marks, version, keys: binding.bind_to(ref, node, marks))


@plant("a mirrored status names neither version nor end", hint=Hint(stories.late_status))
def mirror_without_guard(patches: Patches) -> None:
    from agents.executor.intents import mirror

    real = mirror._request

    def request(ref: Any, what: Any, version: str) -> Any:
        made = real(ref, what, version)
        return msgspec.structs.replace(made, body=_without(made.body, "resourceVersion"))

    patches.set(mirror, "_request", request)
    patches.set(mirror, "TERMINAL", frozenset())
    patches.set(mirror, "_closed", lambda *_: None)


@plant("delegates get a name of their own each time, as by generateName", hint=Hint(stories.target_dies_after_bind))
def generated_names(patches: Patches) -> None:
    from itertools import count

    from agents.executor.intents import delegate

    serial, real = count(), delegate.delegate_name
    patches.set(delegate, "delegate_name", lambda source: f"{real(source)[:40]}-{next(serial)}")
