"""Finds the copies that an earlier life of this agent has made: see `copies`."""

from agents.executor.context.local import Local, Moment
from agents.executor.objects import copy_notes
from agents.executor.objects.copy_lists import NO_LIST, each
from agents.executor.objects.copy_objects import key_of, original_in, read_object
from agents.executor.objects.references import CONFIG_MAP
from shared.kube.http import Procedure
from shared.model import names

_LISTED = "10"  # what its maker calls a copy: each may have a mebibyte, and managedFields


def find_copies(local: Local, now: Moment) -> Procedure[str]:
    """Find the copies that an earlier life of this agent has made: ConfigMaps, and by their notes
    those of Secrets; in the whole cluster or, where they may not be listed so, in each namespace
    where they may.
    """

    def take(item: bytes) -> None:
        metadata = read_object(item).metadata
        kind = copy_notes.kind_noted(metadata.annotations)
        original = original_in(metadata, kind, metadata.namespace) if kind is not None else None
        if original is not None:
            local.copies.put(key_of(original), original, now.mono, named=False)

    params = {"labelSelector": names.COPY, "limit": _LISTED}
    problem = yield from each(f"/api/v1/{CONFIG_MAP.plural}", params, take)
    if problem and problem != NO_LIST:
        return problem
    listed = local.copies.listed_in
    for space in tuple(local.view.namespaces()) if problem else ():
        if space.name not in listed:
            problem = yield from each(CONFIG_MAP.path(space.name), params, take)
            if problem and problem != NO_LIST:
                return problem
            listed.add(space.name)
    listed.clear()
    local.copies.listed = True
    return ""
