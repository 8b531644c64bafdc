"""What the webhooks answer to an AdmissionReview."""

import copy
import json
from base64 import b64decode
from typing import Any

import pytest

from agents.runtime.admission.review import NotAReviewError, answer
from shared.model import names
from tests.agents.runtime.admission import proxy_node_cases
from tests.agents.runtime.admission.cases import ASKS, CASES, pod
from tests.agents.runtime.admission.proxy_node_cases import ALL, NOT_PLACED_BY_OTHERS, UNTOUCHED, daemon_set


def asked(of: Any, kind: str = "Pod") -> bytes:
    request = {"uid": "u-1", "kind": {"kind": kind}, "operation": "CREATE", "object": of}
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


def patched(of: dict[str, Any]) -> Any:
    """The object as an API server has it afterwards."""
    response = json.loads(answer(asked(of, of["kind"])))["response"]
    changed = copy.deepcopy(of)
    for each in json.loads(b64decode(response.get("patch", b"W10="))):
        assert each["op"] == "add"
        *path, last = [part.replace("~1", "/") for part in each["path"].split("/")[1:]]
        parent: Any = changed
        for part in path:
            parent = parent[int(part) if isinstance(parent, list) else part]
        if last == "-":
            parent.append(each["value"])
        else:
            parent[last] = each["value"]
    return changed


@pytest.mark.parametrize(("spec", "affinity"), proxy_node_cases.CASES)
def test_what_tolerates_the_taint_of_proxy_nodes_is_kept_off_them(spec: dict[str, Any], affinity: Any) -> None:
    for one in (pod(None, **spec), daemon_set(spec)):
        changed = patched(one)
        if affinity == UNTOUCHED:
            assert changed == one
            continue
        of_pods = changed["spec"] if one["kind"] == "Pod" else changed["spec"]["template"]["spec"]
        assert of_pods["affinity"] == affinity
        assert changed["metadata"]["annotations"] == {names.PROXY_NODES: "left-out"}
        assert patched(changed) == changed


@pytest.mark.parametrize(("metadata", "spec"), NOT_PLACED_BY_OTHERS)
def test_a_pod_that_others_do_not_place_is_left_alone(metadata: dict[str, Any], spec: dict[str, Any]) -> None:
    one = pod({"team/a": "b"}, **{**ALL, **spec})
    one["metadata"].update(metadata)
    assert patched(one) == one


def test_a_pod_that_asks_for_us_is_given_our_name_alone_whatever_it_tolerates() -> None:
    changed = patched(pod(ASKS, **ALL))
    assert changed == pod(ASKS, **ALL, schedulerName=names.SCHEDULER_NAME)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{}", id="no request"),
        pytest.param(asked(None), id="no object"),
        pytest.param(asked({"metadata": {}}), id="no pod"),
        pytest.param(asked({"metadata": {}, "spec": {}}, "DaemonSet"), id="no DaemonSet"),
        pytest.param(asked({"metadata": {"annotations": {"a": 1}}, "spec": {}}), id="an annotation that is no text"),
        pytest.param(b'{"request": ' + b"[" * 100_000, id="nested too deep"),
        pytest.param(b"\xff\xfe", id="no text"),
        pytest.param(
            b'{"request": {"uid": "\xff", "kind": {"kind": "Pod"}, "object": {"metadata": {}, "spec": {}}}}',
            id="a uid that is no text",
        ),
    ],
)
def test_what_is_no_review_is_an_error_of_whoever_asked(body: bytes) -> None:
    with pytest.raises(NotAReviewError):
        answer(body)
