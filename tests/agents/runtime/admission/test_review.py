"""What the webhook answers to an AdmissionReview."""

import json
from base64 import b64decode
from typing import Any

import pytest

from agents.runtime.admission.review import NotAReviewError, answer
from tests.agents.runtime.admission.cases import CASES, pod


def asked(of: Any) -> bytes:
    request = {"uid": "u-1", "kind": {"kind": "Pod"}, "operation": "CREATE", "object": of}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


@pytest.mark.parametrize(("annotations", "spec", "expected"), CASES)
def test_a_pod_that_asks_gets_our_name_and_no_other_is_touched(
    annotations: dict[str, str] | None, spec: dict[str, Any], expected: str
) -> None:
    told = json.loads(answer(asked(pod(annotations, **spec))))
    assert (told["kind"], told["response"]["uid"], told["response"]["allowed"]) == ("AdmissionReview", "u-1", True)
    patch = json.loads(b64decode(told["response"].get("patch", b"W10=")))
    changed = {each["path"]: each["value"] for each in patch}
    assert set(changed) <= {"/spec/schedulerName"}
    assert changed.get("/spec/schedulerName", spec.get("schedulerName", "default-scheduler")) == expected


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{}", id="no request"),
        pytest.param(asked(None), id="no object"),
        pytest.param(asked({"metadata": {}}), id="no pod"),
        pytest.param(asked({"metadata": {"annotations": {"a": 1}}, "spec": {}}), id="an annotation that is no text"),
        pytest.param(b'{"request": ' + b"[" * 100_000, id="nested too deep"),
        pytest.param(b"\xff\xfe", id="no text"),
        pytest.param(
            b'{"request": {"uid": "\xff", "object": {"metadata": {}, "spec": {}}}}', id="a uid that is no text"
        ),
    ],
)
def test_what_is_no_review_of_a_pod_is_an_error_of_whoever_asked(body: bytes) -> None:
    with pytest.raises(NotAReviewError):
        answer(body)
