"""Addresses for simulated pods: 10.<block>.x.y, one a running pod. Nothing listens there."""

from localfleet.embedded.meta import Object, is_finished

_SIZE = 254 * 254


class PodAddresses:
    """The pool of one cluster; it goes round, so that a freed address is not reused at once."""

    def __init__(self, block: int) -> None:
        self._block = block
        self._taken: set[str] = set()
        self._next = 0

    def note(self, pod: Object) -> None:
        """Remember the address that a pod had before a restart."""
        address = pod.get("status", {}).get("podIP")
        if address and not is_finished(pod):
            self._taken.add(address)

    def give(self, pod: Object, host: str) -> str:
        """The pod's own address, the one it has already, or its node's when it shares the node's
        network.
        """
        if pod["spec"].get("hostNetwork"):
            return host
        address = pod.get("status", {}).get("podIP") or self._fresh()
        self._taken.add(address)
        return str(address)

    def take_back(self, address: str) -> None:
        """The pod has ended."""
        self._taken.discard(address)

    def _fresh(self) -> str:
        for _ in range(_SIZE):
            number = self._next
            self._next = (self._next + 1) % _SIZE
            address = f"10.{self._block}.{number // 254 + 1}.{number % 254 + 1}"
            if address not in self._taken:
                return address
        return ""  # more pods than addresses: they share none, as when a node's range is used up
