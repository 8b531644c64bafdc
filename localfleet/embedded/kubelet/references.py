"""ConfigMaps, Secrets and images that a pod names: what keeps it from starting, in the words of the
real kubelet.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from localfleet.embedded.kubelet.images import misnamed
from localfleet.embedded.meta import Object

# (plural, name) -> the object of the pod's namespace, None when there is none
Find = Callable[[str, str], Object | None]


_MISNAMED = "InvalidImageName"


class Lack(NamedTuple):
    """What is not there: the container that needs it ("": a volume, so none can be created), and
    why. `image`: it is the container's image, which has no name that could be pulled.
    """

    container: str
    error: str
    image: bool = False

    @property
    def waiting(self) -> Object:
        """core/v1 ContainerStateWaiting of the container."""
        return {
            "reason": _MISNAMED if self.image else "CreateContainerConfigError",
            "message": self.error,
        }

    @property
    def events(self) -> tuple[tuple[str, str], ...]:
        """The reason and message of each event."""
        if self.image:
            return ("InspectFailed", self.error), ("Failed", f"Error: {_MISNAMED}")
        return (
            ("Failed", f"Error: {self.error}") if self.container else ("FailedMount", self.error),
        )


class _Kind(NamedTuple):
    """What one kind is called: its plural; in errors as an object, of a volume without a key, as
    the home of a key.
    """

    plural: str
    word: str
    no_key: str
    kind: str


_CONFIG_MAP = _Kind(
    "configmaps", "configmap", "configmap references non-existent config key", "ConfigMap"
)
_SECRET = _Kind("secrets", "secret", "references non-existent secret key", "Secret")


def lacking(pod: Object, find: Find) -> Lack | None:
    """The first object, key or image that the pod needs and that cannot be had; volumes before
    containers.
    """
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
    # What no container mounts, a kubelet does not wait for.
    mounted = {
        mount["name"] for container in containers for mount in container.get("volumeMounts") or ()
    }
    for volume in spec.get("volumes") or ():
        if volume["name"] not in mounted:
            continue
        for kind, name, source in _mounted(volume):
            if error := _missing_of_volume(kind, name, source, find):
                return Lack("", f'MountVolume.SetUp failed for volume "{volume["name"]}" : {error}')
    for container in containers:
        if error := misnamed(container["image"]):
            return Lack(container["name"], error, image=True)
        for kind, source, key in _environment(container):
            if error := _missing_of_environment(
                kind, source, key, pod["metadata"]["namespace"], find
            ):
                return Lack(container["name"], error)
    return None


def _mounted(volume: Object) -> Iterator[tuple[_Kind, str, Object]]:
    if source := volume.get("configMap"):
        yield _CONFIG_MAP, source.get("name", ""), source
    if source := volume.get("secret"):
        yield _SECRET, source.get("secretName", ""), source
    for part in (volume.get("projected") or {}).get("sources") or ():
        for field, kind in (("configMap", _CONFIG_MAP), ("secret", _SECRET)):
            if source := part.get(field):
                yield kind, source.get("name", ""), source


def _environment(container: Object) -> Iterator[tuple[_Kind, Object, str]]:
    """What the environment needs: kind, reference, key ("": the whole object)."""
    for entry in container.get("envFrom") or ():
        for field, kind in (("configMapRef", _CONFIG_MAP), ("secretRef", _SECRET)):
            if source := entry.get(field):
                yield kind, source, ""
    for entry in container.get("env") or ():
        for field, kind in (("configMapKeyRef", _CONFIG_MAP), ("secretKeyRef", _SECRET)):
            if source := (entry.get("valueFrom") or {}).get(field):
                yield kind, source, source["key"]


def _missing_of_volume(kind: _Kind, name: str, source: Object, find: Find) -> str:
    if source.get("optional"):
        return ""
    found = find(kind.plural, name)
    if found is None:
        return f'{kind.word} "{name}" not found'
    absent = (item["key"] for item in source.get("items") or () if item["key"] not in _keys(found))
    return next((f"{kind.no_key}: {key}" for key in absent), "")


def _missing_of_environment(
    kind: _Kind, source: Object, key: str, namespace: str, find: Find
) -> str:
    if source.get("optional"):
        return ""
    name = source.get("name", "")
    found = find(kind.plural, name)
    if found is None:
        return f'{kind.word} "{name}" not found'
    return (
        f"couldn't find key {key} in {kind.kind} {namespace}/{name}"
        if key and key not in _keys(found)
        else ""
    )


def _keys(obj: Object) -> set[str]:
    return {*(obj.get("data") or {}), *(obj.get("binaryData") or {})}
