"""One of several dispatchers of a fleet of fake agents, as `run` puts it together, with a Lease on
an API server.
"""

import asyncio
import signal
from typing import NamedTuple

import structlog

from benchmarks.fleet.wire import SocketLink
from dispatcher.config import DispatcherConfig
from dispatcher.config.sections import LeaderElectionSection, TimingSection
from dispatcher.scheduling.framework.kernels import compile_all
from dispatcher.service.leading.leader_client import candidate
from dispatcher.service.leading.leadership import Leadership
from dispatcher.service.leading.term_runner import TermRunner
from dispatcher.service.warm_up import collect_less_often
from shared.process import event_loop

QUICK = LeaderElectionSection(lease_s=3.0, renew_deadline_s=2.0, retry_s=0.4)


class Wanted(NamedTuple):
    """`path`: of the agents' socket. `warm`: it follows the fleet while it stands by."""

    path: str
    clusters: list[str]
    kubeconfig: str
    warm: bool


def run(wanted: Wanted) -> None:
    """Until SIGTERM or SIGKILL."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("error"))
    compile_all()
    collect_less_often()
    event_loop.run(_main(wanted))


async def _main(wanted: Wanted) -> None:
    election = QUICK.model_copy(update={"kubeconfig": wanted.kubeconfig, "warm": wanted.warm})
    config = DispatcherConfig(leader_election=election, timing=TimingSection(first_sync_s=60.0))
    links = [SocketLink(name, wanted.path) for name in wanted.clusters]
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with candidate(election, ()) as one:
        terms = TermRunner(links, config, Leadership(one, links))
        running = asyncio.create_task(terms.run())
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
        for task in (running, stopped):
            task.cancel()
        await asyncio.gather(running, stopped, return_exceptions=True)
