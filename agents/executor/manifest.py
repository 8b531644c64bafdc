"""The delegate's manifest: an allowlist copy of the source pod, made at the source and made again at the target.

What is not named here does not cross. Three ways to treat a field:
- copied: what the containers are and need (images, commands, environment, probes, resources, references by name to
  ConfigMaps, Secrets and pull secrets, which must exist in the target's namespace of the same name);
- left behind, because it means something else in another cluster: owner references, finalizers, node name, priority and
  its class, service account and its token volumes (the delegate runs without a token), pod affinity, reserved labels
  and annotations (*.kubernetes.io, *.k8s.io, ours; app.kubernetes.io/ labels stay), and the labels that controllers
  make for themselves: else a ReplicaSet, a Job or a Service of the target would adopt or count the delegate;
- refused, because it reaches for the node itself or for a volume that is not there: `ManifestError` names the field.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from dispatcher.model.names import PREFIX, SCHEDULER_NAME, is_app_label, is_reserved

Object = dict[str, Any]

MAX_CONTAINERS = 64
_POD_FIELDS = (
    "activeDeadlineSeconds",
    "dnsConfig",
    "dnsPolicy",
    "enableServiceLinks",
    "hostAliases",
    "hostUsers",
    "hostname",
    "imagePullSecrets",
    "nodeSelector",
    "os",
    "readinessGates",
    "resources",
    "restartPolicy",
    "runtimeClassName",
    "securityContext",
    "setHostnameAsFQDN",
    "shareProcessNamespace",
    "subdomain",
    "terminationGracePeriodSeconds",
    "tolerations",
)
_CONTAINER_FIELDS = (
    "args",
    "command",
    "env",
    "envFrom",
    "image",
    "imagePullPolicy",
    "lifecycle",
    "livenessProbe",
    "name",
    "ports",
    "readinessProbe",
    "resizePolicy",
    "resources",
    "restartPolicy",
    "securityContext",
    "startupProbe",
    "stdin",
    "stdinOnce",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tty",
    "volumeMounts",
    "workingDir",
)
_VOLUME_KINDS = frozenset(("configMap", "downwardAPI", "emptyDir", "image", "projected", "secret"))
_HOST_FIELDS = ("hostNetwork", "hostPID", "hostIPC")
_ON_THE_NODE = "reaches into the node of another cluster"


class ManifestError(ValueError):
    """The pod cannot run in another cluster; the text names the field and what to do."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f'{field} {why}; remove it, or keep the pod at home with annotation {PREFIX}stay: "true"')


def sanitise(pod: bytes) -> bytes:
    """Manifest (JSON: metadata with labels and annotations, spec) of a pod given as JSON.

    Raises ManifestError if it cannot cross. Sanitising a manifest again changes nothing.
    """
    try:
        source = msgspec.json.decode(pod)
        metadata, spec = source.get("metadata") or {}, source["spec"]
        clean = {"metadata": _metadata(metadata), "spec": _spec(spec)}
    except (msgspec.MsgspecError, KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        if isinstance(error, ManifestError):
            raise
        raise ManifestError("pod", f"is not readable as a pod ({type(error).__name__})") from None
    return msgspec.json.encode(clean)


def _metadata(metadata: Object) -> Object:
    labels = metadata.get("labels") or {}
    annotations = metadata.get("annotations") or {}
    return {
        "labels": {key: value for key, value in labels.items() if is_app_label(key)},
        "annotations": {key: value for key, value in annotations.items() if not is_reserved(key)},
    }


def _spec(spec: Object) -> Object:
    for name in _HOST_FIELDS:
        if spec.get(name):
            raise ManifestError(f"spec.{name}", _ON_THE_NODE)
    _no_host_process(spec, "spec")
    volumes, dropped = _volumes(spec.get("volumes") or ())
    clean: Object = {name: spec[name] for name in _POD_FIELDS if spec.get(name) is not None}
    for kind in ("initContainers", "containers"):
        containers = spec.get(kind) or ()
        if len(containers) > MAX_CONTAINERS:
            raise ManifestError(f"spec.{kind}", f"has more than {MAX_CONTAINERS} entries")
        if containers:
            clean[kind] = [_container(one, f"spec.{kind}[{i}]", dropped) for i, one in enumerate(containers)]
    if volumes:
        clean["volumes"] = volumes
    node_affinity = (spec.get("affinity") or {}).get("nodeAffinity")
    if node_affinity:
        clean["affinity"] = {"nodeAffinity": node_affinity}
    return {**clean, "schedulerName": SCHEDULER_NAME, "automountServiceAccountToken": False}


def _volumes(volumes: Iterable[Object]) -> tuple[list[Object], frozenset[str]]:
    """The volumes that cross, and the names of those left behind."""
    kept: list[Object] = []
    dropped: set[str] = set()
    for index, volume in enumerate(volumes):
        where = f"spec.volumes[{index}]"
        kind = next((key for key in volume if key != "name"), "emptyDir")
        if kind == "hostPath":
            raise ManifestError(f"{where}.hostPath", _ON_THE_NODE)
        if kind not in _VOLUME_KINDS:
            raise ManifestError(f"{where}.{kind}", "is a volume that other clusters do not have")
        if kind == "projected" and _has_token(volume[kind]):
            dropped.add(volume["name"])
        else:
            kept.append({"name": volume["name"], kind: volume.get(kind, {})})
    return kept, frozenset(dropped)


def _has_token(projected: Mapping[str, Any]) -> bool:
    return any("serviceAccountToken" in source for source in projected.get("sources") or ())


def _container(container: Object, where: str, dropped: frozenset[str]) -> Object:
    security = container.get("securityContext") or {}
    if security.get("privileged"):
        raise ManifestError(f"{where}.securityContext.privileged", _ON_THE_NODE)
    _no_host_process(container, where)
    clean: Object = {name: container[name] for name in _CONTAINER_FIELDS if container.get(name) is not None}
    mounts = [mount for mount in clean.get("volumeMounts", ()) if mount["name"] not in dropped]
    if mounts:
        clean["volumeMounts"] = mounts
    else:
        clean.pop("volumeMounts", None)
    return clean


def _no_host_process(holder: Object, where: str) -> None:
    windows = (holder.get("securityContext") or {}).get("windowsOptions") or {}
    if windows.get("hostProcess"):
        raise ManifestError(f"{where}.securityContext.windowsOptions.hostProcess", _ON_THE_NODE)
