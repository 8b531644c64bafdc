"""The file with this cluster's private keys: Ed25519 in PEM (PKCS #8), the one to sign with first.

`openssl genpkey -algorithm ed25519` makes such a key. To rotate, put a new key before the old one,
restart the agent, and take the old one out when no pod carries its marks any more. Whoever signs
for the cluster needs this file.
"""

import os
import re
import stat
import tempfile
from pathlib import Path

import structlog
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from shared.process.logs import state_folder
from shared.security.keys import OwnKeys

_PEM = re.compile(rb"-----BEGIN ([A-Z ]+)-----.*?-----END \1-----", re.DOTALL)
_MAX_BYTES = 64 * 1024
_MAKE_ONE = "make one with openssl genpkey -algorithm ed25519"
LOG = structlog.get_logger("keys")


class KeyFileError(RuntimeError):
    """The keys cannot be had; the text names the file and the fix."""


def default_path(cluster: str) -> Path:
    """Where an agent keeps its keys when nobody says otherwise."""
    return state_folder() / "keys" / f"{cluster}.pem"


def load_keys(file: str, cluster: str) -> OwnKeys:
    """The keys in `file`; without a name, those in the default file, which is made if it is not
    there.

    A new key, and a file that others can read, are told in the log. Raises KeyFileError.
    """
    path = Path(file).expanduser() if file else default_path(cluster)
    if not file and not path.exists():
        try:
            _create(path)
        except OSError as error:
            raise KeyFileError(
                f"{path}: cannot be made: {error.strerror or error}; or set key_file"
            ) from None
        LOG.info("a key was made for the cluster, keep a copy", cluster=cluster, path=str(path))
    keys = read_keys(path, cluster)
    if _others_read(path):
        LOG.warning(
            "others on this machine can read the key file", path=str(path), fix=f"chmod 600 {path}"
        )
    return keys


def read_keys(path: Path, cluster: str) -> OwnKeys:
    """The keys in a file; KeyFileError also where everybody may write it."""
    try:
        raw, mode = path.read_bytes()[:_MAX_BYTES], path.stat().st_mode
    except FileNotFoundError as error:
        text = f"{path}: the keys of cluster {cluster!r}: {error.strerror}: {_MAKE_ONE} -out {path}"
        raise KeyFileError(text) from None
    except OSError as error:
        raise KeyFileError(
            f"{path}: the keys of cluster {cluster!r}: {error.strerror or error}"
        ) from None
    if mode & stat.S_IWOTH:
        raise KeyFileError(
            f"{path}: everybody may write it, so the key may be anybody's: chmod 600 {path}"
        )
    return OwnKeys([_read(match.group(0), path) for match in _PEM.finditer(raw)] or [_none(path)])


def _others_read(path: Path) -> bool:
    """Whether more than the owner can. A volume that cannot be written, as a pod's Secret, may be
    its group's.
    """
    status = path.stat()
    folder = os.statvfs(path)
    allowed = stat.S_IRWXG if folder.f_flag & os.ST_RDONLY else 0
    return bool(status.st_mode & (stat.S_IRWXG | stat.S_IRWXO) & ~allowed)


def ephemeral_keys() -> OwnKeys:
    """Keys for this process alone: what was signed before does not verify with them."""
    return OwnKeys([Ed25519PrivateKey.generate()])


def _create(path: Path) -> None:
    """Make a key; of several processes that do so at once, one wins and the others read its key."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    pem = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
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
        raise KeyFileError(f"{path}: not an Ed25519 key: {_MAKE_ONE}")
    return key


def _none(path: Path) -> Ed25519PrivateKey:
    raise KeyFileError(f"{path}: holds no private key: {_MAKE_ONE}")
