"""Whatever is written into whichever field of a body: the server refuses it or takes it, and goes on."""

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localfleet.embedded.api import Api, ApiError
from localfleet.embedded.apiserver.resources import RESOURCES
from localfleet.embedded.apiserver.show import tables
from localfleet.embedded.storage import Storage
from tests.embedded.api_client import Body, binding, deployment, node, pod

_TERM = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_POD = pod(
    labels={"a": "b"},
    finalizers=["a.io/b"],
    ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u"}],
    managedFields=[{"manager": "a", "operation": "Apply", "fieldsV1": {"f:spec": {}}}],
    spec={
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [_TERM]}}},
        "volumes": [{"name": "v", "configMap": {"name": "c"}}],
        "containers": [{"name": "main", "image": "i", "ports": [{"containerPort": 80}], "env": [{"name": "a"}]}],
    },
)
_ENDED = {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:00:00Z"}}
_STATUS: Body = {
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "main", "ready": True, "restartCount": 1, "state": _ENDED, "lastState": _ENDED}],
        "podIPs": [{"ip": "10.0.0.1"}],
    }
}
_STRATEGIC = {
    "spec": {"containers": [{"name": "main", "$patch": "merge"}], "$setElementOrder/containers": [{"name": "main"}]},
    "metadata": {"finalizers": ["a.io/b"], "$deleteFromPrimitiveList/finalizers": ["a.io/b"], "$retainKeys": ["name"]},
}
_OPERATIONS = [{"op": "add", "path": "/metadata/labels", "value": {}}, {"op": "copy", "from": "/kind", "path": "/x"}]
_EVICTION = {"metadata": {"name": "web"}, "deleteOptions": {"preconditions": {"uid": "u"}, "gracePeriodSeconds": 1}}
_VALUES: list[Any] = [None, 1, -1, 1.5, 2**70, True, "", "x", "\0", "9" * 50, [], [None], [[]], [{"name": "a"}]]
_VALUES += [{}, {"a": None}, {"name": 1}]
_HOSTILE = st.sampled_from(_VALUES)


def _patch(kind: str, subresource: str = "") -> Callable[[Api, Any], Any]:
    return lambda api, body: api.patch("pods", "web", "default", body, kind=kind, subresource=subresource)


_CALLS: dict[str, tuple[Callable[[Api, Any], Any], Any]] = {
    "create pod": (lambda api, body: api.create("pods", body, "default"), {**_POD, "metadata": {"name": "new"}}),
    "create node": (lambda api, body: api.create("nodes", body), node()),
    "create deployment": (lambda api, body: api.create("deployments.apps", body, "default"), deployment()),
    "merge": (_patch("merge"), _POD),
    "json": (_patch("json"), _OPERATIONS),
    "strategic": (_patch("strategic"), _STRATEGIC),
    "apply": (_patch("apply"), _POD),
    "status": (_patch("merge", "status"), _STATUS),
    "bind": (lambda api, body: api.bind("default", "web", body), binding("web", "n1", annotations={"a": "b"})),
    "evict": (lambda api, body: api.evict("default", "web", body), _EVICTION),
}


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    found = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in found:
        yield (*path, key)
        yield from _places(inner, (*path, key))


def _with(body: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(body)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


@pytest.mark.parametrize("call", _CALLS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_body_makes_the_server_fail(call: str, data: st.DataObject) -> None:
    api = Api(clock=lambda: 0.0, storage=Storage(), random=random.Random(1), name="t")
    api.create("pods", pod(), "default")
    act, body = _CALLS[call]
    for _ in range(2):
        path = data.draw(st.sampled_from(list(_places(body))))
        body = _with(body, path, data.draw(_HOSTILE))
    try:
        act(api, body)
    except ApiError as error:
        assert error.status["message"]
    for row in RESOURCES.values():
        for found in api.list(row.key) if not row.stored_as else ():
            tables.layout(row).cells(found, 0.0)
    api.create("pods", pod("after"), "default")
