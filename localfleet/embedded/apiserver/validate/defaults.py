"""What Kubernetes fills in when a user leaves it out: one function a kind, on the object's own
copy.
"""

import base64
import hashlib
from typing import Any

from localfleet.embedded.apiserver import quantity
from localfleet.embedded.apiserver.status import Object

_PROBES = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_CONTAINER = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_POD = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}
_MODES = {"configMap": 420, "secret": 420, "downwardAPI": 420, "projected": 420}


def _fill(obj: Object, values: Object) -> None:
    for key, value in values.items():
        obj.setdefault(key, value)


def pod_spec(spec: Object) -> None:
    """A pod's spec or a template's."""
    _fill(spec, _POD)
    spec.setdefault("securityContext", {})
    for group in ("containers", "initContainers"):
        for container in spec.get(group) or ():
            _container(container)
    for volume in spec.get("volumes") or ():
        for kind, mode in _MODES.items():
            if isinstance(volume.get(kind), dict):
                volume[kind].setdefault("defaultMode", mode)
    if "serviceAccountName" in spec:  # the old name of the same field
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif "serviceAccount" in spec:
        spec["serviceAccountName"] = spec["serviceAccount"]


def _container(container: Object) -> None:
    image = container.get("image", "")
    if image and "imagePullPolicy" not in container:
        tag = image.rpartition("/")[2].partition(":")[2]
        container["imagePullPolicy"] = (
            "Always" if tag in ("", "latest") and "@" not in image else "IfNotPresent"
        )
    _fill(container, _CONTAINER)
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            _probe(container[name])
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")
    amounts = container.setdefault("resources", {})
    if amounts.get("limits"):
        amounts["requests"] = {**amounts["limits"], **(amounts.get("requests") or {})}


def _probe(probe: Object) -> None:
    _fill(probe, _PROBES)
    if "httpGet" in probe:
        _fill(probe["httpGet"], {"path": "/", "scheme": "HTTP"})


def pod(obj: Object) -> None:
    """A Pod: its spec, and the status it begins with."""
    spec = obj.setdefault("spec", {})
    pod_spec(spec)
    _fill(spec, {"enableServiceLinks": True})
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    if spec.get("hostNetwork"):
        for container in spec.get("containers") or ():
            for port in container.get("ports") or ():
                port.setdefault("hostPort", port.get("containerPort"))


def pod_status(obj: Object) -> Object:
    """The status of a new Pod."""
    status: Object = {"phase": "Pending", "qosClass": qos_class(obj.get("spec") or {})}
    if (obj.get("spec") or {}).get("schedulingGates"):
        message = "Scheduling is blocked due to non-empty scheduling gates"
        gated = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": message,
        }
        status["conditions"] = [gated | {"lastProbeTime": None, "lastTransitionTime": None}]
    return status


def qos_class(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort, by the CPU and memory of all containers."""
    requests = limits = False
    guaranteed = True
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        amounts = container.get("resources") or {}
        asked, capped = (_positive(amounts.get(key) or {}) for key in ("requests", "limits"))
        requests = requests or bool(asked)
        limits = limits or bool(capped)
        guaranteed = (
            guaranteed
            and set(capped) == {"cpu", "memory"}
            and all(asked.get(key) == capped[key] for key in capped)
        )
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _positive(amounts: dict[str, str]) -> dict[str, Any]:
    parsed = {name: quantity.parse(amounts[name]) for name in ("cpu", "memory") if name in amounts}
    return {name: value for name, value in parsed.items() if value > 0}


def _template(spec: Object) -> None:
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    pod_spec(template.setdefault("spec", {}))


def deployment(obj: Object) -> None:
    """A Deployment."""
    spec = obj.setdefault("spec", {})
    _fill(spec, {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})
    strategy = spec.setdefault("strategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _fill(
            strategy.setdefault("rollingUpdate", {}), {"maxUnavailable": "25%", "maxSurge": "25%"}
        )
    _template(spec)


def replica_set(obj: Object) -> None:
    """A ReplicaSet."""
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    _template(spec)


def job(obj: Object) -> None:
    """A Job: counts, and the selector that finds its own pods alone."""
    spec = obj.setdefault("spec", {})
    if "completions" not in spec and "parallelism" not in spec:
        _fill(spec, {"completions": 1, "parallelism": 1})
    _fill(
        spec,
        {"parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False},
    )
    spec.setdefault("manualSelector", False)
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")
    _template(spec)
    if not spec["manualSelector"]:
        _job_selector(obj)
    labels = spec["template"]["metadata"].get("labels")
    if labels and not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(labels)


def _job_selector(obj: Object) -> None:
    uid = obj["metadata"].get("uid", "")
    name = obj["metadata"].get("name", "")
    both = {"controller-uid": uid, "job-name": name}
    own = both | {f"batch.kubernetes.io/{key}": value for key, value in both.items()}
    meta = obj["spec"]["template"]["metadata"]
    meta["labels"] = (meta.get("labels") or {}) | own
    obj["spec"].setdefault("selector", {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}})


def namespace(obj: Object) -> None:
    """A Namespace: the label selectors use, and the finalizer that empties it first."""
    meta = obj["metadata"]
    meta["labels"] = (meta.get("labels") or {}) | {
        "kubernetes.io/metadata.name": meta.get("name", "")
    }
    obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])


def node(obj: Object) -> None:
    """A Node: what it can allocate is what it has, unless it says less."""
    obj.setdefault("spec", {})
    status = obj.setdefault("status", {})
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))
    if obj["spec"].get("podCIDR"):
        obj["spec"].setdefault("podCIDRs", [obj["spec"]["podCIDR"]])


def service(obj: Object) -> None:
    """A Service: a cluster IP of its own, derived from its UID."""
    spec = obj.setdefault("spec", {})
    _fill(
        spec, {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster"}
    )
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))
    if spec["type"] == "ExternalName":
        return
    if not spec.get("clusterIP"):
        digest = hashlib.sha256(obj["metadata"].get("uid", "").encode()).digest()
        spec["clusterIP"] = f"10.{96 + digest[0] % 16}.{digest[1]}.{1 + digest[2] % 254}"
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    _fill(spec, {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"})


def secret(obj: Object) -> None:
    """A Secret: plain text given as stringData is stored encoded."""
    obj.setdefault("type", "Opaque")
    plain = obj.pop("stringData", None)
    if plain:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        obj["data"] = (obj.get("data") or {}) | encoded


def priority_class(obj: Object) -> None:
    """A PriorityClass."""
    _fill(obj, {"value": 0, "preemptionPolicy": "PreemptLowerPriority"})


def claim(obj: Object) -> None:
    """A PersistentVolumeClaim."""
    obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def volume(obj: Object) -> None:
    """A PersistentVolume."""
    _fill(
        obj.setdefault("spec", {}),
        {"volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Retain"},
    )


def storage_class(obj: Object) -> None:
    """A StorageClass."""
    _fill(obj, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})


_CSI_DRIVER = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
}


def csi_driver(obj: Object) -> None:
    """A CSIDriver."""
    _fill(obj.setdefault("spec", {}), {**_CSI_DRIVER, "volumeLifecycleModes": ["Persistent"]})


def nothing(obj: Object) -> None:
    """Kinds without defaults."""
