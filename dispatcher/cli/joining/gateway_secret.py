"""The gateway's certificates and the signing key in the dispatcher's cluster: the Secrets, and its
pods told to look at once.
"""

from hashlib import sha256
from typing import Any

from dispatcher.cli.joining import objects, trusted_authority
from dispatcher.cli.joining.target import Place, Target, reached, shown
from dispatcher.cli.operate.members import MemberError
from dispatcher.service.errors import CommandError
from dispatcher.service.gateway.authority import SIGNING
from dispatcher.service.gateway.folder import Folder
from shared.kube.http import MERGE_PATCH

Object = dict[str, Any]
# A kubelet brings a changed Secret with its next look at a pod, up to 90 s later; a changed pod it
# looks at at once. The signing key is apart from the gateway's: what carries bytes is not to have
# it.
_SECRETS = ((objects.GATEWAY_SECRET, "gateway"), (objects.SIGNING_SECRET, SIGNING))
_VOLUME = "gateway"
_LATE = "its pods read the Secret within two minutes, as they cannot be told to look now"
LOOKED = "checksum/gateway-certificates"
_PODS = "app.kubernetes.io/part-of=global-dispatcher,app.kubernetes.io/component=dispatcher"


async def bring(folder: Folder, place: Place, namespace: str, *, make: bool = True) -> list[str]:
    """Make the Secrets what the folder says; a line for each thing done. CommandError.

    `make`: also where there are none yet. Without it, a Secret that no dispatcher mounts is an
    error: what is revoked in it is revoked nowhere.
    """
    try:
        secrets = [
            objects.tls_secret(namespace, secret, folder, stem) for secret, stem in _there(folder)
        ]
    except OSError as error:
        raise CommandError(
            f"{error.filename}: {error.strerror}: `global-dispatcher certificates` makes it"
        ) from None
    async with reached(place, folder.dry_run) as target:
        pods = await _pods(target, namespace)
        if make:
            space = objects.namespace(namespace)
            if await target.found(space) is None:
                await target.apply(space)
        else:
            await trusted_authority.check(target, namespace, trusted_authority.DISPATCHERS, folder)
            secrets = await _known(target, secrets, pods)
        for secret in secrets:
            await target.apply(secret)
        target.steps += _mounting_others(pods or [])
        if not folder.dry_run:
            data = (value for secret in secrets for value in secret["data"].values())
            await _look_at_once(target, pods or [], sha256("".join(data).encode()).hexdigest()[:16])
    return [f"dispatcher: {step}" for step in target.steps]


def _there(folder: Folder) -> list[tuple[str, str]]:
    """A folder of an earlier build has no signing key yet, which is no reason not to bring a
    revocation.
    """
    return [one for one in _SECRETS if one[1] != SIGNING or folder.has(f"{SIGNING}.crt")]


async def _pods(target: Target, namespace: str) -> list[Object] | None:
    """The pods that end the agents' TLS; None: they cannot be listed (told)."""
    try:
        return await target.member.items(
            f"/api/v1/namespaces/{namespace}/pods", labelSelector=_PODS
        )
    except MemberError as error:
        target.steps.append(f"{_LATE}: {error}")
        return None


def _mounted(pod: Object) -> str:
    """The Secret with the gateway's certificate; '' where a pod has none."""
    volumes = pod["spec"].get("volumes") or ()
    return next(
        (
            one["secret"]["secretName"]
            for one in volumes
            if one["name"] == _VOLUME and "secret" in one
        ),
        "",
    )


async def _known(target: Target, secrets: list[Object], pods: list[Object] | None) -> list[Object]:
    """Those that are there. CommandError: the gateway's is not, or pods mount another in its place."""
    gateway, *others = secrets
    name = gateway["metadata"]["name"]
    mounted = sorted({_mounted(pod) for pod in pods or ()} - {""})
    if mounted and name not in mounted:
        raise CommandError(
            f"{target.where}: the dispatcher's pods mount Secret {mounted[0]}, not {name}, which "
            "is the one written "
            f"here: bring ca.crt of the folder into {mounted[0]}, or set gateway.tlsSecret of "
            f"their chart to {name}"
        )
    if await target.found(gateway) is None:
        raise CommandError(
            f"{target.where}: there is no {shown(gateway)}, so no dispatcher reads it: name the "
            "dispatcher's namespace "
            "with --namespace and its cluster with --dispatcher-context; where gateway.tlsSecret "
            "of its chart names "
            "another Secret, bring ca.crt of the folder there"
        )
    if pods is not None and not pods:
        target.steps.append(
            f"{shown(gateway)}: no pod of a dispatcher was seen beside it: is it another's "
            "namespace?"
        )
    return [gateway, *[one for one in others if await target.found(one) is not None]]


def _mounting_others(pods: list[Object]) -> list[str]:
    """A line for each pod that does not read what is written here."""
    found = ((pod["metadata"]["name"], _mounted(pod)) for pod in pods)
    return [
        f"Pod {name}: mounts Secret {secret}, not {objects.GATEWAY_SECRET}: bring ca.crt of the "
        "folder there, too"
        for name, secret in found
        if secret not in ("", objects.GATEWAY_SECRET)
    ]


async def _look_at_once(target: Target, pods: list[Object], mark: str) -> None:
    change = {"metadata": {"annotations": {LOOKED: mark}}}
    problem = ""
    for pod in pods:
        meta = pod["metadata"]
        if (meta.get("annotations") or {}).get(LOOKED) == mark:
            continue
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        try:
            await target.member.call("PATCH", path, change, MERGE_PATCH)
        except MemberError as error:
            if error.status != 404:  # gone meanwhile: its successor mounts it anew
                problem = str(error)
    if problem:
        target.steps.append(f"{_LATE}: {problem}")


def left_to_do(folder: Folder, namespace: str) -> list[str]:
    """How to bring it by hand, or by the next command."""
    return [
        "Bring the certificates of gateway and signing key to the dispatcher: "
        "--dispatcher-context CONTEXT does it, or",
        *(
            f"  kubectl --context CONTEXT -n {namespace} create secret generic {secret} "
            f"--from-file=tls.crt={folder}/{stem}.crt --from-file=tls.key={folder}/{stem}.key "
            f"--from-file=ca.crt={folder}/ca.crt --dry-run=client -o yaml | kubectl --context "
            "CONTEXT apply -f -"
            for secret, stem in _there(folder)
        ),
        "A dispatcher that has the folder itself (gateway.client_ca_file and the like) reads them "
        "within seconds.",
    ]
