"""Kinds of objects that pods name, and the fields of a pod that name one.

Such an object is a *follower* of the pod if it goes with it to another cluster, which then has a
copy of it (`copies`). The manifest says which do (`source_manifest`, `followers`); the target
cluster must have all others of its own, under the same names (`target_needs`).
"""

from typing import NamedTuple
from urllib.parse import quote

from agents.executor.crossing.baseline import of_containers
from agents.executor.crossing.fields import Object, Tree, walk
from agents.executor.objects.contents import SECRET

_CONFIG_MAPS: Tree[str] = Tree(
    (path, "name")
    for path in (
        "spec.volumes[*].configMap",
        "spec.volumes[*].projected.sources[*].configMap",
        *of_containers("env[*].valueFrom.configMapKeyRef", "envFrom[*].configMapRef"),
    )
)
_MAY_BE_OPTIONAL = (
    ("spec.volumes[*].secret", "secretName"),
    ("spec.volumes[*].projected.sources[*].secret", "name"),
    *(
        (path, "name")
        for path in of_containers("env[*].valueFrom.secretKeyRef", "envFrom[*].secretRef")
    ),
)
SECRETS_THAT_MAY_BE_OPTIONAL: Tree[str] = Tree(_MAY_BE_OPTIONAL)


class Kind(NamedTuple):
    """A kind of object that may follow pods: its `plural` in paths, the fields that name one (with
    the key that has the name), and what is in every manifest that does.
    """

    word: str
    plural: str
    tree: Tree[str]
    hint: bytes

    def path(self, namespace: str, name: str = "") -> str:
        """Of one object, or of all in a namespace."""
        held = f"/api/v1/namespaces/{quote(namespace, safe='')}/{self.plural}"
        return f"{held}/{quote(name, safe='')}" if name else held


CONFIG_MAP = Kind("ConfigMap", "configmaps", _CONFIG_MAPS, b"onfigMap")
_SECRETS: Tree[str] = Tree((*_MAY_BE_OPTIONAL, ("spec.imagePullSecrets[*]", "name")))
SECRETS = Kind(SECRET, "secrets", _SECRETS, b"ecret")
KINDS = {one.word: one for one in (CONFIG_MAP, SECRETS)}
# Which each cluster has of its own, in every namespace: it is for that cluster's own servers.
OF_EACH_CLUSTER = frozenset((("ConfigMap", "kube-root-ca.crt"),))


def named(pod: Object, kind: Kind) -> set[str]:
    """The objects of this kind that a pod names."""
    return {
        str(hit.value[hit.leaf])
        for hit in walk({"spec": pod["spec"]}, kind.tree)
        if hit.value.get(hit.leaf)
    }
