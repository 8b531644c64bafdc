"""Who is who in a control plane: its certificate authority, client certificates, kubeconfig files."""

import base64
from dataclasses import dataclass
from pathlib import Path

import trustme

from localfleet.embedded import kubeconfig
from localfleet.embedded.tls import write_private

SERVER_NAMES = (
    "127.0.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "10.96.0.1",
)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """A new certificate authority in `directory`; the API server trusts the clients that it signs."""

    def __init__(self, directory: Path, plane: str) -> None:
        directory.mkdir(mode=0o700, exist_ok=True)
        self._directory = directory
        self._plane = plane
        self._ca = trustme.CA(organization_name=f"control plane {plane}")
        self.certificate = directory / "ca.pem"
        self.certificate.write_bytes(self._ca.cert_pem.bytes())
        # kube-controller-manager signs with it what was approved
        self.key = directory / "ca-key.pem"
        write_private(self.key, self._ca.private_key_pem.bytes())

    def server(self, name: str, *addresses: str) -> Pair:
        """A serving certificate for the API's names on loopback, and further ones."""
        return self._write(name, self._ca.issue_cert(*SERVER_NAMES, *addresses, common_name=name))

    def client(self, user: str, group: str = "") -> Pair:
        """A client certificate: `user` is the user name that RBAC and the audit log see, `group`
        its one group.
        """
        # Go refuses a certificate whose list of names is empty; a client's are never looked at.
        leaf = self._ca.issue_cert(
            "client.invalid", common_name=user, organization_name=group or "clients"
        )
        return self._write(user.replace(":", "-"), leaf)

    def signing_key(self) -> Path:
        """A private key that signs ServiceAccount tokens (the API server verifies by its public
        half).
        """
        path = self._directory / "service-account-key.pem"
        write_private(
            path, self._ca.issue_cert(common_name="service-accounts").private_key_pem.bytes()
        )
        return path

    def kubeconfig(self, path: Path, server: str, pair: Pair) -> Path:
        """A kubeconfig file with a client certificate; cluster, user and context are called as the
        plane.
        """
        config = kubeconfig.single(self._plane, server, self._ca.cert_pem.bytes(), "")
        config["users"][0]["user"] = {
            "client-certificate-data": base64.b64encode(pair.certificate.read_bytes()).decode(),
            "client-key-data": base64.b64encode(pair.key.read_bytes()).decode(),
        }
        kubeconfig.write(path, config)
        return path

    def token_kubeconfig(self, path: Path, server: str, token: str) -> Path:
        """A kubeconfig file with a bearer token."""
        kubeconfig.write(
            path, kubeconfig.single(self._plane, server, self._ca.cert_pem.bytes(), token)
        )
        return path

    def _write(self, name: str, leaf: trustme.LeafCert) -> Pair:
        pair = Pair(self._directory / f"{name}.crt", self._directory / f"{name}.key")
        pair.certificate.write_bytes(b"".join(part.bytes() for part in leaf.cert_chain_pems))
        write_private(pair.key, leaf.private_key_pem.bytes())
        return pair
