"""A Ray on another host is joined with a token and TLS, or not at all; what is missing is named."""

import pytest

from agents.runtime.ray_security import insecure

FILES = {
    "RAY_TLS_SERVER_CERT": "/tls/tls.crt",
    "RAY_TLS_SERVER_KEY": "/tls/tls.key",
    "RAY_TLS_CA_CERT": "/tls/ca.crt",
}
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
