"""ConfigMaps that a delegate names: looked for before it is made, since without one its containers
never start.

What the manifest calls optional is not asked for, nor is what this agent may not read, or what the
server does not answer about: then the kubelet tells. Secrets are never read (SECURITY.md). What is
optional and there at home is not optional elsewhere: without it the pod would run, and be another
one (`for_another_cluster`).
"""

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from agents.executor.baseline import of_containers
from agents.executor.fields import Tree, walk
from agents.executor.local import Local, Moment
from agents.executor.manifest import readable, sanitise
from shared.kube.http import FORBIDDEN, Procedure, Request
from shared.kube.verdicts import LOOKS, NOT_FOUND
from shared.model.names import STAY

MOST = 16  # ConfigMaps of one pod that are looked for
# so long what was found is not asked for again: the replicas of one controller come together
KNOWN_S = 10.0
_HINT = b"onfigMap"  # in every manifest that names one
_PATHS = (
    "spec.volumes[*].configMap",
    "spec.volumes[*].projected.sources[*].configMap",
    *of_containers("env[*].valueFrom.configMapKeyRef", "envFrom[*].configMapRef"),
)
_TREE = Tree((path, path) for path in _PATHS)
_SECRETS = Tree(
    (path, path)
    for path in (
        "spec.volumes[*].secret",
        "spec.volumes[*].projected.sources[*].secret",
        *of_containers("env[*].valueFrom.secretKeyRef", "envFrom[*].secretRef"),
    )
)
_OPTIONAL = b'"optional":true'  # in every manifest that calls something so


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


class _ConfigMap(msgspec.Struct, gc=False, rename="camel"):
    data: dict[str, msgspec.Raw] | None = None
    binary_data: dict[str, msgspec.Raw] | None = None


_decode = msgspec.json.Decoder(_ConfigMap).decode


def unseen(delegate: bytes, local: Local, now: Moment) -> list[Reference]:
    """What the delegate (JSON of a pod) needs and was not found here a moment ago, MOST ConfigMaps
    at most.

    ManifestError if its shape is none of a pod's.
    """
    if _HINT not in delegate:
        return []
    pod = msgspec.json.decode(delegate)
    by_name: dict[str, list[Reference]] = {}
    for _, one in _references(pod, pod["metadata"]["namespace"], optional=False):
        if not _known(one, local, now) and (one.name in by_name or len(by_name) < MOST):
            by_name.setdefault(one.name, []).append(one)
    return [one for references in by_name.values() for one in references]


def for_another_cluster(pod: bytes, namespace: str, local: Local, now: Moment) -> Procedure[bytes]:
    """The manifest for the delegate of a pod of this cluster (JSON). ManifestError, as of
    `sanitise`.
    """
    return (yield from _as_at_home(sanitise(pod), namespace, local, now))


def _as_at_home(manifest: bytes, namespace: str, local: Local, now: Moment) -> Procedure[bytes]:
    """The same where optional ConfigMaps that are here must be there, too.

    So must those of which that is not known (no right or no answer, or more than MOST): the reason
    of a refusal names them. Of keys that are named only those go along that are here.
    """
    if _HINT not in manifest or _OPTIONAL not in manifest:
        return manifest
    pod = msgspec.json.decode(manifest)
    found: dict[str, frozenset[str] | str | None] = {}
    for named, one in _references(pod, namespace, optional=True):
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
    """Secrets that a manifest (JSON) calls optional, with their fields: its pod runs without them,
    and nobody looks whether a cluster has them, so its owner is told.

    ManifestError if its shape is none of a pod's.
    """
    if _OPTIONAL not in manifest:
        return []
    with readable():
        hits = [
            hit
            for hit in walk(msgspec.json.decode(manifest), _SECRETS)
            if hit.value.get("optional")
        ]
        return [
            f'"{hit.value.get("secretName") or hit.value["name"]}" ({hit.field})' for hit in hits
        ]


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
    path = (
        f"/api/v1/namespaces/{quote(one.namespace, safe='')}/configmaps/{quote(one.name, safe='')}"
    )
    for _ in range(LOOKS):
        response = yield Request("GET", path)
        if response.status == NOT_FOUND:
            return "does not exist"
        if response.status == FORBIDDEN:
            return None
        if response.ok:
            try:
                read = _decode(response.body)
            except msgspec.MsgspecError:
                return None
            return frozenset((*(read.data or ()), *(read.binary_data or ())))
    return None


def _lacks(local: Local, one: Reference, what: str) -> str:
    return (
        f'ConfigMap "{one.namespace}/{one.name}" ({one.field}) {what} in cluster '
        f'"{local.cluster}": make it there, '
        f'or keep the pod at home with annotation {STAY}: "true"'
    )
