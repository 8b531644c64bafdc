"""Which addresses a host name stands for without anybody being asked.

An address has many spellings: a resolver takes 2852039166, 0xa9fea9fe, 0251.254.43518 and
169.254.169.254.nip.io for 169.254.169.254, and IPv6 has ways to write an IPv4 address, too. A check
of one spelling alone is none.
"""

import re
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

_PART = re.compile(r"0x[0-9a-f]+|0[0-7]*|[1-9][0-9]*")
# As nip.io, sslip.io and their like have them: 169.254.169.254.nip.io, x-169-254-169-254.sslip.io,
# a9fea9fe.nip.io.
_QUAD = re.compile(r"(?<![0-9])(?=((?:[0-9]{1,3}[.-]){3}[0-9]{1,3})(?![0-9]))")
_HEX = re.compile(r"(?<![0-9a-f])[0-9a-f]{8}(?![0-9a-f])")
_NAT64 = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")
_LONGEST = 253  # of a DNS name


def resolved(host: str) -> Iterator[IPv4Address | IPv6Address]:
    """All addresses that a host (lower case, without brackets) is, or has in it; none of other
    names.
    """
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        yield from _in_name(host[:_LONGEST])
        return
    yield address
    if isinstance(address, IPv6Address):
        yield from _inside(address)


def _inside(address: IPv6Address) -> Iterator[IPv4Address]:
    """The IPv4 address that an IPv6 address stands for."""
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.sixtofour is not None:
        yield address.sixtofour
    if address in _NAT64 or address in _COMPATIBLE:
        yield IPv4Address(int(address) & 0xFFFF_FFFF)


def _in_name(host: str) -> Iterator[IPv4Address]:
    number = _number(host)
    if number is not None:
        yield IPv4Address(number)
    for found in _QUAD.finditer(host):
        parts = [int(part) for part in re.split("[.-]", found[1])]
        if max(parts) <= 255:
            yield IPv4Address(bytes(parts))
    for digits in _HEX.findall(host):
        yield IPv4Address(int(digits, 16))


def _number(host: str) -> int | None:
    """As inet_aton(3): one to four numbers, decimal, octal or hexadecimal; the last one fills what
    is left.
    """
    parts = host.split(".")
    if len(parts) > 4 or not all(_PART.fullmatch(part) for part in parts):
        return None
    *first, last = [_value(part) for part in parts]
    room = 8 * (4 - len(first))
    if last >= 1 << room or any(one > 255 for one in first):
        return None
    for at, one in enumerate(first):
        last |= one << (24 - 8 * at)
    return last


def _value(part: str) -> int:
    if part.startswith("0x"):
        return int(part[2:][-16:], 16)
    return int(part[-20:], 8 if part.startswith("0") else 10)
