"""ConfigMaps and Secrets of a world as API servers had them, at every moment: originals, and copies of these."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeVar

import msgspec

from tests.simulation.world.apiserver import FOLLOWING, NAMESPACES
from tests.simulation.world.objects import Object
from tests.simulation.world.store import Kept, Write

PREFIX = "global-dispatcher.io/"
COPY, COPY_OF, HOME, FOLLOW = PREFIX + "copy", PREFIX + "copy-of", PREFIX + "source-cluster", PREFIX + "follow"
COPY_KIND, SECRETS_FOLLOW = PREFIX + "copy-kind", PREFIX + "secrets-follow"
SECRET = "Secret"
_KINDS = {path: kind for kind, path in FOLLOWING.items()}
# No controller makes more of these than they say.
TYPES = (
    "Opaque",
    *(f"kubernetes.io/{one}" for one in ("dockercfg", "dockerconfigjson", "basic-auth", "ssh-auth", "tls")),
)
T = TypeVar("T", bound=tuple[Any, ...])
_ENCODE = msgspec.json.Encoder(order="sorted").encode


class Where(NamedTuple):
    """An object's place."""

    cluster: str
    namespace: str
    name: str
    kind: str = "ConfigMap"


class Was(NamedTuple):
    """What it was from a moment on: its data, None while there is none. `ours`: the product wrote it. `follow`: to
    which clusters its owner lets it follow pods, None where that is not said. `type`: of a Secret.
    """

    at: float
    content: bytes | None
    ours: bool
    follow: str | None = None
    type: str = ""

    @property
    def stays(self) -> bool:
        """Whether its owner keeps it at home."""
        return self.follow == "none"


def content_of(obj: Object | None) -> bytes | None:
    """What pods read of it."""
    if obj is None:
        return None
    return _ENCODE([obj.get("data") or {}, obj.get("binaryData") or {}, obj.get("type") or ""])


def kind_of_copy(obj: Object, kind: str) -> str:
    """Of what an object of this kind with the marks of a copy is one; a note of a copy is none, and stands for it."""
    return str((obj["metadata"].get("annotations") or {}).get(COPY_KIND, kind))


class Objects:
    """Kept by what is heard; judges ask."""

    def __init__(self) -> None:
        self.was: dict[Where, list[Was]] = {}
        self.made: dict[str, str] = {}  # UID -> who made it
        self.made_at: dict[str, float] = {}  # and when
        self.original: dict[Where, Where] = {}  # of a copy, as it says
        # (cluster, namespace) -> what that said of Secrets, from when on
        self.said: dict[tuple[str, str], list[tuple[float, str]]] = {}

    def wrote(self, write: Write) -> None:
        """An object, or a Namespace, was written."""
        obj = write.after or write.before
        assert obj is not None
        if write.place.resource == NAMESPACES:
            self._learn_of_namespace(write.cluster, write.at, obj)
            return
        where = Where(write.cluster, write.place.namespace, write.place.name, _KINDS[write.place.resource])
        if write.before is None:
            self.made[obj["metadata"]["uid"]] = write.actor
            self.made_at[obj["metadata"]["uid"]] = write.at
        self._learn(where, write.at, write.after, ours=write.actor.startswith("agent/"))

    def went_back(
        self, cluster: str, now: float, kept: Mapping[str, Sequence[Kept]], namespaces: Sequence[Kept]
    ) -> None:
        """Its etcd was restored."""
        there = {
            Where(cluster, one.obj["metadata"]["namespace"], one.obj["metadata"]["name"], kind): one
            for kind, of in kept.items()
            for one in of
        }
        for where in {*self.was, *there}:
            if where.cluster == cluster:
                found = there.get(where)
                self._learn(where, now, found.obj if found is not None else None, ours=False)
        for one in namespaces:
            self._learn_of_namespace(cluster, now, one.obj)

    def _learn(self, where: Where, now: float, obj: Object | None, *, ours: bool) -> None:
        marks = obj["metadata"].get("annotations") or {} if obj is not None else {}
        if COPY_OF in marks and COPY_KIND not in marks:
            self.original[where] = Where(marks.get(HOME, ""), where.namespace, marks[COPY_OF], where.kind)
        kind = str((obj or {}).get("type") or "")
        self.was.setdefault(where, []).append(Was(now, content_of(obj), ours, marks.get(FOLLOW), kind))

    def _learn_of_namespace(self, cluster: str, now: float, obj: Object) -> None:
        said = (obj["metadata"].get("annotations") or {}).get(SECRETS_FOLLOW, "")
        known = self.said.setdefault((cluster, obj["metadata"]["name"]), [(float("-inf"), "")])
        if known[-1][1] != said:
            known.append((now, said))

    def during(self, where: Where, since: float) -> list[Was]:
        """All that it was at any moment from then on."""
        whole = self.was.get(where, [])
        first = next((number for number, one in enumerate(whole) if one.at > since), len(whole))
        return whole[first - 1 :] if first else [Was(float("-inf"), None, ours=False), *whole]

    def contents(self, where: Where, since: float) -> set[bytes | None]:
        """Its content at any of these moments."""
        return {one.content for one in self.during(where, since)}

    def let_go(self, where: Where, target: str, since: float) -> list[Was]:
        """All that it was from then on, without content where its owner did not let it be in that cluster."""
        if where.kind != SECRET:
            return self.during(where, since)
        said = _until(self.said.get((where.cluster, where.namespace), [(float("-inf"), "")]))
        found: list[Was] = []
        for one, until in _until(self.during(where, since)):
            of_namespace = [words for (at, words), ends in said if at < until and ends > max(one.at, since)]
            words_then = of_namespace if one.follow is None else [one.follow]
            found += [one if _goes(words, one, target) else one._replace(content=None) for words in words_then]
        return found

    def harmed(self, where: Where, since: float) -> bool:
        """Whether somebody else has written or deleted it from then on."""
        return any(not one.ours and one.at > since for one in self.was.get(where, ()))


def _until(states: Sequence[T]) -> list[tuple[T, float]]:
    """Each, and when the next one began."""
    ends = [one[0] for one in states[1:]]
    return list(zip(states, [*ends, float("inf")], strict=True))


def _goes(words: str, one: Was, target: str) -> bool:
    lets = words != "none" and any(fnmatchcase(target, word.strip()) for word in words.split(","))
    return lets and one.type in TYPES


__all__ = ["SECRET", "TYPES", "Objects", "Was", "Where", "content_of"]
