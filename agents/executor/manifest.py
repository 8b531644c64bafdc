"""The delegate's manifest: an allowlist copy of the source pod, made at the source and made again at the target.

What is not named here does not cross, whatever the target allows; what it does allow is asked of its policy when it
makes the delegate (`narrow`), and never known at the source. Three ways to treat a field:
- copied: what the containers are and need (images, commands, environment, probes, resources, references by name to
  ConfigMaps, Secrets and pull secrets, which must exist in the target's namespace of the same name);
- left behind, because it means something else in another cluster: owner references, finalizers, node name, priority and
  its class, the token that every pod gets (the delegate runs without one), pod affinity, reserved labels
  and annotations (*.kubernetes.io, *.k8s.io, ours; app.kubernetes.io/ labels stay), and the labels that controllers
  make for themselves: else a ReplicaSet, a Job or a Service of the target would adopt or count the delegate;
- kept to be asked for, and left behind where that is granted: a ServiceAccount other than `default` and tokens that the
  pod itself asks for, unless it says that it needs none;
- refused, because it reaches for the node itself, for its metadata service, or for a volume that is not there, or
  because the whole is larger than MAX_BYTES: `ManifestError` names the field.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from agents.executor.addresses import resolved
from agents.executor.baseline import HANDLER_HOSTS, of_containers, of_security
from agents.executor.fields import Object, Tree, walk
from dispatcher.model.bounds import MAX_MANIFEST
from dispatcher.model.crossing import matches
from dispatcher.model.names import (
    CARRIED_ANNOTATIONS,
    NONE,
    PREFIX,
    SCHEDULER_NAME,
    SERVICE_ACCOUNT,
    is_app_label,
    is_reserved,
    steers,
)

MAX_CONTAINERS = 64
MAX_BYTES = MAX_MANIFEST  # of a manifest: etcd, lines and memory of other clusters bear it
_LARGEST = 3  # fields that are named where it is larger
_POD_FIELDS = (
    "activeDeadlineSeconds",
    "dnsConfig",
    "dnsPolicy",
    "enableServiceLinks",
    "hostAliases",
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
_PROJECTED = frozenset(("clusterTrustBundle", "configMap", "downwardAPI", "secret", "serviceAccountToken"))
_GIVEN = "kube-api-access-"  # begins the name of the volume with the token that admission adds
# Written by kubectl and controllers, for themselves.
_OF_TOOLS = frozenset(("kubectl.kubernetes.io/last-applied-configuration",))
_ON_THE_NODE = "reaches into the node of another cluster"
# Metadata services of clouds that are not link-local addresses.
_METADATA = frozenset(("metadata", "metadata.google.internal", "fd00:ec2::254", "100.100.100.200", "168.63.129.16"))


class ManifestError(ValueError):
    """The pod cannot run in another cluster; the text names the field and what to do."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f'{field} {why}; remove it, or keep the pod at home with annotation {PREFIX}stay: "true"')


class _Never(NamedTuple):
    """Values of some fields that never cross."""

    paths: tuple[str, ...]
    meant: Callable[[Any], bool]
    why: str


def _is_metadata(host: Any) -> bool:
    """Whether a probe of this host would ask the node's metadata service, or the node itself."""
    text = str(host).strip("[]").rstrip(".").lower()
    if text in _METADATA or text == "localhost" or text.endswith(".localhost"):
        return True
    return any(
        one.is_link_local or one.is_loopback or one.is_unspecified or str(one) in _METADATA for one in resolved(text)
    )


_NEVER = (
    _Never(("spec.hostNetwork", "spec.hostPID", "spec.hostIPC"), bool, _ON_THE_NODE),
    _Never(of_containers("securityContext.privileged"), bool, _ON_THE_NODE),
    _Never(of_security("windowsOptions.hostProcess"), bool, _ON_THE_NODE),
    _Never(HANDLER_HOSTS, _is_metadata, "calls the metadata service of another cluster's node"),
)
_TREE = Tree((path, never) for never in _NEVER for path in never.paths)


@contextmanager
def readable() -> Iterator[None]:
    """Whatever is wrong with the shape of a pod becomes a ManifestError."""
    try:
        yield
    except ManifestError:
        raise
    except (msgspec.MsgspecError, KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ManifestError("pod", f"is not readable as a pod ({type(error).__name__})") from None


def sanitise(pod: bytes) -> bytes:
    """Manifest (JSON: metadata with labels and annotations, spec) of a pod given as JSON.

    Raises ManifestError if it cannot cross. Sanitising a manifest again changes nothing.
    """
    with readable():
        source = msgspec.json.decode(pod)
        _check(source)
        metadata = source.get("metadata") or {}
        spec = _spec(source["spec"])
        if (metadata.get("annotations") or {}).get(SERVICE_ACCOUNT) == NONE:
            spec = without_account(spec)
        clean = {"metadata": _metadata(metadata), "spec": spec}
        encoded = msgspec.json.encode(clean)
        if len(encoded) > MAX_BYTES:
            raise _too_large(clean, len(encoded))
        return encoded


def _too_large(clean: Object, size: int) -> ManifestError:
    """Names the largest fields of a manifest."""
    sizes = {field: len(msgspec.json.encode(value)) for field, value in _parts(clean)}
    first, *others = sorted(sizes, key=lambda field: sizes[field], reverse=True)[:_LARGEST]
    also = "".join(f", {field} {_kib(sizes[field])}" for field in others)
    return ManifestError(
        first,
        f"has {_kib(sizes[first])}{also}: the pod has {_kib(size)}, and at most {_kib(MAX_BYTES)} of a pod cross to "
        "another cluster (a ConfigMap can hold what is long)",
    )


def _parts(clean: Object) -> Iterator[tuple[str, Any]]:
    spec = clean["spec"]
    yield from ((f"metadata.{name}", value) for name, value in clean["metadata"].items())
    for name, value in spec.items():
        if name not in ("initContainers", "containers"):
            yield f"spec.{name}", value
            continue
        for at, container in enumerate(value):
            yield from ((f"spec.{name}[{at}].{field}", inner) for field, inner in container.items())


def _kib(size: int) -> str:
    return f"{-(-size // 1024)} KiB"


def without_account(spec: Object) -> Object:
    """The spec of a manifest for a pod that runs without its ServiceAccount: no name of it, and no token."""
    volumes, dropped = _without_tokens(spec.get("volumes") or (), _has_token)
    clean = {name: value for name, value in spec.items() if name not in ("serviceAccountName", "volumes")}
    for kind in ("initContainers", "containers"):
        if dropped and kind in clean:
            clean[kind] = [_container(one, dropped) for one in clean[kind]]
    return {**clean, "volumes": volumes} if volumes else clean


def _without_tokens(volumes: Iterable[Object], drops: Callable[[Object], bool]) -> tuple[list[Object], frozenset[str]]:
    """The volumes that stay, and the names of those that `drops` means."""
    dropped = frozenset(one["name"] for one in volumes if drops(one))
    return [one for one in volumes if one["name"] not in dropped], dropped


def _check(source: Object) -> None:
    for hit in walk(source, _TREE):
        if hit.leaf.meant(hit.value):
            raise ManifestError(hit.field, hit.leaf.why)


def _metadata(metadata: Object) -> Object:
    labels = metadata.get("labels") or {}
    annotations = metadata.get("annotations") or {}
    return {
        "labels": {key: value for key, value in labels.items() if is_app_label(key) or steers(key)},
        "annotations": {key: value for key, value in annotations.items() if _may_cross(key)},
    }


def _may_cross(annotation: str) -> bool:
    return not is_reserved(annotation) or matches(CARRIED_ANNOTATIONS, annotation)


def left_behind(pod: bytes) -> list[str]:
    """Labels and annotations of a pod (JSON) that a cluster takes only where a row of its policy lists them.

    Those of Kubernetes' own domains, which cross nowhere, are among them if a user wrote them.
    """
    with readable():
        metadata = msgspec.json.decode(pod).get("metadata") or {}
    annotations = (
        key
        for key in metadata.get("annotations") or {}
        if "/" in key and not key.startswith(PREFIX) and key not in _OF_TOOLS and not matches(CARRIED_ANNOTATIONS, key)
    )
    labels = (key for key in metadata.get("labels") or {} if steers(key) and not matches(CARRIED_ANNOTATIONS, key))
    return sorted({*annotations, *labels})


def _spec(spec: Object) -> Object:
    volumes, dropped = _volumes(spec.get("volumes") or ())
    clean: Object = {name: spec[name] for name in _POD_FIELDS if spec.get(name) is not None}
    for kind in ("initContainers", "containers"):
        containers = spec.get(kind) or ()
        if len(containers) > MAX_CONTAINERS:
            raise ManifestError(f"spec.{kind}", f"has more than {MAX_CONTAINERS} entries")
        if containers:
            clean[kind] = [_container(one, dropped) for one in containers]
    if volumes:
        clean["volumes"] = volumes
    account = spec.get("serviceAccountName") or "default"
    if account != "default" or any(map(_has_token, volumes)):
        clean["serviceAccountName"] = account
    node_affinity = (spec.get("affinity") or {}).get("nodeAffinity")
    if node_affinity:
        clean["affinity"] = {"nodeAffinity": node_affinity}
    if spec.get("hostUsers") is False:  # true is what a pod gets that does not say: left to the target
        clean["hostUsers"] = False
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
        if _is_given(volume):
            dropped.add(volume["name"])
            continue
        if kind == "projected":
            _check_sources(volume[kind], where)
        kept.append({"name": volume["name"], kind: volume.get(kind, {})})
    return kept, frozenset(dropped)


def _check_sources(projected: Mapping[str, Any], where: str) -> None:
    sources = projected.get("sources") or ()
    other = next((kind for source in sources for kind in source if kind not in _PROJECTED), None)
    if other is not None:
        raise ManifestError(f"{where}.projected.{other}", "is a source that other clusters do not have")


def _tokens(volume: Object) -> list[Object]:
    sources = (volume.get("projected") or {}).get("sources") or ()
    return [source["serviceAccountToken"] for source in sources if "serviceAccountToken" in source]


def _has_token(volume: Object) -> bool:
    return bool(_tokens(volume))


def _is_given(volume: Object) -> bool:
    """Whether it is the token for the API server that admission adds to every pod."""
    tokens = _tokens(volume)
    return volume["name"].startswith(_GIVEN) and bool(tokens) and not any(one.get("audience") for one in tokens)


def _container(container: Object, dropped: frozenset[str]) -> Object:
    clean: Object = {name: container[name] for name in _CONTAINER_FIELDS if container.get(name) is not None}
    mounts = [mount for mount in clean.get("volumeMounts", ()) if mount["name"] not in dropped]
    if mounts:
        clean["volumeMounts"] = mounts
    else:
        clean.pop("volumeMounts", None)
    return clean
