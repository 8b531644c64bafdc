"""Before Secrets are written: that they trust the authority of this folder already, if they are
there.

A folder without an authority makes a new one. Written over what a fleet trusts, it would cut off
the cluster that is joined, and in the dispatcher's cluster every agent of the fleet.
"""

import base64
from collections.abc import Iterable
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from dispatcher.cli.joining import objects
from dispatcher.cli.joining.target import Target, shown
from dispatcher.config.certificates import ROLES
from dispatcher.service.errors import CommandError
from dispatcher.service.gateway.folder import Folder

Object = dict[str, Any]
AGENTS = tuple(f"{objects.TLS_SECRET}-{role}" for role in ROLES)
DISPATCHERS = (objects.GATEWAY_SECRET, objects.SIGNING_SECRET)


async def check(target: Target, namespace: str, names: Iterable[str], folder: Folder) -> None:
    """CommandError: one of these Secrets is there and trusts other authorities than the folder's."""
    own = _keys(folder.read("ca.crt") or b"")
    for name in names:
        found = await target.found(objects.secret(namespace, name, {}))
        trusted = (found or {}).get("data") or {}
        if "ca.crt" in trusted and not own & _keys(base64.b64decode(trusted["ca.crt"])):
            whose = "has another authority" if own else "has no authority yet"
            raise CommandError(
                f"{target.where}: {shown(found or {})} trusts an authority, and the folder "
                f"{folder} {whose}: name the"
                " folder of that fleet with --folder; or, to put this folder's authority in its "
                "place, which cuts off"
                " whoever has certificates of the other one, add --new-authority"
            )


def _keys(bundle: bytes) -> set[bytes]:
    """The public keys of the authorities in a bundle; none where it cannot be read."""
    try:
        found = x509.load_pem_x509_certificates(bundle)
    except ValueError:
        return set()
    return {
        one.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        for one in found
    }
