"""ConfigMaps of a world as API servers had them, at every moment: originals, and copies that follow pods."""

from typing import NamedTuple

import msgspec

from tests.simulation.world.apiserver import CONFIG_MAPS
from tests.simulation.world.objects import Object
from tests.simulation.world.store import Kept, Write

PREFIX = "global-dispatcher.io/"
COPY, COPY_OF, HOME, FOLLOW = PREFIX + "copy", PREFIX + "copy-of", PREFIX + "source-cluster", PREFIX + "follow"
_ENCODE = msgspec.json.Encoder(order="sorted").encode


class Where(NamedTuple):
    """A ConfigMap's place."""

    cluster: str
    namespace: str
    name: str


class Was(NamedTuple):
    """What it was from a moment on: its data, None while there is none. `ours`: the product wrote it."""

    at: float
    content: bytes | None
    ours: bool
    stays: bool = False


def content_of(obj: Object | None) -> bytes | None:
    """What pods read of it."""
    return _ENCODE([obj.get("data") or {}, obj.get("binaryData") or {}]) if obj is not None else None


class Objects:
    """Kept by what is heard; judges ask."""

    def __init__(self) -> None:
        self.was: dict[Where, list[Was]] = {}
        self.made: dict[str, str] = {}  # UID -> who made it
        self.original: dict[Where, Where] = {}  # of a copy, as it says

    def wrote(self, write: Write) -> None:
        """A ConfigMap was written."""
        obj = write.after or write.before
        assert obj is not None
        where = Where(write.cluster, write.place.namespace, write.place.name)
        if write.before is None:
            self.made[obj["metadata"]["uid"]] = write.actor
        self._learn(where, write.at, write.after, ours=write.actor.startswith("agent/"))

    def went_back(self, cluster: str, now: float, kept: list[Kept]) -> None:
        """Its etcd was restored."""
        there = {Where(cluster, one.obj["metadata"]["namespace"], one.obj["metadata"]["name"]): one for one in kept}
        for where in {*self.was, *there}:
            if where.cluster == cluster:
                found = there.get(where)
                self._learn(where, now, found.obj if found is not None else None, ours=False)

    def _learn(self, where: Where, now: float, obj: Object | None, *, ours: bool) -> None:
        marks = obj["metadata"].get("annotations") or {} if obj is not None else {}
        if COPY_OF in marks:
            self.original[where] = Where(marks.get(HOME, ""), where.namespace, marks[COPY_OF])
        self.was.setdefault(where, []).append(Was(now, content_of(obj), ours, marks.get(FOLLOW) == "none"))

    def during(self, where: Where, since: float) -> list[Was]:
        """All that it was at any moment from then on."""
        whole = self.was.get(where, [])
        first = next((number for number, one in enumerate(whole) if one.at > since), len(whole))
        return whole[first - 1 :] if first else [Was(float("-inf"), None, ours=False), *whole]

    def contents(self, where: Where, since: float) -> set[bytes | None]:
        """Its content at any of these moments."""
        return {one.content for one in self.during(where, since)}

    def harmed(self, where: Where, since: float) -> bool:
        """Whether somebody else has written or deleted it from then on."""
        return any(not one.ours and one.at > since for one in self.was.get(where, ()))


__all__ = ["CONFIG_MAPS", "Objects", "Was", "Where", "content_of"]
