"""Who controls what: a controller adopts what its selector finds without a controller, and lets go
what left it.
"""

from collections.abc import Iterator

from localfleet.embedded.api import Api
from localfleet.embedded.controllers.world import Ref, World, ref_of
from localfleet.embedded.controllers.writes import Merge, carry_out
from localfleet.embedded.meta import (
    Object,
    controller_of,
    controller_reference,
    is_finished,
    is_terminating,
    label_selector,
    labels_of,
)


def family_of(api: Api, world: World, owner: Object, kind: str, resource: str) -> list[Object]:
    """The objects of `resource` that `owner`, an apps/v1 `kind`, controls once it has adopted and
    let go.
    """
    selector = label_selector(owner["spec"]["selector"])
    uid = owner["metadata"]["uid"]
    members = []
    for obj in world.controlled(uid, resource):
        if selector.matches(labels_of(obj)) or is_terminating(obj):
            members.append(obj)
        else:
            _let_go(api, ref_of(resource, obj), obj, uid)
    for ref, obj in world.orphans(resource, owner["metadata"]["namespace"]):
        if selector.matches(labels_of(obj)) and not is_terminating(obj) and not is_finished(obj):
            members.append(_adopt(api, ref, obj, controller_reference(owner, "apps/v1", kind)))
    return members


def owners_to_look_at(
    world: World, ref: Ref, obj: Object, old: Object | None, owner: Ref
) -> Iterator[Ref]:
    """Keys of the owners, of the resource and kind that `owner` names, that a change of `obj`
    concerns.

    `owner` has the resource, no namespace, and the kind as its name.
    """
    for version in (obj, old):
        reference = controller_of(version) if version is not None else None
        if reference is not None and reference["kind"] == owner.name:
            yield Ref(owner.resource, ref.namespace, reference["name"])
    if controller_of(obj) is None and (
        old is None or labels_of(old) != labels_of(obj) or controller_of(old)
    ):
        for candidate, one in world.all(owner.resource):
            if candidate.namespace == ref.namespace and label_selector(
                one["spec"]["selector"]
            ).matches(labels_of(obj)):
                yield candidate


def _adopt(api: Api, ref: Ref, obj: Object, reference: Object) -> Object:
    owners = [*(obj["metadata"].get("ownerReferences") or ()), reference]
    change = {"metadata": {"uid": obj["metadata"]["uid"], "ownerReferences": owners}}
    return api.patch(ref.resource, ref.name, ref.namespace, change, kind="merge")


def _let_go(api: Api, ref: Ref, obj: Object, uid: str) -> None:
    kept = [owner for owner in obj["metadata"]["ownerReferences"] if owner["uid"] != uid]
    change = {"metadata": {"uid": obj["metadata"]["uid"], "ownerReferences": kept or None}}
    carry_out(api, Merge(ref, change))
