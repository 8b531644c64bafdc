"""Volumes, claims, classes and drivers: listed and watched as agents do, with the defaults that placement reads."""

from typing import Any

import pytest

from tests.contract.client import Api, Body

CASES: dict[str, tuple[Body, Body]] = {
    "persistentvolumes": (
        {
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "none-of-them",
                "csi": {"driver": "csi.example.com", "volumeHandle": "h"},
            }
        },
        {"volumeMode": "Filesystem"},
    ),
    "persistentvolumeclaims": (
        {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "none-of-them",
            }
        },
        {"volumeMode": "Filesystem"},
    ),
    "storageclasses": ({"provisioner": "example.com/p"}, {"volumeBindingMode": "Immediate"}),
    "csidrivers": ({"spec": {}}, {"storageCapacity": False}),
    "csinodes": (
        {"spec": {"drivers": [{"name": "a", "nodeID": "x", "topologyKeys": [], "allocatable": {"count": 3}}]}},
        {},
    ),
    "csistoragecapacities": ({"storageClassName": "a", "capacity": "1Gi", "nodeTopology": {}}, {}),
    "volumeattachments": (
        {"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "pv"}}},
        {},
    ),
}


def named(api: Api, body: Body) -> Body:
    """The object under a name that no other case has, since most of these kinds have no namespace."""
    return {"metadata": {"name": f"{api.namespace}-x"}, **body}


@pytest.mark.parametrize("resource", CASES)
async def test_objects_of_storage_are_listed_and_watched(api: Api, resource: str) -> None:
    body, defaults = CASES[resource]
    since = str((await api.read(resource))["metadata"]["resourceVersion"])
    made = await api.add(resource, named(api, body))
    name = made["metadata"]["name"]
    told = await api.told(resource, since, lambda event: bool(event["object"]["metadata"]["name"] == name))
    assert (told["type"], told["object"]["metadata"]["uid"]) == ("ADDED", made["metadata"]["uid"])
    assert name in await api.names(resource)
    filled: dict[str, Any] = made.get("spec", {}) | made
    assert {key: filled.get(key) for key in defaults} == defaults
    (await api.delete(api.at(resource, name))).ok()
