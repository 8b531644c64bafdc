"""Followers of a pod as its manifest tells of them, by an annotation with a digest of each, and the
spec of a delegate that names their copies instead.

What is optional and there at home is not optional elsewhere: without it the pod would run, and be
another one.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from agents.executor.crossing.fields import Hit, Object, walk
from agents.executor.crossing.manifest import ManifestError, readable
from agents.executor.objects.kinds import KINDS, Kind
from shared.model.copy_names import MOST_TOLD, copy_name
from shared.model.names import FOLLOWERS
from shared.model.pod import SourceRef

# characters that name all followers of one pod: they are written on its delegate, and told
MOST_NAMES = MOST_TOLD
NAMED = re.compile(r"[A-Za-z]{1,63}/[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
TOO_MANY = (
    f"and others name objects that would follow the pod by more than {MOST_NAMES} characters, or "
    "by what is no name"
)


class Follower(NamedTuple):
    """An object of the source's namespace, at home. `digest`: of its content as the manifest was
    signed; b"": it was not there.
    """

    kind: str
    name: str
    digest: bytes


def followers_of(manifest: bytes) -> list[Follower]:
    """The followers of the pod of this manifest (JSON), as its own cluster says in it; [] of an
    agent of an older version. Users cannot write that: the annotation is left behind of what they
    write.

    ManifestError if it is not readable.
    """
    if FOLLOWERS.encode() not in manifest:
        return []
    with readable():
        told = (msgspec.json.decode(manifest)["metadata"].get("annotations") or {}).get(FOLLOWERS)
        said = msgspec.json.decode(told or "{}", type=dict[str, dict[str, str]])
        found = [
            Follower(kind, name, bytes.fromhex(digest))
            for kind, objects in said.items()
            for name, digest in objects.items()
        ]
    text = told_of((one.kind, one.name) for one in found)
    if len(text) > MOST_NAMES or not all(NAMED.fullmatch(word) for word in text.split()):
        raise ManifestError(f"metadata.annotations[{FOLLOWERS}]", TOO_MANY)
    return found


def told_of(objects: Iterable[tuple[str, str]]) -> str:
    """Kinds and names as they are told of a delegate."""
    return " ".join(f"{kind}/{name}" for kind, name in objects)


def renamed(spec: Object, of: list[Follower], source: SourceRef) -> None:
    """Have a delegate's spec name the copies, in place."""
    for kind, hit in _naming(spec, of):
        name = hit.value[hit.leaf]
        copy = copy_name(source.cluster_uid, source.namespace, kind.word, name)
        hit.value[hit.leaf] = copy


def not_optional(spec: Object, of: list[Follower]) -> None:
    """Have a delegate's spec call nothing optional, in place, that is there at home and is not
    copied.
    """
    for _, hit in _naming(spec, [one for one in of if one.digest]):
        hit.value.pop("optional", None)


def _naming(spec: Object, of: list[Follower]) -> Iterator[tuple[Kind, Hit[str]]]:
    for kind in KINDS.values():
        names = {one.name for one in of if one.kind == kind.word}
        for hit in walk({"spec": spec}, kind.tree) if names else ():
            if hit.value.get(hit.leaf) in names:
                yield kind, hit
