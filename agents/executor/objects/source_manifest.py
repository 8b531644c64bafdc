"""The manifest of a pod of this cluster that goes to another one, with a digest of each follower.

An object that the pod names follows it where the agents of both clusters do that, and its owner
lets it (`consent`); not one of those that each cluster has of its own. Secrets are read only where
they follow, and never looked for.
"""

import datetime as dt
from typing import NamedTuple

import msgspec

from agents.executor.context.local import KNOWN_S, AtHome, Local, Moment
from agents.executor.crossing.fields import walk
from agents.executor.crossing.manifest import ManifestError, readable, sanitise
from agents.executor.objects import consent
from agents.executor.objects.contents import read_content
from agents.executor.objects.followers import MOST_NAMES, TOO_MANY, told_of
from agents.executor.objects.kinds import CONFIG_MAP, KINDS, OF_EACH_CLUSTER, SECRETS, Kind
from agents.executor.objects.reads import get
from agents.executor.objects.target_needs import as_at_home
from shared.kube.http import FORBIDDEN, Procedure
from shared.kube.verdicts import NOT_FOUND, error_text
from shared.model.names import FOLLOWERS, PROXY_NODE_PREFIX

MOST_FOLLOWING = 32 * 1024 * 1024  # bytes of what follows one pod, of each kind, as read at home
_TOO_LARGE = f"and others name more than {MOST_FOLLOWING // 2**20} MiB that would follow the pod"


class NotKnownError(ManifestError):
    """What is to follow a pod is not known just now: soon, and not by its owner, it may be."""

    def __init__(self, field: str, why: str) -> None:
        ValueError.__init__(self, f"{field} {why}; it is asked again soon")


def for_another_cluster(
    pod: bytes, namespace: str, cluster: str, local: Local, now: Moment
) -> Procedure[bytes]:
    """The manifest for the delegate of a pod of this cluster (JSON) in `cluster`. ManifestError, as
    of `sanitise`, and while it cannot be known what is to follow the pod.
    """
    clean = sanitise(pod)
    since = _known_since(pod, now)
    objects = yield from _followers(clean, _Goes(namespace, since, cluster), local, now)
    kept = frozenset(objects.get(CONFIG_MAP.word, ()))
    manifest = yield from as_at_home(clean, namespace, local, now, kept)
    if not objects:
        return manifest
    told = msgspec.json.decode(manifest)
    told["metadata"]["annotations"][FOLLOWERS] = msgspec.json.encode(objects).decode()
    return msgspec.json.encode(told)


class _Created(msgspec.Struct, rename="camel"):
    creation_timestamp: dt.datetime | None = None


class _Pod(msgspec.Struct):
    metadata: _Created


def _known_since(pod: bytes, now: Moment) -> float:
    """From when on (monotonic) what was found is believed of a pod (JSON): kubelet reads what a pod
    names once that is there, so an environment shows no content from before. Clocks that differ
    make it a little more, or less.
    """
    with readable():
        created = msgspec.json.decode(pod, type=_Pod).metadata.creation_timestamp
    # it is cut to a second
    age_s = now.wall - created.timestamp() - 1.0 if created is not None else KNOWN_S
    return now.mono - min(max(age_s, 0.0), KNOWN_S)


class _Goes(NamedTuple):
    """A pod of this namespace goes to that cluster; what was found `since` then is believed of it
    (as of _known_since).
    """

    namespace: str
    since: float
    cluster: str


def _followers(
    manifest: bytes, goes: _Goes, local: Local, now: Moment
) -> Procedure[dict[str, dict[str, str]]]:
    """What follows a pod: digests (hex) by kind and name, "" of what is lacking."""
    found: dict[str, dict[str, str]] = {}
    said = 0
    for kind in KINDS.values():
        if kind.hint not in manifest:
            continue
        hits = _first_of_each(manifest, kind)
        if not hits:
            continue
        peer = local.peers.last_word(f"{PROXY_NODE_PREFIX}{goes.cluster}")
        if peer is not None and peer.follows is None:
            why = (
                f'cluster "{goes.cluster}" has not said yet whether {kind.word}s follow pods to it'
            )
            raise NotKnownError(next(iter(hits.values())), why)
        if peer is None or kind.word not in (peer.follows or ()):
            continue
        said += len(told_of((kind.word, name) for name in hits))
        if said > MOST_NAMES:
            raise ManifestError(next(iter(hits.values())), TOO_MANY)
        digests = yield from _digests(kind, goes, hits, local, now)
        if digests:
            found[kind.word] = digests
    return found


def _digests(
    kind: Kind, goes: _Goes, hits: dict[str, str], local: Local, now: Moment
) -> Procedure[dict[str, str]]:
    """Of those that follow, by name; `hits` has the field that names each."""
    found: dict[str, str] = {}
    size = 0
    for name, field in hits.items():
        known = yield from _at_home(kind, goes, name, field, local, now)
        size += known.size
        if size > MOST_FOLLOWING:
            raise ManifestError(field, _TOO_LARGE)
        if known.digest is not None:
            found[name] = known.digest.hex()
    return found


def _first_of_each(manifest: bytes, kind: Kind) -> dict[str, str]:
    """The objects of a kind that a manifest names, each with the first field that does."""
    with readable():
        hits: dict[str, str] = {}
        for hit in walk(msgspec.json.decode(manifest), kind.tree):
            name = hit.value.get(hit.leaf)
            if name and (kind.word, name) not in OF_EACH_CLUSTER:
                hits.setdefault(name, hit.field)
        return hits


def _at_home(
    kind: Kind, goes: _Goes, name: str, field: str, local: Local, now: Moment
) -> Procedure[AtHome]:
    """An object here; without a digest if it does not follow pods to that cluster, or is not ours
    to read. ManifestError while that is not known. What was found is believed for KNOWN_S, of a pod
    that was there by then.
    """
    namespace = goes.namespace
    key = (kind.word, namespace, name, goes.cluster)
    known = local.at_home.get(key)
    if known is not None and known.at > goes.since:
        return known
    answer = yield from get(kind.path(namespace, name), NOT_FOUND, FORBIDDEN)
    if answer.status == FORBIDDEN:
        return AtHome(None, now.mono)
    lacking = answer.status == NOT_FOUND
    why = "" if answer.ok or lacking else error_text(answer)
    digest: bytes | None = None
    if not why:
        try:
            body = None if lacking else answer.body
            owner = yield from consent.of_owner(kind.word, namespace, name, goes.cluster, body)
            why = "" if owner.known else owner.why
            if not owner.why:
                digest = b"" if lacking else _digest(kind, goes, name, answer.body, local)
        except msgspec.MsgspecError as error:
            why = f"it cannot be read: {error}"
    if why:
        said = f'is {kind.word} "{name}", of which its own cluster does not tell now: {why}'
        raise NotKnownError(field, said)
    found = AtHome(digest, now.mono, len(answer.body))
    local.at_home.put(key, found)
    return found


def _digest(kind: Kind, goes: _Goes, name: str, body: bytes, local: Local) -> bytes:
    content = read_content(body, kind.word)
    if kind is not SECRETS:
        return content.digest()
    return content.digest(local.keys.digest_key(goes.cluster, goes.namespace, name))
