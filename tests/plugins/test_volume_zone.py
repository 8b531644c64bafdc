"""VolumeZone: kube-scheduler's published cases, restated."""

import pytest

from dispatcher.scheduling.framework import SKIP
from shared.model.names import REGION, ZONE
from tests.builders import node, pod
from tests.plugins.asking import make, reasons, refused, state_of
from tests.plugins.storage import NOW, bound, claim, ephemeral, storing, using, volume

WHY = "node(s) had no available volume zone"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"


@pytest.mark.parametrize(
    ("labels", "on_node", "fits"),
    [
        pytest.param({ZONE: "us-west1-a"}, {}, True, id="a node that is nowhere"),
        pytest.param({ZONE: "us-west1-a"}, {ZONE: "us-west1-a", "uselessLabel": "none"}, True, id="same zone"),
        pytest.param({REGION: "us-west1"}, {REGION: "us-west1", "uselessLabel": "none"}, True, id="same region"),
        pytest.param({REGION: "us-west1"}, {REGION: "no_us-west1"}, False, id="another region"),
        pytest.param({ZONE: "us-west1-a"}, {ZONE: "no_us-west1-a"}, False, id="another zone"),
        pytest.param({ZONE: "us-west1-a"}, {REGION: "us-west1"}, False, id="the node has a region alone"),
        pytest.param({ZONE: "us-west1-b__us-west1-a"}, {ZONE: "us-west1-a"}, True, id="one of two zones"),
        pytest.param({ZONE: "us-west1-b__us-west1-c"}, {ZONE: "us-west1-a"}, False, id="none of two zones"),
        pytest.param({ZONE: "us-west1-b__"}, {ZONE: "us-west1-a"}, True, id="a label that cannot be read"),
        pytest.param({OLD_ZONE: "us-west1-a"}, {ZONE: "us-west1-a"}, True, id="old label, new node"),
        pytest.param({OLD_ZONE: "us-west1-a"}, {ZONE: "us-west1-b"}, False, id="old label, new node elsewhere"),
        pytest.param(
            {OLD_ZONE: "us-west1-a"}, {OLD_ZONE: "us-west1-b", ZONE: "us-west1-a"}, False, id="the old one wins"
        ),
        pytest.param({ZONE: "us-west1-a"}, {OLD_ZONE: "us-west1-a"}, False, id="new label, old node"),
        pytest.param({OLD_REGION: "us-west1"}, {REGION: "us-west1"}, True, id="old label of region"),
        pytest.param({"team": "x"}, {ZONE: "z"}, True, id="labels of something else"),
    ],
)
def test_a_bound_volume_keeps_its_pod_in_its_zone(labels: dict[str, str], on_node: dict[str, str], fits: bool) -> None:
    state = storing(bound("data", "pv1"), volume("pv1", labels=labels), nodes=(node("n1").label(on_node),))
    asked = state_of(make("VolumeZone"), using("data"), state)
    found = {} if asked is SKIP else reasons(make("VolumeZone"), using("data"), state)
    assert found == ({} if fits else {"n1": WHY})


def test_every_volume_has_a_say() -> None:
    state = storing(
        bound("one", "pv1"),
        bound("two", "pv2"),
        volume("pv1", labels={ZONE: "a__b"}),
        volume("pv2", labels={ZONE: "b__c"}),
        nodes=tuple(node(zone).labels(zone=zone) for zone in "abc"),
    )
    assert reasons(make("VolumeZone"), using("one", "two"), state) == {"a": WHY, "c": WHY}


@pytest.mark.parametrize(
    ("found", "says"),
    [
        pytest.param((), 'persistentvolumeclaim "data" not found', id="no claim"),
        pytest.param((bound("data", "pv1"),), 'persistentvolume "pv1" not found', id="no volume"),
        pytest.param(
            (claim("data", storage_class=None),),
            "PersistentVolumeClaim had no pv name and storageClass name",
            id="no class",
        ),
        pytest.param(
            (claim("data", storage_class="x"),), 'storageclass.storage.k8s.io "x" not found', id="unknown class"
        ),
        pytest.param(
            (claim("data", storage_class=NOW),), "PersistentVolume had no name", id="bound at once, but not yet"
        ),
    ],
)
def test_a_claim_that_will_get_no_volume_here_refuses_the_pod(found: tuple[object, ...], says: str) -> None:
    assert refused(make("VolumeZone"), using("data"), storing(*found)) == says  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "asking",
    [
        pytest.param(pod(), id="no volumes"),
        pytest.param(using("data"), id="a claim that waits for its pod"),
        pytest.param(ephemeral(), id="a claim made for the pod"),
    ],
)
def test_it_has_nothing_to_say_without_bound_volumes(asking: object) -> None:
    assert state_of(make("VolumeZone"), asking, storing(claim("data"))) is SKIP  # type: ignore[arg-type]
