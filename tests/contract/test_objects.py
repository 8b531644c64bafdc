"""Creating, reading and replacing objects."""

from typing import Any

import pytest

from tests.contract.client import Api, Body, binding, causes, config_map, deployment, job, pod

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


async def test_a_new_pod_has_identity_defaults_and_a_first_status(api: Api) -> None:
    made = await api.add("pods", pod())
    meta, spec = made["metadata"], made["spec"]
    assert meta.keys() - {"managedFields", "generation"} == {
        *("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    }
    assert {key: value for key, value in spec.items() if key not in ("containers", "volumes", "tolerations")} == {
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "serviceAccount": "default",
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
    }
    assert made["status"] == {"phase": "Pending", "qosClass": "Burstable"}
    assert await api.read("pods", "web") == made


async def test_every_container_gets_the_token_of_its_service_account(api: Api) -> None:
    spec = (await api.add("pods", pod()))["spec"]
    (volume,) = spec["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    assert [next(iter(source)) for source in volume["projected"]["sources"]] == [
        *("serviceAccountToken", "configMap", "downwardAPI")
    ]
    assert spec["containers"][0]["volumeMounts"] == [
        {"name": volume["name"], "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    ]
    bare = await api.add("pods", pod("bare", spec={"automountServiceAccountToken": False}))
    assert "volumes" not in bare["spec"]
    assert "volumeMounts" not in bare["spec"]["containers"][0]


async def test_a_pod_of_an_unknown_service_account_is_forbidden(api: Api) -> None:
    answer = await api.post(api.at("pods"), pod(spec={"serviceAccountName": "nobody"}))
    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert answer.message == (
        f'pods "web" is forbidden: error looking up service account {api.namespace}/nobody: '
        'serviceaccount "nobody" not found'
    )


@pytest.mark.parametrize(
    ("resource", "body", "path", "expected"),
    [
        ("deployments", deployment(), "spec.strategy.type", "RollingUpdate"),
        ("deployments", deployment(), "spec.strategy.rollingUpdate", {"maxUnavailable": "25%", "maxSurge": "25%"}),
        ("deployments", deployment(), "spec.progressDeadlineSeconds", 600),
        ("deployments", deployment(), "spec.revisionHistoryLimit", 10),
        ("deployments", deployment(), "status", {}),
        ("jobs", job(), "spec.backoffLimit", 6),
        ("jobs", job(), "spec.completions", 1),
        ("jobs", job(), "spec.parallelism", 1),
        ("jobs", job(), "spec.completionMode", "NonIndexed"),
        ("jobs", job(), "spec.podReplacementPolicy", "TerminatingOrFailed"),
        ("jobs", job(), "metadata.generation", 1),
        ("leases", {"metadata": {"name": "x"}}, "spec", {}),
        ("leases", {"metadata": {"name": "x"}}, "metadata.generation", None),
        ("configmaps", config_map(), "metadata.generation", None),
        ("secrets", {"metadata": {"name": "x"}, "stringData": {"a": "b"}}, "data", {"a": "Yg=="}),
        ("secrets", {"metadata": {"name": "x"}}, "type", "Opaque"),
        ("poddisruptionbudgets", {"metadata": {"name": "x"}, "spec": {}}, "metadata.generation", 1),
        ("priorityclasses", {"metadata": {"name": "dry"}, "value": 5}, "preemptionPolicy", "PreemptLowerPriority"),
        ("priorityclasses", {"metadata": {"name": "dry"}, "value": 5}, "metadata.generation", 1),
        ("namespaces", {"metadata": {"name": "dry"}}, "spec.finalizers", ["kubernetes"]),
        ("namespaces", {"metadata": {"name": "dry"}}, "status.phase", "Active"),
        ("namespaces", {"metadata": {"name": "dry"}}, "metadata.labels", {"kubernetes.io/metadata.name": "dry"}),
        ("nodes", {"metadata": {"name": "dry"}}, "status.nodeInfo.kubeletVersion", ""),
        ("nodes", {"metadata": {"name": "dry"}}, "status.daemonEndpoints.kubeletEndpoint.Port", 0),
        ("nodes", {"metadata": {"name": "dry"}, "status": {"capacity": {"cpu": "2"}}}, "status.allocatable.cpu", "2"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_new_object_gets_defaults(default: Api, resource: str, body: Body, path: str, expected: Any) -> None:
    found: Any = (await default.post(default.at(resource), body, dryRun="All")).ok()
    for part in path.split("."):
        found = found.get(part)
    assert found == expected


async def test_a_job_is_labelled_as_its_pods_are(api: Api) -> None:
    made = await api.add("jobs", job())
    both = {"controller-uid": made["metadata"]["uid"], "job-name": "work"}
    own = both | {f"batch.kubernetes.io/{key}": value for key, value in both.items()}
    assert made["metadata"]["labels"] == made["spec"]["template"]["metadata"]["labels"] == own
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": made["metadata"]["uid"]}}


async def test_a_generated_name_is_its_prefix_and_five_letters(api: Api) -> None:
    names = {(await api.add("pods", pod() | {"metadata": {"generateName": "web-"}}))["metadata"]["name"] for _ in "ab"}
    assert len(names) == 2
    assert all(name.startswith("web-") and len(name) == 9 for name in names)
    cut = (await api.add("pods", pod() | {"metadata": {"generateName": "x" * 70}}))["metadata"]["name"]
    assert cut[:58] == "x" * 58
    assert len(cut) == 63


async def test_a_second_object_of_a_name_is_refused(api: Api) -> None:
    await api.add("deployments", deployment())
    answer = await api.post(api.at("deployments"), deployment())
    assert (answer.status, answer.reason) == (409, "AlreadyExists")
    assert answer.message == 'deployments.apps "shop" already exists'
    assert answer.body["details"] == {"name": "shop", "group": "apps", "kind": "deployments"}


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        ("pods", 'pods "none" not found'),
        ("deployments", 'deployments.apps "none" not found'),
        ("nodes", 'nodes "none" not found'),
        ("leases", 'leases.coordination.k8s.io "none" not found'),
    ],
)
async def test_an_object_that_is_not_there_is_a_404(default: Api, resource: str, message: str) -> None:
    answer = await default.get(default.at(resource, "none"))
    assert (answer.status, answer.reason, answer.message) == (404, "NotFound", message)
    assert answer.body["details"]["name"] == "none"


@pytest.mark.parametrize(
    ("method", "path", "status", "reason"),
    [
        ("GET", "/api/v1/unheardof", 404, "NotFound"),
        ("GET", "/api/v1/namespaces/default/pods/none/unheardof", 404, "NotFound"),
        ("PUT", "/api/v1/namespaces/default/pods", 405, "MethodNotAllowed"),
        ("PATCH", "/api/v1/namespaces/default/pods", 405, "MethodNotAllowed"),
        ("POST", "/api/v1/namespaces/default/pods/web", 405, "MethodNotAllowed"),
        ("GET", "/api/v1/namespaces/default/pods/web/binding", 405, "MethodNotAllowed"),
        ("DELETE", "/api/v1/namespaces", 405, "MethodNotAllowed"),
    ],
)
async def test_a_path_or_a_verb_that_is_not_served(
    default: Api, method: str, path: str, status: int, reason: str
) -> None:
    answer = await default.call(method, path, {} if method != "GET" else None)
    assert (answer.status, answer.reason, answer.body["details"]) == (status, reason, {})


@pytest.mark.parametrize("path", ["/nonsense", "/apis/none.io/v1/things"])
async def test_a_path_outside_every_group_is_a_plain_404(default: Api, path: str) -> None:
    answer = await default.get(path)
    assert (answer.status, answer.body) == (404, "404 page not found\n")


async def test_an_object_of_a_missing_namespace_is_a_404(default: Api) -> None:
    answer = await default.post("/api/v1/namespaces/none/pods", pod())
    assert (answer.status, answer.message) == (404, 'namespaces "none" not found')


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(pod() | {"kind": "Node"}, 'Node in version "v1" cannot be handled as a Pod', id="another kind"),
        pytest.param(pod() | {"kind": "No"}, 'No in version "v1" cannot be handled as a Pod: no kind', id="no kind"),
        pytest.param(pod() | {"apiVersion": "v2"}, 'Pod in version "v2" cannot be handled as a Pod', id="version"),
        pytest.param(pod(namespace="other"), "does not match the namespace sent on the request", id="namespace"),
        pytest.param([1], "the object provided is unrecognized (must be of type Pod)", id="a list"),
        pytest.param(b"{", "couldn't get version/kind; json parse error: unexpected end of JSON input", id="half"),
        pytest.param(b"", "the object provided is unrecognized (must be of type Pod)", id="nothing"),
        pytest.param(pod(spec={"containers": "x"}), "cannot unmarshal string into Go struct field", id="a wrong type"),
        pytest.param(pod(labels={"a": 1}), "cannot unmarshal number into Go struct field", id="a number as label"),
        pytest.param(pod(spec={"terminationGracePeriodSeconds": 1.5}), "cannot unmarshal number 1.5 into", id="1.5"),
        pytest.param(pod(spec={"priority": 2**31}), "cannot unmarshal number 2147483648 into", id="beyond int32"),
        pytest.param(pod(spec={"hostNetwork": "yes"}), "cannot unmarshal string into Go struct field", id="no bool"),
    ],
)
async def test_a_body_that_is_no_pod_is_a_400(default: Api, body: Any, message: str) -> None:
    answer = await default.post(default.at("pods"), body)
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert message in answer.message


async def test_null_is_an_empty_object(default: Api) -> None:
    answer = await default.post(default.at("pods"), b"null")
    assert answer.status == 422
    assert causes(answer) == {
        "metadata.name: Required value: name or generateName is required",
        "spec.containers: Required value",
    }


async def test_a_body_beyond_3_mib_is_a_413(default: Api) -> None:
    answer = await default.post(default.at("pods"), b" " * (3 * 1024 * 1024 + 1))
    assert (answer.status, answer.reason) == (413, "RequestEntityTooLarge")


async def test_a_body_in_another_language_is_a_415(default: Api) -> None:
    answer = await default.call("POST", default.at("pods"), b"x", kind="text/plain")
    assert (answer.status, answer.reason) == (415, "UnsupportedMediaType")


async def test_an_answer_in_another_language_is_a_406(default: Api) -> None:
    answer = await default.get(default.at("pods"), accept="application/xml")
    assert (answer.status, answer.reason) == (406, "NotAcceptable")


async def test_unknown_fields_are_dropped_or_refused_as_the_client_asks(default: Api) -> None:
    body = pod(spec={"colour": "red"}) | {"flavour": 1}
    strict = await default.post(default.at("pods"), body, fieldValidation="Strict", dryRun="All")
    assert strict.status == 400
    assert strict.message.endswith('strict decoding error: unknown field "spec.colour", unknown field "flavour"')
    loose = (await default.post(default.at("pods"), body, dryRun="All")).ok()
    assert "colour" not in loose["spec"]
    assert "flavour" not in loose


async def test_a_field_given_twice_is_refused_by_a_strict_server(default: Api) -> None:
    body = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","name":"b"}}'
    strict = await default.post(default.at("configmaps"), body, fieldValidation="Strict", dryRun="All")
    assert (strict.status, strict.message) == (
        400,
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: '
        'strict decoding error: duplicate field "metadata.name"',
    )
    assert (await default.post(default.at("configmaps"), body, dryRun="All")).ok()["metadata"]["name"] == "b"


@pytest.mark.parametrize(
    ("query", "cause"),
    [
        pytest.param(
            {"dryRun": "Some"},
            'dryRun: Unsupported value: ["Some"]: supported values: "All"',
            marks=pytest.mark.since("1.34"),
        ),
        (
            {"fieldValidation": "Loud"},
            'fieldValidation: Unsupported value: "Loud": supported values: "", "Ignore", "Strict", "Warn"',
        ),
        pytest.param(
            {"fieldManager": "x" * 129},
            "fieldManager: Too long: may not be more than 128 bytes",
            marks=pytest.mark.since("1.32"),
        ),
    ],
    ids=["dryRun", "fieldValidation", "fieldManager"],
)
async def test_a_parameter_that_means_nothing_is_a_422(default: Api, query: dict[str, str], cause: str) -> None:
    answer = await default.post(default.at("pods"), pod(), **query)
    assert (answer.status, causes(answer)) == (422, {cause})
    assert answer.message.startswith('CreateOptions.meta.k8s.io "" is invalid: ')


async def test_a_new_object_may_not_bring_a_resource_version(default: Api) -> None:
    answer = await default.post(default.at("pods"), pod(resourceVersion="1"))
    assert (answer.status, answer.message) == (500, "resourceVersion should not be set on objects to be created")


async def test_dry_run_answers_and_stores_nothing(api: Api) -> None:
    assert (await api.post(api.at("pods"), pod(), dryRun="All")).status == 201
    assert (await api.get(api.at("pods", "web"))).status == 404
    await api.add("deployments", deployment(replicas=0))
    patched = await api.patch(api.at("deployments", "shop"), {"spec": {"replicas": 9}}, dryRun="All")
    assert patched.ok()["spec"]["replicas"] == 9
    assert (await api.delete(api.at("deployments", "shop"), dryRun="All")).ok()["status"] == "Success"
    assert (await api.read("deployments", "shop"))["spec"]["replicas"] == 0


async def test_an_update_with_an_old_version_is_a_conflict(api: Api) -> None:
    made = await api.add("pods", pod())
    await api.change("pods", "web", {"metadata": {"labels": {"a": "1"}}})
    answer = await api.put(api.at("pods", "web"), made)
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert answer.message == f'Operation cannot be fulfilled on pods "web": {MODIFIED}'
    assert answer.body["details"] == {"name": "web", "kind": "pods"}


async def test_an_update_without_a_version_is_taken_where_that_is_allowed(api: Api) -> None:
    made = await api.add("pods", pod())
    del made["metadata"]["resourceVersion"]
    made["spec"]["containers"][0]["image"] = "app:2"
    changed = (await api.put(api.at("pods", "web"), made)).ok()
    assert changed["spec"]["containers"][0]["image"] == "app:2"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (pod("other"), "the name of the object (other) does not match the name on the URL (web)"),
        (pod(namespace="other"), "the namespace of the provided object does not match the namespace sent on the req"),
    ],
    ids=["name", "namespace"],
)
async def test_an_update_goes_where_its_path_says(api: Api, body: Body, message: str) -> None:
    await api.add("pods", pod())
    answer = await api.put(api.at("pods", "web"), body)
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert message in answer.message


async def test_an_update_of_another_life_fails_its_precondition(api: Api) -> None:
    made = await api.add("pods", pod())
    made["metadata"] |= {"uid": "another"}
    answer = await api.put(api.at("pods", "web"), made)
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert "Precondition failed: UID in precondition: another, UID in object meta: " in answer.message


@pytest.mark.parametrize("resource", ["pods", "deployments", "configmaps", "nodes"])
async def test_an_update_of_nothing_is_a_404(default: Api, resource: str) -> None:
    body = {"pods": pod("none"), "deployments": deployment("none")}.get(resource, {"metadata": {"name": "none"}})
    assert (await default.put(default.at(resource, "none"), body)).status == 404


@pytest.mark.parametrize(
    ("resource", "body"),
    [
        ("leases", {"metadata": {"name": "made"}, "spec": {}}),
        ("services", {"metadata": {"name": "made"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}}),
    ],
)
async def test_an_update_makes_what_may_be_made_so(api: Api, resource: str, body: Body) -> None:
    assert (await api.put(api.at(resource, "made"), body)).status == 201


async def test_a_lease_is_updated_only_with_its_version(api: Api) -> None:
    made = await api.add("leases", {"metadata": {"name": "x"}, "spec": {"holderIdentity": "a"}})
    made["spec"]["holderIdentity"] = "b"
    taken = (await api.put(api.at("leases", "x"), made)).ok()
    assert taken["spec"]["holderIdentity"] == "b"
    late = await api.put(api.at("leases", "x"), made)
    assert late.message == f'Operation cannot be fulfilled on leases.coordination.k8s.io "x": {MODIFIED}'
    del made["metadata"]["resourceVersion"]
    without = await api.put(api.at("leases", "x"), made)
    (cause,) = causes(without)
    assert without.status == 422
    assert cause.startswith("metadata.resourceVersion: Invalid value: ")  # 0, or 0x0 before Kubernetes 1.34
    assert cause.endswith(": must be specified for an update")


async def test_a_change_of_nothing_keeps_the_version(api: Api) -> None:
    made = await api.add("configmaps", config_map())
    assert (await api.put(api.at("configmaps", "settings"), made)).ok() == made
    assert await api.change("configmaps", "settings", {}) == made
    assert await api.change("configmaps", "settings", {"data": {"a": "1"}}) == made


@pytest.mark.since("1.33")
async def test_generation_of_a_pod_counts_changes_of_its_spec_and_its_deletion(api: Api) -> None:
    async def generation() -> int:
        return int((await api.read("pods", "web"))["metadata"]["generation"])

    await api.add("pods", pod())
    assert await generation() == 1
    await api.bound("web")
    await api.change("pods", "web/status", {"status": {"phase": "Running"}})
    assert await generation() == 1
    await api.change("pods", "web", {"spec": {"activeDeadlineSeconds": 9}})
    assert await generation() == 2
    (await api.delete(api.at("pods", "web"))).ok()
    assert await generation() == 3


async def test_generation_counts_changes_of_spec_alone(api: Api) -> None:
    await api.add("deployments", deployment())
    assert (await api.change("deployments", "shop", {"metadata": {"labels": {"a": "b"}}}))["metadata"][
        "generation"
    ] == 1
    assert (await api.change("deployments", "shop", {"spec": {"paused": True}}))["metadata"]["generation"] == 2


async def test_versions_grow_with_every_write_of_any_kind(api: Api) -> None:
    first = await api.add("pods", pod())
    second = await api.add("configmaps", config_map())
    await api.post(api.at("pods", "web", "binding"), binding("web"))
    third = await api.read("pods", "web")
    versions = [int(found["metadata"]["resourceVersion"]) for found in (first, second, third)]
    assert versions == sorted(set(versions))


@pytest.mark.parametrize(
    ("patch", "replicas"), [({"spec": {"replicas": 3}}, 3), ({"spec": {"replicas": 0}}, None)], ids=["3", "0"]
)
async def test_the_scale_of_a_workload(api: Api, patch: Body, replicas: int | None) -> None:
    made = await api.add("deployments", deployment(replicas=0, paused=True))
    scale = await api.change("deployments", "shop/scale", patch)
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["metadata"]["uid"] == made["metadata"]["uid"]
    assert scale["spec"].get("replicas") == replicas
    assert scale["status"]["selector"] == "app=shop"


async def test_a_scale_below_zero_is_refused(api: Api) -> None:
    await api.add("deployments", deployment())
    answer = await api.patch(api.at("deployments", "shop", "scale"), {"spec": {"replicas": -1}})
    assert answer.message == (
        'Scale.autoscaling "shop" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0'
    )


@pytest.mark.parametrize("other", ["other://b", None])
async def test_a_node_that_has_a_provider_keeps_it(default: Api, other: str | None) -> None:
    await default.add("nodes", {"metadata": {"name": "provided"}})
    path = default.at("nodes", "provided")
    try:
        (await default.patch(path, {"spec": {"providerID": "one://a"}})).ok()
        (await default.patch(path, {"spec": {"providerID": "one://a"}})).ok()
        refused = await default.patch(path, {"spec": {"providerID": other}})
        assert (refused.status, "spec.providerID" in refused.message) == (422, True)
    finally:
        await default.delete(path)
