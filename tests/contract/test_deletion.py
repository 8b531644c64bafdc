"""Deleting: grace, finalizers, preconditions, propagation, collections, namespaces."""

from typing import Any

import pytest

from tests.contract.client import STRATEGIC, Api, Body, causes, config_map, pod


async def running(api: Api, name: str = "web", **meta: Any) -> Body:
    """A pod on a node that nobody plays."""
    made = await api.add("pods", pod(name, **meta))
    await api.bound(name)
    return made


async def test_a_pod_that_runs_nowhere_is_gone_at_once(api: Api) -> None:
    await api.add("pods", pod())
    last = (await api.delete(api.at("pods", "web"))).ok()
    assert (last["kind"], last["metadata"]["deletionGracePeriodSeconds"]) == ("Pod", 0)
    assert (await api.get(api.at("pods", "web"))).status == 404


@pytest.mark.parametrize(
    ("phase", "options", "grace"),
    [
        ("Running", None, 30),
        ("Running", {"gracePeriodSeconds": 5}, 5),
        ("Running", {"gracePeriodSeconds": -1}, 1),
        ("Running", {"gracePeriodSeconds": 0}, None),
        ("Succeeded", None, None),
        ("Failed", {"gracePeriodSeconds": 5}, None),
    ],
)
async def test_a_bound_pod_gets_its_grace(api: Api, phase: str, options: Body | None, grace: int | None) -> None:
    await running(api)
    await api.change("pods", "web/status", {"status": {"phase": phase}})
    (await api.delete(api.at("pods", "web"), options)).ok()
    answer = await api.get(api.at("pods", "web"))
    if grace is None:
        assert answer.status == 404
        return
    meta = answer.ok()["metadata"]
    assert (meta["deletionGracePeriodSeconds"], "deletionTimestamp" in meta) == (grace, True)


@pytest.mark.parametrize(
    ("first", "second", "grace"), [(None, 5, 5), (None, 60, 30), (None, None, 30), (300, 5, 5), (300, None, 300)]
)
async def test_grace_can_be_shortened_but_not_lengthened(
    api: Api, first: int | None, second: int | None, grace: int
) -> None:
    await running(api)
    for given in (first, second):
        options = None if given is None else {"gracePeriodSeconds": given}
        left = (await api.delete(api.at("pods", "web"), options)).ok()
    assert left["metadata"]["deletionGracePeriodSeconds"] == grace


async def test_the_name_of_a_terminating_pod_is_taken(api: Api) -> None:
    await running(api)
    (await api.delete(api.at("pods", "web"))).ok()
    answer = await api.post(api.at("pods"), pod())
    assert (answer.status, answer.reason) == (409, "AlreadyExists")
    assert answer.message == 'object is being deleted: pods "web" already exists'


async def test_a_terminating_pod_still_takes_updates(api: Api) -> None:
    await running(api)
    (await api.delete(api.at("pods", "web"))).ok()
    assert (await api.change("pods", "web", {"metadata": {"labels": {"a": "b"}}}))["metadata"]["labels"] == {"a": "b"}


@pytest.mark.parametrize("resource", ["pods", "configmaps"])
async def test_a_finalizer_holds_an_object(api: Api, resource: str) -> None:
    body = pod("x", finalizers=["a.io/x"]) if resource == "pods" else config_map("x", finalizers=["a.io/x"])
    await api.add(resource, body)
    (await api.delete(api.at(resource, "x"))).ok()
    (await api.delete(api.at(resource, "x"), {"gracePeriodSeconds": 0})).ok()
    assert "deletionTimestamp" in (await api.read(resource, "x"))["metadata"]
    more = await api.patch(api.at(resource, "x"), {"metadata": {"finalizers": ["a.io/x", "a.io/y"]}})
    assert causes(more) == {
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"a.io/y"}'
    }
    (await api.patch(api.at(resource, "x"), {"metadata": {"finalizers": None}})).ok()
    assert (await api.get(api.at(resource, "x"))).status == 404


async def test_a_deletion_answers_with_a_status_or_with_what_is_left(api: Api) -> None:
    made = await api.add("configmaps", config_map())
    answer = (await api.delete(api.at("configmaps", "settings"))).ok()
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"] == {"name": "settings", "kind": "configmaps", "uid": made["metadata"]["uid"]}
    await api.add("configmaps", config_map("held", finalizers=["a.io/x"]))
    assert (await api.delete(api.at("configmaps", "held"))).ok()["kind"] == "ConfigMap"


@pytest.mark.parametrize(
    ("guard", "words"),
    [
        (
            {"uid": "z"},
            'Operation cannot be fulfilled on Pod "web": the UID in the precondition (z) does not match the UID in rec',
        ),
        (
            {"resourceVersion": "1"},
            'Operation cannot be fulfilled on Pod "web": the ResourceVersion in the precondition (1) does not match',
        ),
    ],
    ids=["uid", "version"],
)
async def test_a_deletion_of_another_state_is_refused(api: Api, guard: Body, words: str) -> None:
    await api.add("pods", pod())
    answer = await api.delete(api.at("pods", "web"), {"preconditions": guard})
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert words in answer.message
    assert (await api.get(api.at("pods", "web"))).status == 200


async def test_a_deletion_of_this_state_is_done(api: Api) -> None:
    meta = (await api.add("pods", pod()))["metadata"]
    guard = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    assert (await api.delete(api.at("pods", "web"), {"preconditions": guard})).status == 200


@pytest.mark.parametrize(
    ("body", "query", "status", "message"),
    [
        (
            {"propagationPolicy": "X"},
            {},
            422,
            'propagationPolicy: Unsupported value: "X": supported values: "Foreground", "Background", "Orphan", "nil"',
        ),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, {}, 422, "cannot be both set"),
        pytest.param(
            {"dryRun": ["X"]},
            {},
            422,
            'dryRun: Unsupported value: ["X"]: supported values: "All"',
            marks=pytest.mark.since("1.34"),
        ),
        pytest.param(
            {"gracePeriodSeconds": "x"},
            {},
            400,
            "cannot unmarshal string into Go struct field",
            marks=pytest.mark.since("1.35"),
        ),
        (None, {"gracePeriodSeconds": "x"}, 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        pytest.param(
            {"kind": "Pod", "apiVersion": "v1"},
            {},
            400,
            'no kind "Pod" is registered',
            marks=pytest.mark.since("1.35"),
        ),
        pytest.param([], {}, 400, "couldn't get version/kind; json parse error", marks=pytest.mark.since("1.35")),
    ],
    ids=["policy", "both", "dry run", "grace", "grace in query", "a pod", "a list"],
)
async def test_options_that_cannot_be_read_delete_nothing(
    api: Api, body: Any, query: dict[str, str], status: int, message: str
) -> None:
    await api.add("pods", pod())
    answer = await api.delete(api.at("pods", "web"), body, **query)
    assert answer.status == status
    assert message in answer.message
    assert (await api.get(api.at("pods", "web"))).status == 200


async def test_what_is_not_there_is_not_deleted(default: Api) -> None:
    answer = await default.delete(default.at("pods", "none"))
    assert (answer.status, answer.message) == (404, 'pods "none" not found')


async def test_a_collection_is_deleted_by_selector(api: Api) -> None:
    for name in "abc":
        await api.add("pods", pod(name, labels={"group": "x" if name < "c" else "y"}))
    gone = (await api.delete(api.at("pods"), labelSelector="group=x")).ok()
    assert (gone["kind"], [item["metadata"]["name"] for item in gone["items"]]) == ("PodList", ["a", "b"])
    assert await api.names("pods") == ["c"]


@pytest.mark.parametrize(("policy", "finalizers"), [("Foreground", ["foregroundDeletion"]), ("Orphan", ["orphan"])])
async def test_propagation_is_a_finalizer_until_it_is_done(api: Api, policy: str, finalizers: list[str]) -> None:
    await api.add("configmaps", config_map(finalizers=["a.io/x"]))
    left = (await api.delete(api.at("configmaps", "settings"), {"propagationPolicy": policy})).ok()
    assert sorted(left["metadata"]["finalizers"]) == sorted(["a.io/x", *finalizers])
    let_go = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.io/x"]}}
    await api.change("configmaps", "settings", let_go, STRATEGIC)
    await api.gone("configmaps", "settings")


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
async def test_what_an_object_owns_goes_with_it_or_stays(api: Api, policy: str) -> None:
    owner = await api.add("configmaps", config_map("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    await api.add("configmaps", config_map("owned", ownerReferences=[reference | {"blockOwnerDeletion": True}]))
    (await api.delete(api.at("configmaps", "owner"), {"propagationPolicy": policy})).ok()
    await api.gone("configmaps", "owner")
    if policy == "Orphan":
        assert "ownerReferences" not in (await api.read("configmaps", "owned"))["metadata"]
    else:
        await api.gone("configmaps", "owned")


async def test_an_object_whose_owner_is_not_there_goes(api: Api) -> None:
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "never",
        "uid": "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
    }
    await api.add("configmaps", config_map("orphan", ownerReferences=[reference]))
    await api.gone("configmaps", "orphan")


async def test_a_namespace_goes_with_all_that_is_in_it(api: Api) -> None:
    held = f"{api.namespace}-held"
    await api.make("/api/v1/namespaces", {"metadata": {"name": held}})
    await api.make(f"/api/v1/namespaces/{held}/configmaps", config_map("x", finalizers=["a.io/x"]))
    left = (await api.delete(f"/api/v1/namespaces/{held}")).ok()
    assert (left["kind"], left["status"]["phase"]) == ("Namespace", "Terminating")
    refused = await api.post(f"/api/v1/namespaces/{held}/configmaps", config_map("late"))
    assert (refused.status, refused.message) == (
        403,
        f'configmaps "late" is forbidden: unable to create new content in namespace {held} '
        "because it is being terminated",
    )
    assert refused.body["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": f"namespace {held} is being terminated",
            "field": "metadata.namespace",
        }
    ]
    path = f"/api/v1/namespaces/{held}/configmaps/x"
    (await api.patch(path, {"metadata": {"finalizers": None}})).ok()
    await api.gone("namespaces", held)


async def test_the_first_namespaces_stay(default: Api) -> None:
    answer = await default.delete("/api/v1/namespaces/default")
    assert (answer.status, answer.message) == (
        403,
        'namespaces "default" is forbidden: this namespace may not be deleted',
    )
