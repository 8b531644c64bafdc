"""Clusters that dial in: what the gateway needs, and what must not be said of them here."""

from pathlib import Path

import pytest

from dispatcher.config import check_config, load_config
from dispatcher.service.gateway.authority import ensure

DIALLING = "clusters: [{name: east, via: gateway}]\nleader_election: {enabled: false}\n"
KEY_AND_CA = "gateway: {key_file: gateway.key, client_ca_file: ca.crt}\n"
FILES = "gateway: {cert_file: gateway.crt, key_file: gateway.key, client_ca_file: ca.crt}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ensure(tmp_path, ["gateway.example"], ["east"])
    return tmp_path


def written(folder: Path, text: str) -> Path:
    file = folder / "dispatcher.yaml"
    file.write_text(text)
    return file


def test_files_are_relative_to_the_configuration(folder: Path) -> None:
    config = load_config(written(folder, DIALLING + FILES), reach=True)
    assert config.gateway.cert_file == str(folder / "gateway.crt")


def test_a_cluster_that_dials_in_needs_no_kubeconfig_and_no_ray(folder: Path) -> None:
    assert check_config(written(folder, DIALLING + FILES), reach=True) == []


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        (
            DIALLING + KEY_AND_CA,
            "gateway.cert_file",
            "is missing: cluster east comes through the gateway",
        ),
        (DIALLING + FILES.replace("gateway.key", "none.key"), "gateway.key_file", "there is no file"),
        (
            DIALLING.replace("via: gateway", "via: gateway, agent: {log_level: debug}") + FILES,
            "clusters[0].agent",
            "a file of its own",
        ),
        (DIALLING.replace("enabled: false", "") + FILES, "leader_election.kubeconfig", "say where the Lease is"),
    ],
)
def test_what_is_wrong_is_named_with_its_key(folder: Path, text: str, key: str, words: str) -> None:
    problems = check_config(written(folder, text), reach=True)
    assert [(one.key, words in one.text) for one in problems] == [(key, True)], problems
