"""Runs one leader term after the other: stand by, lead, stand by again.

A term begins with the fleet that its dispatcher has followed while it stood by, or with an empty
core if it did not (`leader_election.warm`). What an earlier term of ours knew is never gone on
with.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace

from prometheus_client.registry import Collector

from dispatcher.config import DispatcherConfig
from dispatcher.service import warm_up
from dispatcher.service.assembly import Dispatcher, assemble
from dispatcher.service.collectors import LeaderCollector
from dispatcher.service.fleet_views import FleetViews
from dispatcher.service.leading.leadership import Leadership, LeaderStatus
from dispatcher.service.links.link import AgentLink
from dispatcher.service.metrics.load import LoadCollector
from dispatcher.service.service import Service
from dispatcher.service.term import NOBODY, Term

_HOST = re.compile(r"[A-Za-z0-9]([-.A-Za-z0-9]{0,252}[A-Za-z0-9])?")


class TermRunner:
    """The dispatcher of this term, or of the last one: the HTTP API, metrics and reloads ask here."""

    def __init__(
        self, links: Sequence[AgentLink], config: DispatcherConfig, leadership: Leadership
    ) -> None:
        self._links = links
        self._config = config
        self._leadership = leadership
        self._collectors: list[Collector] = [LeaderCollector(lambda: self.leader_status.leads)]
        self.dispatcher: Dispatcher = self._assembled(NOBODY)

    @property
    def service(self) -> Service:
        """Of the term."""
        return self.dispatcher.service

    @property
    def views(self) -> FleetViews:
        """Of the term."""
        return self.dispatcher.views

    @property
    def leader_status(self) -> LeaderStatus:
        """Whether this process leads."""
        return self._leadership.leader_status

    @property
    def leader_url(self) -> str:
        """Where the HTTP API of the dispatcher that leads is, '' if that is not known."""
        url = self._config.leader_election.leader_url
        host = self.leader_status.leader.rpartition("_")[0]
        return url.replace("{host}", host) if _HOST.fullmatch(host) else ""

    def loads_led(self) -> LoadCollector | None:
        """The load of the clusters while this process leads, else None."""
        return self.dispatcher.loads if self.leader_status.leads else None

    def take_policies(self, changed: DispatcherConfig) -> None:
        """Decide by the profiles, plugins and tenants of a changed configuration, in this term and
        in later ones.
        """
        self.dispatcher.take_policies(changed)
        self._config = replace(
            self._config,
            profiles=changed.profiles,
            registry=changed.registry,
            tenants=changed.tenants,
        )

    def watch(self, collector: Collector) -> None:
        """Read this, too, at each scrape, in this term and in later ones."""
        self._collectors.append(collector)
        self.service.metrics.watch(collector)

    def relay_objection(self, home: str, target: str, pod: str) -> str:
        """As of CoreViews, by what is known in this term."""
        return self.dispatcher.views.relay_objection(home, target, pod)

    async def run(self) -> None:
        """One term after the other, until cancelled; raises what ends a service but the loss of its
        term.
        """
        try:
            while True:
                self.dispatcher = await self._leading()
                await self._serve(self.dispatcher.service)
                self._leadership.end()
                if self.service.deposed is not None:
                    await self._leadership.deposed(self.service.deposed)
        finally:
            await self._leadership.release()

    async def _leading(self) -> Dispatcher:
        """Stand by until this dispatcher leads; the one that does."""
        section = self._config.leader_election
        if not (section.enabled and section.warm):
            self.dispatcher = self._assembled(await self._leadership.lead())
            warm_up.collect_ended_terms()
            return self.dispatcher
        self.dispatcher = standby = self._assembled(NOBODY)
        warm_up.collect_ended_terms()
        leading = asyncio.create_task(self._leadership.lead(), name="lead")
        following = asyncio.create_task(standby.service.run(), name="follow")
        try:
            await asyncio.wait({leading, following}, return_when=asyncio.FIRST_COMPLETED)
            if not leading.done():
                following.result()
        finally:
            standby.service.stop()
            for task in (leading, following):
                task.cancel()
            await asyncio.gather(leading, following, return_exceptions=True)
        return self._watched(standby.lead(leading.result()))

    async def _serve(self, service: Service) -> None:
        """Until the term ends; nothing is under way any more then."""
        serving = asyncio.create_task(service.run(), name="service")
        holding = asyncio.create_task(self._leadership.lost(), name="lease")
        try:
            await asyncio.wait({serving, holding}, return_when=asyncio.FIRST_COMPLETED)
            for task in (serving, holding):
                if task.done():
                    task.result()
        finally:
            service.stop_sending()
            service.stop()
            holding.cancel()
            await asyncio.gather(serving, holding, return_exceptions=True)

    def _assembled(self, term: Term) -> Dispatcher:
        return self._watched(assemble(self._links, self._config, term, self._leadership.obeyed))

    def _watched(self, made: Dispatcher) -> Dispatcher:
        for collector in self._collectors:
            made.service.metrics.watch(collector)
        return made
