"""Listing: pages, versions, selectors and the forms of an answer."""

import pytest

from tests.contract.client import METADATA, METADATA_LIST, TABLE, Api, pod, short

LABELS = {"a": {"app": "x", "tier": "1"}, "b": {"app": "x", "tier": "2"}, "c": {"app": "y"}, "d": {}}


async def four(api: Api) -> None:
    for name, labels in LABELS.items():
        await api.add("pods", pod(name, labels=labels))


async def test_items_of_a_list_do_not_repeat_their_kind(api: Api) -> None:
    await four(api)
    listed = await api.read("pods")
    assert (listed["kind"], listed["apiVersion"]) == ("PodList", "v1")
    assert [item["metadata"]["name"] for item in listed["items"]] == list("abcd")
    assert all("kind" not in item and "apiVersion" not in item for item in listed["items"])


@pytest.mark.parametrize(
    ("resource", "kind", "version"),
    [
        ("deployments", "DeploymentList", "apps/v1"),
        ("jobs", "JobList", "batch/v1"),
        ("leases", "LeaseList", "coordination.k8s.io/v1"),
        ("new-events", "EventList", "events.k8s.io/v1"),
    ],
)
async def test_an_empty_list_is_a_list(api: Api, resource: str, kind: str, version: str) -> None:
    listed = await api.read(resource)
    assert (listed["kind"], listed["apiVersion"], listed["items"]) == (kind, version, [])
    assert int(listed["metadata"]["resourceVersion"]) > 0


async def test_the_pods_of_no_namespace_are_an_empty_list(default: Api) -> None:
    assert (await default.get("/api/v1/namespaces/none/pods")).ok()["items"] == []


async def test_pages_show_one_state_even_while_it_changes(api: Api) -> None:
    await four(api)
    page = (await api.get(api.at("pods"), limit="2")).ok()
    assert ([item["metadata"]["name"] for item in page["items"]], page["metadata"]["remainingItemCount"]) == (
        ["a", "b"],
        2,
    )
    await api.delete(api.at("pods", "c"))
    await api.add("pods", pod("bb"))
    rest = (await api.get(api.at("pods"), limit="2", **{"continue": page["metadata"]["continue"]})).ok()
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c", "d"]
    assert rest["metadata"] == {"resourceVersion": page["metadata"]["resourceVersion"]}


async def test_pages_of_a_selector_do_not_count_what_remains(api: Api) -> None:
    await four(api)
    page = (await api.get(api.at("pods"), limit="1", labelSelector="app=x")).ok()
    assert "continue" in page["metadata"]
    assert "remainingItemCount" not in page["metadata"]


async def test_a_list_from_the_cache_has_no_pages(api: Api) -> None:
    await four(api)
    assert len((await api.get(api.at("pods"), limit="2", resourceVersion="0")).ok()["items"]) == 4


@pytest.mark.parametrize(
    ("query", "status", "reason"),
    [
        ({"resourceVersion": "0"}, 200, ""),
        ({"resourceVersion": "1"}, 200, ""),
        ({"resourceVersion": "999999999"}, 504, "Timeout"),
        pytest.param({"resourceVersion": "x"}, 400, "BadRequest", marks=pytest.mark.since("1.33")),
        pytest.param({"resourceVersion": "-1"}, 400, "BadRequest", marks=pytest.mark.since("1.33")),
        ({"resourceVersion": "1", "resourceVersionMatch": "NotOlderThan"}, 200, ""),
        ({"resourceVersionMatch": "Exact"}, 422, "Invalid"),
        ({"resourceVersionMatch": "NotOlderThan"}, 422, "Invalid"),
        ({"resourceVersion": "0", "resourceVersionMatch": "Exact"}, 422, "Invalid"),
        ({"resourceVersion": "1", "resourceVersionMatch": "Later"}, 422, "Invalid"),
        ({"sendInitialEvents": "true"}, 422, "Invalid"),
        ({"limit": "many"}, 400, "BadRequest"),
        ({"limit": "-1"}, 200, ""),
        ({"limit": "0"}, 200, ""),
        ({"timeoutSeconds": "soon"}, 400, "BadRequest"),
        ({"continue": "%%%"}, 400, "BadRequest"),
        ({"continue": "abcd"}, 400, "BadRequest"),
    ],
    ids=str,
)
async def test_parameters_of_a_list(default: Api, query: dict[str, str], status: int, reason: str) -> None:
    answer = await default.get(default.at("configmaps"), **query)
    assert (answer.status, answer.reason) == (status, reason)


async def test_a_page_is_not_asked_for_at_another_version(api: Api) -> None:
    await four(api)
    token = (await api.get(api.at("pods"), limit="1")).ok()["metadata"]["continue"]
    answer = await api.get(api.at("pods"), resourceVersion="5", **{"continue": token})
    assert (answer.status, answer.message) == (400, "specifying resource version is not allowed when using continue")


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("app=x", "ab"),
        ("app==x,tier=1", "a"),
        ("app!=x", "cd"),
        ("app in (x, y)", "abc"),
        ("app in(x)", "ab"),
        ("app in (,x)", "ab"),
        ("app notin (x)", "cd"),
        ("tier", "ab"),
        ("!tier", "cd"),
        ("tier>1", "b"),
        ("app in (x),tier<2", "a"),
        ("app=", ""),
        ("app in ()", ""),
        ("app=x,app=y", ""),
        ("none.io/key", ""),
        (" app = x ", "ab"),
    ],
)
async def test_label_selectors(api: Api, selector: str, found: str) -> None:
    await four(api)
    assert await api.names("pods", labelSelector=selector) == list(found)


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("app exists", "unable to parse requirement: found 'exists', expected: in, notin, =, ==, !=, gt, lt"),
        ("a!", "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("=x", "found '=', expected: !, identifier, or 'end of string'"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("(a)", "found '(', expected: !, identifier, or 'end of string'"),
        ("a=b,", "found '', expected: identifier after ','"),
        ("a=b,,c=d", "found ',', expected: identifier after ','"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("-a=b", 'unable to parse requirement: <nil>: Invalid value: "-a": name part'),
        pytest.param(
            "a/b/c",
            'unable to parse requirement: <nil>: Invalid value: "a/b/c": a valid label key',
            marks=pytest.mark.since("1.35"),
        ),
        (
            "a=b/c",
            'unable to parse requirement: values[0][a]: Invalid value: "b/c": a valid label must be an empty string',
        ),
        pytest.param("a=" + "y" * 64, "must be no more than 63 bytes", marks=pytest.mark.since("1.35")),
        (
            "a>b",
            "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, "
            "the value must be an integer",
        ),
    ],
)
async def test_a_label_selector_that_cannot_be_read_is_a_400(default: Api, selector: str, message: str) -> None:
    answer = await default.get(default.at("pods"), labelSelector=selector)
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert message in short(answer.message)


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("spec.nodeName=nowhere", "a"),
        ("spec.nodeName==nowhere", "a"),
        ("spec.nodeName=nowhere,", "a"),
        ("spec.nodeName=", "bcd"),
        ("spec.nodeName!=nowhere", "bcd"),
        ("status.phase=Pending,metadata.name=b", "b"),
        ("spec.schedulerName=default-scheduler", "abcd"),
        ("spec.serviceAccountName=other", ""),
        ("spec.restartPolicy=Always,spec.hostNetwork=false", "abcd"),
        ("metadata.namespace=other", ""),
        ("status.podIPs=10.0.0.1", ""),
        ("status.nominatedNodeName=", "abcd"),
        (r"spec.nodeName=a\,b", ""),
    ],
)
async def test_field_selectors(api: Api, selector: str, found: str) -> None:
    await four(api)
    await api.bound("a")
    assert await api.names("pods", fieldSelector=selector) == list(found)


@pytest.mark.parametrize(
    ("resource", "selector", "message"),
    [
        ("pods", "spec.colour=red", "field label not supported: spec.colour"),
        ("pods", "metadata.uid=x", "field label not supported: metadata.uid"),
        ("pods", "spec.nodeName", "invalid selector: 'spec.nodeName'; can't understand 'spec.nodeName'"),
        ("nodes", "spec.podCIDR=x", "field label not supported: spec.podCIDR"),
        ("new-events", "involvedObject.name=a", "field label not supported: involvedObject.name"),
        (
            "deployments",
            "status.replicas=1",
            '"status.replicas" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
    ],
)
async def test_a_field_that_nobody_selects_by_is_a_400(
    default: Api, resource: str, selector: str, message: str
) -> None:
    answer = await default.get(default.at(resource), fieldSelector=selector)
    assert (answer.status, answer.message) == (400, message)


async def test_metadata_alone(api: Api) -> None:
    await api.add("pods", pod())
    listed = (await api.get(api.at("pods"), accept=METADATA_LIST)).ok()
    assert listed["kind"] == "PartialObjectMetadataList"
    assert listed["items"][0].keys() - {"kind", "apiVersion"} == {"metadata"}
    one = (await api.get(api.at("pods", "web"), accept=METADATA)).ok()
    assert (one["kind"], one["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert "spec" not in one


@pytest.mark.parametrize(
    ("accept", "query", "status"),
    [
        (METADATA, {}, 406),
        (TABLE.replace("v=v1", "v=v2").partition(",")[0], {}, 406),
        ("application/json;as=Nothing;v=v1;g=meta.k8s.io", {}, 406),
        ("application/xml,application/json;q=0.5", {}, 200),
        ("*/*", {}, 200),
        (TABLE, {"includeObject": "Bad"}, 400),
    ],
)
async def test_forms_of_an_answer(default: Api, accept: str, query: dict[str, str], status: int) -> None:
    assert (await default.get(default.at("pods"), accept=accept, **query)).status == status
