"""The kubelet endpoint's serving certificate by a CertificateSigningRequest, as kubelets ask for
theirs.

The subject is what the signer kubernetes.io/kubelet-serving demands (system:node:NAME of
system:nodes, an IP or DNS name, digital signature and server auth); it does not demand that NAME
itself asks. Somebody else approves it. A request is named after its key and address, so that an
agent which starts again finds what it asked before; one is made a day at most, whatever became of
the last one.
"""

import asyncio
import base64
import contextlib
import datetime as dt
import hashlib
import ipaddress
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from agents.runtime.relay.settings import RelaySettings
from agents.runtime.relay.signing_request import LABELS, REQUESTS, USAGES, SigningRequest
from shared.kube.client import KubeClient
from shared.kube.http import Request
from shared.kube.verdicts import error_text

LOG = structlog.get_logger("relay")
# kube-controller-manager removes pending requests after a day, denied ones after an hour
AGAIN_S = 24 * 3600.0
LATE_S = 60.0  # from an approval: a signer that has issued nothing by then does not run
_MOST_SAID = 32
_FORMAT = serialization.Encoding.PEM


class Issued(NamedTuple):
    """A certificate with its key, as PEM, and what is in it."""

    certificate: bytes
    key: bytes
    addresses: frozenset[object]  # of ipaddress
    begins: float
    ends: float  # Unix time, s

    def good(self, address: str, now: float) -> bool:
        """Whether it can be served."""
        return ipaddress.ip_address(address) in self.addresses and now < self.ends

    def fresh(self, address: str, now: float) -> bool:
        """Whether more than a third of its time is left."""
        return self.good(address, now) and self.ends - now > (self.ends - self.begins) / 3


class ServingCertificate:
    """Asks for a certificate, and again before it ends.

    `node` is the NAME of its subject: that of the proxy node that stands for this cluster
    elsewhere, which no node here has, since all proxy nodes here share the certificate. `now`: Unix
    time, s.
    """

    def __init__(
        self,
        client: KubeClient,
        settings: RelaySettings,
        node: str,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._settings = settings
        self._node = node
        self._now = now
        self._issued: Issued | None = None
        self._key = b""  # of the request that waits
        self._read = False
        self._asked_at = float("-inf")  # when a request was last made
        self._approved_at: float | None = None
        self._said: set[str] = set()
        self.waits = False  # for somebody to approve, or a signer to issue

    async def pair(self) -> tuple[bytes, bytes] | None:
        """Certificate and key to serve with; None while there is none. Never raises: what fails is
        said in the log.
        """
        address = self._settings.address
        now = self._now()
        try:
            if not self._read:
                await asyncio.to_thread(self._recall)
                self._read = True
            if self._issued is None or not self._issued.fresh(address, now):
                await self._look(now)
        except Exception as error:
            self._say(
                str(error) or repr(error),
                f"see the folder {self._settings.folder!r} and the API server",
            )
        issued = self._issued
        self.waits = issued is None or not issued.fresh(address, now)
        return (
            (issued.certificate, issued.key)
            if issued is not None and issued.good(address, now)
            else None
        )

    async def _look(self, now: float) -> None:
        """At the request that waits; without one it is made."""
        if not self._key:
            self._key = _new_key()
            await asyncio.to_thread(self._keep, "request.key", self._key)
        name = self._name()
        answer = await self._client.send(Request("GET", f"{REQUESTS}/{name}"))
        if answer.status == 404:
            if now - self._asked_at >= AGAIN_S:
                await self._ask(name, now)
        elif not answer.ok:
            self._say(
                f"whether {name} was approved cannot be read: {error_text(answer)}",
                "see that it has the rights",
            )
        else:
            found = msgspec.json.decode(answer.body, type=SigningRequest)
            self._asked_at = max(self._asked_at, found.metadata.made_at)
            await self._follow_up(name, found, now)

    async def _ask(self, name: str, now: float) -> None:
        spec = {
            "request": base64.b64encode(
                _request(self._key, self._node, self._settings.address)
            ).decode(),
            "signerName": self._settings.signer,
            "usages": USAGES,
        }
        request = {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": name, "labels": LABELS},
            "spec": spec,
        }
        answer = await self._client.send(Request("POST", REQUESTS, msgspec.json.encode(request)))
        if not answer.ok:
            self._asked_at = now - AGAIN_S + LATE_S  # for the next try
            self._say(
                f"a serving certificate cannot be asked for: {error_text(answer)}",
                "see that it has the rights",
            )
            return
        self._asked_at = now
        self._approved_at = None
        self._say(*SigningRequest().lacks(name))

    async def _follow_up(self, name: str, found: SigningRequest, now: float) -> None:
        if found.status.certificate:
            await self._take(name, base64.b64decode(found.status.certificate))
            return
        if not found.approved:
            self._approved_at = None
            self._say(*found.lacks(name))
        elif self._approved_at is None:
            self._approved_at = now
        elif now - self._approved_at > LATE_S:
            self._say(*found.lacks(name))

    async def _take(self, name: str, certificate: bytes) -> None:
        issued = _issued(certificate, self._key)
        if not issued.fresh(self._settings.address, self._now()):
            self._say(
                f"{name}: what was issued is not for {self._settings.address}, or about to end",
                "ask its signer why",
            )
            return
        await asyncio.to_thread(self._keep, "serving.pem", self._key + certificate)
        await asyncio.to_thread(self._keep, "request.key", b"")
        self._issued = issued
        self._key = b""
        self._asked_at = float("-inf")
        self._said.clear()
        LOG.info(
            "the kubelet endpoint has a serving certificate", request=name, ends=_text(issued.ends)
        )

    def _say(self, problem: str, fix: str) -> None:
        if problem not in self._said:
            LOG.warning("serving certificate of the kubelet endpoint", problem=problem, fix=fix)
        if len(self._said) >= _MOST_SAID:
            self._said.clear()
        self._said.add(problem)

    def _name(self) -> str:
        public = serialization.load_pem_private_key(self._key, None).public_key()
        der = public.public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        digest = hashlib.sha256(
            der + self._settings.address.encode() + self._settings.signer.encode()
        )
        return f"{self._node}-{digest.hexdigest()[:10]}"

    def _recall(self) -> None:
        """What an earlier life of this agent has kept; what cannot be read is made anew."""
        if not self._settings.folder:
            return
        folder = Path(self._settings.folder)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError, ValueError):
            whole = (folder / "serving.pem").read_bytes()
            key, mark, certificate = whole.partition(b"-----BEGIN CERTIFICATE-----")
            self._issued = _issued(mark + certificate, key)
        with contextlib.suppress(FileNotFoundError, ValueError):
            key = (folder / "request.key").read_bytes()
            serialization.load_pem_private_key(key, None)
            self._key = key

    def _keep(self, file: str, data: bytes) -> None:
        if self._settings.folder:
            path = Path(self._settings.folder) / file
            draft = path.with_name(f".{file}")
            draft.unlink(missing_ok=True)
            with os.fdopen(
                os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
            ) as stream:
                stream.write(data)
            draft.replace(path)


def _new_key() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(
        _FORMAT, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _request(key: bytes, node: str, address: str) -> bytes:
    subject = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
        x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{node}"),
    ]
    private = serialization.load_pem_private_key(key, None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)  # noqa: S101 - as `_new_key` makes it
    alternatives = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    return (
        builder.add_extension(alternatives, critical=False)
        .sign(private, hashes.SHA256())
        .public_bytes(_FORMAT)
    )


def _issued(certificate: bytes, key: bytes) -> Issued:
    """ValueError: it is none, or of another key."""
    leaf = x509.load_pem_x509_certificate(certificate)
    if leaf.public_key() != serialization.load_pem_private_key(key, None).public_key():
        raise ValueError("the certificate that was issued is of another key")
    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        raise ValueError("the certificate that was issued has no names") from None
    addresses = frozenset(found.get_values_for_type(x509.IPAddress))
    begins = leaf.not_valid_before_utc.timestamp()
    ends = leaf.not_valid_after_utc.timestamp()
    return Issued(certificate, key, addresses, begins, ends)


def _text(when: float) -> str:
    return dt.datetime.fromtimestamp(when, dt.UTC).isoformat(timespec="seconds")
