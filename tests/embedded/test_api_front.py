"""The front door: who may come in, discovery, health, and what is served to kubectl about itself."""

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.typedefs import Handler

from localfleet.controlplane import binaries
from localfleet.embedded.apiserver import schema_build
from localfleet.embedded.http import make_app
from tests.embedded.api_client import PODS, TOKEN, ApiClient, Body, pod, serving

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


@pytest.mark.parametrize("sent", ["", "Bearer wrong", f"Basic {TOKEN}", f"bearer {TOKEN}x"])
async def test_whoever_has_no_token_is_refused(client: ApiClient, sent: str) -> None:
    async with client.session.get(client.url + PODS, headers={"Authorization": sent}) as response:
        assert response.status == 401
        assert (await response.json())["reason"] == "Unauthorized"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez", "/version"])
async def test_health_and_version_are_open(client: ApiClient, path: str) -> None:
    async with client.session.get(client.url + path, headers={"Authorization": ""}) as response:
        assert response.status == 200


async def test_its_version_and_its_fields_are_of_the_kubernetes_that_real_planes_run(client: ApiClient) -> None:
    programs = binaries.module("kube-apiserver").version
    assert (await client.get("/version")).ok()["gitVersion"] == programs
    schema = json.loads((Path(schema_build.__file__).with_name("schema.json")).read_text())
    assert schema["source"].startswith(f"Kubernetes {programs} "), "build it anew: python -m " + schema_build.__name__


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_a_verb_that_makes_no_sense_is_a_405(client: ApiClient, method: str) -> None:
    answer = await client.call(method, PODS, {})
    assert (answer.status, answer.reason) == (405, "MethodNotAllowed")


async def test_old_and_aggregated_discovery_tell_the_same(client: ApiClient) -> None:
    old: set[tuple[str, str]] = set()
    groups = [group["preferredVersion"]["groupVersion"] for group in (await client.get("/apis")).ok()["groups"]]
    for version in ["v1", *groups]:
        listed = (await client.get(f"/api{'s' if '/' in version else ''}/{version}")).ok()
        old |= {(version, found["name"]) for found in listed["resources"]}
    new: set[tuple[str, str]] = set()
    for root in ("/api", "/apis"):
        for item in (await client.get(root, accept=_AGGREGATED)).ok()["items"]:
            for version in item["versions"]:
                name = "/".join(filter(None, (item["metadata"].get("name", ""), version["version"])))
                for found in version["resources"]:
                    new.add((name, found["resource"]))
                    new |= {
                        (name, f"{found['resource']}/{sub['subresource']}") for sub in found.get("subresources", [])
                    }
    assert new == old
    assert {("v1", "pods/binding"), ("apps/v1", "deployments/scale"), ("metrics.k8s.io/v1beta1", "nodes")} <= new


async def test_every_listed_resource_can_be_listed(client: ApiClient) -> None:
    for item in (await client.get("/apis", accept=_AGGREGATED)).ok()["items"]:
        for version in item["versions"]:
            for found in version["resources"]:
                if "list" in found["verbs"]:
                    path = f"/apis/{item['metadata']['name']}/{version['version']}/{found['resource']}"
                    assert (await client.get(path)).ok()["kind"].endswith("List")


async def test_openapi_documents_are_where_the_index_says(client: ApiClient) -> None:
    index = (await client.get("/openapi/v3")).ok()["paths"]
    document = (await client.get(index["apis/apps/v1"]["serverRelativeURL"])).ok()
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"]["kind"] == "Deployment"
    assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]


async def test_who_has_the_token_may_do_everything(client: ApiClient) -> None:
    review = await client.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": {}})
    assert (review.status, review.body["status"]["allowed"]) == (201, True)
    whoami = await client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert whoami.ok()["status"]["userInfo"]["username"] == "embedded:admin"


async def test_faults_can_be_put_in_front() -> None:
    @web.middleware
    async def broken(request: web.Request, handler: Handler) -> web.StreamResponse:
        return web.Response(status=500) if request.method == "POST" else await handler(request)

    async with serving() as (_, api):
        app = make_app(api, TOKEN, middlewares=[broken])
        async with TestClient(TestServer(app), headers={"Authorization": f"Bearer {TOKEN}"}) as client:
            assert (await client.post(PODS, json=pod())).status == 500
            assert (await client.get(PODS)).status == 200


REVIEW = "/apis/authorization.k8s.io/v1/{}subjectaccessreviews"


@pytest.mark.parametrize("who", ["", "self"])
@pytest.mark.parametrize(
    "spec",
    [
        "x",
        [1],
        {"resourceAttributes": "x"},
        {"resourceAttributes": {"verb": ["list"]}},
        {"groups": "system:masters-no"},
    ],
)
async def test_a_review_of_another_form_is_a_bad_request(client: ApiClient, who: str, spec: Any) -> None:
    answer = await client.post(REVIEW.format(who), {"spec": spec})
    assert (answer.status, answer.reason) == (400, "BadRequest"), answer.body


@pytest.mark.parametrize(
    ("attributes", "allowed"),
    [
        ({"resourceAttributes": {"verb": "list", "resource": "pods"}}, True),
        ({"resourceAttributes": {"verb": "list", "resource": "*"}}, False),
        ({"resourceAttributes": {"verb": "list", "group": "*", "resource": "pods"}}, False),
        ({"nonResourceAttributes": {"verb": "get", "path": "/version"}}, True),
        ({"nonResourceAttributes": {"verb": "delete", "path": "/version"}}, False),
    ],
)
async def test_who_may_only_look_is_told_no_more_than_that(attributes: Body, allowed: bool) -> None:
    async with serving() as (_, api):
        app = make_app(api, TOKEN, "looks")
        async with TestClient(TestServer(app), headers={"Authorization": "Bearer looks"}) as client:
            answer = await client.post(REVIEW.format("self"), json={"spec": attributes})
            assert (await answer.json())["status"]["allowed"] is allowed
