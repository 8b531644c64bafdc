"""Whether the owner of an object of this cluster lets it follow pods to another one.

A ConfigMap does, unless its annotation `follow` names other clusters alone, or `none`. A Secret
does only where its own annotation names that cluster or, if it has none, that of its Namespace
does; and only with a type of which no controller makes more than the Secret says
(`contents.TYPES`). Only who may write the object, or the Namespace, can say so. All is read from
the API server each time.
"""

from typing import NamedTuple

import msgspec

from agents.executor.objects.contents import SECRET, read_content
from agents.executor.objects.reads import get
from shared.kube.http import FORBIDDEN, Procedure
from shared.kube.verdicts import error_text
from shared.model.crossing import matches
from shared.model.names import CONSENT, COPY, NONE, SECRETS_CONSENT

MOST_SAID = 4_096  # characters of a list of clusters
MOST_WORD = 253  # of one of its patterns


class Owner(NamedTuple):
    """What the owner says: `why` it stays, '' if it follows; not `known`: what is there to know
    could not be read, and `why` says that.
    """

    why: str = ""
    known: bool = True


class _Metadata(msgspec.Struct, gc=False):
    name: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None

    @property
    def marks(self) -> dict[str, str]:
        return self.annotations or {}


class _Object(msgspec.Struct, gc=False):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Objects(msgspec.Struct, gc=False):
    items: list[_Object] = []


_read_object = msgspec.json.Decoder(_Object).decode
_read_objects = msgspec.json.Decoder(_Objects).decode


def of_owner(
    kind: str, namespace: str, name: str, cluster: str, body: bytes | None
) -> Procedure[Owner]:
    """Of an object (JSON; None: it is not there) and pods that go to `cluster`. MsgspecError."""
    metadata = _read_object(body).metadata if body is not None else _Metadata()
    said = metadata.marks.get(CONSENT)
    what = f'{kind} "{namespace}/{name}"'
    if COPY in (metadata.labels or {}):
        return Owner(f"{what} is a copy of another cluster's, whose owner lets it go there alone")
    if kind != SECRET:
        stays = said is not None and not _means(said, cluster)
        return Owner(f"{what} has the annotation {CONSENT}: {said[:80]}" if said and stays else "")
    if said is None:
        answer = yield from _of_namespace(namespace)
        if isinstance(answer, Owner):
            return answer
        said = answer
    if not _means(said, cluster):
        return Owner(
            f'{what} does not follow pods to cluster "{cluster}": neither its annotation {CONSENT} '
            f"nor, where it has none, {SECRETS_CONSENT} of its Namespace names that cluster"
        )
    barred = read_content(body, kind).barred if body is not None else ""
    return Owner(f"{what} {barred}" if barred else "")


def _means(said: str, cluster: str) -> bool:
    """Whether a list of clusters, with commas, has this one; patterns. A long one has none: to look
    at patterns takes time, and users write them.
    """
    words = [word.strip() for word in said.split(",")] if len(said) <= MOST_SAID else []
    if any(len(word) > MOST_WORD for word in words):
        return False
    return words != [NONE] and matches(words, cluster)


def _of_namespace(namespace: str) -> Procedure[str | Owner]:
    """What its Namespace says of Secrets, '' if nothing. By a list of the one: every agent may
    list Namespaces.
    """
    params = {"fieldSelector": f"metadata.name={namespace}"}
    answer = yield from get("/api/v1/namespaces", FORBIDDEN, params=params)
    if not answer.ok:  # also without the right: that it says nothing would have copies deleted
        why = f'what Namespace "{namespace}" says is not known just now: {error_text(answer)}'
        return Owner(why, known=False)
    found = _read_objects(answer.body).items
    marks = next((one.metadata.marks for one in found if one.metadata.name == namespace), {})
    return marks.get(SECRETS_CONSENT, "")
