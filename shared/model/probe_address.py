"""Where an agent answers probes of other clusters' agents: an IP address and a port, never a name."""

import ipaddress
from typing import NamedTuple

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_LONGEST = 64  # characters


class ProbeAddress(NamedTuple):
    """A TCP endpoint."""

    ip: Address
    port: int

    def __str__(self) -> str:
        """As `read_address` reads it."""
        return f"[{self.ip}]:{self.port}" if self.ip.version == 6 else f"{self.ip}:{self.port}"


def read_address(text: str) -> ProbeAddress:
    """'192.0.2.7:7490' or '[2001:db8::7]:7490'; ValueError says what is wrong.

    Names are refused: who answers for a name may be somebody else a moment later.
    """
    host, colon, port = text[:_LONGEST].rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    wrong = (
        "must be an IP address and a port, such as 192.0.2.7:7490 or [2001:db8::7]:7490, not "
        f"{text[:_LONGEST]!r}"
    )
    try:
        ip = ipaddress.ip_address(host[1:-1] if bracketed else host)
    except ValueError:
        raise ValueError(wrong) from None
    if (
        not colon
        or bracketed != (ip.version == 6)
        or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536)
    ):
        raise ValueError(wrong)
    if getattr(ip, "scope_id", None) or getattr(ip, "ipv4_mapped", None):
        raise ValueError(wrong)
    return ProbeAddress(ip, int(port))


def published(text: str) -> str:
    """An address as an agent publishes it; '' for what is none: it is told to nobody."""
    try:
        return str(read_address(text)) if text else ""
    except ValueError:
        return ""
