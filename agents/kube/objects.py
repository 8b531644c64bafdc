"""Namespaces, volumes, their claims, classes and drivers, budgets and PriorityClasses -> model
records.

Nothing here raises for what an object holds. One that does not fit its type is kept by its name
alone, so that it is neither taken for absent nor for more than it is; what could not be read is
told as a problem.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.json import Decoder

from agents.kube import wire, wire_terms
from agents.kube import wire_objects as api
from agents.kube.convert import version_of
from agents.kube.effective import read_quantities
from agents.kube.rules import node_terms
from agents.kube.selectors import expressions_size, label_selector, labels_size
from agents.kube.volume_sources import csi_name
from agents.observer.seen import ObjectSeen
from shared.messages.values import A_VALUE, most_memory_of
from shared.model import objects as model
from shared.model.bounds import HIGHEST_PRIORITY
from shared.model.labels import IN, LabelSelector, NodeSelectorTerm, Requirement
from shared.model.names import ACCEPT, BUDGET_OF, COPY, OPEN
from shared.model.resources import QuantityError, parse_quantity

MAX_CHARS = 64 * 1024  # of labels of one object
# bytes of memory in the dispatcher of a selector: many objects of one namespace leave room
MAX_MEMORY = 8 * 1024
MAX_ENTRIES = 256  # of any list or map of one object
STORAGE = "storage"
# wins over the field, as in Kubernetes
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"

W = TypeVar("W", bound=api.Described)


class TooMuchError(ValueError):
    """An object holds more than is looked at; the text names the field."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[W]):
    """A kind that is watched: the record's name, where it is listed, and how it is read.

    `make` fills the record of a readable object, `bare` the one of an object of which only the name
    could be read.
    """

    name: str
    path: str
    read: Callable[[bytes | msgspec.Raw], W]
    make: Callable[[W, list[str]], model.AnyWatched]
    bare: Callable[[str, str], model.AnyWatched]

    def seen(self, raw: bytes | msgspec.Raw) -> ObjectSeen | None:
        """One object from its JSON; None if not even its name can be read."""
        problems: list[str] = []
        try:
            found = self.read(raw)
            record = self.make(found, problems)
        except (*wire.BROKEN, TooMuchError) as error:
            return self._bare(raw, str(error))
        if not found.metadata.name:
            return None
        return ObjectSeen(record, version_of(found.metadata.resource_version), tuple(problems))

    def _bare(self, raw: bytes | msgspec.Raw, problem: str) -> ObjectSeen | None:
        try:
            meta = wire.read_bare(raw).metadata
        except wire.BROKEN:
            return None
        if not meta.name:
            return None
        record = self.bare(meta.namespace, meta.name)
        return ObjectSeen(
            record, version_of(meta.resource_version), (f"cannot be read: {problem}"[:300],)
        )


def _bounded(field: str, size: int, most: int = MAX_CHARS) -> None:
    if size > most:
        raise TooMuchError(f"{field}: {size}, more than {most}")


def _labels(meta: wire.Meta) -> dict[str, str]:
    _bounded("characters of metadata.labels", labels_size(meta.labels))
    return meta.labels or {}


def _selector(
    raw: wire_terms.Selector | None, field: str, problems: list[str]
) -> LabelSelector | None:
    selector = label_selector(raw, field, problems)
    _bounded_memory(field, selector)
    return selector


def _bounded_memory(field: str, meant: object) -> None:
    what = f"bytes of memory of {field} ({A_VALUE} for each key, value and clause beside its text)"
    _bounded(what, most_memory_of(msgspec.msgpack.encode(meant)), MAX_MEMORY)


def _note(meta: wire.Meta, key: str) -> str:
    return (meta.annotations or {}).get(key, "")[:512]


def _namespace(found: api.Described, problems: list[str]) -> model.Namespace:
    """An annotation in the place of the label that closes it closes it, too, whatever the label
    says: who wrote it takes it for closed.
    """
    labels = _labels(found.metadata)
    said = (found.metadata.annotations or {}).get(ACCEPT)
    if said is None:
        return model.Namespace(found.metadata.name, labels)
    if labels.get(ACCEPT, said) != said:
        problems.append(
            f'label and annotation {ACCEPT} differ: the one that is not "true" counts; remove the '
            "other"
        )
    counts = said[:512] if labels.get(ACCEPT, OPEN) == OPEN else labels[ACCEPT]
    return model.Namespace(found.metadata.name, {**labels, ACCEPT: counts})


def _unread_namespace(_: str, name: str) -> model.Namespace:
    """It may be closed: pods of other clusters wait until it can be read."""
    return model.Namespace(name, {ACCEPT: "unreadable"})


def _volume(found: api.VolumeObject, problems: list[str]) -> model.PersistentVolume:
    meta = found.metadata
    spec = found.spec
    claim = found.spec.claim_ref
    terms = spec.node_affinity.required if spec.node_affinity is not None else None
    driver, handle, in_tree = csi_name(found)
    return model.PersistentVolume(
        name=meta.name,
        capacity=read_quantities(spec.capacity, "spec.capacity", problems, round_up=False).get(
            STORAGE, 0
        ),
        storage_class=_note(meta, CLASS_ANNOTATION) or spec.storage_class_name,
        access_modes=tuple(spec.access_modes or ())[:MAX_ENTRIES],
        block=spec.volume_mode == "Block",
        phase=found.status.phase,
        claim=f"{claim.namespace}/{claim.name}" if claim is not None else "",
        claim_uid=claim.uid if claim is not None else "",
        labels=_labels(meta),
        node_affinity=_terms(terms, problems) if terms is not None else None,
        driver=driver,
        handle=handle,
        in_tree=in_tree,
        terminating=meta.deletion_timestamp is not None,
        attributes_class=spec.volume_attributes_class_name or "",
    )


def _terms(raw: wire_terms.NodeTerms, problems: list[str]) -> tuple[NodeSelectorTerm, ...]:
    terms = raw.node_selector_terms or ()
    clauses = (part for term in terms for part in (term.match_expressions, term.match_fields))
    _bounded("characters of spec.nodeAffinity", sum(map(expressions_size, clauses)))
    return node_terms(terms, "spec.nodeAffinity.required", problems)


def _claim(found: api.ClaimObject, problems: list[str]) -> model.PersistentVolumeClaim:
    meta = found.metadata
    spec = found.spec
    owner = next((ref for ref in meta.owner_references or () if ref.controller), None)
    requests = spec.resources.requests if spec.resources is not None else None
    return model.PersistentVolumeClaim(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        volume=spec.volume_name,
        bound=bool(spec.volume_name) and BIND_COMPLETED in (meta.annotations or {}),
        phase=found.status.phase,
        storage_class=_note(meta, CLASS_ANNOTATION) or spec.storage_class_name,
        access_modes=tuple(spec.access_modes or ())[:MAX_ENTRIES],
        block=spec.volume_mode == "Block",
        request=read_quantities(requests, "spec.resources.requests", problems).get(STORAGE, 0),
        selector=_selector(spec.selector, "spec.selector", problems),
        selected_node=_note(meta, SELECTED_NODE),
        terminating=meta.deletion_timestamp is not None,
        owner_uid=owner.uid if owner is not None else "",
        attributes_class=spec.volume_attributes_class_name or "",
    )


def _class(found: api.ClassObject, problems: list[str]) -> model.StorageClass:
    terms = found.allowed_topologies or ()
    clauses = [one for term in terms for one in term.match_label_expressions or ()]
    _bounded(
        "characters of allowedTopologies",
        sum(len(one.key) + sum(map(len, one.values or ())) for one in clauses),
    )
    return model.StorageClass(
        name=found.metadata.name,
        provisioner=found.provisioner,
        waits=found.volume_binding_mode == "WaitForFirstConsumer",
        topologies=tuple(
            NodeSelectorTerm(
                tuple(
                    Requirement(one.key, IN, tuple(one.values or ()))
                    for one in term.match_label_expressions or ()
                )
            )
            for term in terms
        ),
        default=_note(found.metadata, DEFAULT_CLASS) == "true",
    )


def _csi_node(found: api.CsiNodeObject, problems: list[str]) -> model.CSINode:
    drivers = found.spec.drivers or []
    _bounded("spec.drivers", len(drivers), MAX_ENTRIES)
    limits = {
        one.name: one.allocatable.count
        for one in drivers
        if one.allocatable is not None and one.allocatable.count is not None
    }
    return model.CSINode(found.metadata.name, limits, tuple(one.name for one in drivers))


def _csi_driver(found: api.CsiDriverObject, problems: list[str]) -> model.CSIDriver:
    spec = found.spec
    required = bool(spec.prevent_pod_scheduling_if_missing)
    return model.CSIDriver(found.metadata.name, bool(spec.storage_capacity), required)


def _capacity(found: api.CapacityObject, problems: list[str]) -> model.CSIStorageCapacity:
    meta = found.metadata
    return model.CSIStorageCapacity(
        namespace=meta.namespace,
        name=meta.name,
        storage_class=found.storage_class_name,
        capacity=_amount(found.capacity, "capacity", problems),
        maximum=_amount(found.maximum_volume_size, "maximumVolumeSize", problems),
        topology=_selector(found.node_topology, "nodeTopology", problems),
    )


def _amount(raw: object, field: str, problems: list[str]) -> int | None:
    if raw is None:
        return None
    try:
        return parse_quantity(raw, round_up=False, cap=True)
    except QuantityError as error:
        problems.append(f"{field}: {error}")
        return None


def _attachment(found: api.AttachmentObject, problems: list[str]) -> model.VolumeAttachment:
    spec = found.spec
    return model.VolumeAttachment(
        found.metadata.name, spec.node_name, spec.source.persistent_volume_name or "", spec.attacher
    )


def _budget(found: api.BudgetObject, problems: list[str]) -> model.PodDisruptionBudget:
    meta = found.metadata
    spec = found.spec
    status = found.status
    selector = _selector(spec.selector, "spec.selector", problems)
    keep = spec.min_available
    return model.PodDisruptionBudget(
        namespace=meta.namespace,
        name=meta.name,
        selector=selector,
        allowed=status.disruptions_allowed,
        disrupted=tuple(sorted(status.disrupted_pods or ())[: 8 * MAX_ENTRIES]),
        desired=status.desired_healthy,
        keep=keep if isinstance(keep, int) else None,
        always=spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
        # The label alone may be anybody's: a budget that selects otherwise means other pods than
        # ours.
        shadow_of=(meta.labels or {}).get(BUDGET_OF, "")
        if selector == model.shadow_selector(meta.name)
        else "",
    )


def _unread_budget(namespace: str, name: str) -> model.PodDisruptionBudget:
    """It may cover any pod of its namespace: none of them may be disrupted until it can be read."""
    return model.PodDisruptionBudget(namespace, name, LabelSelector())


def _priority_class(found: api.PriorityClassObject, problems: list[str]) -> model.PriorityClass:
    return model.PriorityClass(
        found.metadata.name,
        found.value,
        found.preemption_policy != "Never",
        bool(found.global_default),
    )


def _unread_class(_: str, name: str) -> model.PriorityClass:
    """One that no policy lets in."""
    return model.PriorityClass(name, HIGHEST_PRIORITY)


def _labels_meant(found: api.ServiceObject) -> dict[str, str]:
    labels = found.spec.selector or {}
    _bounded_memory("spec.selector", labels)
    return labels


def _service(found: api.ServiceObject, problems: list[str]) -> model.Service:
    meta = found.metadata
    copied = COPY in (meta.labels or {})
    return model.Service(meta.namespace, meta.name, _labels_meant(found), copied)


def _controller(found: api.ServiceObject, problems: list[str]) -> model.ReplicationController:
    meta = found.metadata
    return model.ReplicationController(
        meta.namespace, meta.name, LabelSelector(_labels_meant(found))
    )


def _workload(
    record: type[model.ReplicaSet] | type[model.StatefulSet] | type[model.DaemonSet],
) -> Callable[[api.WorkloadObject, list[str]], model.AnyWatched]:
    def made(found: api.WorkloadObject, problems: list[str]) -> model.AnyWatched:
        meta = found.metadata
        return record(
            meta.namespace, meta.name, _selector(found.spec.selector, "spec.selector", problems)
        )

    return made


def _name_alone(
    record: Callable[[str], model.AnyWatched],
) -> Callable[[api.Described, list[str]], model.AnyWatched]:
    return lambda found, _: record(found.metadata.name)


def _by_name(record: Callable[[str], model.AnyWatched]) -> Callable[[str, str], model.AnyWatched]:
    return lambda _, name: record(name)


_CORE = "/api/v1"
_APPS = "/apis/apps/v1"
_STORAGE = "/apis/storage.k8s.io/v1"
_POLICY = "/apis/policy/v1"
KINDS: tuple[Kind[Any], ...] = (
    Kind(
        "Namespace",
        f"{_CORE}/namespaces",
        Decoder(api.Described).decode,
        _namespace,
        _unread_namespace,
    ),
    Kind(
        "PersistentVolume",
        f"{_CORE}/persistentvolumes",
        Decoder(api.VolumeObject).decode,
        _volume,
        _by_name(model.PersistentVolume),
    ),
    Kind(
        "PersistentVolumeClaim",
        f"{_CORE}/persistentvolumeclaims",
        Decoder(api.ClaimObject).decode,
        _claim,
        model.PersistentVolumeClaim,
    ),
    Kind(
        "StorageClass",
        f"{_STORAGE}/storageclasses",
        Decoder(api.ClassObject).decode,
        _class,
        _by_name(model.StorageClass),
    ),
    Kind(
        "CSINode",
        f"{_STORAGE}/csinodes",
        Decoder(api.CsiNodeObject).decode,
        _csi_node,
        _by_name(model.CSINode),
    ),
    Kind(
        "CSIDriver",
        f"{_STORAGE}/csidrivers",
        Decoder(api.CsiDriverObject).decode,
        _csi_driver,
        _by_name(model.CSIDriver),
    ),
    Kind(
        "CSIStorageCapacity",
        f"{_STORAGE}/csistoragecapacities",
        Decoder(api.CapacityObject).decode,
        _capacity,
        model.CSIStorageCapacity,
    ),
    Kind(
        "VolumeAttachment",
        f"{_STORAGE}/volumeattachments",
        Decoder(api.AttachmentObject).decode,
        _attachment,
        _by_name(model.VolumeAttachment),
    ),
    Kind(
        "PodDisruptionBudget",
        f"{_POLICY}/poddisruptionbudgets",
        Decoder(api.BudgetObject).decode,
        _budget,
        _unread_budget,
    ),
    Kind(
        "PriorityClass",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        Decoder(api.PriorityClassObject).decode,
        _priority_class,
        _unread_class,
    ),
    Kind(
        "RuntimeClass",
        "/apis/node.k8s.io/v1/runtimeclasses",
        Decoder(api.Described).decode,
        _name_alone(model.RuntimeClass),
        _by_name(model.RuntimeClass),
    ),
    Kind(
        "Service", f"{_CORE}/services", Decoder(api.ServiceObject).decode, _service, model.Service
    ),
    Kind(
        "ReplicaSet",
        f"{_APPS}/replicasets",
        Decoder(api.WorkloadObject).decode,
        _workload(model.ReplicaSet),
        model.ReplicaSet,
    ),
    Kind(
        "StatefulSet",
        f"{_APPS}/statefulsets",
        Decoder(api.WorkloadObject).decode,
        _workload(model.StatefulSet),
        model.StatefulSet,
    ),
    Kind(
        "DaemonSet",
        f"{_APPS}/daemonsets",
        Decoder(api.WorkloadObject).decode,
        _workload(model.DaemonSet),
        model.DaemonSet,
    ),
    Kind(
        "ReplicationController",
        f"{_CORE}/replicationcontrollers",
        Decoder(api.ServiceObject).decode,
        _controller,
        model.ReplicationController,
    ),
)
