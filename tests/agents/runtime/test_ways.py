"""agent.yaml names one way to the dispatcher."""

from pathlib import Path

import pytest

from agents.runtime.join.settings import JoinSettings, WrongConfiguration, read_settings

GATEWAY = "gateway: {urls: ['wss://gateway.example:7443'], ca_file: ca, cert_file: crt, key_file: key}\n"
RAY = "ray: {address: 'head:6379'}\n"


def read(tmp_path: Path, text: str) -> JoinSettings:
    file = tmp_path / "agent.yaml"
    file.write_text("cluster: east\n" + text)
    return read_settings(file)


@pytest.mark.parametrize("text", [GATEWAY, RAY])
def test_either_way_is_enough(tmp_path: Path, text: str) -> None:
    settings = read(tmp_path, text)
    assert (settings.gateway is not None, settings.ray is not None) == (text == GATEWAY, text == RAY)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "give either gateway"),
        (GATEWAY + RAY, "give either gateway"),
        (GATEWAY.replace("wss", "https"), "gateway.urls.0"),
        (GATEWAY.replace("ca_file: ca, ", ""), "gateway.ca_file"),
        (RAY + "role: executor\n", "role needs gateway"),
        (GATEWAY + "role: reader\n", "role: Input should be 'both', 'observer' or 'executor'"),
    ],
)
def test_what_is_no_way_is_refused_by_name(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(WrongConfiguration, match=words):
        read(tmp_path, text)


def test_what_the_command_says_goes_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text("cluster: east\nrole: observer\n" + GATEWAY)
    assert [read_settings(file, told).role for told in ({}, {"role": "executor"})] == ["observer", "executor"]
