"""A copy as an object of its API server: its name, its marks, and what it is a copy of.

Who may write objects may write all of this: an object is a copy of what its marks say if its name
and label agree with them, and that is never believed without its original.
"""

from typing import Any, NamedTuple

from agents.executor.context.copy_table import CopyKey, Original
from agents.executor.objects.contents import Content, fields_of
from agents.executor.objects.kinds import Kind
from agents.executor.objects.reads import Metadata
from shared.model import names
from shared.model.copy_names import copy_hash, copy_name
from shared.model.pod import SourceRef


class Found(NamedTuple):
    """What is under a copy's name, and is one of ours."""

    metadata: Metadata
    content: Content

    @property
    def only(self) -> dict[str, str]:
        """Preconditions of a write to exactly this."""
        return {"uid": self.metadata.uid, "resourceVersion": self.metadata.resource_version}


def original_of(source: SourceRef, kind: str, name: str) -> Original:
    """What a pod of this source names by this name."""
    return Original(source.cluster, source.cluster_uid, source.namespace, kind, name)


def key_of(original: Original) -> CopyKey:
    """Where its copy is."""
    name = copy_name(original.cluster_uid, original.namespace, original.kind, original.name)
    return CopyKey(original.kind, original.namespace, name)


def original_in(metadata: Metadata, kind: Kind, namespace: str) -> Original | None:
    """Of what an object of this namespace is a copy, by all of its marks; None if it is none."""
    said = metadata.annotations or {}
    uid = said.get(names.SOURCE_CLUSTER_UID, "")
    name = said.get(names.COPY_OF, "")
    mark = (metadata.labels or {}).get(names.COPY, "")
    if not name or mark != copy_hash(uid, namespace, kind.word, name):
        return None
    if metadata.name != copy_name(uid, namespace, kind.word, name):
        return None
    return Original(said.get(names.SOURCE_CLUSTER, ""), uid, namespace, kind.word, name)


def object_of(original: Original, content: Content, found: Found | None) -> dict[str, Any]:
    """A copy with this content, as it is sent; in place of what was `found` alone, if that is given."""
    only = found.only if found is not None else {}
    metadata = {**metadata_of(original), **only}
    return {
        "apiVersion": "v1",
        "kind": original.kind,
        "metadata": metadata,
        **fields_of(content),
    }


def metadata_of(original: Original) -> dict[str, Any]:
    """The metadata of its copy."""
    _, namespace, name = key_of(original)
    hashed = copy_hash(original.cluster_uid, original.namespace, original.kind, original.name)
    marks = {
        names.SOURCE_CLUSTER: original.cluster,
        names.SOURCE_CLUSTER_UID: original.cluster_uid,
        names.SOURCE_NAMESPACE: original.namespace,
        names.COPY_OF: original.name,
    }
    labels = {names.COPY: hashed}
    return {"name": name, "namespace": namespace, "labels": labels, "annotations": marks}
