"""The cluster's own certificate authority and the certificates it signs.

The authority and the API server's certificate live in the state directory, so that a restarted
cluster is the same one to its clients. Kubelet certificates are signed anew at each start: clients
verify them by the authority.
"""

import os
import ssl
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import trustme

# as kubeadm names them
KUBELET_CLIENT = "kube-apiserver-kubelet-client"
MASTERS = "system:masters"


class Authority:
    """A certificate authority kept in `directory` (ca.pem, ca-key.pem, api.pem), made there when
    missing.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ca = self._load() or self._make()

    @property
    def certificate(self) -> bytes:
        """The authority's certificate in PEM, as a kubeconfig carries it."""
        return self._ca.cert_pem.bytes()

    def api_context(self) -> ssl.SSLContext:
        """Server TLS for the API on 127.0.0.1 and localhost, the same certificate after each
        restart.
        """
        path = self._directory / "api.pem"
        if not path.exists():
            leaf = self._ca.issue_cert("127.0.0.1", "localhost", "kubernetes.default.svc")
            write_private(path, leaf.private_key_and_cert_chain_pem.bytes())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context

    def kubelet_context(self, addresses: Sequence[str]) -> ssl.SSLContext:
        """Server TLS for kubelets on these IP addresses; who shows a certificate shows one of this
        authority.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_OPTIONAL
        self._ca.configure_trust(context)
        self._ca.issue_cert(*addresses, common_name="system:node").configure_cert(context)
        return context

    @cached_property
    def client_context(self) -> ssl.SSLContext:
        """Client TLS of the API server towards kubelets, which it does not verify: no authority of
        theirs is known.
        """
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self._ca.issue_cert(
            "kube-apiserver", common_name=KUBELET_CLIENT, organization_name=MASTERS
        ).configure_cert(context)
        return context

    def _load(self) -> trustme.CA | None:
        certificate = self._directory / "ca.pem"
        key = self._directory / "ca-key.pem"
        if not (certificate.exists() and key.exists()):
            return None
        return trustme.CA.from_pem(certificate.read_bytes(), key.read_bytes())

    def _make(self) -> trustme.CA:
        ca = trustme.CA(organization_name="Global Dispatcher embedded cluster")
        (self._directory / "api.pem").unlink(missing_ok=True)
        write_private(self._directory / "ca-key.pem", ca.private_key_pem.bytes())
        write_private(self._directory / "ca.pem", ca.cert_pem.bytes())
        return ca


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read, whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    draft.replace(path)
