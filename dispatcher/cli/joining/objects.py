"""What a cluster is given: Secrets, the values of its agent's chart, and the command that installs
that.
"""

import re
import shlex
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from dispatcher.service.gateway.authority import serving_files
from dispatcher.service.gateway.folder import Folder
from shared.security.signatures import public_key

Object = dict[str, Any]
TLS_SECRET = "global-dispatcher-agent"
KEY_SECRET = "global-dispatcher-key"
GATEWAY_SECRET = "global-dispatcher-gateway"
KEY_FILE = "key.pem"
SIGNING_SECRET = "global-dispatcher-signing"
WEBHOOK_SECRET = "global-dispatcher-webhook"
RELEASE = "agent"
_PEM = re.compile(rb"-----BEGIN .*?-----END [A-Z ]+-----", re.DOTALL)
_LABELS = {"app.kubernetes.io/part-of": "global-dispatcher"}


def namespace(name: str) -> Object:
    """A namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def secret(where: str, name: str, data: Mapping[str, bytes]) -> Object:
    """A Secret without a type, so that one that is there keeps its own."""
    encoded = {key: b64encode(value).decode() for key, value in data.items()}
    meta = {"name": name, "namespace": where, "labels": dict(_LABELS)}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": encoded}


def tls_secret(where: str, name: str, folder: Folder, stem: str) -> Object:
    """The Secret that a chart mounts: certificate, key, and whom to trust. OSError."""
    files = {"tls.crt": f"{stem}.crt", "tls.key": f"{stem}.key", "ca.crt": "ca.crt"}
    return secret(where, name, {key: folder.need(file) for key, file in files.items()})


def key_secret(where: str) -> Object:
    """A new private key, with which the cluster signs what it gives away and what it runs for
    others.
    """
    key = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    return secret(where, KEY_SECRET, {KEY_FILE: key})


def key_problem(found: Object) -> str:
    """Why an agent cannot sign with the key in a Secret, and what to do; '' if it can. Nothing of
    the key is told.
    """
    try:
        keys = _keys(found)
    except (KeyError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        problem = (
            f"has no {KEY_FILE}"
            if isinstance(error, KeyError)
            else f"{KEY_FILE} is no private key in PEM"
        )
    else:
        problem = (
            ""
            if all(isinstance(key, Ed25519PrivateKey) for key in keys)
            else f"{KEY_FILE} is no Ed25519 key"
        )
    fix = (
        "put your copy of the key there; if no agent has served the cluster yet, delete the "
        "Secret and join again"
    )
    return f"{problem}: {fix}" if problem else ""


def public_keys(found: Object) -> tuple[str, ...]:
    """The public halves of a Secret's keys, of which there is no `key_problem`, the one that is
    signed with first.
    """
    return tuple(public_key(key) for key in _keys(found) if isinstance(key, Ed25519PrivateKey))


def _keys(found: Object) -> list[PrivateKeyTypes]:
    data = b64decode((found.get("data") or {})[KEY_FILE])
    return [load_pem_private_key(one, password=None) for one in _PEM.findall(data) or [data]]


def webhook_secret(where: str) -> Object:
    """A certificate for the agent's webhook, whatever its release is called; good for ten years, as
    the chart's own.
    """
    return secret(where, WEBHOOK_SECRET, serving_files(f"*.{where}.svc"))


def values(
    cluster: str, urls: list[str], opt_in: str, *, own_key: bool, webhook: Object | None = None
) -> Object:
    """Of the agent's chart. `own_key`: KEY_SECRET has the cluster's key, else the chart knows where
    it is. `webhook`: WEBHOOK_SECRET; None: the chart makes one.
    """
    served = {"tlsSecret": WEBHOOK_SECRET, "caBundle": webhook["data"]["ca.crt"]} if webhook else {}
    return {
        "cluster": cluster,
        "gateway": {"urls": urls, "tlsSecret": TLS_SECRET},
        **({"keySecret": KEY_SECRET} if own_key else {}),
        "admissionPolicy": {"by": opt_in, **({"webhook": served} if served else {})},
    }


def helm_words(
    chart: str, where: str, place: tuple[str, str], given: Object, file: Path | None
) -> list[str]:
    """The command that installs the agent, or upgrades it. `place`: context and kubeconfig, which
    may be empty.
    """
    context, kubeconfig = place
    words = ["helm", "upgrade", "--install", RELEASE, chart, "--namespace", where]
    words += ["--kube-context", context] if context else []
    words += ["--kubeconfig", kubeconfig] if kubeconfig else []
    if file is not None:
        return [*words, "--values", str(file)]
    return [*words, *(word for line in _lines(given, "") for word in ("--set", line))]


def _lines(given: Mapping[str, Any], before: str) -> list[str]:
    """A nested map as KEY=VALUE of --set."""
    found: list[str] = []
    for key, value in given.items():
        if isinstance(value, Mapping):
            found += _lines(value, f"{before}{key}.")
        elif isinstance(value, list):
            found += [f"{before}{key}[{at}]={one}" for at, one in enumerate(value)]
        else:
            found.append(f"{before}{key}={value}")
    return found


def as_typed(words: list[str]) -> str:
    """A command as one types it."""
    return " ".join(map(shlex.quote, words))
