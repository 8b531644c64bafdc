"""As whom kubelets are asked: never as the agent itself."""

from collections.abc import Callable
from typing import cast

import msgspec
import pytest

from agents.runtime.kubelet_token import LIFETIME_S, RENEW_AFTER, RETRY_S, KubeletToken
from agents.telemetry.source import SourceError
from shared.kube.client import KubeClient
from shared.kube.http import Request, Response

ACCOUNT = "agents/kubelets"


class Api:
    """An API server that gives a new token at each request, and remembers what was asked for."""

    def __init__(self, own: str = "Bearer of-the-agent", status: int = 201) -> None:
        self.own = own
        self.status = status
        self.asked: list[Request] = []

    async def session(self) -> "Api":
        return self

    async def authorization(self) -> str:
        return self.own

    async def send(self, request: Request) -> Response:
        self.asked.append(request)
        body: dict[str, object] = {"status": {"token": f"token-{len(self.asked)}"}}
        if self.status != 201:
            body = {"kind": "Status", "message": "no such account"}
        return Response(self.status, msgspec.json.encode(body))


def token_of(api: Api, account: str = ACCOUNT, clock: Callable[[], float] = lambda: 0.0) -> KubeletToken:
    return KubeletToken(cast(KubeClient, api), account, clock)


async def test_kubelets_are_shown_a_token_of_the_account_that_may_do_nothing_else() -> None:
    api = Api()
    assert await token_of(api).headers() == {"Authorization": "Bearer token-1"}
    assert api.asked[0].path == "/api/v1/namespaces/agents/serviceaccounts/kubelets/token"
    assert msgspec.json.decode(api.asked[0].body)["spec"] == {"expirationSeconds": LIFETIME_S}


async def test_one_token_serves_until_its_time_is_nearly_over() -> None:
    renewed_s = RENEW_AFTER * LIFETIME_S
    now = [0.0]
    token = token_of(Api(), clock=lambda: now[0])
    shown: list[str] = []
    for now[0] in (0.0, renewed_s - 1, renewed_s + 1):
        shown += (await token.headers()).values()
    assert shown == ["Bearer token-1", "Bearer token-1", "Bearer token-2"]


async def test_a_client_certificate_needs_no_token() -> None:
    api = Api(own="")
    assert await token_of(api).headers() == {}
    assert api.asked == []


@pytest.mark.parametrize(("account", "status"), [("", 201), (ACCOUNT, 404), (ACCOUNT, 403)])
async def test_without_a_token_of_the_account_no_kubelet_is_asked_and_the_remedy_is_named(
    account: str, status: int
) -> None:
    with pytest.raises(SourceError, match="global-dispatcher install"):
        await token_of(Api(status=status), account).headers()


async def test_an_account_that_is_missing_is_asked_for_once_in_a_while_and_not_for_each_kubelet() -> None:
    api = Api(status=404)
    now = [0.0]
    token = token_of(api, clock=lambda: now[0])
    asked = []
    for now[0] in (0.0, RETRY_S / 2, RETRY_S + 1):
        with pytest.raises(SourceError):
            await token.headers()
        asked.append(len(api.asked))
    assert asked == [1, 1, 2]
