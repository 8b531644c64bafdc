"""What TLS to an API server and its kubelets is built from."""

import ssl
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shared.kube.memory import memory_file


@dataclass(frozen=True, slots=True)
class Trust:
    """Contents of files, as PEM; None stands for no such file. Equal for sessions that differ only
    in connections.
    """

    authority: bytes | None
    certificate: bytes | None
    key: bytes | None = field(repr=False)
    verify: bool

    @classmethod
    def read(cls, configuration: Any) -> "Trust":
        """From the files that a configuration of the `kubernetes` package names."""
        one = configuration
        return cls(
            _read(one.ssl_ca_cert), _read(one.cert_file), _read(one.key_file), bool(one.verify_ssl)
        )

    def context(self, *, ca_file: str = "", insecure: bool = False) -> ssl.SSLContext:
        """TLS with the client certificate, verified by `ca_file` or the CA unless told otherwise."""
        with ExitStack() as files:
            authority, certificate, key = (
                None if content is None else files.enter_context(memory_file(content))
                for content in (self.authority, self.certificate, self.key)
            )
            context = ssl.create_default_context(cafile=ca_file or authority)
            if certificate:
                context.load_cert_chain(certificate, keyfile=key)
        if insecure or not (ca_file or self.verify):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def _read(name: str | None) -> bytes | None:
    return Path(name).read_bytes() if name else None
