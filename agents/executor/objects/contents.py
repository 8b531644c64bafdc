"""What an object that follows pods holds, as it crosses, and by which digest it is told apart.

Of a Secret nobody between two executors may test guesses, and its content may be short: its digests
are keyed, by a key that the home cluster derives for each Secret and each cluster to which it goes,
and that crosses with the content alone, sealed (`OwnKeys.digest_key`). Whoever has no key knows no
digest, and asks anew.
"""

import hashlib
import hmac
from typing import Any

import msgspec

SECRET = "Secret"  # noqa: S105 - the word for the kind
# Of these alone a copy is made, of the same type: no controller takes them for its own by their
# type. Not among them are tokens of ServiceAccounts, which a forged one would have made here, those
# of bootstrap, and the releases of Helm.
OPAQUE = "Opaque"
TYPES = frozenset(
    (
        OPAQUE,
        "kubernetes.io/dockercfg",
        "kubernetes.io/dockerconfigjson",
        "kubernetes.io/basic-auth",
        "kubernetes.io/ssh-auth",
        "kubernetes.io/tls",
    )
)
MOST_KEYS = 8_192  # of an object's JSON: each of its data is told of in managedFields, too


class Content(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """What a ConfigMap or Secret holds; `type`: of a Secret, None of others. `binary_data`, and the
    `data` of a Secret, is base64.
    """

    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None
    immutable: bool | None = None
    type: str | None = None

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("keys", len(self.keys))]

    def __repr__(self) -> str:
        return f"Content({len(self.keys)} keys)"

    @property
    def keys(self) -> frozenset[str]:
        """Of all that is in it."""
        return frozenset((*(self.data or ()), *(self.binary_data or ())))

    @property
    def encoded(self) -> bytes:
        """As it crosses, the same for what is the same."""
        return msgspec.json.encode(self.plain, order="sorted")

    @property
    def plain(self) -> "Content":
        """The same with one spelling of what is empty."""
        return Content(
            self.data or None, self.binary_data or None, self.immutable or None, self.type
        )

    def digest(self, key: bytes = b"") -> bytes:
        """By which it is told apart from other content; b"" for a Secret whose key is not known."""
        return b"" if self.type is not None and not key else digest_of(self.encoded, key)

    @property
    def barred(self) -> str:
        """Why a Secret of this type is not copied; '' if it is."""
        if self.type is None or self.type in TYPES:
            return ""
        return f'is of type "{self.type[:80]}", and only these follow pods: {", ".join(TYPE_NAMES)}'


TYPE_NAMES = sorted(TYPES)


def digest_of(encoded: bytes, key: bytes = b"") -> bytes:
    """Of content as it crosses: sha256, or with a key HMAC-SHA256 (RFC 2104)."""
    return hmac.digest(key, encoded, "sha256") if key else hashlib.sha256(encoded).digest()


_decode_content = msgspec.json.Decoder(Content).decode
_KEY, _QUOTED = b'":', b'\\":'  # what ends a key, and what looks so within a text


def read_content(body: bytes, kind: str = "ConfigMap") -> Content:
    """What an object (JSON) of this kind holds. MsgspecError, also where it has so many keys that
    reading it would hold up all else: a user may write 150,000 into one.
    """
    if body.count(_KEY) - body.count(_QUOTED) > MOST_KEYS:
        raise msgspec.ValidationError(
            f"its JSON has more than {MOST_KEYS} keys, those of managedFields included"
        )
    try:
        found = _decode_content(body)
    except UnicodeDecodeError:  # it would show the content
        raise msgspec.ValidationError("it is no UTF-8") from None
    if kind == SECRET:
        return Content(found.data, None, found.immutable, found.type or OPAQUE)
    return Content(found.data, found.binary_data, found.immutable)


def fields_of(content: Content) -> dict[str, Any]:
    """As they stand in the object."""
    held: dict[str, Any] = msgspec.to_builtins(content.plain)
    return held
