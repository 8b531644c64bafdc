"""Whether the API server can be trusted to be there, and which cluster it is.

The API server counts as lost after `grace_s` without a good answer to the probe, or with a watch interrupted for so
long. It is found again by itself: on recovery the watches are opened anew, since an old one may be half dead.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

import msgspec
import structlog

from agents.executor.http import Request, Response
from agents.kube.client import KubeClient
from agents.kube.listwatch import ListWatch
from agents.kube.wire import BROKEN, read_bare, read_status
from agents.observer.follow import Health
from agents.runtime.settings import ApiSettings

LOG = structlog.get_logger("agent.health")
VERSION = Request("GET", "/version")
LOOK_AGAIN_S = 0.5  # while the API server is lost
KUBE_SYSTEM = Request("GET", "/api/v1/namespaces/kube-system")


class VersionInfo(msgspec.Struct, rename="camel"):
    """version.Info."""

    git_version: str = ""


_VERSION = msgspec.json.Decoder(VersionInfo)


class HealthMonitor:
    """Probes one API server; `now` tells the current health, `cluster_uid` who it is once that was learnt."""

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
        self._on_change = on_change
        self._rewatch = rewatch
        self._last_good = time.monotonic()
        self._problem = ""
        self._foreign = ""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._probe()
            self._judge(time.monotonic())
            pause = self._settings.probe_s
            await asyncio.sleep(pause if self.now.api_ok else min(pause, LOOK_AGAIN_S))

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
        self._last_good, self._problem = time.monotonic(), ""
        if lost:
            self._rewatch()

    async def _identify(self) -> None:
        answer = await self._ask(KUBE_SYSTEM)
        uid = _uid(answer.body) if answer.ok else ""
        if not uid:
            return
        if self.cluster_uid and uid != self.cluster_uid:
            self._foreign = (
                f"the API server is now that of another cluster (kube-system {uid}, was {self.cluster_uid}): "
                f"correct the kubeconfig or restart the agent"
            )
            return
        self.cluster_uid, self._foreign = uid, ""

    async def _ask(self, request: Request) -> Response:
        return await self._client.send(request, timeout_s=self._settings.probe_timeout_s)

    def _judge(self, now: float) -> None:
        problem = self._find(now)
        if (problem == "") == self.now.api_ok and problem == self.now.problem:
            return
        turned = (problem == "") != self.now.api_ok
        self.now = Health(problem == "", problem)
        if turned:
            if self.now.api_ok:
                LOG.info("API server is there")
            else:
                LOG.warning("API server is lost", problem=problem)
            self._on_change()

    def _find(self, now: float) -> str:
        grace = self._settings.grace_s
        if self._foreign:
            return self._foreign
        if not self.cluster_uid:
            return self._problem or "namespace kube-system cannot be read, so the cluster is not known by its UID"
        if self._problem and now - self._last_good > grace:
            return self._problem
        broken = [
            watch.problem
            for watch in self._watches
            if watch.broken_since is not None and now - watch.broken_since > grace
        ]
        return broken[0] if broken else ""


def _words(answer: Response) -> str:
    text = read_status(answer.body).message or "no answer"
    return f"API server: {text}"[:300] if answer.status == 0 else f"API server: {answer.status} {text}"[:300]


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
