"""docs/protocol.md shows marks byte by byte: other implementations will be written from it."""

import re
from base64 import urlsafe_b64encode
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agents.executor.intents.delegate import delegate_name
from shared.model.pod import SourceRef
from shared.security import signatures
from shared.security.signatures import SignedClaim

DOCUMENT = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
EAST, WEST = (Ed25519PrivateKey.from_private_bytes(bytes(range(at, at + 32))) for at in (0, 32))
SOURCE = SourceRef("east", "6f1c", "default", "web-5c9f7d-x2x8p", "81b2", 17)
CLAIM = SignedClaim(SOURCE, "west", "9d40", "west-node-3", signatures.digest_of(b"{}"))


def shown(name: str) -> str:
    """The word after a name at the start of a line of the example."""
    found = re.search(rf"^{name} +(\S+)", DOCUMENT, re.MULTILINE)
    assert found is not None
    return found.group(1)


def test_the_keys_of_the_example_are_those_that_it_says() -> None:
    assert (shown("east"), shown("west")) == (signatures.public_key(EAST), signatures.public_key(WEST))


def test_claim_and_proof_of_the_example_are_what_executors_write() -> None:
    claim = signatures.sign_claim(EAST, CLAIM)
    assert (shown("claim"), shown("proof")) == (claim, signatures.sign_proof(WEST, "c7e5", claim))


def test_the_payload_of_the_example_is_that_of_its_claim() -> None:
    block = DOCUMENT.split("\npayload ")[1].split("\nclaim ")[0]
    payload = bytes.fromhex("".join(line.partition("#")[0] for line in block.splitlines()))
    written, _, _ = signatures.sign_claim(EAST, CLAIM).partition(".")
    assert urlsafe_b64encode(payload).rstrip(b"=").decode() == written


def test_the_delegate_of_the_example_has_the_name_that_executors_give_it() -> None:
    assert delegate_name(SOURCE) in DOCUMENT
