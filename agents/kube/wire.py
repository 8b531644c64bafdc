"""What all API objects have in common as they come over the wire, lists, watches and statuses.

The types, here and in the modules beside, hold the fields used; everything else is skipped by the
decoder.

A list is read with its items still raw and a status stays raw, so that an object that does not fit
its type costs itself alone: its identity can still be read as a `BareObject`.
"""

import re
from typing import Annotated, Any

import msgspec

EMPTY = msgspec.Raw(b"{}")
BROKEN = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
Text = str | None
Int = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Wire(msgspec.Struct, gc=False, rename="camel", omit_defaults=True):
    """Base of the wire types; by itself an object of which only its being there matters."""


class OwnerReference(Wire):
    """metav1 OwnerReference."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Meta(Wire):
    """metav1 ObjectMeta."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: Text = None
    deletion_timestamp: Text = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None
    deletion_grace_period_seconds: int | None = None
    generation: Long | None = None


class Named(Wire):
    """An object of which only its name matters."""

    name: str = ""


class Condition(Wire):
    """A condition of a pod or node."""

    type: str = ""
    status: str = ""
    reason: Text = None


class BareMeta(Wire):
    """The identity of an object and nothing that a user may have filled with surprises."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class BareSpec(Wire):
    """Who shall schedule a pod, and where it is."""

    scheduler_name: Any = ""
    node_name: Any = ""


class BareObject(Wire):
    """What can still be read of an object that does not fit its type."""

    metadata: BareMeta
    spec: msgspec.Raw = EMPTY


class ListMeta(Wire):
    """metav1 ListMeta."""

    resource_version: str = ""
    remaining_item_count: Long | None = None
    continue_: Text = msgspec.field(name="continue", default=None)


class RawList(Wire):
    """A list whose items are not looked at yet."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


class WatchEvent(Wire):
    """One line of a watch."""

    type: str
    object: msgspec.Raw = EMPTY


class Bookmark(Wire):
    """The object of a BOOKMARK event."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


class Status(Wire):
    """metav1 Status."""

    code: Int = 0
    reason: str = ""
    message: str = ""


# As kube-apiserver writes it: what tells an object comes before all that a user may have filled.
_IDENTITY = re.compile(
    rb'\s*(?:\{\s*"type"\s*:\s*"(?P<type>[A-Z]+)"\s*,\s*"object"\s*:\s*)?'
    rb'\{(?:\s*"(?:kind|apiVersion)"\s*:\s*"[^"\\]*"\s*,)*'
    rb'\s*"metadata"\s*:\s*\{\s*"name"\s*:\s*"(?P<name>[^"\\]*)"'
    rb'(?:\s*,\s*"generateName"\s*:\s*"[^"\\]*")?'
    rb'(?:\s*,\s*"namespace"\s*:\s*"(?P<namespace>[^"\\]*)")?'
    rb'(?:\s*,\s*"uid"\s*:\s*"(?P<uid>[^"\\]*)")?'
    rb'(?:\s*,\s*"resourceVersion"\s*:\s*"(?P<resource_version>[0-9]*)")?'
)


def identity(head: bytes) -> tuple[str, BareMeta]:
    """How an object, or an event of a watch, begins that is cut: the event's type and whose it is;
    '' if not known.
    """
    found = _IDENTITY.match(head)
    said = (
        {key: value.decode("utf-8", "replace") for key, value in found.groupdict(b"").items()}
        if found
        else {}
    )
    return said.pop("type", ""), BareMeta(**said)


read_event = msgspec.json.Decoder(WatchEvent).decode
read_list = msgspec.json.Decoder(RawList).decode
read_bookmark = msgspec.json.Decoder(Bookmark).decode
read_bare = msgspec.json.Decoder(BareObject).decode
read_bare_spec = msgspec.json.Decoder(BareSpec).decode
_STATUS = msgspec.json.Decoder(Status)


def read_status(body: bytes) -> Status:
    """The Status in an answer's body; for a body that is none, one whose message is the body's
    beginning.
    """
    try:
        return _STATUS.decode(body)
    except BROKEN:
        return Status(message=body[:200].decode("utf-8", "replace"))
