"""Reviews of what others may do."""

from typing import Any

import pytest

from tests.contract.client import Api

PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
PROXY = {"verb": "create", "resource": "nodes", "subresource": "proxy", "name": "n1"}


@pytest.mark.parametrize(("groups", "allowed"), [(["system:masters"], True), (["others"], False), ([], False)])
async def test_masters_may_do_everything_and_who_has_no_role_nothing(
    api: Api, groups: list[str], allowed: bool
) -> None:
    spec = {"user": "somebody", "groups": groups, "resourceAttributes": PROXY}
    made = (await api.post(PATH, {"spec": spec})).ok()
    assert made["status"]["allowed"] is allowed


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({"resourceAttributes": PROXY}, ["spec.user"]),
        pytest.param({"user": "somebody"}, ["spec"], marks=pytest.mark.since("1.37")),
        pytest.param({}, ["spec", "spec.user"], marks=pytest.mark.since("1.37")),
    ],
)
async def test_a_review_of_nobody_or_of_nothing_is_invalid(api: Api, spec: dict[str, Any], fields: list[str]) -> None:
    told = await api.post(PATH, {"spec": spec})
    assert told.status == 422
    assert [cause["field"] for cause in told.body["details"]["causes"]] == fields
