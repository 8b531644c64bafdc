"""The bearer token that kubelets are shown: that of an account which may read their statistics and
do nothing else.

Whoever is asked with a token can use it himself. A kubelet, and whoever has taken over a node, is
trusted with its own node alone, so it is never shown the token with which the agent writes to the
API server.
"""

import asyncio
import time
from collections.abc import Callable

import msgspec

from agents.telemetry.source import SourceError
from shared.kube.client import KubeClient
from shared.kube.http import Request
from shared.kube.verdicts import error_text

LIFETIME_S = 600  # the shortest that Kubernetes gives: a stolen one is soon worth nothing
RENEW_AFTER = 0.75  # of its lifetime
RETRY_S = 5.0
_REMEDY = (
    "`global-dispatcher install` makes an account for it, as the agent's chart does; "
    "kubelet.account names another that"
    " may only get nodes/stats and nodes/metrics, and of which the agent may create "
    "serviceaccounts/token"
)


class _Status(msgspec.Struct, gc=False):
    token: str


class _TokenRequest(msgspec.Struct, gc=False):
    """authentication.k8s.io/v1 TokenRequest."""

    status: _Status


_DECODER = msgspec.json.Decoder(_TokenRequest)


class KubeletToken:
    """Tokens of `account` ("namespace/name"), asked for by TokenRequest; '' has none.

    An agent with a client certificate needs none: to be asked with a certificate does not give it
    away.

    https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-request-v1
    """

    def __init__(
        self, client: KubeClient, account: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._account = account
        self._clock = clock
        self._token = ""
        self._renew_at = 0.0
        self._problem = ""
        self._retry_at = 0.0
        self._renewing = asyncio.Lock()

    async def headers(self) -> dict[str, str]:
        """What a request to a kubelet carries; SourceError where no token of the account is to be
        had.
        """
        session = await self._client.session()
        if not await session.authorization():
            return {}
        if not self._account:
            raise SourceError(f"the agent's own token is not shown to kubelets: {_REMEDY}")
        async with self._renewing:
            if self._clock() >= self._renew_at:
                await self._renew()
        return {"Authorization": f"Bearer {self._token}"}

    async def _renew(self) -> None:
        if self._clock() < self._retry_at:
            raise SourceError(self._problem)
        namespace, _, name = self._account.partition("/")
        spec = {"expirationSeconds": LIFETIME_S}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        asked_at = self._clock()
        answer = await self._client.send(Request("POST", path, msgspec.json.encode(request)))
        try:
            if not answer.ok:
                raise ValueError(error_text(answer))
            self._token = _DECODER.decode(answer.body).status.token
        except ValueError as error:
            self._problem = (
                f"no token of ServiceAccount {self._account} for kubelets: {error}; {_REMEDY}"
            )
            self._retry_at = self._clock() + RETRY_S
            raise SourceError(self._problem) from None
        self._renew_at = asked_at + RENEW_AFTER * LIFETIME_S
