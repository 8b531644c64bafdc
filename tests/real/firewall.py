"""A firewall in user space that lets one thing through: TCP connections outward, to one port. Few of the kernels that
tests run on have nftables.
"""

import struct
from dataclasses import dataclass

_TCP, _VERSION_4 = 6, 4
_SYN, _RST, _ACK = 0x02, 0x04, 0x10
_IP, _SEGMENT = struct.Struct(">BBHHHBBH4s4s"), struct.Struct(">HHIIBBHHH")


@dataclass(frozen=True)
class Firewall:
    """`port`: the only one that is reached, from inside."""

    port: int

    def lets(self, packet: bytes, *, outward: bool) -> bool:
        """Whether an IP packet passes, on its way out or in; inward what belongs to a connection from inside alone."""
        if len(packet) < _IP.size or packet[0] >> 4 != _VERSION_4 or packet[9] != _TCP:
            return False
        from_port, to_port, _, _, _, flags, *_ = _segment(packet)
        if outward:
            return bool(to_port == self.port)
        return bool(from_port == self.port and flags & (_SYN | _ACK) != _SYN)

    def refusal(self, packet: bytes) -> bytes:
        """What the sender is answered: a reset, as of a port where nobody listens; b"" to what is no TCP over IPv4."""
        if len(packet) < _IP.size or packet[0] >> 4 != _VERSION_4 or packet[9] != _TCP:
            return b""
        from_port, to_port, number, acknowledged, _, flags, *_ = _segment(packet)
        if flags & _RST:
            return b""
        if flags & _ACK:
            numbers, back = (acknowledged, 0), _RST
        else:
            numbers, back = (0, (number + 1) & 0xFFFFFFFF), _RST | _ACK
        source, target = packet[16:20], packet[12:16]
        segment = _SEGMENT.pack(to_port, from_port, *numbers, 5 << 4, back, 0, 0, 0)
        pseudo = source + target + struct.pack(">BBH", 0, _TCP, len(segment))
        segment = _with_sum(segment, 16, _sum(pseudo + segment))
        head = _IP.pack(0x45, 0, _IP.size + len(segment), 0, 0, 64, _TCP, 0, source, target)
        return _with_sum(head, 10, _sum(head)) + segment


def _segment(packet: bytes) -> tuple[int, ...]:
    return _SEGMENT.unpack_from(packet, (packet[0] & 15) * 4)


def _sum(data: bytes) -> int:
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF


def _with_sum(data: bytes, at: int, total: int) -> bytes:
    return data[:at] + struct.pack(">H", total) + data[at + 2 :]
