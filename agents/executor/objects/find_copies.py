"""Finds the copies that an earlier life of this agent has made: see `copies`."""

import math

from agents.executor.context.local import Local, Moment
from agents.executor.objects import copy_notes, pages
from agents.executor.objects.copy_objects import key_of, original_in
from agents.executor.objects.kinds import CONFIG_MAP
from agents.executor.objects.pages import ListError
from agents.executor.objects.reads import read_object
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

    def listed(path: str) -> Procedure[bool]:
        return pages.each_allowed(path, take, names.COPY, page=_LISTED, most=math.inf)

    done = local.copies.listed_in
    try:
        may = yield from listed(f"/api/v1/{CONFIG_MAP.plural}")
        for space in () if may else tuple(local.view.namespaces()):
            if space.name not in done:
                yield from listed(CONFIG_MAP.path(space.name))
                done.add(space.name)
    except ListError as error:
        return str(error)
    done.clear()
    local.copies.listed = True
    return ""
