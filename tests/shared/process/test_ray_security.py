"""A Ray on another host is joined with a token and TLS, or not at all; what is missing is named."""

from pathlib import Path

import pytest
import trustme
import yaml

from agents.runtime.join.process import WRONG, join
from shared.process.ray_security import insecure, insecure_nodes, misnamed

FILES = dict.fromkeys(("RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT"), __file__)  # any that is there
TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": "/run/token"}
SECURE = {**TOKEN, "RAY_USE_TLS": "1", **FILES}


@pytest.mark.parametrize(
    ("address", "environment", "says"),
    [
        pytest.param("127.0.0.1:6379", {}, "", id="loopback"),
        pytest.param("127.0.0.2:6379", {}, "", id="another address of loopback"),
        pytest.param("localhost:6379", {}, "", id="localhost"),
        pytest.param("[::1]:6379", {}, "", id="loopback of IPv6"),
        pytest.param("10.1.2.3:6379", SECURE, "", id="both"),
        pytest.param("head:6379", {**SECURE, "RAY_USE_TLS": "true"}, "", id="a name"),
        pytest.param("10.1.2.3:6379", {}, "RAY_AUTH_MODE=token", id="nothing"),
        pytest.param("10.1.2.3:6379", {**SECURE, "RAY_AUTH_MODE": "disabled"}, "RAY_AUTH_MODE=token", id="off"),
        pytest.param("ray://10.1.2.3:10001", {"RAY_AUTH_MODE": "token"}, "RAY_AUTH_TOKEN_PATH", id="no token"),
        pytest.param("10.1.2.3:6379", TOKEN, "RAY_USE_TLS=1", id="no TLS"),
        pytest.param("10.1.2.3:6379", {**TOKEN, "RAY_USE_TLS": "0", **FILES}, "RAY_USE_TLS=1", id="TLS off"),
        pytest.param("10.1.2.3:6379", {**SECURE, "RAY_TLS_CA_CERT": ""}, "needs RAY_TLS_CA_CERT:", id="no authority"),
    ],
)
def test_what_is_missing_is_named(address: str, environment: dict[str, str], says: str) -> None:
    problem = insecure(address, environment)
    assert says in problem
    assert bool(problem) == bool(says)
    assert not problem or problem.startswith(f"ray.address {address} is not on loopback")


@pytest.mark.parametrize("variable", FILES)
def test_a_file_that_cannot_be_read_is_named_with_its_variable(variable: str) -> None:
    problem = insecure("10.1.2.3:6379", {**SECURE, variable: "/nonexistent/tls.pem"})
    assert problem == f"{variable} /nonexistent/tls.pem cannot be read: No such file or directory"


@pytest.mark.parametrize(
    ("addresses", "environment", "says"),
    [
        pytest.param(["127.0.0.1", "127.0.0.2"], {}, "", id="all on loopback"),
        pytest.param(["127.0.0.1", "10.1.2.3"], SECURE, "", id="both"),
        pytest.param(["127.0.0.1", "10.1.2.3"], {}, "RAY_AUTH_MODE=token", id="a node on another host"),
        pytest.param(["east-ray.gd.svc"], TOKEN, "RAY_USE_TLS=1", id="a node with a name"),
    ],
)
def test_a_head_on_loopback_does_not_hide_nodes_elsewhere(
    addresses: list[str], environment: dict[str, str], says: str
) -> None:
    problem = insecure_nodes(addresses, environment)
    assert says in problem
    assert not says or f"the address of a Ray node, {addresses[-1]}, is not on loopback" in problem


def shown(folder: Path, *names: str) -> dict[str, str]:
    """What Ray is told: TLS, with a certificate of these names."""
    file = folder / "tls.crt"
    trustme.CA().issue_cert(*names).cert_chain_pems[0].write_to_path(str(file))
    return {**SECURE, "RAY_TLS_SERVER_CERT": str(file)}


@pytest.mark.parametrize(
    ("names", "at", "fits"),
    [
        pytest.param(("10.1.2.3",), "10.1.2.3", True, id="the IP"),
        pytest.param(("10.1.2.3",), "10.1.2.4", False, id="another IP"),
        pytest.param(("fd00::1",), "fd00:0::1", True, id="an IP written otherwise"),
        pytest.param(("east-ray.gd.svc",), "East-ray.gd.svc.", True, id="the name"),
        pytest.param(("*.gd.svc",), "east-ray.gd.svc", True, id="a name of a zone"),
        pytest.param(("*.gd.svc",), "pod.east-ray.gd.svc", False, id="a name of a zone below"),
        pytest.param(("*.1.2.3",), "10.1.2.3", False, id="an IP is in no zone"),
        pytest.param(("*.gd.svc", "10.0.0.9"), "10.1.2.3", False, id="an IP where there are names"),
    ],
)
def test_a_certificate_is_of_what_others_dial_or_its_names_are_told(
    tmp_path: Path, names: tuple[str, ...], at: str, fits: bool
) -> None:
    problem = misnamed(at, shown(tmp_path, *names))
    assert (problem == "") == fits
    assert fits or (f"not of {at}," in problem and all(name in problem for name in names))


def test_without_tls_or_where_ray_finds_the_address_no_certificate_is_looked_at(tmp_path: Path) -> None:
    told = shown(tmp_path, "other.example")
    assert [misnamed("", told), misnamed("10.1.2.3", {**told, "RAY_USE_TLS": "0"})] == ["", ""]
    assert "cannot be read" in misnamed("10.1.2.3", SECURE)


def test_an_agent_whose_certificate_is_not_of_its_pods_ip_ends_at_once_and_names_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in shown(tmp_path, "*.gd.svc").items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "agent.yaml"
    file.write_text(yaml.safe_dump({"cluster": "east", "ray": {"address": "head.gd.svc:6379"}}))
    assert join(file, "10.1.2.3") == WRONG
    said = capsys.readouterr().err
    assert "is of *.gd.svc, not of 10.1.2.3" in said
    assert "ray.nodeName" in said
