"""What the server says of bodies that are not right. The cases are data: validation.yaml."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.client import Api, Body, causes, deployment, job, pod, short
from tests.contract.servers import Server

_CASES: dict[str, list[Body]] = yaml.safe_load(Path(__file__).with_name("validation.yaml").read_text())
_BASES: dict[str, Body] = {
    "pods": pod("x", spec={"containers": [{"name": "a", "image": "b"}]}),
    "deployments": deployment(),
    "jobs": job() | {"spec": {"template": job()["spec"]["template"]}},
}
_LONGEST_ID = 70


def _parameters() -> list[Any]:
    return [
        pytest.param(resource, case, id=f"{resource}-{str(case['body'])[:_LONGEST_ID]}", marks=_marks(case))
        for resource, cases in _CASES.items()
        for case in cases
    ]


def _marks(case: Body) -> list[pytest.MarkDecorator]:
    return [pytest.mark.since(str(case["since"]))] if "since" in case else []


def _kinds(told: Iterable[str]) -> set[str]:
    """Causes without their words: "field: Invalid value" and the like."""
    return {": ".join(cause.split(": ")[:2]) for cause in told}


def _over(base: Body, body: Body) -> Body:
    """`body` with what it leaves out of metadata and spec."""
    whole = base | body
    if base:
        whole["metadata"] = body.get("metadata") or base["metadata"]
        whole["spec"] = base["spec"] | (body.get("spec") or {})
    return whole


@pytest.mark.parametrize(("resource", "case"), _parameters())
async def test_a_body_is_judged(server: Server, default: Api, resource: str, case: Body) -> None:
    body = _over(_BASES.get(resource, {}), case["body"])
    answer = await default.post(default.at(resource), body, dryRun="All")
    if case.get("accepted"):
        answer.ok()
    elif "refused" in case:
        assert (answer.status, answer.reason) == (422, "Invalid")
        assert _kinds(causes(answer)) == _kinds(case["refused"])
        if "worded" not in case or server.since(str(case["worded"])):
            assert causes(answer) == set(case["refused"])
    else:
        assert (answer.status, short(answer.message)) == (case["status"], case["message"])
