"""Pods that name ConfigMaps and Secrets which are not there, or images with bad names, and what a kubelet says: for the
fake and the real one.
"""

from typing import Any, NamedTuple

from localfleet.embedded.meta import Object

WHOLE: dict[str, Object] = {
    "configmaps": {"metadata": {"name": "c"}, "data": {"k": "v", "other": "v"}},
    "secrets": {"metadata": {"name": "s"}, "stringData": {"k": "v", "other": "v"}},
}
# The same objects without the key `other`.
PART: dict[str, Object] = {
    "configmaps": {"metadata": {"name": "c"}, "data": {"k": "v"}},
    "secrets": {"metadata": {"name": "s"}, "stringData": {"k": "v"}},
}


class Case(NamedTuple):
    """Parts of a pod, what is there when it comes, how its container waits, and the event ({} is its namespace)."""

    container: Object
    volumes: list[Object]
    there: dict[str, Object]
    waiting: Object
    event: tuple[str, str]


_MOUNT: Object = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}


def _variable(**source: Any) -> Object:
    return {"env": [{"name": "A", "valueFrom": source}]}


def _refused(container: Object, error: str, there: dict[str, Object]) -> Case:
    waiting = {"reason": "CreateContainerConfigError", "message": error}
    return Case(container, [], there, waiting, ("Failed", f"Error: {error}"))


def _unmounted(volume: Object, error: str, there: dict[str, Object]) -> Case:
    told = f'MountVolume.SetUp failed for volume "v" : {error}'
    return Case(_MOUNT, [{"name": "v", **volume}], there, {"reason": "ContainerCreating"}, ("FailedMount", told))


_NO_MAP, _NO_SECRET = 'configmap "c" not found', 'secret "s" not found'
_OTHER = [{"key": "other", "path": "o"}]
CASES = {
    "a variable of a ConfigMap": _refused(_variable(configMapKeyRef={"name": "c", "key": "k"}), _NO_MAP, {}),
    "a variable of a Secret": _refused(_variable(secretKeyRef={"name": "s", "key": "k"}), _NO_SECRET, {}),
    "all of a ConfigMap": _refused({"envFrom": [{"configMapRef": {"name": "c"}}]}, _NO_MAP, {}),
    "all of a Secret": _refused({"envFrom": [{"secretRef": {"name": "s"}}]}, _NO_SECRET, {}),
    "a key of a ConfigMap": _refused(
        _variable(configMapKeyRef={"name": "c", "key": "other"}), "couldn't find key other in ConfigMap {}/c", PART
    ),
    "a key of a Secret": _refused(
        _variable(secretKeyRef={"name": "s", "key": "other"}), "couldn't find key other in Secret {}/s", PART
    ),
    "a volume of a ConfigMap": _unmounted({"configMap": {"name": "c"}}, _NO_MAP, {}),
    "a volume of a Secret": _unmounted({"secret": {"secretName": "s"}}, _NO_SECRET, {}),
    "a projected volume": _unmounted({"projected": {"sources": [{"secret": {"name": "s"}}]}}, _NO_SECRET, {}),
    "a mounted key of a ConfigMap": _unmounted(
        {"configMap": {"name": "c", "items": _OTHER}}, "configmap references non-existent config key: other", PART
    ),
    "a mounted key of a Secret": _unmounted(
        {"secret": {"secretName": "s", "items": _OTHER}}, "references non-existent secret key: other", PART
    ),
}
_DIGEST = "sha256:" + 64 * "a"
MISNAMED = {  # image -> the end of what is wrong with it
    "Nginx:::": "invalid reference format: repository name (library/Nginx) must be lowercase",
    "UPPER/x:Y Z": "invalid reference format",
    "nginx:": "invalid reference format",
    "nginx:.1": "invalid reference format",
    "nginx//x": "invalid reference format",
    "registry.example/Team/app": "invalid reference format: repository name (Team/app) must be lowercase",
    "a" * 64: f"invalid repository name ({'a' * 64}), cannot specify 64-byte hexadecimal strings",
    f"nginx@{_DIGEST[:-2]}": "invalid checksum digest length",
    f"nginx@{_DIGEST[:-1]}A": "invalid checksum digest format",
    f"nginx@md5:{'a' * 32}": "unsupported digest algorithm",
    f"nginx:1@SHA256:{'a' * 64}": "invalid checksum digest format",
    "x/" + "a" * 260: "repository name must not be more than 255 characters",
}
WELL_NAMED = (
    *("nginx", "nginx:1.27", f"nginx@{_DIGEST}", f"nginx:1@{_DIGEST}", "team/app", "registry.example:5000/team/app:v1"),
    *("localhost/x", "UPPER/x", "index.docker.io/nginx", "[::1]:5000/x", "a__b/c-d.e", "a---b"),
)


def misnamed_events(image: str) -> list[tuple[str, str]]:
    """Reason and message."""
    return [("InspectFailed", misnamed_message(image)), ("Failed", "Error: InvalidImageName")]


def misnamed_message(image: str) -> str:
    """How its container waits."""
    return f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}": {MISNAMED[image]}'


# Nothing of this is there, and none of it is needed: it is optional, or no container mounts it.
_OPTIONAL_KEY = {"key": "k", "optional": True}
OPTIONAL = Case(
    {
        "env": [
            {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", **_OPTIONAL_KEY}}},
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", **_OPTIONAL_KEY}}},
        ],
        "envFrom": [{"configMapRef": {"name": "c", "optional": True}}],
        **_MOUNT,
    },
    [{"name": "v", "secret": {"secretName": "s", "optional": True}}, {"name": "w", "configMap": {"name": "c"}}],
    {},
    {},
    ("", ""),
)


def with_case(pod: Object, case: Case) -> Object:
    """The pod with the case's parts."""
    (container,) = pod["spec"]["containers"]
    return {**pod, "spec": {**pod["spec"], "containers": [{**container, **case.container}], "volumes": case.volumes}}
