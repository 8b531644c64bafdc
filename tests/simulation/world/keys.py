"""Keys of the clusters of a world: the same ones in every run, in files that go with this process."""

import atexit
import hashlib
import shutil
import tempfile
from functools import lru_cache
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat


@lru_cache(maxsize=1)
def _folder() -> Path:
    made = tempfile.mkdtemp(prefix="sim-keys-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


@lru_cache(maxsize=256)
def key_file(cluster: str, turn: int = 0) -> str:
    """The file with the key of a cluster, which follows from its name; after `turn` rotations the newest is first."""
    path = _folder() / f"{cluster}-{turn}.pem"
    path.write_bytes(b"".join(_pem(f"key of {cluster}{f' {number}' * (number > 0)}") for number in range(turn, -1, -1)))
    return str(path)


def _pem(of: str) -> bytes:
    key = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(of.encode()).digest())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
