"""Objects that a pod names, by the rows of KINDS, and what is said of them in its manifest.

They follow it (`copies`) where the agents of both clusters do that: the manifest then has an
annotation with a digest of each, and a delegate names the copies instead. All others, those that
are marked as each cluster's own, and all with an agent of an older version on either side, must be
there under their own names: they are looked for before a delegate is made, since without one its
containers never start.

Of those, what the manifest calls optional is not asked for, nor is what this agent may not read, or
what the server does not answer about: then the kubelet tells. Secrets are read only where they
follow by consent (`consent`), and never looked for. What is optional and there at home is not
optional elsewhere: without it the pod would run, and be another one (`for_another_cluster`).
"""

import datetime as dt
import hashlib
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from agents.executor.context.local import KNOWN_S, AtHome, Local, Moment
from agents.executor.crossing.baseline import of_containers
from agents.executor.crossing.fields import Hit, Object, Tree, walk
from agents.executor.crossing.manifest import ManifestError, readable, sanitise
from agents.executor.objects import consent
from agents.executor.objects.contents import SECRET, read_content
from shared.kube.http import FORBIDDEN, Procedure, Request, Response
from shared.kube.verdicts import LOOKS, NOT_FOUND, error_text
from shared.model.copy_names import MOST_TOLD, copy_name
from shared.model.names import FOLLOWS, PROXY_NODE_PREFIX, STAY
from shared.model.pod import SourceRef

MOST = 16  # ConfigMaps of one pod that are looked for
_HINT = b"onfigMap"  # in every manifest that names one
_TREE = Tree(
    (path, "name")
    for path in (
        "spec.volumes[*].configMap",
        "spec.volumes[*].projected.sources[*].configMap",
        *of_containers("env[*].valueFrom.configMapKeyRef", "envFrom[*].configMapRef"),
    )
)
_MAY_BE_OPTIONAL = (
    ("spec.volumes[*].secret", "secretName"),
    ("spec.volumes[*].projected.sources[*].secret", "name"),
    *(
        (path, "name")
        for path in of_containers("env[*].valueFrom.secretKeyRef", "envFrom[*].secretRef")
    ),
)
_SECRETS = Tree(_MAY_BE_OPTIONAL)
_OPTIONAL = b'"optional":true'  # in every manifest that calls something so
# characters that name all that follows one pod: they are written on its delegate, and told
MOST_NAMES = MOST_TOLD


_NAME = re.compile(r"[A-Za-z]{1,63}/[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_TOO_MANY = (
    f"and others name objects that would follow the pod by more than {MOST_NAMES} characters, or "
    "by what is no name"
)
MOST_FOLLOWING = 32 * 1024 * 1024  # bytes of what follows one pod, of each kind, as read at home
_TOO_LARGE = f"and others name more than {MOST_FOLLOWING // 2**20} MiB that would follow the pod"


class NotKnownError(ManifestError):
    """What is to follow a pod is not known just now: soon, and not by its owner, it may be."""

    def __init__(self, field: str, why: str) -> None:
        ValueError.__init__(self, f"{field} {why}; it is asked again soon")


class Kind(NamedTuple):
    """A kind of object that follows pods: its `plural` in paths, the fields that name one (with the
    key that has the name), and what is in every manifest that does.
    """

    word: str
    plural: str
    tree: Tree[str]
    hint: bytes

    def path(self, namespace: str, name: str = "") -> str:
        """Of one object, or of all in a namespace."""
        held = f"/api/v1/namespaces/{quote(namespace, safe='')}/{self.plural}"
        return f"{held}/{quote(name, safe='')}" if name else held


CONFIG_MAP = Kind("ConfigMap", "configmaps", _TREE, _HINT)
_NAMING_SECRETS = Tree((*_MAY_BE_OPTIONAL, ("spec.imagePullSecrets[*]", "name")))
SECRETS = Kind(SECRET, "secrets", _NAMING_SECRETS, b"ecret")
KINDS = {one.word: one for one in (CONFIG_MAP, SECRETS)}
# Which each cluster has of its own, in every namespace: it is for that cluster's own servers.
OF_EACH_CLUSTER = frozenset((("ConfigMap", "kube-root-ca.crt"),))


class Followed(NamedTuple):
    """An object of the source's namespace, at home. `digest`: of its content as the manifest was
    signed; b"": it was not there.
    """

    kind: str
    name: str
    digest: bytes


def followed(manifest: bytes) -> list[Followed]:
    """What follows the pod of this manifest (JSON), as its own cluster says in it; [] of an agent
    of an older version. Users cannot write that: the annotation is left behind of what they write.

    ManifestError if it is not readable.
    """
    if FOLLOWS.encode() not in manifest:
        return []
    with readable():
        told = (msgspec.json.decode(manifest)["metadata"].get("annotations") or {}).get(FOLLOWS)
        said = msgspec.json.decode(told or "{}", type=dict[str, dict[str, str]])
        found = [
            Followed(kind, name, bytes.fromhex(digest))
            for kind, objects in said.items()
            for name, digest in objects.items()
        ]
    text = written((one.kind, one.name) for one in found)
    if len(text) > MOST_NAMES or not all(_NAME.fullmatch(word) for word in text.split()):
        raise ManifestError(f"metadata.annotations[{FOLLOWS}]", _TOO_MANY)
    return found


def written(objects: Iterable[tuple[str, str]]) -> str:
    """Kinds and names as they are told of a delegate."""
    return " ".join(f"{kind}/{name}" for kind, name in objects)


def renamed(spec: Object, of: list[Followed], source: SourceRef) -> None:
    """Have a delegate's spec name the copies, in place."""
    for kind, hit in _naming(spec, of):
        name = hit.value[hit.leaf]
        copy = copy_name(source.cluster_uid, source.namespace, kind.word, name)
        hit.value[hit.leaf] = copy


def not_optional(spec: Object, of: list[Followed]) -> None:
    """Have a delegate's spec call nothing optional, in place, that is there at home and is not
    copied.
    """
    for _, hit in _naming(spec, [one for one in of if one.digest]):
        hit.value.pop("optional", None)


def _naming(spec: Object, of: list[Followed]) -> Iterator[tuple[Kind, Hit[str]]]:
    for kind in KINDS.values():
        names = {one.name for one in of if one.kind == kind.word}
        for hit in walk({"spec": spec}, kind.tree) if names else ():
            if hit.value.get(hit.leaf) in names:
                yield kind, hit


def named(pod: Object, kind: Kind) -> set[str]:
    """The objects of this kind that a pod names."""
    return {
        str(hit.value[hit.leaf])
        for hit in walk({"spec": pod["spec"]}, kind.tree)
        if hit.value.get(hit.leaf)
    }


class Reference(NamedTuple):
    """A ConfigMap that the field names, with the keys that it must have."""

    namespace: str
    name: str
    field: str
    keys: tuple[str, ...] = ()

    @property
    def digest(self) -> bytes:
        """By this it is remembered: names of keys may be as long as a pod, and 10,000 of these are
        kept.
        """
        return hashlib.sha256(msgspec.json.encode(self)).digest()


def unseen(
    delegate: bytes, local: Local, now: Moment, copies: Collection[str] = ()
) -> list[Reference]:
    """What the delegate (JSON of a pod) needs and was not found here a moment ago, MOST ConfigMaps
    at most; none of these `copies`.

    ManifestError if its shape is none of a pod's.
    """
    if _HINT not in delegate:
        return []
    pod = msgspec.json.decode(delegate)
    by_name: dict[str, list[Reference]] = {}
    for _, one in _references(pod, pod["metadata"]["namespace"], optional=False):
        if one.name in copies:
            continue
        if not _known(one, local, now) and (one.name in by_name or len(by_name) < MOST):
            by_name.setdefault(one.name, []).append(one)
    return [one for references in by_name.values() for one in references]


def for_another_cluster(
    pod: bytes, namespace: str, cluster: str, local: Local, now: Moment
) -> Procedure[bytes]:
    """The manifest for the delegate of a pod of this cluster (JSON) in `cluster`. ManifestError, as
    of `sanitise`, and while it cannot be known what is to follow the pod.
    """
    clean = sanitise(pod)
    since = _known_since(pod, now)
    objects = yield from _to_follow(clean, _Goes(namespace, since, cluster), local, now)
    kept = frozenset(objects.get(CONFIG_MAP.word, ()))
    manifest = yield from _as_at_home(clean, namespace, local, now, kept)
    if not objects:
        return manifest
    told = msgspec.json.decode(manifest)
    told["metadata"]["annotations"][FOLLOWS] = msgspec.json.encode(objects).decode()
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


def _to_follow(
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
        said += len(written((kind.word, name) for name in hits))
        if said > MOST_NAMES:
            raise ManifestError(next(iter(hits.values())), _TOO_MANY)
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
    answer = Response(0)
    for _ in range(LOOKS):
        answer = yield Request("GET", kind.path(namespace, name))
        if answer.ok or answer.status in (NOT_FOUND, FORBIDDEN):
            break
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


def _as_at_home(
    manifest: bytes, namespace: str, local: Local, now: Moment, kept: Collection[str] = ()
) -> Procedure[bytes]:
    """The same where optional ConfigMaps that are here must be there, too.

    So must those of which that is not known (no right or no answer, or more than MOST): the reason
    of a refusal names them. Of keys that are named only those go along that are here. Those of
    `kept` are left as they are.
    """
    if _HINT not in manifest or _OPTIONAL not in manifest:
        return manifest
    pod = msgspec.json.decode(manifest)
    found: dict[str, frozenset[str] | str | None] = {}
    for named, one in _references(pod, namespace, optional=True):
        if one.name in kept:
            continue
        if not _known(one, local, now):
            if one.name not in found and len(found) < MOST:
                found[one.name] = yield from _keys_of(one)
            keys = found.get(one.name)
            if isinstance(keys, str) or (
                keys is not None and one.keys and keys.isdisjoint(one.keys)
            ):
                continue
            if keys is not None and keys.issuperset(one.keys):
                local.config_maps.put(one.digest, now.mono)
            elif keys is not None:
                named["items"] = [item for item in named["items"] if item["key"] in keys]
        del named["optional"]
    return msgspec.json.encode(pod)


def optional_secrets(manifest: bytes) -> list[str]:
    """Secrets that a manifest (JSON) calls optional and that do not follow it, with their fields:
    its pod runs without them, and nobody looks whether a cluster has them, so its owner is told.

    ManifestError if its shape is none of a pod's.
    """
    if _OPTIONAL not in manifest:
        return []
    with readable():
        follow = {one.name for one in followed(manifest) if one.kind == SECRET}
        hits = [
            hit
            for hit in walk(msgspec.json.decode(manifest), _SECRETS)
            if hit.value.get("optional") and hit.value[hit.leaf] not in follow
        ]
        return [f'"{hit.value[hit.leaf]}" ({hit.field})' for hit in hits]


def _known(one: Reference, local: Local, now: Moment) -> bool:
    """Whether it was found here a moment ago."""
    found = local.config_maps.get(one.digest)
    return found is not None and now.mono - found < KNOWN_S


def _references(
    pod: dict[str, Any], namespace: str, *, optional: bool
) -> list[tuple[dict[str, Any], Reference]]:
    """The ConfigMaps that a pod names, all those that are optional or all others, with the objects
    that name them.

    ManifestError if its shape is none of a pod's.
    """
    with readable():
        return list(_each_reference(pod, namespace, optional))


def _each_reference(
    pod: dict[str, Any], namespace: str, optional: bool
) -> Iterator[tuple[dict[str, Any], Reference]]:
    for hit in walk(pod, _TREE):
        named = hit.value
        if not named.get("name") or bool(named.get("optional")) != optional:
            continue
        keys = (
            [named["key"]] if "key" in named else [item["key"] for item in named.get("items") or ()]
        )
        if not all(isinstance(one, str) for one in (named["name"], *keys)):
            raise TypeError(hit.field)
        yield named, Reference(namespace, named["name"], hit.field, tuple(sorted(set(keys))))


def missing(sought: list[Reference], local: Local, now: Moment) -> Procedure[str]:
    """The first that this cluster lacks, in words; '' if it has all of them, as far as is known."""
    found: dict[str, frozenset[str] | None] = {}  # None: not known
    for one in sought:
        if one.name not in found:
            keys = yield from _keys_of(one)
            if isinstance(keys, str):
                return _lacks(local, one, keys)
            found[one.name] = keys
        has = found[one.name]
        lacked = next((key for key in one.keys if has is not None and key not in has), None)
        if lacked is not None:
            return _lacks(local, one, f'has no key "{lacked}"')
        local.config_maps.put(one.digest, now.mono)
    return ""


def _keys_of(one: Reference) -> Procedure[frozenset[str] | str | None]:
    """The keys of a ConfigMap, or in words that there is none; None if that cannot be known."""
    path = CONFIG_MAP.path(one.namespace, one.name)
    for _ in range(LOOKS):
        response = yield Request("GET", path)
        if response.status == NOT_FOUND:
            return "does not exist"
        if response.status == FORBIDDEN:
            return None
        if response.ok:
            try:
                return read_content(response.body).keys
            except msgspec.MsgspecError:
                return None
    return None


def _lacks(local: Local, one: Reference, what: str) -> str:
    return (
        f'ConfigMap "{one.namespace}/{one.name}" ({one.field}) {what} in cluster '
        f'"{local.cluster}": make it there, '
        f'or keep the pod at home with annotation {STAY}: "true"'
    )
