"""Actors on a Ray that is joined in the dispatcher's own process, or was started by it; the other way is ray_driver.

Ray unpickles here what actors answer, so whoever runs code in this Ray can run it in this process.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext

from dispatcher.config.sections import GatewaySection
from dispatcher.service.gateway.remote import Actor
from dispatcher.service.ray_link import RayLink
from dispatcher.service.ray_runtime import RayRuntime
from dispatcher.service.signing import Sealer


class RayInProcess:
    """`section`, `clusters` and `log_level` are of gateway actors; `leads` says whether this dispatcher leads."""

    def __init__(
        self,
        ray: RayRuntime,
        section: GatewaySection,
        clusters: tuple[str, ...],
        log_level: str,
        leads: Callable[[], bool],
    ) -> None:
        self.ours = ray.ours
        self._ray = ray
        self._section = section
        self._clusters = clusters
        self._log_level = log_level
        self._leads = leads

    def link(self, cluster: str, sealer: Sealer) -> RayLink:
        """As of RayRuntime."""
        return self._ray.link(cluster, sealer)

    def open_actors(self) -> dict[str, Actor]:
        """As of gateway.actor."""
        from dispatcher.service.gateway.actor import open_actors  # Ray has read its environment by now

        # No other dispatcher meets the actors of a Ray of ours, so that a standby has them, too.
        leads = (lambda: True) if self.ours else self._leads
        return open_actors(self._section, self._clusters, self._log_level, leads)

    def serving(self) -> AbstractAsyncContextManager[None]:
        """Gateway actors beyond the configured number end meanwhile."""
        if not (self._section.actors and self._clusters):
            return nullcontext()
        from dispatcher.service.gateway.actor import ending_surplus  # as above

        return ending_surplus(self._section.actors, self._leads)
