"""Whose bearer token it is, by a TokenReview of this cluster's API server, as kubelets ask it."""

import hashlib
import time
from collections.abc import Callable

import msgspec

from agents.executor.relayed.relay import FAILED, Refusal
from agents.runtime.relay.callers import UNAUTHORIZED, Caller
from agents.runtime.relay.fresh import Fresh
from shared.kube.client import KubeClient
from shared.kube.http import Request
from shared.kube.verdicts import error_text

_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
_GOOD_S = 10.0  # for so long an answer counts
_LONGEST = 16 * 1024  # characters


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class _Status(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)


class _Review(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


class Tokens:
    """Remembers for some seconds what it was told of a token, by its digest."""

    def __init__(self, client: KubeClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._users = Fresh[Caller | None](_GOOD_S, clock=clock)

    async def caller(self, authorization: str) -> Caller:
        """The user behind a header. Refusal: it names nobody, or nobody can say."""
        kind, _, rest = authorization.partition(" ")
        token = rest.strip()
        if kind.lower() != "bearer" or not 0 < len(token) <= _LONGEST:
            raise Refusal(UNAUTHORIZED, "a client certificate or a bearer token is needed")
        found = await self._users.get(
            hashlib.sha256(token.encode()).hexdigest(), lambda: self._review(token)
        )
        if found is None:
            raise Refusal(UNAUTHORIZED, "the API server knows no user of this token")
        return found

    async def _review(self, token: str) -> Caller | None:
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token},
        }
        response = await self._client.send(Request("POST", _REVIEWS, msgspec.json.encode(review)))
        if not response.ok:
            raise Refusal(FAILED, f"whose token it is cannot be reviewed: {error_text(response)}")
        status = msgspec.json.decode(response.body, type=_Review).status
        if not status.authenticated or not status.user.username:
            return None
        user = status.user
        return Caller(user.username, user.groups, user.uid, tuple(sorted(user.extra.items())))
