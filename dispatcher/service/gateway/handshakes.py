"""Why a TLS handshake with who connects failed, and what to do. Whose certificate it was is not
known then.
"""

import ssl

_CLOCKS = "compare the clocks of both ends"
_JOIN = "`global-dispatcher join` its cluster again"
_NO_AGENT = "it is no agent, or something on the way ends TLS: that has to pass it through"
# (what OpenSSL says, what it means, what to do), the first that fits.
_KNOWN = (
    (
        "certificate has expired",
        "its certificate has expired by our clock",
        f"{_JOIN}, or {_CLOCKS}",
    ),
    ("certificate is not yet valid", "its certificate is not yet valid by our clock", _CLOCKS),
    ("certificate revoked", "its certificate was revoked", f"{_JOIN}, if it is to come back"),
    (
        "CRL",
        "the authority of its certificate has no revocation list that is good now",
        "bring client_ca_file with one: `global-dispatcher config check` says what it lacks",
    ),
    (
        "unsuitable certificate purpose",
        "its certificate is not for a client, as the gateway's own and that of the signing key "
        "are not",
        "give the agent the one of its cluster as gateway.cert_file",
    ),
    (
        "certificate verify failed",
        "no authority of gateway.client_ca_file has signed its certificate",
        f"{_JOIN} with the folder of this fleet's authority, or add its own to that file",
    ),
    ("did not return a certificate", "it shows no certificate", _NO_AGENT),
    ("ALERT", "it does not accept the gateway's certificate", "the log of that agent says why"),
)
_ENDED = (
    "it ended the connection during the handshake",
    "an agent does so that does not trust the gateway's certificate, and its log says why; so do "
    "load balancers that "
    "look whether the port is open",
)


def in_words(error: Exception) -> tuple[str, str]:
    """(problem, fix), of a closed list."""
    if isinstance(error, ConnectionAbortedError):
        return "it did not end the handshake in time", _NO_AGENT
    if not isinstance(error, ssl.SSLError):
        return _ENDED
    said = str(error)
    return next(
        ((problem, fix) for words, problem, fix in _KNOWN if words in said),
        ("it speaks no TLS 1.3", _NO_AGENT),
    )
