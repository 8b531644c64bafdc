"""Which CSI volume a PersistentVolume is: its own driver and handle, or what an in-tree one
migrates to.

Source: k8s.io/csi-translation-lib. Only the kinds that kube-scheduler counts as migrated; others
name no CSI volume.
"""

from agents.kube import wire_objects as api
from shared.model import names

_UNSPECIFIED = "UNSPECIFIED"
_BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
_ZONES_BETWEEN = "__"  # what joins the zones of a regional volume in its label


def csi_name(volume: api.VolumeObject) -> tuple[str, str, bool]:
    """(driver, handle, whether it is an in-tree volume); empty texts for a volume that no CSI
    driver serves.
    """
    spec = volume.spec
    if spec.csi is not None:
        return spec.csi.driver, spec.csi.volume_handle, False
    if spec.gce_persistent_disk is not None:
        return "pd.csi.storage.gke.io", _gce_handle(volume, spec.gce_persistent_disk.pd_name), True
    if spec.aws_elastic_block_store is not None:
        # aws://ZONE/VOLUME, aws:///VOLUME or VOLUME
        return "ebs.csi.aws.com", spec.aws_elastic_block_store.volume_id.rpartition("/")[2], True
    for driver, source in (
        ("cinder.csi.openstack.org", spec.cinder),
        ("pxd.portworx.com", spec.portworx_volume),
    ):
        if source is not None:
            return driver, source.volume_id, True
    if spec.azure_disk is not None:
        return "disk.csi.azure.com", spec.azure_disk.disk_uri, True
    return "", "", False


def _gce_handle(volume: api.VolumeObject, disk: str) -> str:
    labels = volume.metadata.labels or {}
    zones = [
        zone
        for zone in (labels.get(_BETA_ZONE) or labels.get(names.ZONE, "")).split(_ZONES_BETWEEN)
        if zone
    ]
    if len(zones) > 1:
        region = zones[0].rpartition("-")[0]
        return f"projects/{_UNSPECIFIED}/regions/{region}/disks/{disk}"
    zone = zones[0] if zones else _UNSPECIFIED
    return f"projects/{_UNSPECIFIED}/zones/{zone}/disks/{disk}"
