"""What one cluster gives to another, sealed to a key that the other made for this question: HPKE (RFC
9180), mode Base, DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20-Poly1305.

Nobody between them can read it, nor can who steals both clusters' lasting keys later. It says
nothing of who has sealed it: what is in it is signed, over the question that holds the key. The
question is bound to it as `info`, so it opens as the answer to no other.
"""

from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
_SEALED = b"global-dispatcher sealed 1\n"
KEY_BYTES = 32


class SealError(ValueError):
    """It cannot be sealed to this key, or opened."""


class Seal:
    """A key for one question: `public` goes with it, and the answer is opened with the other half,
    which is nowhere but here.
    """

    def __init__(self) -> None:
        self._key = X25519PrivateKey.generate()
        self.public = self._key.public_key().public_bytes_raw()

    def opened(self, sealed: bytes, ask: bytes) -> bytes:
        """What was sealed as the answer to `ask`. SealError."""
        try:
            return _SUITE.decrypt(sealed, self._key, info=_info(ask))
        except (InvalidTag, ValueError) as error:
            raise SealError("it is not sealed to the key of this question") from error


def sealed(public: bytes, ask: bytes, answer: bytes) -> bytes:
    """An answer to `ask`, which gave the key. SealError."""
    try:
        key = X25519PublicKey.from_public_bytes(public)
        return _SUITE.encrypt(answer, key, info=_info(ask))
    except ValueError as error:
        raise SealError("to the key of this question nothing can be sealed") from error


def _info(ask: bytes) -> bytes:
    return _SEALED + sha256(ask).digest()
