"""The dispatcher's signing key: every message that an agent acts on is sealed with it before it is
handed to a link.

The key and its certificate are read again when their files change, as after a renewal.
"""

import itertools
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import structlog
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dispatcher.config.sections import SigningSection
from shared.security.seals import LIFE_S, Audience, Header, SigningKey, seal

log = structlog.get_logger("signing")
_LOOK_S = 5.0  # between two looks whether the files have changed


class Sealer(Protocol):
    """Makes the seal of a message: see shared.security.seals."""

    def seal(self, kind: str, body: bytes, epoch: int, audience: Audience) -> bytes:
        """Of these bytes."""
        ...


class NoSigner:
    """Of a dispatcher without a signing key: its messages go unsigned."""

    def seal(self, kind: str, body: bytes, epoch: int, audience: Audience) -> bytes:
        """None."""
        return b""


NO_SIGNER = NoSigner()


class Signer:
    """Seals with a key, or with that of two files, which are read again when they change."""

    def __init__(
        self, key: SigningKey | SigningSection, clock: Callable[[], float] = time.time
    ) -> None:
        """`clock`: seconds since 1970. OSError, ValueError, TypeError: a file is missing, or is
        none.
        """
        self._section = key if isinstance(key, SigningSection) else None
        self._clock = clock
        self._life = uuid.uuid4().hex
        self._numbers = itertools.count(1)
        self._looked_at = time.monotonic()
        self._read_at = _version(key) if isinstance(key, SigningSection) else ()
        self._signing = read_signing_key(key) if isinstance(key, SigningSection) else key

    def seal(self, kind: str, body: bytes, epoch: int, audience: Audience) -> bytes:
        """As of Sealer."""
        if self._section is not None and time.monotonic() - self._looked_at >= _LOOK_S:
            self._look(self._section)
        cluster, uid, incarnation = audience
        expires = self._clock() + LIFE_S
        number = next(self._numbers)
        header = Header(kind, cluster, uid, epoch, expires, self._life, number, incarnation)
        return seal(self._signing, header, body)

    def _look(self, section: SigningSection) -> None:
        """Files that cannot be used change nothing: what was read before holds."""
        self._looked_at = time.monotonic()
        try:
            if (found := _version(section)) != self._read_at:
                self._signing = read_signing_key(section)
                self._read_at = found
                log.info("the signing key was read again", file=section.key_file)
        except (OSError, ValueError, TypeError) as error:
            log.warning(
                "the signing key cannot be read again", file=section.key_file, problem=str(error)
            )


def sealer_of(section: SigningSection) -> Sealer:
    """By the configuration; OSError, ValueError, TypeError: as of Signer."""
    return Signer(section) if section.key_file else NO_SIGNER


def read_signing_key(section: SigningSection) -> SigningKey:
    """The key and certificate of these files. OSError, ValueError, TypeError."""
    key = serialization.load_pem_private_key(Path(section.key_file).read_bytes(), None)
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError(
            f"{section.key_file} is no Ed25519 key: `global-dispatcher certificates` makes one"
        )
    certificate = x509.load_pem_x509_certificate(Path(section.cert_file).read_bytes())
    if certificate.public_key() != key.public_key():
        raise ValueError(
            f"{section.key_file} is not the key of {section.cert_file}: bring both together"
        )
    return SigningKey(key, certificate.public_bytes(serialization.Encoding.DER))


def _version(section: SigningSection) -> tuple[tuple[int, int, int], ...]:
    files = (Path(file).stat() for file in (section.cert_file, section.key_file))
    return tuple((found.st_mtime_ns, found.st_size, found.st_ino) for found in files)
