"""Why a gateway cannot be reached, in words, with what to look at."""

import ssl

import aiohttp

_CLOCK = "certificate is not yet valid"
_EXPIRED = "certificate has expired"


def in_words(error: BaseException, host: str) -> str:
    """One line for an error of a connection attempt, or of a connection."""
    for kind, words in _WORDS:
        if isinstance(error, kind):
            return words(error, host)
    return f"{host}: {error or error!r}"


def _certificate(error: BaseException, host: str) -> str:
    why = _verify_message(error)
    if _CLOCK in why:
        return f"{host}: its {why}: compare the clocks of both ends"
    if _EXPIRED in why:
        return f"{host}: its {why}: renew it, or compare the clocks of both ends"
    if "mismatch" in why:
        return f"{host}: its certificate has another name: make one for this, or give its own as gateway.server_name"
    return f"{host}: its certificate is not trusted ({why}): see gateway.ca_file and gateway.server_name"


def _verify_message(error: BaseException) -> str:
    inner = getattr(error, "certificate_error", error)
    return str(getattr(inner, "verify_message", "") or inner)


def _handshake(error: BaseException, host: str) -> str:
    status, message = getattr(error, "status", 0), getattr(error, "message", "")
    reason = _STATUS.get(status, f"answered with HTTP {status} ({message}): is it a dispatcher's gateway?")
    return f"{host}: {reason}"


_STATUS = {
    401: "asks for a certificate: see gateway.cert_file, and that nothing between ends TLS",
    403: "refuses our certificate: it is of another cluster or role; see gateway.cert_file",
    404: "does not know this cluster: list it in the dispatcher's configuration with `via: gateway`",
}

_WORDS = (
    (aiohttp.ClientConnectorDNSError, lambda _, host: f"{host}: the name has no address (DNS)"),
    (aiohttp.ClientHttpProxyError, lambda error, host: f"{host}: the proxy refused with HTTP {error.status}"),
    (aiohttp.ClientProxyConnectionError, lambda error, _: f"the proxy cannot be reached: {error.strerror or error}"),
    ((aiohttp.ClientConnectorCertificateError, ssl.SSLCertVerificationError), _certificate),
    (
        (aiohttp.ClientConnectorSSLError, ssl.SSLError),
        lambda error, host: f"{host}: TLS failed ({error}): see gateway.cert_file, key_file and ca_file",
    ),
    (aiohttp.WSServerHandshakeError, _handshake),
    (
        aiohttp.ServerDisconnectedError,
        lambda _, host: f"{host}: ended the connection at once: it may not accept our certificate (gateway.cert_file)",
    ),
    ((FileNotFoundError, PermissionError), lambda error, _: f"{error.filename}: {error.strerror}"),
    (TimeoutError, lambda _, host: f"{host}: no answer in time: look at firewalls on the way"),
    (aiohttp.ClientConnectorError, lambda error, host: f"{host}: {error.strerror or error}"),
)
