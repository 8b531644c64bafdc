"""A Ray on another host is joined with a token and TLS, or not at all; what is missing is named."""

import pytest

from shared.process.ray_security import insecure, insecure_nodes

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
