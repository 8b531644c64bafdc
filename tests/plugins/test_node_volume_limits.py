"""NodeVolumeLimits: kube-scheduler's published cases, restated."""

from typing import Any

import pytest

from dispatcher.scheduling.framework import SKIP
from shared.model.objects import AnyObject, CSIDriver, CSINode, PersistentVolume, StorageClass, VolumeAttachment
from shared.model.pod import Volume
from tests.builders import PodBuilder, fleet, pod, put
from tests.plugins.asking import make, reasons, state_of
from tests.plugins.storage import WAIT, bound, claim, keep, storing, using, volume

WHY = "node(s) exceed max volume count"
EBS, OTHER = "ebs.csi.aws.com", "csi.example.com"


def csi(name: str, driver: str = EBS, **fields: Any) -> PersistentVolume:
    return volume(name, driver=driver, handle=f"h-{name}", **fields)


def limit(count: int, driver: str = EBS, node: str = "n1") -> CSINode:
    return CSINode(node, {driver: count}, (driver,))


BOUND: tuple[AnyObject, ...] = (*(bound(f"c{at}", f"pv{at}") for at in range(4)), *(csi(f"pv{at}") for at in range(4)))


@pytest.mark.parametrize(
    ("asking", "there", "found", "fits"),
    [
        pytest.param(
            using("c1"), [using("c2"), using("c3")], (*BOUND, limit(4)), True, id="fits when capacity is >= new"
        ),
        pytest.param(
            using("c1"), [using("c2"), using("c3")], (*BOUND, limit(2)), False, id="does not fit when it is less"
        ),
        pytest.param(using("c1", "c0"), [using("c2")], (*BOUND, limit(2)), False, id="two new ones"),
        pytest.param(using("c1"), [using("c1"), using("c2")], (*BOUND, limit(2)), True, id="there already"),
        pytest.param(using("c1", "c1"), [using("c2")], (*BOUND, limit(2)), True, id="one claim named twice"),
        pytest.param(using("c1"), [using("c2"), using("c3")], BOUND, True, id="no limits at all"),
        pytest.param(using("c1"), [using("c2")], (*BOUND, limit(0, OTHER)), True, id="limits of another driver"),
        pytest.param(using("c1"), [], (*BOUND, limit(0)), False, id="a limit of none"),
        pytest.param(
            using("new"),
            [using("c2")],
            (*BOUND, claim("new"), StorageClass(WAIT, EBS, True), limit(1)),
            False,
            id="to be made",
        ),
        pytest.param(
            using("new"), [using("c2")], (*BOUND, claim("new", storage_class=""), limit(1)), True, id="of no class"
        ),
        pytest.param(
            using("new"),
            [using("lost")],
            (claim("new"), claim("lost", volume="gone"), StorageClass(WAIT, EBS, True), limit(1)),
            False,
            id="a volume that is gone counts by its class",
        ),
        pytest.param(
            using("c1"),
            [using("c2", namespace="elsewhere")],
            (*BOUND, limit(1)),
            True,
            id="unknown claims do not count",
        ),
    ],
)
def test_no_node_attaches_more_volumes_than_it_can(
    asking: PodBuilder, there: list[PodBuilder], found: tuple[AnyObject, ...], fits: bool
) -> None:
    state = storing(*found)
    for at, one in enumerate(there):
        put(state, one.uid(f"old-{at}"), "a", "n1")
    asked = state_of(make("NodeVolumeLimits"), asking, state)
    assert (asked is SKIP or reasons(make("NodeVolumeLimits"), asking, state) == {}) == fits


REQUIRED = CSIDriver(EBS, required=True)
LACKING = f"{EBS} CSI driver is not installed on the node"


@pytest.mark.parametrize(
    ("found", "why"),
    [
        pytest.param((REQUIRED,), LACKING, id="a node without a CSINode"),
        pytest.param((REQUIRED, CSINode("n1", {}, (OTHER,))), LACKING, id="with other drivers alone"),
        pytest.param((REQUIRED, limit(1, EBS, "n2")), LACKING, id="on another node"),
        pytest.param((REQUIRED, limit(0, OTHER)), LACKING, id="where another driver has a limit"),
        pytest.param((REQUIRED, CSINode("n1", {}, (EBS,))), "", id="with it, without a limit"),
        pytest.param((REQUIRED, limit(1)), "", id="with it, and room"),
        pytest.param((REQUIRED, limit(0)), WHY, id="with it, and no room"),
        pytest.param((CSIDriver(EBS),), "", id="whose driver does not ask for it"),
        pytest.param((CSIDriver(OTHER, required=True),), "", id="whose pod has no volume of the driver that does"),
    ],
)
@pytest.mark.parametrize("volumes", [using("c1"), pod().set(volumes=(Volume("awsElasticBlockStore", "vol-1"),))])
def test_a_driver_may_keep_pods_off_nodes_that_lack_it(
    volumes: PodBuilder, found: tuple[AnyObject, ...], why: str
) -> None:
    state = storing(*BOUND, *found)
    assert reasons(make("NodeVolumeLimits"), volumes, state).get("n1", "") == why


def test_it_is_the_drivers_of_the_pods_own_cluster_that_ask_for_it() -> None:
    state = fleet(a=("n1",), b=("n2",))
    keep(keep(state, *BOUND), REQUIRED, cluster="b")
    assert state_of(make("NodeVolumeLimits"), using("c1"), state) is SKIP
    assert reasons(make("NodeVolumeLimits"), using("c1"), keep(state, REQUIRED)) == {"a/n1": LACKING}


def test_of_two_drivers_that_a_node_lacks_the_first_by_name_is_told() -> None:
    found = (*BOUND, bound("c9", "pv9"), csi("pv9", OTHER), REQUIRED, CSIDriver(OTHER, required=True))
    lacking = f"{OTHER} CSI driver is not installed on the node"
    assert reasons(make("NodeVolumeLimits"), using("c1", "c9"), storing(*found))["n1"] == lacking


def test_a_claim_without_a_volume_needs_the_driver_of_its_class() -> None:
    found = (claim("new"), StorageClass(WAIT, EBS, True), REQUIRED)
    assert reasons(make("NodeVolumeLimits"), using("new"), storing(*found))["n1"] == LACKING


def attached(at: int, volume: str, attacher: str = EBS, node: str = "n1") -> VolumeAttachment:
    return VolumeAttachment(f"va{at}", node, volume, attacher)


@pytest.mark.parametrize(
    ("attachments", "fits"),
    [
        pytest.param((attached(0, "pv0"), attached(1, "pv3")), False, id="two that no pod uses"),
        pytest.param((attached(0, "pv0"),), True, id="one of them"),
        pytest.param((attached(0, "pv2"), attached(1, "pv2")), True, id="the one that a pod uses"),
        pytest.param((attached(0, "pv0", OTHER), attached(1, "pv3", OTHER)), True, id="of another driver"),
        pytest.param((attached(0, "pv0", node="n2"), attached(1, "pv3", node="n2")), True, id="at another node"),
        pytest.param((attached(0, ""), attached(1, "gone"), attached(2, "old")), True, id="of no known CSI volume"),
        pytest.param((attached(0, "pv1"), attached(1, "pv0")), False, id="the wanted one counts while no pod uses it"),
    ],
)
def test_volumes_attached_count_beside_those_in_use(attachments: tuple[VolumeAttachment, ...], fits: bool) -> None:
    in_tree = volume("old", driver=EBS, handle="x", in_tree=True)
    state = storing(*BOUND, in_tree, limit(3), *attachments)
    put(state, using("c2", name="old"), "a", "n1")
    assert (reasons(make("NodeVolumeLimits"), using("c1"), state) == {}) == fits


@pytest.mark.parametrize(
    ("source", "driver"),
    [
        pytest.param(Volume("awsElasticBlockStore", "aws://z/vol-1"), EBS, id="ebs"),
        pytest.param(Volume("gcePersistentDisk", "d"), "pd.csi.storage.gke.io", id="gce"),
        pytest.param(Volume("azureDisk", "/u"), "disk.csi.azure.com", id="azure"),
    ],
)
def test_an_inline_disk_counts_for_the_driver_it_migrates_to(source: Volume, driver: str) -> None:
    asking = pod().set(volumes=(source,))
    assert reasons(make("NodeVolumeLimits"), asking, storing(limit(0, driver))) == {"n1": WHY}
    assert reasons(make("NodeVolumeLimits"), asking, storing(limit(1, driver))) == {}


@pytest.mark.parametrize(
    ("provisioner", "fits"),
    [
        pytest.param("kubernetes.io/aws-ebs", False, id="migrated"),
        pytest.param("kubernetes.io/vsphere-volume", True, id="migrated, but not counted"),
    ],
)
def test_an_in_tree_class_counts_for_the_driver_it_migrates_to(provisioner: str, fits: bool) -> None:
    state = storing(StorageClass("old", provisioner, True), claim("new", storage_class="old"), limit(0))
    asked = state_of(make("NodeVolumeLimits"), using("new"), state)
    assert (asked is SKIP or not reasons(make("NodeVolumeLimits"), using("new"), state)) == fits


def test_inline_kinds_that_migrate_to_nothing_are_no_matter() -> None:
    asking = pod().set(volumes=(Volume("iscsi", "x"),))
    assert state_of(make("NodeVolumeLimits"), asking, storing(limit(0))) is SKIP


@pytest.mark.parametrize(
    "there",
    [
        pytest.param(
            (limit(2), *(VolumeAttachment(f"va{at}", "n1", f"pv{at}", EBS) for at in (1, 2))), id="a full node"
        ),
        pytest.param((CSIDriver(EBS, required=True), limit(9)), id="a driver that is needed"),
    ],
)
def test_where_a_node_has_gone_the_others_are_judged_as_before(there: tuple[AnyObject, ...]) -> None:
    """Its row is there until another node takes it."""
    state = keep(fleet(a=["n1", "n2"], b=["n3"]), *BOUND, *there)
    before = reasons(make("NodeVolumeLimits"), using("c0"), state)
    state.remove_node("b", "n3")
    assert before
    assert reasons(make("NodeVolumeLimits"), using("c0"), state) == before
