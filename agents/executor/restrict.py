"""What of a manifest the policy of the target lets in: asked at the target alone, whose policy it is.

Left behind without a word, since the pod is the same pod without them: annotations by which runtimes, meshes and
networks of the target would be steered, and tolerations that would open nodes kept for others. Refused by name, since
the pod would be another one without them: fields outside Pod Security's baseline, and Secrets that nobody here has
opened to pods of other clusters.
"""

from agents.executor.baseline import of_containers, violations
from agents.executor.fields import Object, Tree, walk
from agents.executor.manifest import ManifestError, readable
from agents.executor.policy import Grants
from dispatcher.model.crossing import crosses, matches
from dispatcher.model.names import steers

SECRETS = (
    "spec.volumes[*].secret.secretName",
    "spec.volumes[*].projected.sources[*].secret.name",
    "spec.imagePullSecrets[*].name",
    *of_containers("env[*].valueFrom.secretKeyRef.name", "envFrom[*].secretRef.name"),
)
_SECRETS = Tree((path, path) for path in SECRETS)
_POLICY = "a row of `accept` of its executor policy"


def restrict(manifest: Object, cluster: str, grants: Grants) -> Object:
    """The manifest (sanitised: metadata, spec) with what `cluster` lets in; doing it again changes nothing.

    Raises ManifestError for a field that is not let in.
    """
    with readable():
        _check(manifest, cluster, grants)
        metadata, spec = dict(manifest["metadata"]), dict(manifest["spec"])
        metadata["annotations"] = {
            key: value for key, value in metadata["annotations"].items() if _speaks_to_all(key, grants)
        }
        metadata["labels"] = {
            key: value
            for key, value in (metadata.get("labels") or {}).items()
            if not steers(key) or matches(grants.annotations, key)
        }
        kept = [one for one in spec.pop("tolerations", ()) if crosses(one.get("key") or "", grants.tolerations)]
        return {**manifest, "metadata": metadata, "spec": {**spec, "tolerations": kept} if kept else spec}


def _check(manifest: Object, cluster: str, grants: Grants) -> None:
    for breach in violations(manifest):
        if breach.allow not in grants.allow:
            raise ManifestError(breach.field, f"{breach.why}: {_only(cluster, 'allow', breach.allow)}")
    for hit in walk(manifest, _SECRETS):
        if not matches(grants.secrets, hit.value):
            raise ManifestError(hit.field, f'is Secret "{hit.value}": {_only(cluster, "secrets", hit.value)}')


def _only(cluster: str, key: str, word: str) -> str:
    return f'cluster "{cluster}" lets that in only where {_POLICY} has "{word}" in `{key}`: add it there'


def _speaks_to_all(key: str, grants: Grants) -> bool:
    """Whether an annotation may cross: one without a domain is nobody's order in particular."""
    return "/" not in key or matches(grants.annotations, key)
