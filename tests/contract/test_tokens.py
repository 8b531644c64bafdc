"""Tokens of service accounts, as kubelets are asked with."""

from tests.contract.client import Api

PATH = "/api/v1/namespaces/default/serviceaccounts/{}/token"


def request(seconds: int) -> dict[str, object]:
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    }


async def test_a_token_is_given_of_an_account_that_is_there(api: Api) -> None:
    answer = await api.post(PATH.format("default"), request(600))
    assert answer.status == 201
    assert answer.ok()["status"]["token"]
    assert answer.ok()["status"]["expirationTimestamp"]


async def test_none_is_given_of_an_account_that_is_not_there(api: Api) -> None:
    assert (await api.post(PATH.format("nobody"), request(600))).status == 404


async def test_no_token_lasts_less_than_ten_minutes(api: Api) -> None:
    assert (await api.post(PATH.format("default"), request(599))).status == 422
