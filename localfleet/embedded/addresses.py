"""Loopback addresses and ports: which 127.x.y.z a node has, and ports that stay free for a restart."""

import errno
import random
import socket
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

API_ADDRESS = "127.0.0.1"
_LOWEST_PORT = 15_000
_LOCAL_PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
MAX_NODES = 254 * 254


class NoFreePortError(OSError):
    """No port could be bound on all the addresses; the text says which were tried."""


def node_block(cluster: str) -> int:
    """The second octet (1..254) of the cluster's node addresses; two clusters that share one differ
    by port.
    """
    return crc32(cluster.encode()) % 254 + 1


def node_address(block: int, index: int) -> str:
    """The loopback address of node number `index` (from 0) in a block:
    127.<block>.<1..254>.<1..254>.
    """
    if index >= MAX_NODES:
        raise ValueError(
            f"node number {index}: an embedded cluster holds at most {MAX_NODES} nodes"
        )
    return f"127.{block}.{index // 254 + 1}.{index % 254 + 1}"


def listen(addresses: Sequence[str], port: int) -> list[socket.socket]:
    """A listening socket on `port` of each address; OSError leaves none open."""
    opened: list[socket.socket] = []
    try:
        for address in addresses:
            listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            opened.append(listener)
            # Connections of a killed predecessor linger in TIME_WAIT; the address is ours all the
            # same.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, port))
            listener.listen(128)
            listener.setblocking(False)
    except OSError:
        for listener in opened:
            listener.close()
        raise
    return opened


def listen_anywhere(
    addresses: Sequence[str], rng: random.Random
) -> tuple[int, list[socket.socket]]:
    """Find a port that is free on all addresses, and listen on it.

    Ports lie below the range of the kernel's outgoing ones: a client that redials while the cluster
    is down could otherwise be given the cluster's own port and keep it from coming back.
    """
    top = _lowest_outgoing_port()
    for _ in range(64):
        port = rng.randrange(_LOWEST_PORT, top)
        try:
            return port, listen(addresses, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise NoFreePortError(f"no free port between {_LOWEST_PORT} and {top} on {addresses[0]}")


def _lowest_outgoing_port() -> int:
    try:
        lowest = int(_LOCAL_PORT_RANGE.read_text().split()[0])
    except (OSError, ValueError):
        return 32_768
    return lowest if lowest > _LOWEST_PORT + 1000 else 32_768
