"""Whom the gateway trusts, who it is, and which cluster a certificate is of."""

import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dispatcher.config.sections import GatewaySection

URI = "spiffe://global-dispatcher.io/cluster/"  # and the cluster's name: https://spiffe.io/docs, "SPIFFE ID"


class ServerTls:
    """The gateway's TLS context. Files that changed are taken in for connections that begin later."""

    def __init__(self, section: GatewaySection) -> None:
        """OSError, ssl.SSLError: a file is missing or is none."""
        self._section = section
        self._read_at = self._changed_at()
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_3
        self.context.verify_mode = ssl.CERT_REQUIRED
        self._load()

    def _load(self) -> None:
        self.context.load_cert_chain(self._section.cert_file, self._section.key_file)
        self.context.load_verify_locations(self._section.client_ca_file)

    def _changed_at(self) -> tuple[int, ...]:
        section = self._section
        files = section.cert_file, section.key_file, section.client_ca_file
        return tuple(Path(file).stat().st_mtime_ns for file in files)

    def refresh(self) -> bool:
        """Read files that have changed; whether there were any. OSError, ssl.SSLError: what was read before holds."""
        found = self._changed_at()
        if found == self._read_at:
            return False
        self._load()
        self._read_at = found
        return True


def cluster_of(certificate: Mapping[str, Any]) -> str:
    """The cluster that a verified certificate is of (as ssl's getpeercert gives it); '' if of none or of several."""
    names = [value for kind, value in certificate.get("subjectAltName", ()) if kind == "URI" and value.startswith(URI)]
    return names[0].removeprefix(URI) if len(names) == 1 else ""


def remaining_s(certificate: Mapping[str, Any]) -> float:
    """Seconds until it expires."""
    return ssl.cert_time_to_seconds(certificate["notAfter"]) - time.time()
