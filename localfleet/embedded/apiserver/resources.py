"""The table of served resources: one row each. A new resource is a new row, nothing else."""

from collections.abc import Callable
from dataclasses import dataclass

from localfleet.embedded.apiserver.patch import live_pod
from localfleet.embedded.apiserver.schema import ObjectType, object_type
from localfleet.embedded.apiserver.status import Object
from localfleet.embedded.apiserver.validate import (
    admission,
    defaults,
    validation,
    validation_kinds,
    validation_pod,
)
from localfleet.embedded.apiserver.validate.validation import Errors, NameRule, name_rule

READ = ("get", "list", "watch")
ALL = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


_SUBDOMAIN = name_rule("subdomain")


def _valid(obj: Object) -> Errors:
    return []


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource of one API group: its names, its type, and the functions that make up its
    behaviour.

    `stored_as` names the resource that holds the objects when two groups serve the same ones
    (events).
    """

    group: str
    version: str
    kind: str
    plural: str
    type_name: str
    short: tuple[str, ...] = ()
    namespaced: bool = True
    verbs: tuple[str, ...] = ALL
    subresources: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()  # field selectors beyond metadata.name and metadata.namespace
    names: NameRule = _SUBDOMAIN
    generation: bool = False  # metadata.generation counts changes of spec
    graceful: bool = False
    unconditional: bool = True  # a PUT may leave out the resourceVersion
    made_by_put: bool = False  # a PUT creates what does not exist
    defaults: Callable[[Object], None] = defaults.nothing
    admit: Callable[[Object, admission.Reader], None] = admission.nothing
    validate: Callable[[Object], Errors] = _valid
    validate_update: Callable[[Object, Object], Errors] | None = None
    # of an update by the status subresource
    validate_status: Callable[[Object, Object], Errors] | None = None
    first_status: Callable[[Object], Object | None] | None = None  # None: status is taken as given
    stored_as: str = ""
    singular: str = ""

    @property
    def key(self) -> str:
        """The plural with its group: "pods", "deployments.apps"."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        """What objects carry as apiVersion."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def type(self) -> ObjectType:
        """The fields of its objects."""
        return object_type(self.type_name)

    def update_errors(self, new: Object, old: Object) -> Errors:
        """Findings about an update."""
        own = self.validate_update(new, old) if self.validate_update else self.validate(new)
        return validation.metadata_update(new, old) + own


def _status(**values: object) -> Callable[[Object], Object | None]:
    return lambda obj: dict(values)


_POD_FIELDS: tuple[str, ...] = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
)
_POD_FIELDS += (
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
)
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT_FIELDS = (
    *(f"involvedObject.{part}" for part in _INVOLVED),
    "reason",
    "reportingComponent",
    "source",
    "type",
)
_NEW_EVENT_FIELDS = (
    *(f"regarding.{part}" for part in _INVOLVED),
    "reason",
    "reportingController",
    "type",
)
_BUDGET_STATUS = {
    "disruptionsAllowed": 0,
    "currentHealthy": 0,
    "desiredHealthy": 0,
    "expectedPods": 0,
}
_EVERY = ("all",)
_SCALED = ("scale", "status")

# What no controller here would carry out is not served: DaemonSets, StatefulSets, CronJobs.
_ROWS = (
    Resource("", "v1", "ConfigMap", "configmaps", "core.v1.ConfigMap", ("cm",)),
    Resource("", "v1", "Endpoints", "endpoints", "core.v1.Endpoints", ("ep",), made_by_put=True),
    Resource("", "v1", "Event", "events", "core.v1.Event", ("ev",), fields=_EVENT_FIELDS, made_by_put=True,
             validate=validation_kinds.event),
    Resource("", "v1", "Namespace", "namespaces", "core.v1.Namespace", ("ns",), namespaced=False,
             subresources=("finalize", "status"), fields=("status.phase",), names=name_rule("namespace"),
             defaults=defaults.namespace, first_status=_status(phase="Active")),
    Resource("", "v1", "Node", "nodes", "core.v1.Node", ("no",), namespaced=False, subresources=("status",),
             fields=("spec.unschedulable",), defaults=defaults.node, admit=admission.node,
             validate=validation_kinds.node, validate_update=validation_kinds.node_update),
    Resource("", "v1", "PersistentVolume", "persistentvolumes", "core.v1.PersistentVolume", ("pv",), namespaced=False,
             subresources=("status",), defaults=defaults.volume, first_status=_status(phase="Pending")),
    Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", "core.v1.PersistentVolumeClaim", ("pvc",),
             subresources=("status",), defaults=defaults.claim, admit=admission.claim,
             first_status=_status(phase="Pending")),
    Resource("", "v1", "Pod", "pods", "core.v1.Pod", ("po",), categories=_EVERY, fields=_POD_FIELDS, graceful=True,
             subresources=("attach", "binding", *live_pod.PARTS, "eviction", "exec", "log", "portforward", "status"),
             defaults=defaults.pod, admit=admission.pod,
             validate=validation_pod.pod, validate_update=validation_pod.pod_update, generation=True,
             validate_status=validation_pod.pod_status, first_status=defaults.pod_status),
    Resource("", "v1", "Secret", "secrets", "core.v1.Secret", fields=("type",), defaults=defaults.secret),
    Resource("", "v1", "Service", "services", "core.v1.Service", ("svc",), categories=_EVERY,
             subresources=("status",), fields=("spec.clusterIP", "spec.type"), names=name_rule("label"),
             defaults=defaults.service, made_by_put=True,
             first_status=_status(loadBalancer={})),
    Resource("", "v1", "ServiceAccount", "serviceaccounts", "core.v1.ServiceAccount", ("sa",),
             subresources=("token",)),
    Resource("apps", "v1", "Deployment", "deployments", "apps.v1.Deployment", ("deploy",), categories=_EVERY,
             subresources=_SCALED, generation=True, defaults=defaults.deployment,
             validate=validation_kinds.workload, validate_update=validation_kinds.workload_update,
             first_status=_status()),
    Resource("apps", "v1", "ReplicaSet", "replicasets", "apps.v1.ReplicaSet", ("rs",), categories=_EVERY,
             subresources=_SCALED, generation=True, defaults=defaults.replica_set,
             validate=validation_kinds.workload, validate_update=validation_kinds.workload_update,
             first_status=_status(replicas=0)),
    Resource("batch", "v1", "Job", "jobs", "batch.v1.Job", categories=_EVERY, subresources=("status",), generation=True,
             fields=("status.successful",), defaults=defaults.job, validate=validation_kinds.job,
             validate_update=validation_kinds.job_update, first_status=_status()),
    Resource("coordination.k8s.io", "v1", "Lease", "leases", "coordination.v1.Lease", unconditional=False,
             made_by_put=True, validate=validation_kinds.lease),
    Resource("events.k8s.io", "v1", "Event", "events", "events.v1.Event", ("ev",), stored_as="events",
             fields=_NEW_EVENT_FIELDS, made_by_put=True),
    Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", "policy.v1.PodDisruptionBudget", ("pdb",),
             subresources=("status",), generation=True, unconditional=False, validate=validation_kinds.budget,
             first_status=_status(**_BUDGET_STATUS)),
    Resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", "scheduling.v1.PriorityClass", ("pc",),
             namespaced=False, generation=True, defaults=defaults.priority_class,
             validate_update=validation_kinds.priority_class_update),
    Resource("storage.k8s.io", "v1", "CSIDriver", "csidrivers", "storage.v1.CSIDriver", namespaced=False,
             defaults=defaults.csi_driver),
    Resource("storage.k8s.io", "v1", "CSINode", "csinodes", "storage.v1.CSINode", namespaced=False),
    Resource("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", "storage.v1.CSIStorageCapacity"),
    Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", "storage.v1.StorageClass", ("sc",),
             namespaced=False, defaults=defaults.storage_class),
    Resource("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", "storage.v1.VolumeAttachment",
             namespaced=False, subresources=("status",), first_status=_status(attached=False)),
)  # fmt: skip

RESOURCES: dict[str, Resource] = {row.key: row for row in _ROWS}
BY_PATH: dict[tuple[str, str, str], Resource] = {
    (row.group, row.version, row.plural): row for row in _ROWS
}
