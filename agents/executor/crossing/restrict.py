"""What of a manifest the policy of the target lets in: asked at the target alone, whose policy it
is.

Left behind, since the pod is the same pod without them: labels and annotations by which runtimes,
meshes and networks of the target would be steered (the source's agent names them in an event, see
`manifest.left_behind`), and tolerations that would open nodes kept for others (the dispatcher's
filters go by those that are kept). Refused by name, since the pod would be another one without
them: fields outside Pod Security's baseline, Secrets that neither follow them nor were opened here
to pods of other clusters, and a PriorityClass that is lacking here or higher than pods of others may have.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from agents.executor.crossing.baseline import of_containers, violations
from agents.executor.crossing.fields import Object, Tree, walk
from agents.executor.crossing.manifest import (
    ManifestError,
    is_given_default,
    readable,
    without_account,
)
from agents.executor.crossing.policy import Grants
from shared.model.copy_names import HASH
from shared.model.crossing import MAX_PRIORITY, RUNTIME_CLASS, barred_class, crosses, matches
from shared.model.crossing import SECRETS as OF_SECRETS
from shared.model.names import (
    CONSENT,
    DEFAULT_ACCOUNT,
    DOWNWARD,
    SECRETS_CONSENT,
    SERVICE_ACCOUNT,
    steers,
)
from shared.model.objects import PriorityClass
from shared.model.pod import Need

SECRETS = (
    "spec.volumes[*].secret.secretName",
    "spec.volumes[*].projected.sources[*].secret.name",
    "spec.imagePullSecrets[*].name",
    *of_containers("env[*].valueFrom.secretKeyRef.name", "envFrom[*].secretRef.name"),
)
_SECRETS = Tree((path, path) for path in SECRETS)
ACCOUNTS = "service_accounts"  # the list of a row that a `Need` for an account names
_TOKENS = Tree(
    (path, path) for path in ("spec.volumes[*].projected.sources[*].serviceAccountToken",)
)


class Copied(NamedTuple):
    """The Secrets that follow a pod here, by their names at home; `barred`: why others cannot."""

    secrets: Collection[str] = ()
    barred: str = ""


_NONE = Copied()
_LIKE_A_COPY = re.compile(f".*-{HASH}", re.DOTALL)


def restrict(
    manifest: Object,
    cluster: str,
    grants: Grants,
    classes: Sequence[PriorityClass] = (),
    copied: Copied = _NONE,
) -> Object:
    """The manifest (sanitised: metadata, spec) with what `cluster` lets in; doing it again changes
    nothing.

    `classes`: its PriorityClasses; none: they are not known, and its server tells.
    Raises ManifestError for a field that is not let in.
    """
    with readable():
        _check(manifest, cluster, grants, copied)
        metadata = dict(manifest["metadata"])
        spec = _ranked(_who(manifest["spec"], grants), grants, classes)
        metadata["annotations"] = {
            key: value
            for key, value in metadata["annotations"].items()
            if _speaks_to_all(key, grants)
        }
        metadata["labels"] = {
            key: value
            for key, value in (metadata.get("labels") or {}).items()
            if not steers(key) or matches(grants.annotations, key)
        }
        kept = [
            one
            for one in spec.pop("tolerations", ())
            if crosses(one.get("key") or "", grants.tolerations)
        ]
        return {
            **manifest,
            "metadata": metadata,
            "spec": {**spec, "tolerations": kept} if kept else spec,
        }


def _check(manifest: Object, cluster: str, grants: Grants, copied: Copied) -> None:
    for need in needed(manifest):
        if need.key == OF_SECRETS and need.word in copied.secrets:
            continue
        opened = getattr(grants, need.key)
        if need.key == ACCOUNTS:
            opened = (*opened, *grants.local_accounts)
        if not matches(opened, need.word):
            why = _only(cluster, need.key, need.word)
            if need.key == OF_SECRETS and matches(grants.secrets_follow, need.word):
                why = copied.barred or _not_given(cluster, need.word)
            raise ManifestError(need.field, f"{need.why}: {why}")
        if need.key == OF_SECRETS and _LIKE_A_COPY.fullmatch(need.word):  # of others' pods
            raise ManifestError(need.field, f"{need.why}, which is named as copies are")


def needed(manifest: Object) -> Iterator[Need]:
    """What of a manifest (sanitised) only a row of the target's policy lets in."""
    for breach in violations(manifest):
        yield Need("allow", breach.allow, breach.field, breach.why)
    for hit in walk(manifest, _SECRETS):
        yield Need("secrets", hit.value, hit.field, f'is Secret "{hit.value}"')
    account = manifest["spec"].get("serviceAccountName")
    if account:
        field, what = _account_named(manifest, account)
        left = (
            f"{what}, whose token and rights stay at home (annotation {SERVICE_ACCOUNT}: none, if "
            "not needed; a row with it in `local_accounts` has it run as the account of that name "
            "there)"
        )
        yield Need(ACCOUNTS, account, field, left)


def _who(spec: Object, grants: Grants) -> Object:
    """The spec with the account of that name here, where a row opens it; else without any. The
    token that every pod gets is of `default`, and asks for no row: without one the pod has none
    here.
    """
    account = DEFAULT_ACCOUNT if is_given_default(spec) else spec.get("serviceAccountName")
    if not account or not matches(grants.local_accounts, account):
        return without_account(spec)
    if is_given_default(spec):
        return {**spec, "serviceAccountName": account, "automountServiceAccountToken": True}
    if spec.get("serviceAccount") != account:
        raise ManifestError(
            "spec.serviceAccountName",
            f'is "{account}", and the agent of its cluster, of an older version, does not tell '
            "whether it has a token there: upgrade it",
        )
    return dict(spec)


def _account_named(manifest: Object, account: str) -> tuple[str, str]:
    """The field by which a pod has more of its ServiceAccount than every pod, and what that field
    says.
    """
    if account != DEFAULT_ACCOUNT:
        return "spec.serviceAccountName", f'is "{account}"'
    token = next((hit.field for hit in walk(manifest, _TOKENS)), "")
    if token:
        return token, f'is a token of ServiceAccount "{account}"'
    return (
        "spec.automountServiceAccountToken",
        f'is true, for a token of ServiceAccount "{account}"',
    )


def class_needed(manifest: Object) -> Iterator[Need]:
    """The PriorityClass that a manifest (sanitised) names: the target must have it, and let in its
    value.
    """
    name = manifest["spec"].get("priorityClassName")
    if name:
        yield Need(MAX_PRIORITY, name, "spec.priorityClassName", f'is PriorityClass "{name}"')


def runtime_needed(manifest: Object) -> Iterator[Need]:
    """The RuntimeClass that a manifest (sanitised) names: the target must have it."""
    name = manifest["spec"].get("runtimeClassName")
    if name:
        yield Need(RUNTIME_CLASS, name, "spec.runtimeClassName", f'is RuntimeClass "{name}"')


def _ranked(spec: Object, grants: Grants, classes: Sequence[PriorityClass]) -> Object:
    """The spec of a pod that may be as important here as its PriorityClass says, or goes without
    one.
    """
    name = spec.get("priorityClassName")
    barred = barred_class(name, grants.max_priority, classes) if name else ""
    if barred and not grants.without_priority:
        raise ManifestError("spec.priorityClassName", barred)
    # every cluster has classes, so this agent may not list them
    unknown = grants.without_priority and not classes
    if not (barred or unknown):
        return spec
    return {field: value for field, value in spec.items() if field != "priorityClassName"}


def _only(cluster: str, key: str, word: str) -> str:
    keys = f"`{key}`"
    if key == OF_SECRETS:
        keys = f"{keys} (its own of that name) or `secrets_follow` (a copy)"
    return (
        f'cluster "{cluster}" takes it only if a row of its `executor.accept` has "{word}" in '
        f"{keys}: add it there"
    )


def _not_given(cluster: str, word: str) -> str:
    return (
        f"it does not follow the pod, as at home neither its annotation {CONSENT} nor, where it "
        f'has none, {SECRETS_CONSENT} of its Namespace names cluster "{cluster}", or its type is '
        f'one that never follows, or the agent there may not get it; a Secret "{word}" of cluster '
        f'"{cluster}" itself needs a row with it in `secrets`'
    )


def _speaks_to_all(key: str, grants: Grants) -> bool:
    """Whether an annotation may cross: one without a domain, or of ours for a file, is nobody's
    order in particular.
    """
    return "/" not in key or key.startswith(DOWNWARD) or matches(grants.annotations, key)
