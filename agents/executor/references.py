"""ConfigMaps that a delegate names: looked for before it is made, since without one its containers never start.

What the manifest calls optional is not asked for, nor is what this agent may not read, or what the server does not
answer about: then the kubelet tells. Secrets are never read (SECURITY.md).
"""

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from agents.executor.answer import LOOKS, NOT_FOUND
from agents.executor.baseline import of_containers
from agents.executor.fields import Tree, walk
from agents.executor.http import FORBIDDEN, Procedure, Request
from agents.executor.local import Local, Moment
from agents.executor.manifest import readable
from dispatcher.model.names import STAY

MOST = 16  # ConfigMaps of one pod that are looked for
KNOWN_S = 10.0  # so long what was found is not asked for again: the replicas of one controller come together
_HINT = b"onfigMap"  # in every manifest that names one
_PATHS = (
    "spec.volumes[*].configMap",
    "spec.volumes[*].projected.sources[*].configMap",
    *of_containers("env[*].valueFrom.configMapKeyRef", "envFrom[*].configMapRef"),
)
_TREE = Tree((path, path) for path in _PATHS)


class Reference(NamedTuple):
    """A ConfigMap that the field names, with the keys that it must have."""

    namespace: str
    name: str
    field: str
    keys: tuple[str, ...] = ()

    @property
    def digest(self) -> bytes:
        """By this it is remembered: names of keys may be as long as a pod, and 10,000 of these are kept."""
        return hashlib.sha256(msgspec.json.encode(self)).digest()


class _ConfigMap(msgspec.Struct, gc=False, rename="camel"):
    data: dict[str, msgspec.Raw] | None = None
    binary_data: dict[str, msgspec.Raw] | None = None


_decode = msgspec.json.Decoder(_ConfigMap).decode


def unseen(delegate: bytes, local: Local, now: Moment) -> list[Reference]:
    """What the delegate (JSON of a pod) needs and was not found here a moment ago, MOST ConfigMaps at most.

    ManifestError if its shape is none of a pod's.
    """
    if _HINT not in delegate:
        return []
    pod = msgspec.json.decode(delegate)
    by_name: dict[str, list[Reference]] = {}
    with readable():
        named = list(_references(pod, pod["metadata"]["namespace"]))
    for one in named:
        found = local.config_maps.get(one.digest)
        if (found is None or now.mono - found >= KNOWN_S) and (one.name in by_name or len(by_name) < MOST):
            by_name.setdefault(one.name, []).append(one)
    return [one for references in by_name.values() for one in references]


def _references(pod: dict[str, Any], namespace: str) -> Iterator[Reference]:
    for hit in walk(pod, _TREE):
        named = hit.value
        if not named.get("name") or named.get("optional"):
            continue
        keys = [named["key"]] if "key" in named else [item["key"] for item in named.get("items") or ()]
        if not all(isinstance(one, str) for one in (named["name"], *keys)):
            raise TypeError(hit.field)
        yield Reference(namespace, named["name"], hit.field, tuple(sorted(set(keys))))


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
    path = f"/api/v1/namespaces/{quote(one.namespace, safe='')}/configmaps/{quote(one.name, safe='')}"
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
        f'ConfigMap "{one.namespace}/{one.name}" ({one.field}) {what} in cluster "{local.cluster}": make it there, '
        f'or keep the pod at home with annotation {STAY}: "true"'
    )
