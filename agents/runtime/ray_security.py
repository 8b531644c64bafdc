"""What Ray must be told before it is reached across hosts: a token, and TLS. Ray itself asks for neither."""

from collections.abc import Mapping
from ipaddress import ip_address

_FILES = ("RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT")
_ON = ("1", "true")


def insecure(address: str, environment: Mapping[str, str]) -> str:
    """Why `host:port` of a Ray head must not be joined so, with the variable to set; '' if it may.

    On loopback both are left to whoever runs it. A Ray without token runs the code of whoever reaches a port of it,
    and one without TLS shows its token to whoever listens.
    """
    if _is_loopback(address.removeprefix("ray://").rpartition(":")[0]):
        return ""
    at = f"ray.address {address} is not on loopback"
    if environment.get("RAY_AUTH_MODE", "") not in ("token", "k8s"):
        return f"{at}, and RAY_AUTH_MODE is not set: set RAY_AUTH_MODE=token for every process of this Ray"
    if not (environment.get("RAY_AUTH_TOKEN") or environment.get("RAY_AUTH_TOKEN_PATH")):
        return f"{at}, and there is no token: set RAY_AUTH_TOKEN_PATH (a file) or RAY_AUTH_TOKEN"
    if environment.get("RAY_USE_TLS", "").lower() not in _ON:
        return f"{at}, and its token would cross in clear: set RAY_USE_TLS=1, with {', '.join(_FILES)}, everywhere"
    missing = [name for name in _FILES if not environment.get(name)]
    return f"{at}, and RAY_USE_TLS needs {', '.join(missing)}: name the file" if missing else ""


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
