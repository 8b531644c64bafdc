"""The gateway's certificates and the signing key in the dispatcher's cluster: the Secrets, and its pods told to look at
once.
"""

from hashlib import sha256
from pathlib import Path

from agents.executor.http import MERGE_PATCH
from dispatcher.cli.joining import objects
from dispatcher.cli.joining.target import Place, Target, reached
from dispatcher.cli.operate.members import MemberError
from dispatcher.service.errors import CommandError
from dispatcher.service.gateway.authority import SIGNING

# A kubelet brings a changed Secret with its next look at a pod, up to 90 s later; a changed pod it looks at at once.
# The signing key is apart from the gateway's: what carries bytes is not to have it.
_SECRETS = ((objects.GATEWAY_SECRET, "gateway"), (objects.SIGNING_SECRET, SIGNING))
LOOKED = "checksum/gateway-certificates"
# Gateway actors have pods of their own, which end the agents' TLS in the dispatcher's place.
_PODS = "app.kubernetes.io/part-of=global-dispatcher,app.kubernetes.io/component in (dispatcher,ray-gateway)"


async def bring(folder: Path, place: Place, namespace: str, *, dry_run: bool) -> list[str]:
    """Make the Secrets what the folder says; a line for each thing done. CommandError."""
    try:
        secrets = [objects.tls_secret(namespace, secret, folder, stem) for secret, stem in _there(folder)]
    except OSError as error:
        raise CommandError(f"{error.filename}: {error.strerror}: `global-dispatcher certificates` makes it") from None
    async with reached(place, dry_run) as target:
        space = objects.namespace(namespace)
        if await target.found(space) is None:
            await target.apply(space)
        for secret in secrets:
            await target.apply(secret)
        if not dry_run:
            data = (value for secret in secrets for value in secret["data"].values())
            await _look_at_once(target, namespace, sha256("".join(data).encode()).hexdigest()[:16])
    return [f"dispatcher: {step}" for step in target.steps]


def _there(folder: Path) -> list[tuple[str, str]]:
    """A folder of an earlier build has no signing key yet, which is no reason not to bring a revocation."""
    return [one for one in _SECRETS if one[1] != SIGNING or (folder / f"{SIGNING}.crt").exists()]


async def _look_at_once(target: Target, namespace: str, mark: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    try:
        for pod in await target.member.items(pods, labelSelector=_PODS):
            if (pod["metadata"].get("annotations") or {}).get(LOOKED) != mark:
                change = {"metadata": {"annotations": {LOOKED: mark}}}
                await target.member.call("PATCH", f"{pods}/{pod['metadata']['name']}", change, MERGE_PATCH)
    except MemberError as error:
        target.steps.append(f"its pods read the Secret within two minutes, as they cannot be told to look now: {error}")


def left_to_do(folder: Path, namespace: str) -> list[str]:
    """How to bring it by hand, or by the next command."""
    return [
        "Bring the certificates of gateway and signing key to the dispatcher: --dispatcher-context CONTEXT does it, or",
        *(
            f"  kubectl --context CONTEXT -n {namespace} create secret generic {secret} "
            f"--from-file=tls.crt={folder}/{stem}.crt --from-file=tls.key={folder}/{stem}.key "
            f"--from-file=ca.crt={folder}/ca.crt --dry-run=client -o yaml | kubectl --context CONTEXT apply -f -"
            for secret, stem in _there(folder)
        ),
        "A dispatcher that has the folder itself (gateway.client_ca_file and the like) reads them within seconds.",
    ]
