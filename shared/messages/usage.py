"""Agent to agent, over a relayed stream: what the delegates of one source cluster use, as kubelets
count it.
"""

import re
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from shared.model.bounds import MAX_PODS, Text, Word
from shared.model.pod import Record

MAX_CONTAINERS: Final = 100  # of a pod; others are not told
CONTAINER_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

Amount = Annotated[float, Meta(ge=0)]
Millis = Annotated[int, Meta(ge=0, lt=2**53)]


class Use(Record, frozen=True):
    """`cpu_s`: core seconds used so far, at `cpu_ms`; `memory`: working set in bytes, at
    `memory_ms`. None: not told.

    Times are milliseconds since 1970 by the kubelet's clock, 0 where it told none.
    """

    cpu_s: Amount | None = None
    cpu_ms: Millis = 0
    memory: Amount | None = None
    memory_ms: Millis = 0


class ContainerUse(Record, frozen=True):
    """Of a container that was started at `started_s` (seconds since 1970, None: not told)."""

    name: Word
    use: Use = Use()
    started_s: Amount | None = None


class PodUsage(Record, frozen=True):
    """Of the delegate of the source pod with the UID `pod`; `use` is of the whole pod."""

    pod: Word
    use: Use = Use()
    containers: Annotated[tuple[ContainerUse, ...], Meta(max_length=MAX_CONTAINERS)] = ()


class Usage(Record, frozen=True):
    """All that is known just now. `problem`: why some is not, '' if all is."""

    pods: Annotated[tuple[PodUsage, ...], Meta(max_length=MAX_PODS)] = ()
    problem: Text = ""


encode_usage = msgspec.msgpack.Encoder().encode
decode_usage = msgspec.msgpack.Decoder(Usage).decode
