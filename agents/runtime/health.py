"""Whether the API server can be trusted to be there, and which cluster it is.

The API server counts as lost after `grace_s` without a good answer to the probe, or with a watch
interrupted for so long; an optional kind whose watch is interrupted is only told of. It is found
again by itself: on recovery the watches are opened anew, since an old one may be half dead. That it
went back in time (see watch_verifier.py) is told, too.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec
import structlog

from agents.kube.listwatch import ListWatch
from agents.kube.wire import BROKEN, read_bare, read_status
from agents.observer.change_feed import Health
from agents.observer.server_restore import ServerRestore, higher
from agents.runtime.settings import ApiSettings
from shared.kube.client import KubeClient
from shared.kube.http import Request, Response

LOG = structlog.get_logger("agent.health")
VERSION = Request("GET", "/version")
MAX_PROBLEM = 500
LOOK_AGAIN_S = 0.5  # while the API server is lost
KUBE_SYSTEM = Request("GET", "/api/v1/namespaces/kube-system")


class VersionInfo(msgspec.Struct, rename="camel"):
    """version.Info."""

    git_version: str = ""


_VERSION = msgspec.json.Decoder(VersionInfo)


class HealthMonitor:
    """Probes one API server; `now` tells the current health, `cluster_uid` who it is once that was
    learnt.
    """

    def __init__(
        self,
        client: KubeClient,
        watches: Sequence[ListWatch],
        settings: ApiSettings,
        on_change: Callable[[], None],
        rewatch: Callable[[], None],
    ) -> None:
        self.cluster_uid = ""
        self.server_version = ""
        self.now = Health(problem="the API server has not answered yet")
        self._client = client
        self._watches = watches
        self._settings = settings
        self._restored = ServerRestore(settings.restored_hold_s)
        self._confirmed = 0
        self._on_change = on_change
        self._rewatch = rewatch
        self._last_good = time.monotonic()
        self._problem = ""
        self._foreign = ""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._probe()
            self._update(time.monotonic())
            pause = self._settings.probe_s
            await asyncio.sleep(pause if self.now.api_ok else min(pause, LOOK_AGAIN_S))

    def went_back(self, known: int, found: int) -> None:
        """The server shows an older version than it did: that is told at once, before anything of
        its older world.
        """
        now = time.monotonic()
        self._restored.tell(
            known, found, now, {watch.kind: watch.highest for watch in self._watches}
        )
        self._update(now)

    def confirm_restored(self) -> None:
        """An operator says that what the server shows now is meant."""
        LOG.info("what the API server shows since it went back is confirmed")
        self._restored.confirm()
        self._confirmed += 1
        self._update(time.monotonic())

    def highest_seen(self) -> dict[str, int]:
        """The highest version seen of each kind; while the server is held to have gone back, those
        from before.
        """
        current = {watch.kind: watch.highest for watch in self._watches if watch.highest}
        return higher(current, self._restored.highest(time.monotonic()))

    async def _probe(self) -> None:
        answer = await self._ask(VERSION)
        lost = time.monotonic() - self._last_good > self._settings.grace_s
        if not answer.ok:
            self._problem = _words(answer)
            return
        if self.server_version == "" or lost:
            self.server_version = _git_version(answer.body)
        if not self.cluster_uid or lost:
            await self._identify()
        self._last_good = time.monotonic()
        self._problem = ""
        if lost:
            self._rewatch()

    async def _identify(self) -> None:
        answer = await self._ask(KUBE_SYSTEM)
        uid = _uid(answer.body) if answer.ok else ""
        if not uid:
            return
        if self.cluster_uid and uid != self.cluster_uid:
            self._foreign = (
                f"the API server is now that of another cluster (kube-system {uid}, was "
                f"{self.cluster_uid}): "
                f"correct the kubeconfig or restart the agent"
            )
            return
        self.cluster_uid = uid
        self._foreign = ""

    async def _ask(self, request: Request) -> Response:
        return await self._client.send(request, timeout_s=self._settings.probe_timeout_s)

    def _update(self, now: float) -> None:
        problem = self._find(now)
        restored = self._restored.problem(now)
        words = problem or restored or self._unheeded(now)
        health = Health(problem == "", words, restored != "", self._confirmed)
        if health == self.now:
            return
        turned = health.api_ok != self.now.api_ok
        also = health.restored != self.now.restored
        self.now = health
        if turned and health.api_ok:
            LOG.info("API server is there")
        elif turned:
            LOG.warning("API server is lost", problem=problem)
        if turned or also or health.api_ok:
            self._on_change()

    def _find(self, now: float) -> str:
        grace = self._settings.grace_s
        if self._foreign:
            return self._foreign
        if not self.cluster_uid:
            return (
                self._problem
                or "namespace kube-system cannot be read, so the cluster is not known by its UID"
            )
        if self._problem and now - self._last_good > grace:
            return self._problem
        return next(self._broken(now, optional=False), "")

    def _unheeded(self, now: float) -> str:
        """What is not seen of kinds without which the cluster can still be served."""
        return "; ".join(self._broken(now, optional=True))[
            :MAX_PROBLEM
        ]  # a kind that is not served hides nothing

    def _broken(self, now: float, *, optional: bool) -> Iterator[str]:
        for watch in self._watches:
            since = watch.broken_since
            unheeded = not (watch.optional and watch.unserved)
            if (
                watch.optional == optional
                and unheeded
                and since is not None
                and now - since > self._settings.grace_s
            ):
                yield watch.problem


def _words(answer: Response) -> str:
    text = read_status(answer.body).message or "no answer"
    return (
        f"API server: {text}"[:300]
        if answer.status == 0
        else f"API server: {answer.status} {text}"[:300]
    )


def _git_version(body: bytes) -> str:
    try:
        return _VERSION.decode(body).git_version
    except BROKEN:
        return ""


def _uid(body: bytes) -> str:
    try:
        return read_bare(body).metadata.uid
    except BROKEN:
        return ""
