"""What is refused, and in which words."""

from typing import Any

import pytest

from tests.embedded.api_client import DEPLOYMENTS, NODES, PODS, ApiClient, Body, deployment, node, pod

_SUBDOMAIN = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"


def _asks(requests: Body | None = None, limits: Body | None = None) -> Body:
    resources = {"requests": requests or {}, "limits": limits or {}}
    return pod(spec={"containers": [{"name": "c", "image": "i", "resources": resources}]})


def _container(**fields: Any) -> Body:
    return pod(spec={"containers": [{"name": "c", "image": "i", **fields}]})


def _affinity(clause: Body) -> Body:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [clause]}]}
    return pod(spec={"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})


_AFFINITY = (
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]"
)

_SPREAD = {"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}
_SERVICES = "/api/v1/namespaces/default/services"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(pod("Web_1"), f'metadata.name: Invalid value: "Web_1": {_SUBDOMAIN}', id="name"),
        pytest.param(pod("a" * 254), "must be no more than 253 characters", id="long name"),
        pytest.param(pod() | {"metadata": {}}, "metadata.name: Required value: name or generateName", id="no name"),
        pytest.param(pod(labels={"a": "b c"}), 'metadata.labels: Invalid value: "b c"', id="label value"),
        pytest.param(pod(labels={"-a": ""}), 'metadata.labels: Invalid value: "-a": name part', id="label key"),
        pytest.param(
            pod(annotations={"a": "x" * 262144}),
            "metadata.annotations: Too long: may not be more than 262144 bytes",
            id="annotations",
        ),
        pytest.param(pod(finalizers=["a b"]), "metadata.finalizers: Invalid value", id="finalizer"),
        pytest.param(pod(spec={"containers": []}), "spec.containers: Required value", id="no containers"),
        pytest.param(_container(name="C"), 'spec.containers[0].name: Invalid value: "C"', id="c"),
        pytest.param(_container(image=""), "spec.containers[0].image: Required value", id="no image"),
        pytest.param(
            pod(spec={"containers": [{"name": "c", "image": "i"}] * 2}),
            'spec.containers[1].name: Duplicate value: "c"',
            id="same name twice",
        ),
        pytest.param(
            _asks({"cpu": "-1"}),
            'spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
            id="negative",
        ),
        pytest.param(
            _asks({"cpu": "2"}, {"cpu": "1"}),
            'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
            id="more than the limit",
        ),
        pytest.param(
            _asks({"nvidia.com/gpu": "500m"}, {"nvidia.com/gpu": "500m"}),
            'spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer',
            id="half a gpu",
        ),
        pytest.param(
            _asks({"nvidia.com/gpu": "1"}),
            "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
            id="gpu without limit",
        ),
        pytest.param(_asks({"gpu": "1"}), "must be a standard resource type or fully qualified", id="unknown resource"),
        pytest.param(
            pod(spec={"restartPolicy": "Sometimes"}),
            'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"',
            id="restart policy",
        ),
        pytest.param(
            _affinity({"key": "a", "operator": "Near"}),
            f'{_AFFINITY}.operator: Invalid value: "Near": not a valid selector operator',
            id="operator",
        ),
        pytest.param(
            _affinity({"key": "a", "operator": "In"}),
            f"{_AFFINITY}.values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            id="no values",
        ),
        pytest.param(
            _affinity({"key": "a", "operator": "Exists", "values": ["b"]}),
            f"{_AFFINITY}.values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            id="values of exists",
        ),
        pytest.param(
            pod(spec={"tolerations": [{"key": "a", "operator": "Near"}]}),
            'spec.tolerations[0].operator: Unsupported value: "Near": supported values: "Equal", "Exists"',
            id="toleration",
        ),
        pytest.param(
            pod(spec={"topologySpreadConstraints": [_SPREAD]}),
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
            id="skew",
        ),
    ],
)  # fmt: skip
async def test_a_bad_pod_is_a_422_that_names_the_field(client: ApiClient, body: Body, message: str) -> None:
    answer = await client.post(PODS, body)
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.message.startswith('Pod "')
    assert message in answer.message
    causes = answer.body["details"]["causes"]
    assert any(f"{cause['field']}: {cause['message']}" in answer.message for cause in causes)
    assert all(cause["reason"].startswith("FieldValue") for cause in causes)


@pytest.mark.parametrize("text", ["", "abc", "1.2.3", "1Kib", "--1", "1e", "0x10", "1 Gi", "\u0661"])
async def test_a_quantity_that_cannot_be_read_is_a_400(client: ApiClient, text: str) -> None:
    answer = await client.post(PODS, _asks({"cpu": text}))
    assert answer.status == 400
    assert "quantities must match the regular expression" in answer.message or "unable to parse" in answer.message


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("4000", "4k"),
        ("1e3", "1e3"),
        ("1e999999", "1e999999"),
        ("9" * 40, "9" * 40),
        ("9" * 40 + "Ki", "9223372036854775807"),
        ("0.0000000001", "1m"),
    ],
)
async def test_quantities_are_stored_in_canonical_form(client: ApiClient, text: str, stored: str) -> None:
    made = await client.make(PODS, _asks({"memory": text}))
    assert made["spec"]["containers"][0]["resources"]["requests"]["memory"] == stored


async def test_all_findings_come_at_once(client: ApiClient) -> None:
    answer = await client.post(PODS, pod("A", spec={"containers": []}))
    assert answer.message.startswith('Pod "A" is invalid: [metadata.name: Invalid value')
    assert [cause["field"] for cause in answer.body["details"]["causes"]] == ["metadata.name", "spec.containers"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"selector": None}, "spec.selector: Required value"),
        ({"selector": {"matchLabels": {"app": "other"}}}, "`selector` does not match template `labels`"),
        ({"replicas": -1}, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        (
            {"template": {"metadata": {"labels": {"app": "shop"}}, "spec": {}}},
            "spec.template.spec.containers: Required",
        ),
        ({"strategy": {"type": "Slow"}}, 'spec.strategy: Unsupported value: {"Type":"Slow"'),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
async def test_a_bad_deployment_is_a_422(client: ApiClient, change: Body, message: str) -> None:
    body = deployment()
    body["spec"] |= change
    answer = await client.post(DEPLOYMENTS, body)
    assert answer.status == 422
    assert answer.message.startswith('Deployment.apps "shop" is invalid: ')
    assert message in answer.message


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        (NODES, node() | {"spec": {"taints": [{"effect": "Maybe"}]}}, "taints[0].effect: Unsupported value"),
        ("/api/v1/namespaces", {"metadata": {"name": "a.b"}}, "must not contain dots"),
        (_SERVICES, {"metadata": {"name": "a.b"}, "spec": {"ports": [{"port": 1}]}}, "a lowercase RFC 1123 label"),
        (_SERVICES, {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 0}]}}, "between 1 and 65535"),
        (
            "/apis/batch/v1/namespaces/default/jobs",
            {"metadata": {"name": "j"}, "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}},
            'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
        ),
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {"metadata": {"name": "p"}, "value": 1_000_000_001},
            "maximum allowed value of a user defined priority is 1000000000",
        ),
        (
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "maxUnavailable": 1}},
            "minAvailable and maxUnavailable cannot be both set",
        ),
        ("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "c"}, "data": {"/": ""}}, "config key"),
    ],
    ids=["taint", "namespace", "service name", "port", "job", "priority", "budget", "config key"],
)  # fmt: skip
async def test_other_kinds_are_checked_too(client: ApiClient, path: str, body: Body, message: str) -> None:
    answer = await client.post(path, body)
    assert answer.status == 422
    assert message in answer.message
