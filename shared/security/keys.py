"""The keys of the fleet as one executor knows them: its own, to sign with, and those of other
clusters, to verify.

Other clusters' public keys come by the dispatcher and are trusted once: the first keys offered for
a cluster (its kube-system UID) are kept, with its name, and others are believed only where a kept
key vouches for them. So whoever takes over the dispatcher or Ray later cannot pass off a key of his
own, nor another cluster under a known name. A list of keys is newest first; every key but the
oldest is written as "KEY SIGNATURE", where the next older key has signed it.

Worked example: cluster a is known by the key A1. Its operator puts a new key A2 before the old one;
a now tells ("A2 sig(A1, A2)", "A1"). A1 is kept and vouches for A2: both are believed from now on.
When no pod carries a mark of A1 any more, the operator takes A1 away; a tells ("A2",), and A1 is
believed no longer. Refused are ("X",), ("X sig(Y, X)", "Y") and, once A2 is known, ("A1",). Of
("A2", "X"), X is left out.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shared.security import signatures
from shared.security.signatures import Preemptor, SignedClaim

MAX_CLUSTERS = 1000
FORGET = "global-dispatcher cluster forget-keys"  # what an operator says
_TRUSTED = msgspec.json.Decoder(dict[str, tuple[str, ...]])


class OwnKeys:
    """This cluster's key pairs, the one it signs with first."""

    def __init__(self, keys: Sequence[Ed25519PrivateKey]) -> None:
        if not keys:
            raise ValueError("a cluster needs a key to sign with")
        self._keys = tuple(keys)
        self.public = tuple(signatures.public_key(key) for key in keys)

    def objection(self, stored: str, cluster: str) -> str:
        """Why whoever has these keys may not act for `cluster`, by the public keys stored there
        (`text`); '' if it may.

        Who lacks the private key that was signed with last would take the marks of the cluster's
        pods for forged ones.
        """
        signs = stored.partition(" ")[0]
        if not signs or signs in self.public:
            return ""
        return (
            f'cluster "{cluster}" signs with the key {signs[:100]}, and the key file of this '
            "agent does not hold it "
            f"(it has {self.public[0]}): nobody is served, for the marks of the cluster's pods "
            "would not be known. "
            "Start one agent alone, with the key file that was used before (key_file, by default "
            f"{cluster}.pem in "
            "~/.local/state/global-dispatcher/keys; in the chart keySecret). If that key is lost "
            "or was stolen: "
            f"{FORGET} {cluster}"
        )

    @property
    def text(self) -> str:
        """The public keys as they are stored."""
        return " ".join(self.public)

    def endorsed_keys(self) -> tuple[str, ...]:
        """The public keys as sent to other clusters, newest first; each but the oldest is "KEY
        SIGNATURE", signed by the next older one.
        """
        newer = zip(self.public, self._keys[1:], strict=False)
        vouched = (f"{public} {signatures.sign_key(older, public)}" for public, older in newer)
        return (*vouched, self.public[-1])

    def sign_claim(self, claim: SignedClaim) -> str:
        """The signed claim as annotation text."""
        return signatures.sign_claim(self._keys[0], claim)

    def sign_proof(self, delegate_uid: str, claim: str) -> str:
        """The proof that a delegate was made for a claim."""
        return signatures.sign_proof(self._keys[0], delegate_uid, claim)

    def sign_preemptor(self, preemptor: Preemptor) -> str:
        """What this cluster says of a pod for which pods elsewhere are to be evicted."""
        return signatures.sign_preemptor(self._keys[0], preemptor)

    def sign_ask(self, ask: bytes) -> bytes:
        """The signature over what is asked of another cluster."""
        return signatures.sign_ask(self._keys[0], ask)

    def sign_given(self, ask: bytes, given: bytes) -> bytes:
        """The signature over what is given to another cluster in answer to this ask."""
        return signatures.sign_given(self._keys[0], ask, given)

    def digest_key(self, cluster: str, namespace: str, name: str) -> bytes:
        """By which digests of a Secret of ours are keyed where `cluster` is told of it: see
        agents.executor.objects.contents.
        """
        return signatures.digest_key(self._keys[0], (cluster, namespace, name))


class StoredKeys(NamedTuple):
    """Keys of other clusters as text, and the names of the clusters for which there was no room."""

    text: str
    left_out: tuple[str, ...] = ()


class TrustedKeys:
    """Names and public keys of other clusters by the UID of their kube-system namespace."""

    def __init__(self, kept: str = "") -> None:
        self._kept = _read(kept)

    def of(self, cluster_uid: str) -> tuple[str, ...]:
        """The keys of a cluster, none if it was never heard of."""
        return self._kept.get(cluster_uid, ("",))[1:]

    def name_of(self, cluster_uid: str) -> str:
        """The name under which a cluster was first heard of, '' if it never was."""
        return self._kept.get(cluster_uid, ("",))[0]

    def called(self, cluster: str) -> tuple[str, ...]:
        """The keys of the cluster with this name, none if it was never heard of."""
        return next((kept[1:] for kept in self._kept.values() if kept[0] == cluster), ())

    def uid_of(self, cluster: str) -> str:
        """The kube-system UID of the cluster with this name, '' if it was never heard of."""
        return next((uid for uid, kept in self._kept.items() if kept[0] == cluster), "")

    def trust(self, cluster: str, cluster_uid: str, offered: Sequence[str]) -> str:
        """Trust keys offered for a cluster if they are its first or known ones vouch for them. An
        error text, or ''.
        """
        keys = signatures.plain_keys(offered)
        known = self.of(cluster_uid)
        if not cluster_uid or not keys or (cluster, *keys) == self._kept.get(cluster_uid):
            return ""
        if not all(map(signatures.is_key, keys)):
            return f'cluster "{cluster}" is said to have a key that is none: its pods are refused'
        if another := self.another(cluster, cluster_uid):
            return another
        if known and self.name_of(cluster_uid) != cluster:
            return (
                f'cluster "{cluster}" is said to have the kube-system UID {cluster_uid}, which is '
                "known here as that "
                f'of cluster "{self.name_of(cluster_uid)}": its pods are refused'
            )
        if not known:
            if len(self._kept) >= MAX_CLUSTERS:
                return (
                    f"the keys of {MAX_CLUSTERS} clusters are known here, and those of cluster "
                    f'"{cluster}" are one too '
                    "many: its pods are refused. Forget those of clusters that are no more: "
                    f"{FORGET} NAME"
                )
            self._kept[cluster_uid] = (cluster, *keys)
            return ""
        kept = _follows(offered, keys, known)
        if not kept:
            return (
                f"the cluster with kube-system UID {cluster_uid} is said to have another key than "
                "the one known here, "
                "and no known key vouches for it: its pods are refused until an operator forgets "
                "the old key"
            )
        self._kept[cluster_uid] = (cluster, *kept)
        return ""

    def another(self, cluster: str, cluster_uid: str) -> str:
        """An error text if this name is known with another UID, naming the remedy; '' otherwise."""
        known = next(
            (uid for uid, kept in self._kept.items() if kept[0] == cluster and uid != cluster_uid),
            "",
        )
        if not known or not cluster_uid or cluster_uid in self._kept:
            return ""
        return (
            f'cluster "{cluster}" is known here with the kube-system UID {known}, and is said to '
            "have the kube-system "
            f"UID {cluster_uid} now: another cluster under a known name, whose pods are refused, "
            "and which gets none. "
            f"If it was rebuilt, an operator says so: {FORGET} {cluster}"
        )

    def recall(self, kept: str) -> None:
        """Load stored keys; they override what was heard since the start. No name gets a second
        UID.
        """
        earlier = _read(kept)
        taken = {entry[0] for entry in earlier.values()}
        heard = {
            uid: entry
            for uid, entry in self._kept.items()
            if uid not in earlier and entry[0] not in taken
        }
        self._kept = earlier | heard

    def forget(self, cluster: str) -> None:
        """An operator says so: the next keys heard of the cluster with this name are believed, and
        its UID.
        """
        self._kept = {uid: kept for uid, kept in self._kept.items() if kept[0] != cluster}

    def text(self, limit: int = 2**31) -> StoredKeys:
        """What is to be kept beyond this process, in at most `limit` bytes: those known longest, of
        as many as fit.
        """
        kept = dict[str, tuple[str, ...]]()
        size = 2
        for uid, entry in self._kept.items():
            length = len(msgspec.json.encode({uid: entry})) - 1  # without a brace, with a comma
            if size + length <= limit:
                kept[uid] = entry
                size = size + length
        left = tuple(entry[0] for uid, entry in self._kept.items() if uid not in kept)
        return StoredKeys(msgspec.json.encode(kept, order="sorted").decode(), left)


def _follows(
    offered: Sequence[str], keys: tuple[str, ...], known: tuple[str, ...]
) -> tuple[str, ...]:
    """The keys to be trusted where `known` ones were: none if the `offered` ones do not follow from
    them.
    """
    at = next((index for index, key in enumerate(keys) if key in known), None)
    if at is None or (at == 0 and keys[0] != known[0]):
        return ()
    vouched = all(
        signatures.vouches(keys[index + 1], *_halves(offered[index])) for index in range(at)
    )
    return (*keys[: at + 1], *(key for key in keys[at + 1 :] if key in known)) if vouched else ()


def _halves(entry: str) -> tuple[str, str]:
    key, _, signature = entry.partition(" ")
    return key, signature


def _read(kept: str) -> dict[str, tuple[str, ...]]:
    try:
        found: Mapping[str, tuple[str, ...]] = _TRUSTED.decode(kept) if kept else {}
    except msgspec.MsgspecError:
        return {}
    named = Counter(entry[0] for entry in found.values() if entry)
    # Of two UIDs under one name neither is known to be the right one: the next that is heard is.
    return {uid: entry for uid, entry in found.items() if entry and named[entry[0]] == 1}
