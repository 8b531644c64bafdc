"""VolumeRestrictions: kube-scheduler's published cases, restated."""

import pytest

from dispatcher.scheduling.framework import SKIP
from shared.model.pod import Volume
from tests.builders import pod, put
from tests.plugins.asking import make, reasons, refused, state_of
from tests.plugins.storage import bound, claim, ephemeral, storing, using, volume

DISK = "node(s) had no available disk"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
ALONE = ("ReadWriteOncePod",)


@pytest.mark.parametrize(
    ("there", "wanted", "conflict"),
    [
        pytest.param(("gcePersistentDisk", "foo"), ("gcePersistentDisk", "foo"), True, id="gce: same disk"),
        pytest.param(("gcePersistentDisk", "foo"), ("gcePersistentDisk", "bar"), False, id="gce: another disk"),
        pytest.param(("gcePersistentDisk", "foo", True), ("gcePersistentDisk", "foo", True), False, id="gce: readers"),
        pytest.param(("gcePersistentDisk", "foo", True), ("gcePersistentDisk", "foo"), True, id="gce: one writer"),
        pytest.param(("awsElasticBlockStore", "foo"), ("awsElasticBlockStore", "foo"), True, id="ebs: same volume"),
        pytest.param(("awsElasticBlockStore", "foo"), ("awsElasticBlockStore", "bar"), False, id="ebs: another"),
        pytest.param(
            ("awsElasticBlockStore", "foo", True), ("awsElasticBlockStore", "foo", True), True, id="ebs: even readers"
        ),
        pytest.param(
            ("iscsi", "iqn.2016-12.server:storage"), ("iscsi", "iqn.2016-12.server:storage"), True, id="iscsi"
        ),
        pytest.param(
            ("iscsi", "iqn.2016-12.server:storage"), ("iscsi", "iqn.2017-12.server:storage"), False, id="iscsi 2"
        ),
        pytest.param(("iscsi", "x", True), ("iscsi", "x", True), False, id="iscsi: readers"),
        pytest.param(("azureDisk", "foo"), ("azureDisk", "foo"), False, id="azure is not looked at"),
        pytest.param(("iscsi", "foo"), ("gcePersistentDisk", "foo"), False, id="kinds differ"),
    ],
)
def test_an_inline_disk_bears_one_writer(there: tuple[str, ...], wanted: tuple[str, ...], conflict: bool) -> None:
    state = storing()
    put(state, pod("old").set(volumes=(Volume(*there),)), "a", "n1")  # type: ignore[arg-type]
    asking = pod().set(volumes=(Volume(*wanted),))  # type: ignore[arg-type]
    assert reasons(make("VolumeRestrictions"), asking, state) == ({"n1": DISK} if conflict else {})


@pytest.mark.parametrize(
    ("mine", "conflict"),
    [
        pytest.param(Volume("rbd", "bar/foo", monitors=("a", "b")), True, id="same image, a monitor in common"),
        pytest.param(Volume("rbd", "bar/foo", monitors=("c", "d")), False, id="other monitors"),
        pytest.param(Volume("rbd", "bar/other", monitors=("a", "b")), False, id="another image"),
        pytest.param(Volume("rbd", "bar/foo", read_only=True, monitors=("a",)), True, id="one writer"),
    ],
)
def test_an_rbd_image_is_the_same_by_pool_image_and_any_monitor(mine: Volume, conflict: bool) -> None:
    state = storing()
    put(state, pod("old").set(volumes=(Volume("rbd", "bar/foo", monitors=("a", "b")),)), "a", "n1")
    found = reasons(make("VolumeRestrictions"), pod().set(volumes=(mine,)), state)
    assert found == ({"n1": DISK} if conflict else {})


def test_a_disk_is_free_again_when_its_pod_has_gone() -> None:
    state, disk = storing(), (Volume("gcePersistentDisk", "foo"),)
    put(state, pod("old").set(volumes=disk), "a", "n1")
    state.remove(("a", "uid-old"))
    assert reasons(make("VolumeRestrictions"), pod().set(volumes=disk), state) == {}
    assert not state.volumes.rows()


def test_a_claim_that_bears_one_pod_refuses_every_node_while_it_has_one() -> None:
    state = storing(bound("data", "pv1", access_modes=ALONE), volume("pv1"))
    plugin, asking = make("VolumeRestrictions"), using("data")
    assert state_of(plugin, asking, state) is SKIP
    put(state, using("data", name="old"), "a", "n1")
    assert reasons(plugin, asking, state) == {"n1": IN_USE, "n2": IN_USE}
    state.remove(("a", "uid-old"))
    assert state_of(plugin, asking, state) is SKIP


@pytest.mark.parametrize(
    "old",
    [
        pytest.param(using("other", name="old"), id="another claim"),
        pytest.param(using("data", name="old", namespace="elsewhere"), id="the same name in another namespace"),
        pytest.param(ephemeral("old"), id="a claim made for one pod"),
    ],
)
def test_pods_that_use_other_claims_do_not_matter(old: object) -> None:
    state = storing(bound("data", "pv1", access_modes=ALONE), claim("other"), claim("old-v"), volume("pv1"))
    put(state, old, "a", "n1")  # type: ignore[arg-type]
    assert state_of(make("VolumeRestrictions"), using("data"), state) is SKIP


def test_a_claim_that_bears_many_pods_is_no_matter() -> None:
    state = storing(bound("data", "pv1", access_modes=("ReadWriteOnce",)), volume("pv1"))
    put(state, using("data", name="old"), "a", "n1")
    assert state_of(make("VolumeRestrictions"), using("data"), state) is SKIP


def test_a_disk_conflict_is_told_before_a_claim_in_use() -> None:
    state, disk = storing(bound("data", "pv1", access_modes=ALONE), volume("pv1")), Volume("gcePersistentDisk", "foo")
    both = (*using("data", name="old").build().volumes, disk)
    put(state, pod("old").set(volumes=both), "a", "n1")
    found = reasons(make("VolumeRestrictions"), pod().set(volumes=both), state)
    assert found == {"n1": DISK, "n2": IN_USE}


def test_a_claim_that_is_not_there_is_named() -> None:
    text = refused(make("VolumeRestrictions"), using("data"), storing())
    assert text == 'persistentvolumeclaim "data" not found'
