"""The delegate's manifest: a copy of what may cross of the source pod, made at the source and again
at the target.

`pod_fields` says what becomes of each field, whatever the target allows; what it does allow is
asked of its policy when it makes the delegate (`restrict`), and never known at the source. Beyond
that table, here:
- left behind are reserved labels and annotations (*.kubernetes.io, *.k8s.io, ours;
  app.kubernetes.io/ labels stay), the labels that controllers make for themselves, and the marks of
  groups, else a ReplicaSet, a Job, a Service or a PodGroup of the target would adopt or count the
  delegate; and the token that every pod gets (the delegate runs without one);
- kept to be asked for, and left behind where that is granted: a ServiceAccount other than
  `default`, tokens that the pod itself asks for (`automountServiceAccountToken: true` does), and
  its PriorityClass, unless it says that it needs none. With an account that is kept,
  `automountServiceAccountToken` says whether the pod has a token at home;
- what a container reads of its own pod is given the value that it has at home (`downward`), and so
  is its hostname, at the target (`hostname_of`);
- what Cluster Autoscaler drains at home, since its controller makes another, says so itself: a
  delegate has no controller;
- refused are probes of the node's metadata service, and a whole that is larger than MAX_BYTES.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from agents.executor.crossing import downward
from agents.executor.crossing.addresses import resolved
from agents.executor.crossing.baseline import HANDLER_HOSTS
from agents.executor.crossing.fields import Object, Tree, walk
from agents.executor.crossing.pod_fields import TYPES, UNKNOWN, ManifestError, copied
from shared.model.bounds import MAX_MANIFEST
from shared.model.crossing import matches
from shared.model.names import (
    CARRIED_ANNOTATIONS,
    DEFAULT_ACCOUNT,
    GENERATED_LABELS,
    NONE,
    PREFIX,
    PRIORITY,
    SAFE_LOCAL_VOLUMES,
    SAFE_TO_EVICT,
    SCHEDULER_NAME,
    SERVICE_ACCOUNT,
    is_app_label,
    is_reserved,
    marks_group,
    steers,
)

__all__ = (
    "MAX_BYTES",
    "ManifestError",
    "is_given",
    "left_behind",
    "outlasts_nodes",
    "readable",
    "sanitise",
    "without_account",
    "without_refused",
)

MAX_CONTAINERS = 64
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_HAS_DEBUG = b'"ephemeralContainers"'  # in every pod that has one
_LEFT_OUT_IF_EMPTY = frozenset(
    ("affinity", *_CONTAINERS, "priorityClassName", "tolerations", "volumes")
)
MAX_HOSTNAME = 63  # characters, beyond which kubelet cuts it
MAX_BYTES = MAX_MANIFEST  # of a manifest: etcd, lines and memory of other clusters bear it
_LARGEST = 3  # fields that are named where it is larger
_GIVEN = "kube-api-access-"  # begins the name of the volume with the token that admission adds
# Labels and annotations that are read where the pod was submitted, by kubectl, admission and
# controllers there.
_HEEDED_AT_HOME = (
    f"{PREFIX}*",
    "kubectl.kubernetes.io/last-applied-configuration",
    "kubernetes.io/limit-ranger",
    # the API server writes the field of its name
    "container.apparmor.security.beta.kubernetes.io/*",
    "batch.kubernetes.io/*",
    "controller.kubernetes.io/*",
    "topology.kubernetes.io/*",
    *GENERATED_LABELS,
)
# Kinds of controllers whose pods Cluster Autoscaler evicts unless told not to.
_REPLACED = frozenset(("Job", "ReplicaSet", "ReplicationController", "StatefulSet"))
# Metadata services of clouds that are not link-local addresses.
_METADATA = frozenset(
    ("metadata", "metadata.google.internal", "fd00:ec2::254", "100.100.100.200", "168.63.129.16")
)


def is_metadata(host: Any) -> bool:
    """Whether a probe of this host would ask the node's metadata service, or the node itself."""
    text = str(host).strip("[]").rstrip(".").lower()
    if text in _METADATA or text == "localhost" or text.endswith(".localhost"):
        return True
    return any(
        one.is_link_local or one.is_loopback or one.is_unspecified or str(one) in _METADATA
        for one in resolved(text)
    )


_HOSTS = Tree((path, path) for path in HANDLER_HOSTS)


@contextmanager
def readable() -> Iterator[None]:
    """Whatever is wrong with the shape of a pod becomes a ManifestError."""
    try:
        yield
    except ManifestError:
        raise
    except (
        msgspec.MsgspecError,
        KeyError,
        TypeError,
        AttributeError,
        ValueError,
        RecursionError,
    ) as error:
        raise ManifestError("pod", f"is not readable as a pod ({type(error).__name__})") from None


def sanitise(pod: bytes) -> bytes:
    """Manifest (JSON: metadata with labels and annotations, spec) of a pod given as JSON.

    Raises ManifestError if it cannot cross. Sanitising a manifest again changes nothing.
    """
    with readable():
        source = msgspec.json.decode(pod)
        metadata = source.get("metadata") or {}
        _check_known(source, metadata)
        _check_owner(metadata)
        spec = _spec(source["spec"])
        _check_hosts(spec)
        files = downward.resolve(
            spec, metadata, source["spec"].get("serviceAccountName") or DEFAULT_ACCOUNT
        )
        hostname_of(
            spec, metadata.get("name") or ""
        )  # here it is only known whether it can be given
        said = metadata.get("annotations") or {}
        if said.get(SERVICE_ACCOUNT) == NONE:
            spec = without_account(spec)
        if said.get(PRIORITY) == NONE:
            spec.pop("priorityClassName", None)
        elif source["spec"].get("priority") and "priorityClassName" not in spec:
            raise ManifestError(
                "spec.priority", "is of no PriorityClass, by whose name other clusters give it"
            )
        files |= _drained(metadata, source["spec"])
        clean = {"metadata": _metadata(metadata, files), "spec": spec}
        encoded = msgspec.json.encode(clean)
        if len(encoded) > MAX_BYTES:
            raise _too_large(clean, len(encoded))
        return encoded


def _drained(metadata: Object, spec: Object) -> Object:
    """The annotation that has Cluster Autoscaler evict a delegate, which no controller replaces:
    where its owner says nothing else, and it would evict the source, by its own rules (kubernetes-
    sigs/cluster-autoscaler, pkg/simulator/drainability/rules). A manifest has no owners any more.
    """
    said = metadata.get("annotations") or {}
    kinds = (one["kind"] for one in metadata.get("ownerReferences") or () if one.get("controller"))
    if SAFE_TO_EVICT in said or next(kinds, "") not in _REPLACED:
        return {}
    safe = (said.get(SAFE_LOCAL_VOLUMES) or "").split(",")
    volumes = (one for one in spec.get("volumes") or () if one["name"] not in safe)
    return {} if any(map(_loses_files, volumes)) else {SAFE_TO_EVICT: "true"}


def _loses_files(volume: Object) -> bool:
    """Whether it lies on the disk of the node."""
    held = volume.get("emptyDir")
    return "hostPath" in volume or (held is not None and held.get("medium") != "Memory")


def _check_owner(metadata: Object) -> None:
    """A node of the same name elsewhere is none that a DaemonSet means."""
    for at, owner in enumerate(metadata.get("ownerReferences") or ()):
        if owner.get("kind") == "DaemonSet" and owner.get("controller"):
            where = f"metadata.ownerReferences[{at}]"
            raise ManifestError(
                where, "is a DaemonSet, whose pods are each for one node of their own cluster"
            )


def without_refused(pod: bytes) -> tuple[bytes, list[str]]:
    """A pod that runs (JSON) with those of its debug containers that may cross, and why the others
    may not: a debug container of a pod that runs elsewhere is no reason to let nothing of it cross.
    """
    if _HAS_DEBUG not in pod:
        return pod, []
    with readable():
        source = msgspec.json.decode(pod)
        kept = []
        refused = []
        for at, one in enumerate(source["spec"].get("ephemeralContainers") or ()):
            field = f"spec.ephemeralContainers[{at}]"
            try:
                if at >= MAX_CONTAINERS:
                    raise ManifestError(field, f"is one of more than {MAX_CONTAINERS}")
                copied(one, "EphemeralContainer", field)
                kept.append(one)
            except ManifestError as error:
                refused.append(str(error))
        if refused:
            source["spec"]["ephemeralContainers"] = kept
        return (msgspec.json.encode(source) if refused else pod), refused


def _too_large(clean: Object, size: int) -> ManifestError:
    """Names the largest fields of a manifest."""
    sizes = {field: len(msgspec.json.encode(value)) for field, value in _parts(clean)}
    first, *others = sorted(sizes, key=lambda field: sizes[field], reverse=True)[:_LARGEST]
    also = "".join(f", {field} {_kib(sizes[field])}" for field in others)
    return ManifestError(
        first,
        f"has {_kib(sizes[first])}{also}: the pod has {_kib(size)}, and at most {_kib(MAX_BYTES)} "
        "of a pod cross to "
        "another cluster (a ConfigMap can hold what is long)",
    )


def _parts(clean: Object) -> Iterator[tuple[str, Any]]:
    spec = clean["spec"]
    yield from ((f"metadata.{name}", value) for name, value in clean["metadata"].items())
    for name, value in spec.items():
        if name not in _CONTAINERS:
            yield f"spec.{name}", value
            continue
        for at, container in enumerate(value):
            yield from ((f"spec.{name}[{at}].{field}", inner) for field, inner in container.items())


def _kib(size: int) -> str:
    return f"{-(-size // 1024)} KiB"


def without_account(spec: Object) -> Object:
    """The spec of a manifest for a pod that runs without its ServiceAccount: no name of it, and no
    token. What else a volume with a token holds stays.
    """
    kept, dropped = _without_tokens(spec.get("volumes") or (), _only_tokens)
    volumes = [_tokenless(one) for one in kept]
    clean = {
        name: value
        for name, value in spec.items()
        if name not in ("serviceAccountName", "serviceAccount", "volumes")
    }
    clean["automountServiceAccountToken"] = False
    for kind in _CONTAINERS:
        if dropped and kind in clean:
            clean[kind] = [_container(one, dropped) for one in clean[kind]]
    return {**clean, "volumes": volumes} if volumes else clean


def _without_tokens(
    volumes: Iterable[Object], drops: Callable[[Object], bool]
) -> tuple[list[Object], frozenset[str]]:
    """The volumes that stay, and the names of those that `drops` means."""
    dropped = frozenset(one["name"] for one in volumes if drops(one))
    return [one for one in volumes if one["name"] not in dropped], dropped


def _check_known(source: Object, metadata: Object) -> None:
    for kind, held, where in (("Pod", source, ""), ("ObjectMeta", metadata, "metadata.")):
        unknown = next(
            (name for name, value in held.items() if name not in TYPES[kind] and value is not None),
            None,
        )
        if unknown is not None:
            raise ManifestError(f"{where}{unknown[:80]}", UNKNOWN)


def _check_hosts(spec: Object) -> None:
    for hit in walk({"spec": spec}, _HOSTS):
        if is_metadata(hit.value):
            raise ManifestError(hit.field, "calls the metadata service of another cluster's node")


def hostname_of(spec: Object, name: str) -> Object:
    """What gives the delegate of a pod of this name the hostname that it has at home: where `spec`
    says none, that is the pod's name, and a delegate has another one. ManifestError where nothing
    can.
    """
    if not name or spec.get("hostname") or spec.get("hostnameOverride"):
        return {}
    at_home = name[:MAX_HOSTNAME].rstrip("-.")
    if "." not in at_home:
        return {"hostname": at_home}
    if spec.get("subdomain") or spec.get("setHostnameAsFQDN"):
        raise ManifestError(
            "spec.subdomain",
            f'makes a name of "{at_home}", which no spec.hostname can be: set that',
        )
    return {"hostnameOverride": at_home}


def _metadata(metadata: Object, files: Object) -> Object:
    """`files`: the annotations that files are read from; no other of those cross."""
    labels = metadata.get("labels") or {}
    annotations = metadata.get("annotations") or {}
    return {
        "labels": {key: value for key, value in labels.items() if is_app_label(key) or steers(key)},
        "annotations": {key: value for key, value in annotations.items() if _may_cross(key)}
        | files,
    }


def _may_cross(annotation: str) -> bool:
    if marks_group(annotation):
        return False
    return not is_reserved(annotation) or matches(CARRIED_ANNOTATIONS, annotation)


def left_behind(pod: bytes) -> list[str]:
    """Labels and annotations of a pod (JSON) that a cluster takes only if a row of its policy lists
    them, or never: those of Kubernetes' own domains (`names.is_reserved`). Not among them: what is
    heeded at home.
    """
    with readable():
        metadata = msgspec.json.decode(pod).get("metadata") or {}
    annotations = (key for key in metadata.get("annotations") or {} if "/" in key)
    labels = (key for key in metadata.get("labels") or {} if not is_app_label(key))
    return sorted(
        {
            key
            for key in (*annotations, *labels)
            if not matches((*CARRIED_ANNOTATIONS, *_HEEDED_AT_HOME), key) and not marks_group(key)
        }
    )


def outlasts_nodes(pod: bytes) -> bool:
    """Whether a pod (JSON) stays on a node that has failed by a toleration that does not go along
    (`restrict`).
    """
    with readable():
        tolerations = msgspec.json.decode(pod)["spec"].get("tolerations") or ()
    return any(
        not one.get("key") and one.get("effect") in (None, "", "NoExecute") for one in tolerations
    )


def _spec(spec: Object) -> Object:
    for kind in _CONTAINERS:
        if len(spec.get(kind) or ()) > MAX_CONTAINERS:
            raise ManifestError(f"spec.{kind}", f"has more than {MAX_CONTAINERS} entries")
    copy: Object = copied(spec, "PodSpec", "spec")
    volumes, dropped = _without_tokens(copy.pop("volumes", ()), is_given)
    clean = {name: value for name, value in copy.items() if value or name not in _LEFT_OUT_IF_EMPTY}
    for kind in _CONTAINERS:
        if kind in clean:
            clean[kind] = [_container(one, dropped) for one in clean[kind]]
    if volumes:
        clean["volumes"] = [one if len(one) > 1 else {**one, "emptyDir": {}} for one in volumes]
    account = spec.get("serviceAccountName") or DEFAULT_ACCOUNT
    asks = spec.get("automountServiceAccountToken") is True  # only where somebody wrote so
    if asks or account != DEFAULT_ACCOUNT or any(map(_has_token, volumes)):
        clean["serviceAccountName"] = account
        # API servers write both names; agents of an older version leave this one out, and do not
        # tell of the token at home.
        if spec.get("serviceAccount") == account:
            clean["serviceAccount"] = account
            asks = asks or bool(dropped)
    elif dropped or is_given_default(spec):
        clean["serviceAccount"] = account
    if (
        spec.get("hostUsers") is False
    ):  # true is what a pod gets that does not say: left to the target
        clean["hostUsers"] = False
    return {**clean, "schedulerName": SCHEDULER_NAME, "automountServiceAccountToken": asks}


def is_given_default(spec: Object) -> bool:
    """Whether the spec of a manifest says so: its pod has at home the token that every pod gets.

    It is told by the older name of its account alone. No pod that an API server stores lacks the
    other, and agents of an older version read it as a pod without a token.
    """
    return "serviceAccountName" not in spec and spec.get("serviceAccount") == DEFAULT_ACCOUNT


def _tokens(volume: Object) -> list[Object]:
    sources = (volume.get("projected") or {}).get("sources") or ()
    return [source["serviceAccountToken"] for source in sources if "serviceAccountToken" in source]


def _has_token(volume: Object) -> bool:
    return bool(_tokens(volume))


def _only_tokens(volume: Object) -> bool:
    return _has_token(volume) and len(_tokens(volume)) == len(volume["projected"]["sources"])


def _tokenless(volume: Object) -> Object:
    if not _has_token(volume):
        return volume
    held = volume["projected"]
    rest = [source for source in held["sources"] if "serviceAccountToken" not in source]
    return {**volume, "projected": {**held, "sources": rest}}


def is_given(volume: Object) -> bool:
    """Whether it is the token for the API server that admission adds to every pod."""
    tokens = _tokens(volume)
    return (
        volume["name"].startswith(_GIVEN)
        and bool(tokens)
        and not any(one.get("audience") for one in tokens)
    )


def _container(container: Object, dropped: frozenset[str]) -> Object:
    mounts = [mount for mount in container.get("volumeMounts", ()) if mount["name"] not in dropped]
    clean = {name: value for name, value in container.items() if name != "volumeMounts"}
    return {**clean, "volumeMounts": mounts} if mounts else clean
