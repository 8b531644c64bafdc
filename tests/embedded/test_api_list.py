"""Listing over HTTP: pages, versions, selectors and the forms of an answer."""

import pytest

from tests.embedded.api_client import AS_METADATA, AS_TABLE, PODS, ApiClient, Body, binding, node, pod

_ALL = "/api/v1/pods"


def _names(listed: Body) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


async def test_a_list_is_ordered_by_namespace_and_name(client: ApiClient) -> None:
    await client.make("/api/v1/namespaces", {"metadata": {"name": "a"}})
    for path, name in ((PODS, "c"), (PODS, "b"), ("/api/v1/namespaces/a/pods", "z")):
        await client.make(path, pod(name))
    listed = (await client.get(_ALL)).ok()
    assert (listed["kind"], listed["apiVersion"]) == ("PodList", "v1")
    assert _names(listed) == ["z", "b", "c"]
    assert _names((await client.get(PODS)).ok()) == ["b", "c"]


async def test_pages_show_one_state_even_while_it_changes(client: ApiClient) -> None:
    for name in "abcde":
        await client.make(PODS, pod(name))
    page = (await client.get(PODS, limit="2")).ok()
    assert (_names(page), page["metadata"]["remainingItemCount"]) == (["a", "b"], 3)
    (await client.delete(f"{PODS}/c")).ok()
    await client.make(PODS, pod("bb"))
    following = (await client.get(PODS, limit="2", **{"continue": page["metadata"]["continue"]})).ok()
    assert _names(following) == ["c", "d"]
    assert following["metadata"]["resourceVersion"] == page["metadata"]["resourceVersion"]
    last = (await client.get(PODS, limit="2", **{"continue": following["metadata"]["continue"]})).ok()
    assert _names(last) == ["e"]
    assert "continue" not in last["metadata"]


async def test_pages_of_a_selector_do_not_count_what_remains(client: ApiClient) -> None:
    for name in "abc":
        await client.make(PODS, pod(name, labels={"x": "y"}))
    page = (await client.get(PODS, limit="2", labelSelector="x=y")).ok()
    assert "continue" in page["metadata"]
    assert "remainingItemCount" not in page["metadata"]


async def test_a_continue_token_that_is_gone_is_410_and_one_that_is_none_is_400(client: ApiClient) -> None:
    for name in "abc":
        await client.make(PODS, pod(name))
    token = (await client.get(PODS, limit="1")).ok()["metadata"]["continue"]
    other = await client.get(PODS, limit="1", labelSelector="x=y", **{"continue": token})
    assert (other.status, other.reason) == (410, "Expired")
    assert "too old to display a consistent list" in other.message
    assert (await client.get(PODS, **{"continue": "%%%"})).status == 400


@pytest.mark.parametrize(
    ("query", "status", "reason"),
    [
        ({"resourceVersion": "0"}, 200, ""),
        ({"resourceVersion": "1"}, 200, ""),
        ({"resourceVersion": "999999"}, 504, "Timeout"),
        ({"resourceVersion": "1", "resourceVersionMatch": "Exact"}, 410, "Expired"),
        ({"resourceVersion": "1", "resourceVersionMatch": "NotOlderThan"}, 200, ""),
        ({"resourceVersionMatch": "Exact"}, 422, "Invalid"),
        ({"resourceVersion": "0", "resourceVersionMatch": "Exact"}, 422, "Invalid"),
        ({"resourceVersion": "1", "resourceVersionMatch": "Later"}, 422, "Invalid"),
        ({"limit": "many"}, 400, "BadRequest"),
    ],
    ids=str,
)
async def test_versions_of_a_list(client: ApiClient, query: dict[str, str], status: int, reason: str) -> None:
    answer = await client.get(PODS, **query)
    assert (answer.status, answer.reason) == (status, reason)


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("app=x", ["a", "b"]),
        ("app==x,tier=1", ["a"]),
        ("app!=x", ["c", "d"]),
        ("app in (x, y)", ["a", "b", "c"]),
        ("app notin (x)", ["c", "d"]),
        ("tier", ["a", "b"]),
        ("!tier", ["c", "d"]),
        ("tier>1", ["b"]),
        ("app in (x),tier<2", ["a"]),
        ("app=", []),
        ("none.io/key", []),
    ],
)
async def test_label_selectors(client: ApiClient, selector: str, found: list[str]) -> None:
    for name, labels in {
        "a": {"app": "x", "tier": "1"},
        "b": {"app": "x", "tier": "2"},
        "c": {"app": "y"},
        "d": {},
    }.items():
        await client.make(PODS, pod(name, labels=labels))
    assert _names((await client.get(PODS, labelSelector=selector)).ok()) == found


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("spec.nodeName=n1", ["a"]),
        ("spec.nodeName=", ["b"]),
        ("spec.nodeName!=n1", ["b"]),
        ("status.phase=Pending,metadata.name=b", ["b"]),
        ("spec.schedulerName=default-scheduler", ["a", "b"]),
        ("metadata.namespace=other", []),
    ],
)
async def test_field_selectors(client: ApiClient, selector: str, found: list[str]) -> None:
    for name in "ab":
        await client.make(PODS, pod(name))
    (await client.post(f"{PODS}/a/binding", binding("a", "n1"))).ok()
    assert _names((await client.get(PODS, fieldSelector=selector)).ok()) == found


async def test_an_unscheduled_node_is_found_by_field(client: ApiClient) -> None:
    await client.make("/api/v1/nodes", node("open"))
    await client.make("/api/v1/nodes", node("shut"))
    (await client.patch("/api/v1/nodes/shut", {"spec": {"unschedulable": True}})).ok()
    found = {
        value: (await client.get("/api/v1/nodes", fieldSelector=f"spec.unschedulable={value}")).ok()
        for value in ("true", "false")
    }
    assert {value: _names(listed) for value, listed in found.items()} == {"true": ["shut"], "false": ["open"]}


@pytest.mark.parametrize("selector", ["a in b", "a in (b", "=x", "a=b,", "a b", "!", "-a=b", "a=b c"])
async def test_a_label_selector_that_cannot_be_read_is_a_400(client: ApiClient, selector: str) -> None:
    answer = await client.get(PODS, labelSelector=selector)
    assert (answer.status, answer.reason) == (400, "BadRequest")


async def test_a_table_has_the_columns_kubectl_shows(client: ApiClient) -> None:
    await client.make(PODS, pod("web"))
    table = (await client.get(PODS, accept=AS_TABLE)).ok()
    names = [(column["name"], column["priority"]) for column in table["columnDefinitions"]]
    assert names == [
        *(("Name", 0), ("Ready", 0), ("Status", 0), ("Restarts", 0), ("Age", 0)),
        *(("IP", 1), ("Node", 1), ("Nominated Node", 1), ("Readiness Gates", 1)),
    ]
    row = table["rows"][0]
    assert row["cells"][:4] == ["web", "0/1", "Pending", "0"]
    assert row["cells"][5:] == ["<none>"] * 4
    assert row["object"]["kind"] == "PartialObjectMetadata"
    whole = (await client.get(PODS, accept=AS_TABLE, includeObject="Object")).ok()
    assert whole["rows"][0]["object"]["spec"]["containers"][0]["name"] == "main"
    bare = (await client.get(PODS, accept=AS_TABLE, includeObject="None")).ok()
    assert bare["rows"][0]["object"] is None


async def test_metadata_alone_is_a_list_of_metadata(client: ApiClient) -> None:
    await client.make(PODS, pod("web"))
    listed = (await client.get(PODS, accept=AS_METADATA)).ok()
    assert listed["kind"] == "PartialObjectMetadataList"
    assert listed["items"][0].keys() == {"kind", "apiVersion", "metadata"}


async def test_a_form_nobody_serves_is_a_406(client: ApiClient) -> None:
    assert (await client.get(PODS, accept="application/vnd.kubernetes.protobuf")).status == 406
