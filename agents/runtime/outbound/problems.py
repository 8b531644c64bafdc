"""Why a gateway cannot be reached, in words, with what to look at."""

import datetime as dt
import errno
import os
import socket
import ssl
from pathlib import Path

import aiohttp
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from agents.runtime.outbound.settings import GatewaySettings
from shared.security.leader_certificate import Authorities, is_for, issued_by, objection

_CLOCK = "certificate is not yet valid"
_EXPIRED = "certificate has expired"
_PURPOSE = "unsuitable certificate purpose"
_CUT_OFF = (
    "ended the connection during the TLS handshake: does a load balancer on the way have no "
    "gateway behind it?"
)
_PORTS = "see the port in gateway.urls, and that of the proxy if there is one"
_MOST = 500  # characters of a problem
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")


def in_words(error: BaseException, host: str, settings: GatewaySettings) -> str:
    """One line for an error of a connection attempt to `host` (host:port), or of a connection. Who
    answers there, or a proxy, may have written part of it: it is cut, and has no control
    characters.
    """
    return "".join(
        one if one.isprintable() else " " for one in _words(error, host, settings)[:_MOST]
    )


def _words(error: BaseException, host: str, settings: GatewaySettings) -> str:
    if isinstance(error, _CLOSED_AT_ONCE) and not isinstance(error, aiohttp.ClientConnectorError):
        return f"{host}: {_closed_at_once(settings, dt.datetime.now(dt.UTC))}"
    for kind, words in _WORDS:
        if isinstance(error, kind):
            return words(error, host)
    return f"{host}: {str(error) or repr(error)}"


def _closed_at_once(settings: GatewaySettings, now: dt.datetime) -> str:
    """TLS 1.3 has this side done before the other looks at our certificate, and nothing says what
    it found.
    """
    found = _own_fault(settings, now) or (
        "by our files and our clock it is good: the dispatcher's log has the reason, unless a "
        "proxy on the way did it"
    )
    return (
        "ended the connection at once: it may not accept our certificate (gateway.cert_file); "
        f"{found}"
    )


def _own_fault(settings: GatewaySettings, now: dt.datetime) -> str:
    """Why a gateway would refuse our certificate, as far as our own files tell; '' if they do not."""
    try:
        own = x509.load_pem_x509_certificate(Path(settings.cert_file).read_bytes())
        authorities = Authorities.read(Path(settings.ca_file).read_bytes())
        found = issued_by(own, authorities)
        problem = found if isinstance(found, str) else objection(found, authorities, now)
    except (
        Exception
    ):  # a file that is gone, or odd in what OpenSSL reads: the library has a class for each
        return ""
    if not problem:
        wrong = (
            "our certificate is not for a client: give the one of this cluster as gateway.cert_file"
        )
        return "" if is_for(own, ExtendedKeyUsageOID.CLIENT_AUTH) else wrong
    ours = problem.replace("its certificate", "our certificate")
    return (
        f"{ours} (as gateway.ca_file and our clock say): `join` makes another; else compare the "
        "clocks of both ends"
    )


def _certificate(error: BaseException, host: str) -> str:
    why = _verify_message(error)
    if _CLOCK in why:
        return f"{host}: its {why}: compare the clocks of both ends"
    if _EXPIRED in why:
        return f"{host}: its {why}: renew it, or compare the clocks of both ends"
    if _PURPOSE in why:
        return f"{host}: its certificate is not a server's: see gateway.cert_file of the dispatcher"
    if "mismatch" in why:
        return (
            f"{host}: its certificate has another name: make one for this, or give its own as "
            "gateway.server_name"
        )
    return (
        f"{host}: its certificate is not trusted ({why}): see gateway.ca_file and "
        "gateway.server_name"
    )


def _verify_message(error: BaseException) -> str:
    inner = getattr(error, "certificate_error", error)
    return str(getattr(inner, "verify_message", "") or inner)


def _tls(error: BaseException, host: str) -> str:
    inner = getattr(
        error, "os_error", error
    )  # the outer one names an object of ours, another at each attempt
    if getattr(inner, "reason", "") in _NO_TLS:
        return (
            f"{host}: what answers there speaks no TLS: see the port in gateway.urls, and what is "
            "on the way"
        )
    return f"{host}: TLS failed ({inner}): see gateway.cert_file, key_file and ca_file"


def _no_address(error: BaseException, host: str) -> str:
    name = getattr(error, "host", "")
    if getattr(error, "errno", 0) == socket.EAI_AGAIN:  # nobody has said that there is none
        return f"{host}: no name server answers for {name} (DNS): see those of this machine or pod"
    if f"{host.lower()}:".startswith(f"{name.lower()}:"):
        return f"{host}: the name has no address (DNS)"
    return (
        f"{host}: the proxy's name {name} has no address (DNS): see gateway.proxy and HTTPS_PROXY"
    )


def _no_way(error: aiohttp.ClientConnectorError) -> str:
    """Not the text of `error` itself: it names an object of ours, another at each attempt."""
    if error.errno and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error.os_error) or _CUT_OFF


def _handshake(error: BaseException, host: str) -> str:
    status = getattr(error, "status", 0)
    message = getattr(error, "message", "")
    reason = _STATUS.get(
        status, f"answered with HTTP {status} ({message}): is it a dispatcher's gateway?"
    )
    return f"{host}: {reason}"


_STATUS = {
    401: "asks for a certificate: see gateway.cert_file, and that nothing between ends TLS",
    403: "refuses our certificate: it is of another cluster or role; see gateway.cert_file",
    404: "does not know this cluster: list it in the dispatcher's configuration with `via: "
    "gateway`",
}
_PROXY_STATUS = {
    403: ": see its rules for CONNECT",
    407: ": it wants a user and a password, http://USER:PASSWORD@HOST:PORT",
    502: ": it does not reach the gateway",
    503: ": it does not reach the gateway",
    504: ": it does not reach the gateway",
}

_LOOK_AT = {
    errno.ECONNREFUSED: ": nothing listens there: see the port in gateway.urls, and whether a "
    "dispatcher runs",
    errno.EHOSTUNREACH: ": see the host in gateway.urls, routes and firewalls",
    errno.ENETUNREACH: ": see the host in gateway.urls, routes and firewalls",
}
_CLOSED_AT_ONCE = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)
_WORDS = (
    (
        aiohttp.InvalidURL,
        lambda _, host: f"{host} is no HOST:PORT with a port of 1 to 65535: see gateway.urls",
    ),
    (aiohttp.ClientConnectorDNSError, _no_address),
    (
        aiohttp.ClientHttpProxyError,
        lambda error, host: (
            f"{host}: the proxy refused with HTTP "
            f"{error.status}{_PROXY_STATUS.get(error.status, '')}"
        ),
    ),
    (
        aiohttp.ClientProxyConnectionError,
        lambda error, _: f"the proxy {error.host}:{error.port} cannot be reached: {_no_way(error)}",
    ),
    ((aiohttp.ClientConnectorCertificateError, ssl.SSLCertVerificationError), _certificate),
    ((aiohttp.ClientConnectorSSLError, ssl.SSLError), _tls),
    (aiohttp.WSServerHandshakeError, _handshake),
    # Its own text names the URL that was asked: the proxy's, with a password.
    (aiohttp.ClientResponseError, lambda _, host: f"{host}: what answers speaks no HTTP: {_PORTS}"),
    ((FileNotFoundError, PermissionError), lambda error, _: f"{error.filename}: {error.strerror}"),
    (
        TimeoutError,
        lambda _, host: (
            f"{host}: no answer in time: look at firewalls and proxies on the way, and whether "
            "they pass large packets"
        ),
    ),
    (
        aiohttp.ClientConnectorError,
        lambda error, host: f"{host}: {_no_way(error)}{_LOOK_AT.get(error.errno, '')}",
    ),
)
