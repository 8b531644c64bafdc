"""Runs one leader term after the other: stand by, lead, stand by again. Each term begins with an empty core."""

import asyncio
from collections.abc import Sequence

from dispatcher.config import DispatcherConfig
from dispatcher.service.assembly import Dispatcher, assemble
from dispatcher.service.collectors import LeaderCollector
from dispatcher.service.fleet_views import FleetViews
from dispatcher.service.leadership import Leadership, LeaderStatus
from dispatcher.service.link import AgentLink
from dispatcher.service.service import Service
from dispatcher.service.term import Term

NOBODY = Term("", 0, lambda: False)  # before the first term: nothing may be sent


class TermRunner:
    """The dispatcher of this term, or of the last one: the HTTP API, metrics and reloads ask here."""

    def __init__(self, links: Sequence[AgentLink], config: DispatcherConfig, leadership: Leadership) -> None:
        self._links, self._config, self._leadership = links, config, leadership
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

    def take_policies(self, changed: DispatcherConfig) -> None:
        """Decide by a changed configuration, in this term and in later ones."""
        self.dispatcher.take_policies(changed)
        self._config = changed

    def relay_objection(self, home: str, target: str, pod: str) -> str:
        """Why no stream about the delegate of a pod (its UID) is passed between two clusters; '' if it is."""
        if self.dispatcher.views.has_delegate(home, pod, target):
            return ""
        return f'this dispatcher knows of no delegate of the pod in cluster "{target}"'

    async def run(self) -> None:
        """One term after the other, until cancelled; raises what ends a service but the loss of its term."""
        try:
            while True:
                term = await self._leadership.lead()
                self.dispatcher = self._assembled(term)
                await self._serve(self.dispatcher.service)
                self._leadership.end()
                if self.service.deposed is not None:
                    await self._leadership.deposed(self.service.deposed)
        finally:
            await self._leadership.release()

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
        made = assemble(self._links, self._config, term, self._leadership.obeyed)
        made.service.metrics.watch(LeaderCollector(lambda: self.leader_status.leads))
        return made
