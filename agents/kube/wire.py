"""API objects as they come over the wire, reduced to the fields used. Everything else is skipped by the decoder.

A list is read with its items still raw and a status stays raw, so that an object that does not fit its type costs
itself alone: its identity can still be read as a `BareObject`.
"""

from typing import Annotated, Any

import msgspec

EMPTY = msgspec.Raw(b"{}")
BROKEN = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
Text = str | None
Int = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Wire(msgspec.Struct, gc=False, rename="camel", omit_defaults=True):
    """Base of the wire types; by itself an object of which only its being there matters."""


class OwnerReference(Wire):
    """metav1 OwnerReference."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Meta(Wire):
    """metav1 ObjectMeta."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: Text = None
    deletion_timestamp: Text = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None


class Port(Wire):
    """core/v1 ContainerPort."""

    container_port: Int = 0
    host_port: Int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(name="hostIP", default="")


class ResourceList(Wire):
    """core/v1 ResourceRequirements; quantities are read later, with bounds."""

    requests: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None


class Container(Wire):
    """core/v1 Container."""

    name: str = ""
    image: str = ""
    restart_policy: Text = None
    resources: ResourceList | None = None
    ports: list[Port] | None = None


class Expression(Wire):
    """One clause of a label or node selector."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class Selector(Wire):
    """metav1 LabelSelector."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[Expression] | None = None


class NodeTerm(Wire):
    """core/v1 NodeSelectorTerm."""

    match_expressions: list[Expression] | None = None
    match_fields: list[Expression] | None = None


class NodeTerms(Wire):
    """core/v1 NodeSelector."""

    node_selector_terms: list[NodeTerm] | None = None


class WeightedTerm(Wire):
    """core/v1 PreferredSchedulingTerm."""

    weight: Int = 1
    preference: NodeTerm | None = None


class NodeAffinity(Wire):
    """core/v1 NodeAffinity."""

    required: NodeTerms | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)
    preferred: list[WeightedTerm] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class PodTerm(Wire):
    """core/v1 PodAffinityTerm."""

    label_selector: Selector | None = None
    namespaces: list[str] | None = None
    topology_key: str = ""
    namespace_selector: Selector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodTerm(Wire):
    """core/v1 WeightedPodAffinityTerm."""

    weight: Int = 1
    pod_affinity_term: PodTerm | None = None


class PodTerms(Wire):
    """core/v1 PodAffinity or PodAntiAffinity."""

    required: list[PodTerm] | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)
    preferred: list[WeightedPodTerm] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class Affinity(Wire):
    """core/v1 Affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodTerms | None = None
    pod_anti_affinity: PodTerms | None = None


class Toleration(Wire):
    """core/v1 Toleration."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Long | None = None


class TopologySpread(Wire):
    """core/v1 TopologySpreadConstraint."""

    max_skew: Int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: Selector | None = None
    min_domains: Int | None = None
    match_label_keys: list[str] | None = None
    node_affinity_policy: Text = None
    node_taints_policy: Text = None


class Named(Wire):
    """An object of which only its name matters."""

    name: str = ""


class ClaimVolume(Wire):
    """core/v1 PersistentVolumeClaimVolumeSource."""

    claim_name: str = ""
    read_only: bool | None = None


class Disk(Wire):
    """The in-tree disks that name one device: gcePersistentDisk, awsElasticBlockStore, azureDisk, iscsi."""

    pd_name: str = ""
    volume_id: str = msgspec.field(name="volumeID", default="")
    disk_uri: str = msgspec.field(name="diskURI", default="")
    iqn: str = ""
    read_only: bool | None = None


class RbdVolume(Wire):
    """core/v1 RBDVolumeSource."""

    monitors: list[str] | None = None
    image: str = ""
    pool: str = ""
    read_only: bool | None = None


class ImageVolume(Wire):
    """core/v1 ImageVolumeSource."""

    reference: Text = None


class Volume(Wire):
    """core/v1 Volume: only the kinds that bind a pod to storage, and images."""

    name: str = ""
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: Wire | None = None
    gce_persistent_disk: Disk | None = None
    aws_elastic_block_store: Disk | None = None
    azure_disk: Disk | None = None
    iscsi: Disk | None = None
    rbd: RbdVolume | None = None
    image: ImageVolume | None = None


class PodSpec(Wire):
    """core/v1 PodSpec."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: Int | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    topology_spread_constraints: list[TopologySpread] | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: dict[str, Any] | None = None
    resources: ResourceList | None = None
    scheduling_gates: list[Named] | None = None
    volumes: list[Volume] | None = None
    resource_claims: list[Named] | None = None
    host_network: bool | None = None
    preemption_policy: Text = None


class Condition(Wire):
    """A condition of a pod or node."""

    type: str = ""
    status: str = ""
    reason: Text = None


class PodObject(Wire):
    """core/v1 Pod. The status stays raw: a delegate's is passed on as it is."""

    metadata: Meta
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: msgspec.Raw = EMPTY


class Taint(Wire):
    """core/v1 Taint."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Wire):
    """core/v1 NodeSpec."""

    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class Address(Wire):
    """core/v1 NodeAddress."""

    type: str = ""
    address: str = ""


class Endpoint(Wire):
    """core/v1 DaemonEndpoint; its field is called Port in JSON."""

    port: Int = msgspec.field(name="Port", default=0)


class Endpoints(Wire):
    """core/v1 NodeDaemonEndpoints."""

    kubelet_endpoint: Endpoint | None = None


class Image(Wire):
    """core/v1 ContainerImage."""

    names: list[str] | None = None
    size_bytes: Long = 0


class NodeStatus(Wire):
    """core/v1 NodeStatus."""

    allocatable: dict[str, Any] | None = None
    capacity: dict[str, Any] | None = None
    conditions: list[Condition] | None = None
    addresses: list[Address] | None = None
    daemon_endpoints: Endpoints | None = None
    images: list[Image] | None = None


class NodeObject(Wire):
    """core/v1 Node."""

    metadata: Meta
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class BareMeta(Wire):
    """The identity of an object and nothing that a user may have filled with surprises."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class BareSpec(Wire):
    """Who shall schedule a pod, and where it is."""

    scheduler_name: Any = ""
    node_name: Any = ""


class BareObject(Wire):
    """What can still be read of an object that does not fit its type."""

    metadata: BareMeta
    spec: msgspec.Raw = EMPTY


class ListMeta(Wire):
    """metav1 ListMeta."""

    resource_version: str = ""
    continue_: Text = msgspec.field(name="continue", default=None)


class RawList(Wire):
    """A list whose items are not looked at yet."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


class WatchEvent(Wire):
    """One line of a watch."""

    type: str
    object: msgspec.Raw = EMPTY


class Bookmark(Wire):
    """The object of a BOOKMARK event."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


class Status(Wire):
    """metav1 Status."""

    code: Int = 0
    reason: str = ""
    message: str = ""


read_event = msgspec.json.Decoder(WatchEvent).decode
read_list = msgspec.json.Decoder(RawList).decode
read_bookmark = msgspec.json.Decoder(Bookmark).decode
read_bare = msgspec.json.Decoder(BareObject).decode
read_bare_spec = msgspec.json.Decoder(BareSpec).decode
read_pod = msgspec.json.Decoder(PodObject).decode
read_node = msgspec.json.Decoder(NodeObject).decode
_STATUS = msgspec.json.Decoder(Status)


def read_status(body: bytes) -> Status:
    """The Status in an answer's body; for a body that is none, one whose message is the body's beginning."""
    try:
        return _STATUS.decode(body)
    except BROKEN:
        return Status(message=body[:200].decode("utf-8", "replace"))
