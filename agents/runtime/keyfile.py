"""The file with this cluster's private keys: Ed25519 in PEM (PKCS #8), the one to sign with first.

`openssl genpkey -algorithm ed25519` makes such a key. To rotate, put a new key before the old one, restart the
agent, and take the old one out when no pod carries its marks any more. Whoever signs for the cluster needs this file.
"""

import os
import re
import tempfile
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from agents.executor.keys import OwnKeys

_PEM = re.compile(rb"-----BEGIN ([A-Z ]+)-----.*?-----END \1-----", re.DOTALL)
_MAX_BYTES = 64 * 1024


class KeyFileError(RuntimeError):
    """The keys cannot be had; the text names the file and the fix."""


def default_path(cluster: str) -> Path:
    """Where an agent keeps its keys when nobody says otherwise."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "global-dispatcher" / "keys" / f"{cluster}.pem"


def load_keys(file: str, cluster: str) -> OwnKeys:
    """The keys in `file`; without a name, those in the default file, which is made if it is not there.

    Raises KeyFileError.
    """
    path = Path(file).expanduser() if file else default_path(cluster)
    try:
        if not file and not path.exists():
            _create(path)
        raw = path.read_bytes()[:_MAX_BYTES]
    except OSError as error:
        raise KeyFileError(f"{path}: the keys of cluster {cluster!r}: {error.strerror or error}") from None
    return OwnKeys([_read(match.group(0), path) for match in _PEM.finditer(raw)] or [_none(path)])


def ephemeral_keys() -> OwnKeys:
    """Keys for this process alone: what was signed before does not verify with them."""
    return OwnKeys([Ed25519PrivateKey.generate()])


def _create(path: Path) -> None:
    """Make a key; of several processes that do so at once, one wins and the others read its key."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    pem = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    handle, name = tempfile.mkstemp(dir=path.parent)  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(pem)
        os.link(name, path)
    except FileExistsError:
        return
    finally:
        os.unlink(name)


def _read(pem: bytes, path: Path) -> Ed25519PrivateKey:
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise KeyFileError(f"{path}: not a readable private key: {error}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(f"{path}: not an Ed25519 key: make one with openssl genpkey -algorithm ed25519")
    return key


def _none(path: Path) -> Ed25519PrivateKey:
    raise KeyFileError(f"{path}: holds no private key: make one with openssl genpkey -algorithm ed25519")
