"""Which plugin refuses for which reason, for the metric that kube-scheduler keeps by plugin."""

from shared.model.reasons import Reason

_REASONS: dict[str, tuple[Reason, ...]] = {
    "ClusterAllowed": (Reason.CLUSTER_NOT_ALLOWED, Reason.CLUSTER_CORDONED, Reason.PROXY_TAINT),
    "ClusterRefused": (Reason.CLUSTER_REFUSED,),
    "DataLocality": (Reason.DATA_ELSEWHERE,),
    "DynamicResources": (Reason.DEVICES,),
    "FaultDomainSpread": (Reason.SPREAD, Reason.SPREAD_LABEL),
    "HotNode": (Reason.HOT,),
    "InterPodAffinity": (
        Reason.POD_AFFINITY,
        Reason.POD_ANTI_AFFINITY,
        Reason.EXISTING_ANTI_AFFINITY,
        Reason.TOO_MANY_TERMS,
    ),
    "NamespaceOpen": (
        Reason.NAMESPACE_ABSENT,
        Reason.NAMESPACE_CLOSED,
        Reason.CANNOT_CROSS,
        Reason.SERVICES_ABSENT,
    ),
    "NodeAffinity": (
        Reason.AFFINITY,
        Reason.PROXY_ASKED,
        Reason.ADDED_AFFINITY,
        Reason.AFFINITY_CONFLICT,
    ),
    "NodeDeclaredFeatures": (Reason.NODE_FEATURES,),
    "NodeName": (Reason.NODE_NAME,),
    "NodePorts": (Reason.PORTS,),
    "NodeReady": (Reason.NOT_READY, Reason.CLUSTER_NOT_READY),
    "NodeResourcesFit": (Reason.INSUFFICIENT, Reason.TOO_MANY_PODS),
    "NodeUnschedulable": (Reason.UNSCHEDULABLE,),
    "NodeVolumeLimits": (Reason.VOLUME_LIMIT, Reason.CSI_DRIVER),
    "SchedulingGates": (Reason.GATED,),
    "TaintToleration": (Reason.TAINT, Reason.TAINT_ABROAD),
    "TenantQuota": (Reason.QUOTA, Reason.QUOTA_UNKNOWN),
    "VolumeBinding": (
        Reason.VOLUMES_ELSEWHERE,
        Reason.VOLUME_AFFINITY,
        Reason.VOLUME_BINDING,
        Reason.VOLUME_MISSING,
        Reason.STORAGE_SPACE,
        Reason.NOT_FOUND,
        Reason.CLAIM_AWAITED,
        Reason.CLAIM_LOST,
        Reason.CLAIM_DELETED,
        Reason.CLAIM_NOT_OWNED,
        Reason.CLAIM_UNBOUND,
    ),
    "VolumeRestrictions": (Reason.DISK_CONFLICT, Reason.CLAIM_IN_USE),
    "VolumeZone": (Reason.VOLUME_ZONE, Reason.CLAIM_WITHOUT_CLASS, Reason.CLAIM_WITHOUT_VOLUME),
}
# Of no single plugin, or of none: POLICY and PLUGIN_ERROR name any, the others are the dispatcher's
# own.
REFUSED_BY: dict[Reason, str] = {
    reason: name for name, reasons in _REASONS.items() for reason in reasons
}
