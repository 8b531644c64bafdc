"""What a cluster remembers besides its objects: its tokens and the addresses it must come back on."""

import fcntl
import hmac
import os
import random
import secrets
import socket
from pathlib import Path
from typing import IO

import msgspec

from localfleet.embedded.addresses import (
    API_ADDRESS,
    listen,
    listen_anywhere,
    node_address,
    node_block,
)
from localfleet.embedded.tls import write_private


class StateError(RuntimeError):
    """A state directory that cannot be used; the text names it and says what to do."""


class Places(msgspec.Struct, frozen=True):
    """The API's port, the kubelets' port and the second octet of the nodes' addresses."""

    api_port: int
    kubelet_port: int
    block: int


class State:
    """A state directory, locked for one process at a time.

    Holds cluster.db (objects), the certificate authority, `token`, `reader-token`, `accounts-key`
    and places.json.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.directory = directory
        self._lock = _locked(directory / "lock")
        self.token, self.reader_token = self._token("token"), self._token("reader-token")
        self._accounts_key = self._token("accounts-key").encode()

    def account_token(self, namespace: str, name: str) -> str:
        """The token of a service account: the same at each request, and it never ends."""
        return hmac.new(self._accounts_key, f"{namespace}/{name}".encode(), "sha256").hexdigest()

    @property
    def database(self) -> Path:
        """Where the objects are."""
        return self.directory / "cluster.db"

    def open_places(
        self, cluster: str, nodes: int, port: int
    ) -> tuple[Places, socket.socket, list[socket.socket]]:
        """Listen where the cluster listened before, or on ports that are free; `port` other than 0
        fixes the API's.

        Answers the places, the API's socket and one socket for each of `nodes` nodes.
        """
        known = self._places()
        try:
            places, api, kubelets = _listen(known, port) if known else _choose(cluster, port)
        except OSError as error:
            where = f"port {known.api_port if known else port}"
            raise StateError(
                f"cluster {cluster}: cannot listen on {where} ({error.strerror or error}): stop "
                "what uses it, "
                f"or remove {self.directory} to let the cluster choose anew"
            ) from None
        kubelets += [
            s
            for i in range(1, nodes)
            for s in listen([node_address(places.block, i)], places.kubelet_port)
        ]
        write_private(self.directory / "places.json", msgspec.json.encode(places))
        return places, api, kubelets

    def _places(self) -> Places | None:
        path = self.directory / "places.json"
        if not path.exists():
            return None
        try:
            return msgspec.json.decode(path.read_bytes(), type=Places)
        except msgspec.MsgspecError as error:
            raise StateError(
                f"{path}: {error}; remove the file to let the cluster choose its ports anew"
            ) from None

    def _token(self, name: str) -> str:
        path = self.directory / name
        if not path.exists():
            write_private(path, secrets.token_urlsafe(32).encode())
        return path.read_text().strip()


def _listen(places: Places, port: int) -> tuple[Places, socket.socket, list[socket.socket]]:
    places = msgspec.structs.replace(places, api_port=port or places.api_port)
    (api,) = listen([API_ADDRESS], places.api_port)
    return places, api, listen([node_address(places.block, 0)], places.kubelet_port)


def _choose(cluster: str, port: int) -> tuple[Places, socket.socket, list[socket.socket]]:
    rng = random.Random(f"{cluster}/{os.getpid()}")
    block = node_block(cluster)
    if port:
        (api,), api_port = listen([API_ADDRESS], port), port
    else:
        api_port, (api,) = listen_anywhere([API_ADDRESS], rng)
    kubelet_port, kubelets = listen_anywhere([node_address(block, 0)], rng)
    return Places(api_port, kubelet_port, block), api, kubelets


def _locked(path: Path) -> IO[str]:
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise StateError(
            f"{path.parent} is in use by another cluster process: stop it or take another one"
        ) from None
    return file
