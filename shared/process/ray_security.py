"""What Ray must be told before it is reached across hosts: a token, and TLS. Ray itself asks for
neither, and does not say in the log of a node that others refuse its certificate.
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address

_FILES = ("RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT")
_ON = ("1", "true")


def insecure(address: str, environment: Mapping[str, str]) -> str:
    """Why `host:port` of a Ray head must not be joined so, with the variable to set; '' if it may.

    On loopback both are left to whoever runs it. A Ray without token runs the code of whoever
    reaches a port of it, and one without TLS shows its token to whoever listens.
    """
    return _unprotected(
        f"ray.address {address}", address.removeprefix("ray://").rpartition(":")[0], environment
    )


def insecure_nodes(addresses: Iterable[str], environment: Mapping[str, str]) -> str:
    """The same of a Ray that was joined, by the addresses of its living nodes: a head that is
    reached on loopback may listen elsewhere, too, and have nodes on other hosts.
    """
    problems = (
        _unprotected(f"the address of a Ray node, {one},", one, environment) for one in addresses
    )
    return next(filter(None, problems), "")


def _unprotected(what: str, host: str, environment: Mapping[str, str]) -> str:
    if _is_loopback(host):
        return ""
    at = f"{what} is not on loopback"
    if environment.get("RAY_AUTH_MODE", "") not in ("token", "k8s"):
        return (
            f"{at}, and RAY_AUTH_MODE is not set: set RAY_AUTH_MODE=token for every process of "
            "this Ray"
        )
    if not (environment.get("RAY_AUTH_TOKEN") or environment.get("RAY_AUTH_TOKEN_PATH")):
        return f"{at}, and there is no token: set RAY_AUTH_TOKEN_PATH (a file) or RAY_AUTH_TOKEN"
    if environment.get("RAY_USE_TLS", "").lower() not in _ON:
        return (
            f"{at}, and its token would cross in clear: set RAY_USE_TLS=1, with "
            f"{', '.join(_FILES)}, everywhere"
        )
    missing = [name for name in _FILES if not environment.get(name)]
    if missing:
        return f"{at}, and RAY_USE_TLS needs {', '.join(missing)}: name the file"
    return next(filter(None, (_unread(name, environment[name]) for name in _FILES)), "")


def _unread(variable: str, file: str) -> str:
    """Why a file cannot be read: Ray would try for minutes, and name neither the file nor the
    variable.
    """
    try:
        with open(file, "rb"):
            return ""
    except OSError as error:
        return f"{variable} {file} cannot be read: {error.strerror or error}"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
