"""What Ray must be told before it is reached across hosts: a token, and TLS. Ray itself asks for neither, and does not
say in the log of a node that others refuse its certificate.
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509

_FILES = ("RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT")
_ON = ("1", "true")


def insecure(address: str, environment: Mapping[str, str], key: str = "ray.address") -> str:
    """Why `host:port` of a Ray head must not be joined so, with the variable to set; '' if it may. `key` gave the
    address.

    On loopback both are left to whoever runs it. A Ray without token runs the code of whoever reaches a port of it,
    and one without TLS shows its token to whoever listens.
    """
    return _unprotected(f"{key} {address}", address.removeprefix("ray://").rpartition(":")[0], environment)


def insecure_nodes(addresses: Iterable[str], environment: Mapping[str, str]) -> str:
    """The same of a Ray that was joined, by the addresses of its living nodes: a head that is reached on loopback may
    listen elsewhere, too, and have nodes on other hosts.
    """
    problems = (_unprotected(f"the address of a Ray node, {one},", one, environment) for one in addresses)
    return next(filter(None, problems), "")


def _unprotected(what: str, host: str, environment: Mapping[str, str]) -> str:
    if _is_loopback(host):
        return ""
    at = f"{what} is not on loopback"
    if environment.get("RAY_AUTH_MODE", "") not in ("token", "k8s"):
        return f"{at}, and RAY_AUTH_MODE is not set: set RAY_AUTH_MODE=token for every process of this Ray"
    if not (environment.get("RAY_AUTH_TOKEN") or environment.get("RAY_AUTH_TOKEN_PATH")):
        return f"{at}, and there is no token: set RAY_AUTH_TOKEN_PATH (a file) or RAY_AUTH_TOKEN"
    if environment.get("RAY_USE_TLS", "").lower() not in _ON:
        return f"{at}, and its token would cross in clear: set RAY_USE_TLS=1, with {', '.join(_FILES)}, everywhere"
    missing = [name for name in _FILES if not environment.get(name)]
    if missing:
        return f"{at}, and RAY_USE_TLS needs {', '.join(missing)}: name the file"
    return next(filter(None, (_unread(name, environment[name]) for name in _FILES)), "")


def _unread(variable: str, file: str) -> str:
    """Why a file cannot be read: Ray would try for minutes, and name neither the file nor the variable."""
    try:
        with open(file, "rb"):
            return ""
    except OSError as error:
        return f"{variable} {file} cannot be read: {error.strerror or error}"


def misnamed(at: str, environment: Mapping[str, str]) -> str:
    """Why the certificate that a node shows as server is not valid for `at`, the IP or DNS name by which others dial
    it; '' if it is, without TLS, and where `at` is empty (Ray finds it). As gRPC compares: an IP with IP addresses
    alone, a name with DNS names, of which `*.` stands for one label (RFC 6125, section 6.4.3).
    """
    file = environment.get("RAY_TLS_SERVER_CERT", "")
    if not (at and file) or environment.get("RAY_USE_TLS", "").lower() not in _ON:
        return ""
    try:
        names = _names(x509.load_pem_x509_certificate(Path(file).read_bytes()))
    except (OSError, ValueError) as error:
        return f"RAY_TLS_SERVER_CERT {file} cannot be read: {error}"
    wanted = at.lower().rstrip(".")
    known = {_address(at)} if _address(at) else {wanted, f"*.{wanted.partition('.')[2]}"}
    if known & names:
        return ""
    found = ", ".join(sorted(names)) or "no name"
    return (
        f"RAY_TLS_SERVER_CERT {file} is of {found}, not of {at}, by which other Ray nodes dial this one "
        "(--node-ip, ray.node_ip; of the chart ray.nodeName, else the pod's IP): set ray.nodeName to a DNS name "
        f"that the certificate has and that leads here, or make a certificate for {at}"
    )


def _names(certificate: x509.Certificate) -> set[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    addresses = {str(one) for one in found.get_values_for_type(x509.IPAddress)}
    return addresses | {one.lower() for one in found.get_values_for_type(x509.DNSName)}


def _address(text: str) -> str:
    """An IP as it is written shortest; '' for what is none."""
    try:
        return str(ip_address(text.strip("[]")))
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
