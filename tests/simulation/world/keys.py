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
def key_file(cluster: str) -> str:
    """The file with the key of a cluster, which follows from its name."""
    key = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(f"key of {cluster}".encode()).digest())
    path = _folder() / f"{cluster}.pem"
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return str(path)
