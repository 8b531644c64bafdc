"""Fake agents that dial to the dispatcher's gateway, as real ones do: a TLS connection and a
certificate each.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from agents.runtime.outbound.dialling import Dialler
from agents.runtime.outbound.settings import GatewaySettings
from benchmarks.fleet import wire
from benchmarks.fleet.dispatcher import Way
from benchmarks.fleet.phases import Fleet
from dispatcher.config.sections import GatewaySection
from dispatcher.service.gateway.authority import ensure, name_of
from localfleet.controlplane.ports import Port, reserve
from shared.messages import Telemetry
from shared.streams.calls import CHANGES, EXECUTE, HELLO, SET_PEERS, TELEMETRY, Call

_HOST = "127.0.0.1"
_PLAIN = {HELLO: wire.HELLO, EXECUTE: wire.EXECUTE, SET_PEERS: wire.PEERS}


class DialledFleet(Fleet):
    """A fleet whose agents are reached through the gateway alone."""

    _ports: list[Port]
    _dialling: list[asyncio.Task[None]]

    async def way(self, folder: Path) -> Way:
        """The gateway that the process is to open; the agents dial until it is there."""
        self._ports = reserve(1)
        port = self._ports[0].number
        ensure(folder, [_HOST], self.load.names)
        self._dialling = [
            asyncio.create_task(self._dialler(name, folder, port).run(), name=f"agent {name}")
            for name in self.load.names
        ]
        cert, key, authority = (
            str(folder / name) for name in ("gateway.crt", "gateway.key", "ca.crt")
        )
        files = {"cert_file": cert, "key_file": key, "client_ca_file": authority}
        return GatewaySection(host=_HOST, port=port, **files)

    def leave(self) -> None:
        """The agents hang up."""
        for task in self._dialling:
            task.cancel()
        for port in self._ports:
            port.release()

    def _dialler(self, name: str, folder: Path, port: int) -> Dialler:
        stem = str(folder / name_of(name))
        settings = GatewaySettings(
            urls=(f"wss://{_HOST}:{port}",),
            ca_file=str(folder / "ca.crt"),
            cert_file=f"{stem}.crt",
            key_file=f"{stem}.key",
            longest_pause_s=1,
        )
        return Dialler(settings, name, self._answers(name))

    def _answers(self, name: str) -> Mapping[str, Callable[[Call], Awaitable[bytes]]]:
        async def changes(call: Call) -> bytes:
            return await self.answer(
                name, wire.CHANGES, wire.poll(call.incarnation, call.since, call.wait_s)
            )

        async def telemetry(_: Call) -> bytes:
            return wire.encode(Telemetry(name))

        def plain(what: int) -> Callable[[Call], Awaitable[bytes]]:
            return lambda call: self.answer(name, what, call.body)

        return {
            CHANGES: changes,
            TELEMETRY: telemetry,
            **{call: plain(what) for call, what in _PLAIN.items()},
        }
