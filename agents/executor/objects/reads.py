"""GET of one object, again where the server does not tell, and the metadata that objects share."""

import msgspec

from shared.kube.http import Procedure, Request, Response
from shared.kube.verdicts import LOOKS


class Owner(msgspec.Struct):
    """An owner reference of an object, what is read of it."""

    uid: str = ""


class Metadata(msgspec.Struct, rename="camel"):
    """Of an object, what is read of it."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[Owner] | None = None
    deletion_timestamp: str | None = None
    finalizers: list[str] | None = None

    @property
    def held_by(self) -> str:
        """What keeps it here though it is being deleted, in words; '' if nothing does."""
        if self.deletion_timestamp is None or not self.finalizers:
            return ""
        held = ", ".join(self.finalizers)
        return f"is being deleted, and held by finalizers ({held[:200]}): take these off there"


class _Object(msgspec.Struct):
    metadata: Metadata


read_object = msgspec.json.Decoder(_Object).decode


def get(path: str, *settled: int, params: dict[str, str] | None = None) -> Procedure[Response]:
    """The answer, asked for again unless it is 2xx or has one of the statuses that settle it."""
    response = Response(0)
    for _ in range(LOOKS):
        response = yield Request("GET", path, params=params or {})
        if response.ok or response.status in settled:
            break
    return response
