"""Agents that are started here, as Ray actors, on this host or another: each dials the dispatcher,
as all others do.

Their certificates are made at each start, of an authority that signs nothing else; no key is in a
file.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from agents.runtime.join.settings import JoinSettings
from agents.runtime.relay.settings import RelaySettings
from agents.runtime.settings import AgentSettings
from dispatcher.config import agent_settings
from dispatcher.config.sections import ClusterSection, GatewaySection, SigningSection
from dispatcher.service.errors import CommandError
from dispatcher.service.gateway.authority import AUTHORITY_DAYS, SIGNING, ensure, name_of
from dispatcher.service.gateway.folder import Folder
from dispatcher.service.gateway.gateway import Gateway
from dispatcher.service.gateway.link import GatewayLink
from dispatcher.service.links.signing import NO_SIGNER, Sealer, Signer
from shared.kube.memory import memory_file
from shared.process.logs import log_path

_TAKEN_S = 30.0  # for Ray to end the actors of a dispatcher that was killed
_AGAIN_S = 1.0
_NO_FILE = "in memory"


class StartedAgents:
    """A gateway of their own, and the agents while it serves. Those that are told whom to obey obey
    `sealer`, all others a key that is made here for them alone.
    """

    def __init__(
        self,
        agents: Iterable[AgentSettings],
        host: str,
        enter: Callable[[AbstractContextManager[str]], str],
        sealer: Sealer = NO_SIGNER,
        relays: Mapping[str, RelaySettings] | None = None,
        *,
        port: int = 0,
    ) -> None:
        """`host` and `port`: where they dial this process; port 0: any free one. `enter`: of an
        ExitStack, which holds the keys. `relays`: of each cluster where its agent serves logs and
        exec of pods that run in another.
        """
        self._agents = {one.cluster: one for one in agents}
        self._host = host
        self._relays = relays or {}
        self._sealer = sealer
        self._folder = Folder(Path(_NO_FILE), dry_run=True)
        ensure(self._folder, [host], self._agents, days=AUTHORITY_DAYS)

        def file(name: str) -> str:
            return enter(memory_file(self._folder.need(name)))

        authority = file("ca.crt")
        section = GatewaySection(
            host=host,
            port=port,
            cert_file=file("gateway.crt"),
            key_file=file("gateway.key"),
            client_ca_file=authority,
        )
        signing = SigningSection(cert_file=file(f"{SIGNING}.crt"), key_file=file(f"{SIGNING}.key"))
        self._own_sealer = Signer(signing)
        self.gateway = Gateway(section, self._agents)

    def link(self, cluster: str) -> GatewayLink:
        """The dispatcher's way to one of them."""
        verified = self._agents[cluster].orders.verified
        return self.gateway.link(cluster, self._sealer if verified else self._own_sealer)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Listen, and have the agents, on the Ray that this process has joined. CommandError: as of
        Gateway, or another dispatcher has agents there.
        """
        async with self.gateway.serving():
            handles = await asyncio.to_thread(self._start)
            yield
            handles.clear()  # Ray ends an actor with the last handle to it

    def _start(self) -> list[Any]:
        from agents.runtime.actor import (
            Credentials,
            create_actor,
        )  # Ray has read its environment by now

        def credentials(cluster: str) -> Credentials:
            stem = name_of(cluster)
            return Credentials(
                *(self._folder.need(name) for name in ("ca.crt", f"{stem}.crt", f"{stem}.key"))
            )

        def create(agent: AgentSettings) -> Any:
            until = time.monotonic() + _TAKEN_S
            while True:
                try:
                    return create_actor(self._settings(agent), credentials(agent.cluster))
                except ValueError as error:
                    if time.monotonic() > until:
                        text = (
                            f"the agent of cluster {agent.cluster} is another dispatcher's in "
                            f"this Ray: {error}"
                        )
                        raise CommandError(text) from None
                time.sleep(_AGAIN_S)

        return [create(one) for one in self._agents.values()]

    def _settings(self, agent: AgentSettings) -> JoinSettings:
        gateway = {
            "urls": [f"wss://{self._host}:{self.gateway.port}"],
            "ca_file": _NO_FILE,
            "cert_file": _NO_FILE,
            "key_file": _NO_FILE,
            "longest_pause_s": 1,
        }
        return JoinSettings.model_validate(
            {**agent.model_dump(), "gateway": gateway, "relay": self._relays.get(agent.cluster)}
        )


def agent_with_log(cluster: ClusterSection) -> AgentSettings:
    """The settings of an agent that is made here: what it says would end with Ray's own folder, so
    it has a file.
    """
    settings = agent_settings(cluster)
    return settings.model_copy(
        update={"log_file": settings.log_file or str(log_path(cluster.name))}
    )
