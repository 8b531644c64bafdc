"""A Lease by which one of several candidates is elected: read, and written with the version that
was read.
"""

import asyncio
import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import msgspec

from shared.kube.http import Request, Response
from shared.kube.times import rfc3339_micro
from shared.kube.verdicts import CONFLICT, NOT_FOUND, error_text
from shared.model.names import ASKED_FOR_BY

Object = dict[str, Any]
# HTTP status -> what to do about it; {namespace} is that of the Lease.
OF_LEADERS = {
    NOT_FOUND: "make the namespace, or set leader_election.namespace to one that is there, not "
    "{namespace}"
}


class Client(Protocol):
    """What is needed of an API client. It never raises for what the server or the network does."""

    async def send(self, request: Request, *, timeout_s: float) -> Response:
        """One call; status 0 when no answer came."""
        ...


class LeaseRef(NamedTuple):
    """Where the Lease is."""

    namespace: str
    name: str

    @property
    def folder(self) -> str:
        """The path of all leases of the namespace."""
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"

    @property
    def path(self) -> str:
        """The path of the Lease."""
        return f"{self.folder}/{self.name}"


@dataclass(frozen=True)
class Lease:
    """What it says. `duration_s`: how long others wait after they saw it change for the last time.

    `times` are the holder's own, for people: no two machines' clocks are ever compared.
    """

    holder: str = ""
    transitions: int = 0
    duration_s: float = 0.0
    times: tuple[str, str] = ("", "")  # acquired, renewed
    raw: Object = field(default_factory=dict, compare=False)

    @property
    def asked(self) -> str:
        """Who asked for it last, and the how manieth time; '' if nobody did."""
        annotations = self.raw.get("metadata", {}).get("annotations") or {}
        return str(annotations.get(ASKED_FOR_BY, ""))


class ReadFailure(NamedTuple):
    """The Lease could not be read or written; `problem` says why."""

    problem: str


class LeaseStore:
    """One Lease at one API server. `fixes`: by HTTP status, as `OF_LEADERS`."""

    def __init__(
        self, client: Client, place: LeaseRef, fixes: Mapping[int, str] = OF_LEADERS
    ) -> None:
        self._client = client
        self.place = place
        self._fixes = fixes

    async def read(self, timeout_s: float) -> Lease | ReadFailure | None:
        """What it says; None where there is none."""
        answer = await self._send(Request("GET", self.place.path), timeout_s)
        if answer.status == NOT_FOUND:
            return None
        return (
            _lease_of(answer.body)
            if answer.ok
            else ReadFailure(f"lease {self}: {self._why(answer)}")
        )

    async def write(
        self, wanted: Lease, before: Lease | None, timeout_s: float
    ) -> Lease | ReadFailure:
        """Create it, or replace what was read before; ReadFailure also where somebody else has
        written meanwhile.
        """
        raw = copy.deepcopy(before.raw) if before is not None else self._new()
        raw["spec"] = {
            **raw.get("spec", {}),
            "holderIdentity": wanted.holder,
            "leaseTransitions": wanted.transitions,
            "leaseDurationSeconds": max(1, math.ceil(wanted.duration_s)),
            "acquireTime": wanted.times[0],
            "renewTime": wanted.times[1],
        }
        verb, path = ("PUT", self.place.path) if before is not None else ("POST", self.place.folder)
        answer = await self._send(Request(verb, path, msgspec.json.encode(raw)), timeout_s)
        if answer.ok:
            return _lease_of(answer.body)
        return ReadFailure(f"lease {self}: {self._why(answer, new=before is None)}")

    async def ask(self, found: Lease, asks: str, timeout_s: float) -> None:
        """Say on a Lease that is another's that we wait for it; again later, if somebody has
        written it meanwhile.
        """
        raw = copy.deepcopy(found.raw)
        raw["metadata"]["annotations"] = {
            **(raw["metadata"].get("annotations") or {}),
            ASKED_FOR_BY: asks,
        }
        await self._send(Request("PUT", self.place.path, msgspec.json.encode(raw)), timeout_s)

    def _why(self, answer: Response, *, new: bool = False) -> str:
        if answer.status == CONFLICT:
            return "another has written it"
        fix = self._fixes.get(answer.status, "")
        if not fix or (answer.status == NOT_FOUND and not new):  # it was deleted meanwhile
            return error_text(answer)
        return f"{error_text(answer)}: {fix.format(namespace=self.place.namespace)}"

    def __str__(self) -> str:
        return f"{self.place.namespace}/{self.place.name}"

    async def _send(self, request: Request, timeout_s: float) -> Response:
        try:
            # A client that is told to come back later may wait for longer than a leader has.
            async with asyncio.timeout(timeout_s):
                return await self._client.send(request, timeout_s=timeout_s)
        except TimeoutError:
            return Response(
                0, f"{request.method} {request.path}: no answer within {timeout_s:g} s".encode()
            )

    def _new(self) -> Object:
        metadata = {"namespace": self.place.namespace, "name": self.place.name}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}


def stamp(wall: float) -> str:
    """A time as the Lease shows it, from seconds since 1970."""
    return rfc3339_micro(wall)


def _lease_of(body: bytes) -> Lease | ReadFailure:
    try:
        raw: Object = msgspec.json.decode(body)
        spec = raw.get("spec") or {}
        return Lease(
            str(spec.get("holderIdentity") or ""),
            int(spec.get("leaseTransitions") or 0),
            float(spec.get("leaseDurationSeconds") or 0),
            (str(spec.get("acquireTime") or ""), str(spec.get("renewTime") or "")),
            raw,
        )
    except (msgspec.MsgspecError, AttributeError, TypeError, ValueError) as error:
        return ReadFailure(f"the server's lease cannot be read: {error}")
