"""What a pod names that does not follow it: the target cluster must have it of its own.

That are objects that are marked as each cluster's own, and all with an agent of an older version on
either side. ConfigMaps are looked for before a delegate is made, since without one its containers
never start. Not asked for is what the manifest calls optional, what this agent may not read, and
what the server does not answer about: then the kubelet tells. Secrets are never looked for.
"""

import hashlib
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import msgspec

from agents.executor.context.local import KNOWN_S, Local, Moment
from agents.executor.crossing.fields import walk
from agents.executor.crossing.manifest import readable
from agents.executor.objects.contents import SECRET, read_content
from agents.executor.objects.followers import followers_of
from agents.executor.objects.kinds import CONFIG_MAP, SECRETS_THAT_MAY_BE_OPTIONAL
from shared.kube.http import FORBIDDEN, Procedure, Request
from shared.kube.verdicts import LOOKS, NOT_FOUND
from shared.model.names import STAY

MOST = 16  # ConfigMaps of one pod that are looked for
_OPTIONAL = b'"optional":true'  # in every manifest that calls something so


class NeededConfigMap(NamedTuple):
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
) -> list[NeededConfigMap]:
    """What the delegate (JSON of a pod) needs and was not found here a moment ago, MOST ConfigMaps
    at most; none of these `copies`.

    ManifestError if its shape is none of a pod's.
    """
    if CONFIG_MAP.hint not in delegate:
        return []
    pod = msgspec.json.decode(delegate)
    by_name: dict[str, list[NeededConfigMap]] = {}
    for _, one in _config_maps(pod, pod["metadata"]["namespace"], optional=False):
        if one.name in copies:
            continue
        if not _known(one, local, now) and (one.name in by_name or len(by_name) < MOST):
            by_name.setdefault(one.name, []).append(one)
    return [one for needed in by_name.values() for one in needed]


def as_at_home(
    manifest: bytes, namespace: str, local: Local, now: Moment, kept: Collection[str] = ()
) -> Procedure[bytes]:
    """The same where optional ConfigMaps that are here must be there, too.

    So must those of which that is not known (no right or no answer, or more than MOST): the reason
    of a refusal names them. Of keys that are named only those go along that are here. Those of
    `kept` are left as they are.
    """
    if CONFIG_MAP.hint not in manifest or _OPTIONAL not in manifest:
        return manifest
    pod = msgspec.json.decode(manifest)
    found: dict[str, frozenset[str] | str | None] = {}
    for named, one in _config_maps(pod, namespace, optional=True):
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
        copied = {one.name for one in followers_of(manifest) if one.kind == SECRET}
        hits = [
            hit
            for hit in walk(msgspec.json.decode(manifest), SECRETS_THAT_MAY_BE_OPTIONAL)
            if hit.value.get("optional") and hit.value[hit.leaf] not in copied
        ]
        return [f'"{hit.value[hit.leaf]}" ({hit.field})' for hit in hits]


def _known(one: NeededConfigMap, local: Local, now: Moment) -> bool:
    """Whether it was found here a moment ago."""
    found = local.config_maps.get(one.digest)
    return found is not None and now.mono - found < KNOWN_S


def _config_maps(
    pod: dict[str, Any], namespace: str, *, optional: bool
) -> list[tuple[dict[str, Any], NeededConfigMap]]:
    """The ConfigMaps that a pod names, all those that are optional or all others, with the objects
    that name them.

    ManifestError if its shape is none of a pod's.
    """
    with readable():
        return list(_each_named(pod, namespace, optional))


def _each_named(
    pod: dict[str, Any], namespace: str, optional: bool
) -> Iterator[tuple[dict[str, Any], NeededConfigMap]]:
    for hit in walk(pod, CONFIG_MAP.tree):
        named = hit.value
        if not named.get("name") or bool(named.get("optional")) != optional:
            continue
        keys = (
            [named["key"]] if "key" in named else [item["key"] for item in named.get("items") or ()]
        )
        if not all(isinstance(one, str) for one in (named["name"], *keys)):
            raise TypeError(hit.field)
        yield named, NeededConfigMap(namespace, named["name"], hit.field, tuple(sorted(set(keys))))


def missing(sought: list[NeededConfigMap], local: Local, now: Moment) -> Procedure[str]:
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


def _keys_of(one: NeededConfigMap) -> Procedure[frozenset[str] | str | None]:
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


def _lacks(local: Local, one: NeededConfigMap, what: str) -> str:
    return (
        f'ConfigMap "{one.namespace}/{one.name}" ({one.field}) {what} in cluster '
        f'"{local.cluster}": make it there, '
        f'or keep the pod at home with annotation {STAY}: "true"'
    )
