"""`global-dispatcher certificates`: the files, and the commands that bring them where they are needed."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dispatcher.cli.main import app


def run(*words: str) -> str:
    done = CliRunner().invoke(app, ["certificates", *words])
    assert done.exit_code == 0, done.output
    return done.output


def test_it_makes_the_files_and_says_where_each_belongs(tmp_path: Path) -> None:
    told = run(str(tmp_path), "--gateway", "gateway.example", "--cluster", "east", "--cluster", "west")
    halves = {f"cluster-{name}{role}" for name in ("east", "west") for role in ("", ".observer", ".executor")}
    assert {file.stem for file in tmp_path.glob("*.crt")} == {"ca", "gateway", "signing", *halves}
    for role in ("observer", "executor"):
        create = f"kubectl --context east -n global-dispatcher create secret generic global-dispatcher-agent-{role} "
        assert create in told
        assert f"--from-file=tls.key={tmp_path / f'cluster-east.{role}.key'}" in told
    assert "kubectl --context CONTEXT -n global-dispatcher create secret generic global-dispatcher-gateway" in told


def test_a_url_is_no_host(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["certificates", str(tmp_path), "--gateway", "wss://gw.example:7443"])
    assert done.exit_code != 0
    assert list(tmp_path.iterdir()) == []


def test_a_file_where_the_folder_belongs_is_told_so(tmp_path: Path) -> None:
    file = tmp_path / "certs"
    file.write_text("mine")
    done = CliRunner().invoke(app, ["certificates", str(file), "--gateway", "gateway.example"])
    assert (done.exit_code, "is a file: name a folder" in " ".join(done.output.split())) == (2, True)


def test_a_second_run_makes_nothing(tmp_path: Path) -> None:
    run(str(tmp_path), "--gateway", "gateway.example")
    told = json.loads(run(str(tmp_path), "--gateway", "gateway.example", "-o", "json"))
    assert [one["made"] for one in told] == [False] * 3


def test_a_name_that_no_cluster_can_have_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["certificates", str(tmp_path), "--cluster", "../east"])
    assert done.exit_code != 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("file", "text", "want"),
    [
        ("ca.key", "", "ca.key is no private key in PEM without a password: put your copy back"),
        ("ca.crt", "half", "ca.crt is no certificate in PEM: put your copy back"),
        (
            "gateway.key",
            "garbage",
            "gateway.key is no private key in PEM without a password: delete gateway.crt and gateway.key, and they",
        ),
        (
            "signing.crt",
            "-----BEGIN CERTIFICATE-----",
            "signing.crt is no certificate in PEM: delete signing.crt and signing.key, and they are made anew",
        ),
    ],
)
def test_a_file_that_was_spoilt_is_named_with_the_remedy(tmp_path: Path, file: str, text: str, want: str) -> None:
    run(str(tmp_path), "--gateway", "gateway.example")
    (tmp_path / file).write_text(text)
    done = CliRunner().invoke(app, ["certificates", str(tmp_path), "--gateway", "gateway.example"])
    assert (done.exit_code, f"{tmp_path}: {want}" in done.output) == (1, True), done.output
