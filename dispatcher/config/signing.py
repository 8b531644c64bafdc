"""The dispatcher's signing key and its certificate: what is wrong with them, and what agents will
say without them.
"""

import datetime as dt
from collections.abc import Callable, Sequence
from pathlib import Path as FilePath

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dispatcher.config.certificates import FileProblem, PairFiles, expiring, pair_problems, uris_of
from dispatcher.config.document import Document
from dispatcher.config.gateway import here
from dispatcher.config.problems import Problem
from dispatcher.config.sections import ClusterSection, SigningSection
from dispatcher.scheduling.framework.plugin_args import shown
from shared.security.leader_certificate import LEADER_URI

SIGNING = "signing"
_CERT_MANAGER = "privateKey: {algorithm: Ed25519}"
FILES = ("cert_file", "key_file")


def signing_placed(section: SigningSection, whole: Callable[[str], str]) -> SigningSection:
    """The section with whole paths."""
    return section.model_copy(update={name: whole(getattr(section, name)) for name in FILES})


def signing_problems(
    section: SigningSection, document: Document, *, reach: bool, expired_too: bool
) -> list[Problem]:
    """What is wrong; `reach`: the files must be there, and good, and of this time unless
    `expired_too`.
    """
    given = [name for name in FILES if getattr(section, name)]
    if not given:
        return []
    for name in FILES:
        if name not in given:
            return [
                document.problem(
                    (SIGNING, name), f"is missing: signing.{given[0]} is given, and needs it"
                )
            ]
    if not reach:
        return []
    found = list(pair_problems(PairFiles(section.cert_file, section.key_file), _now(expired_too)))
    if not any(one.key == "cert_file" for one in found) and (
        uris := uris_of(section.cert_file)
    ) != (LEADER_URI,):
        text = (
            f"{section.cert_file} is not of the dispatcher: its URIs are {shown(list(uris))}, not "
            f"{LEADER_URI}"
        )
        found.append(FileProblem("cert_file", text))
    if not found and not isinstance(_key_of(section.cert_file), Ed25519PublicKey):
        text = (
            f"{section.cert_file} is of no Ed25519 key, which orders are signed with "
            f"(cert-manager: {_CERT_MANAGER})"
        )
        found.append(FileProblem("cert_file", text))
    return [document.problem((SIGNING, one.key), one.text) for one in found]


def _key_of(file: str) -> object:
    return x509.load_pem_x509_certificate(FilePath(file).read_bytes()).public_key()


def _now(expired_too: bool) -> dt.datetime | None:
    return None if expired_too else dt.datetime.now(dt.UTC)


def signing_notes(
    section: SigningSection, clusters: Sequence[ClusterSection], document: Document
) -> list[Problem]:
    """That nothing is signed, where agents dial in; and a certificate that is good, and ends soon."""
    if not section.key_file:
        if len(here(clusters)) == len(clusters):
            return []
        text = (
            "is missing, so orders go unsigned, and agents that dial in refuse them (unless their "
            "`orders.unsigned` is "
            "`take`): `global-dispatcher join` makes signing.crt and signing.key"
        )
        return [document.problem((SIGNING, "key_file"), text)]
    found = expiring("cert_file", section.cert_file, dt.datetime.now(dt.UTC))
    return [document.problem((SIGNING, one.key), one.text) for one in found]
