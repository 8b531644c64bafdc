"""The dispatcher's signing key in dispatcher.yaml: what is wrong with it, and what is said where there is none."""

from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from dispatcher.config import ConfigError, load_config
from dispatcher.service.gateway.authority import ensure
from tests.agents.runtime.leader import certified

GATEWAY = "gateway: {cert_file: gateway.crt, key_file: gateway.key, client_ca_file: ca.crt}\n"
DIALLED = "clusters: [{name: a, via: gateway}]\nleader_election: {enabled: false}\n" + GATEWAY
GOOD = "signing: {cert_file: signing.crt, key_file: signing.key}\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    ensure(folder, ["localhost"], ["a"])
    return folder


def told(folder: Path, text: str) -> tuple[list[str], list[str]]:
    """(problems, notes) of a configuration."""
    file = folder / "dispatcher.yaml"
    file.write_text(DIALLED + text)
    try:
        return [], [str(one) for one in load_config(file, reach=True).notes]
    except ConfigError as error:
        return [str(one) for one in error.problems], []


def test_a_good_key_is_no_problem_and_its_paths_are_of_the_files_folder(folder: Path) -> None:
    assert told(folder, GOOD) == ([], [])
    assert load_config(folder / "dispatcher.yaml").signing.key_file == str(folder / "signing.key")


def test_without_a_key_it_says_what_agents_will_do(folder: Path) -> None:
    problems, notes = told(folder, "")
    assert problems == []
    assert "orders go unsigned" in notes[0]


def test_a_key_that_cannot_sign_orders_is_named(tmp_path: Path) -> None:
    ensure(tmp_path, ["localhost"], ["a"])
    made = certified(tmp_path, key=ec.generate_private_key(ec.SECP256R1()))
    key = made.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "signing.key").write_bytes(key)
    (tmp_path / "signing.crt").write_bytes(x509.load_der_x509_certificate(made.certificate).public_bytes(Encoding.PEM))
    problems, _ = told(tmp_path, GOOD)
    assert "is of no Ed25519 key" in problems[0]
    assert "privateKey: {algorithm: Ed25519}" in problems[0]


WRONG: dict[str, tuple[str, Callable[[str], bool]]] = {
    "a key alone": ("signing: {key_file: signing.key}\n", lambda said: "signing.cert_file" in said),
    "a certificate alone": ("signing: {cert_file: signing.crt}\n", lambda said: "signing.key_file" in said),
    "files that are not there": (
        "signing: {cert_file: none.crt, key_file: none.key}\n",
        lambda said: "there is no file" in said,
    ),
    "the gateway's": (
        "signing: {cert_file: gateway.crt, key_file: gateway.key}\n",
        lambda said: "is not of the dispatcher" in said,
    ),
    "a cluster's": (
        "signing: {cert_file: cluster-a.crt, key_file: cluster-a.key}\n",
        lambda said: "spiffe://global-dispatcher.io/cluster/a" in said,
    ),
    "the key of another": (
        "signing: {cert_file: signing.crt, key_file: gateway.key}\n",
        lambda said: "is not the key of" in said,
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told_with_its_key(folder: Path, case: str) -> None:
    text, expected = WRONG[case]
    problems, _ = told(folder, text)
    assert any(expected(said) for said in problems), problems
