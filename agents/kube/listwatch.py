"""The list-and-watch loop of one resource: list with quorum, watch from there, and never give up.

- A list is read page by page from the server's own truth (no resourceVersion), restarted when its
  token expires (410). A page of which nothing comes for 15 s is asked for once more
  (`KubeClient.send`): a half-open connection costs that. One that is too large is asked for with
  half as many objects, down to one. An object that is too large by itself is set aside, here and in
  a watch, and a log line names it. A few pages at once are in memory, of all lists.
- A watch resumes from the last version seen; 410 or an unreadable event leads to a new list. So
  does a connection that broke, which is more than silence on an open one: behind it the server may
  have been restored from a backup and have overtaken that version since, and then neither its
  version nor its number of objects shows that it has other ones.
- A stream that brings neither event nor bookmark for `silence_s` counts as dead and is opened anew.
- Errors are waited out with growing, jittered pauses, lists that follow each other closely as well.
  Nothing that a server sends ends the loop.
- A server that goes back in time is told to `on_back`, and accepted: see
  agents/runtime/watch_verifier.py.
"""

import asyncio
import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
import structlog

from agents.kube import wire
from agents.kube.convert import version_of
from agents.kube.lines import CutLine, Lines
from agents.kube.relists import Relists
from agents.observer.seen import Seen
from agents.observer.watch_count import ServerCount, WatchCount
from shared.kube.client import FAILURES, KubeClient, describe
from shared.kube.http import Request, Response
from shared.model.backoff import Backoff

LOG = structlog.get_logger("agent.watch")
# lists in a row that are older than what was seen: then the server really went back
RESTORED_AFTER = 3
_ITEMS = re.compile(rb'"items"\s*:\s*\[')
Read = Callable[[bytes | msgspec.Raw], Seen | None]


class Sink(Protocol):
    """Where objects go, in order: a list as begin, page.., end; then changes one by one."""

    def begin(self, kind: str, *, forget_versions: bool = False) -> None:
        """A list starts."""

    def page(self, kind: str, items: tuple[Seen, ...]) -> tuple[int, int] | None:
        """Part of the list. What it shows at an older version than known is taken, and told:
        (known, shown).
        """

    def end(self, kind: str) -> None:
        """The list is complete."""

    def absent(self, kind: str) -> None:
        """The server has no such kind, or does not show it."""

    def apply(self, seen: Seen) -> None:
        """An object was added or modified."""

    def forget(self, kind: str, key: str) -> None:
        """An object was deleted."""

    def count(self, kind: str) -> int:
        """How many objects of this kind are known."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Times of the loop in seconds, and sizes."""

    # longer than twice watch_s: a server that is well ends the stream before
    silence_s: float = 28.0
    # asked of the server, with jitter up to twice as long; it sends a bookmark before the end
    watch_s: float = 13.0
    list_s: float = 60.0  # for one page
    backoff_s: float = 0.25
    max_backoff_s: float = 5.0
    relist_s: float = 1.0  # between a second and a third list soon after each other; doubles
    max_relist_s: float = 20.0
    page: int = 500
    # No object of kube-apiserver has as many bytes, even one of 3 MiB of which each byte is escaped
    # by six.
    page_bytes: int = 32 * 1024 * 1024
    max_event: int = 32 * 1024 * 1024
    absent_s: float = 60.0  # before an optional kind that is not shown is asked for again


class ListError(RuntimeError):
    """A list or watch that has to be tried again; `expired` when only a new list helps."""

    def __init__(
        self, text: str, *, expired: bool = False, retry_after_s: float = 0.0, status: int = 0
    ) -> None:
        super().__init__(text)
        self.expired = expired
        self.retry_after_s = retry_after_s
        self.not_shown = status in (
            403,
            404,
        )  # the server has no such kind, or does not let us see it
        self.unserved = status == 404  # it has no such kind, so there is nothing that we do not see


class ListWatch:
    """Keeps `sink` equal to one resource of one API server. `problem` is '' while the watch is open
    and alive, `broken_since` (monotonic) is since when nothing came, `fails` counts errors since
    the last event. `highest` is the highest version that the server has shown, 0 if none. `counted`
    compares the number of objects.

    `on_back` is called, with the version known and the one found, before anything is taken over
    from a server that has gone back; `on_return` when a stream is open again after the connection
    was lost.

    `fields`: a field selector, by which the server chooses what it shows. An `optional` resource
    may be missing (`unserved`) or forbidden: it is then told to the sink as absent and asked for
    seldom. `others`: where it is if `path` is not served, other versions of its API.
    `interruptions` counts errors of its whole life.
    """

    def __init__(  # noqa: PLR0913 - what is watched, where, how it is read, and who is told
        self,
        client: KubeClient,
        kind: str,
        path: str,
        read: Read,
        sink: Sink,
        pace: Pace,
        *,
        optional: bool = False,
        fields: str = "",
        others: Sequence[str] = (),
    ) -> None:
        self.kind = kind
        self.path = path
        self._paths = (path, *others)
        self.optional = optional
        self.on_back: Callable[[int, int], None] = lambda known, found: None
        self.on_return: Callable[[], None] = lambda: None
        self.problem = "not listed yet"
        self.unserved = False
        self.broken_since: float | None = time.monotonic()
        self._client = client
        self._select = {"fieldSelector": fields} if fields else {}
        self._read = read
        self._sink = sink
        self._pace = pace
        self._version = ""  # where the next watch starts; '' means list first
        self.highest = 0
        self.counted = WatchCount()
        self._limit = pace.page  # objects in the next page
        self.set_aside = 0  # objects of the last list, and of events since
        self._went_back = 0
        self._forget_versions = False
        self._relists = Relists(pace.relist_s, pace.max_relist_s)
        self._disconnected = self._open = False
        self._broke = False  # the connection did, which is more than silence on an open one
        self._lives = 0
        self.fails = self.interruptions = 0

    async def run(self) -> None:
        """Until cancelled or run again: then it goes on where it was, without the pause that errors
        had earned.
        """
        self.fails = 0
        self._lives += 1
        life = self._lives
        while life == self._lives:
            try:
                if not self._version or self._broke:
                    await asyncio.sleep(
                        self._relists.wait_s(time.monotonic()) * random.uniform(0.5, 1.0)
                    )
                    await self._list()
                await self._watch()
            except ListError as error:
                if error.expired:
                    self._version = ""
                at_least = error.retry_after_s
                if error.unserved and self._has_other_version():
                    continue
                self.unserved = error.unserved
                if error.not_shown and self.optional:
                    self._absent(str(error))
                    at_least = self._pace.absent_s * random.uniform(1.0, 1.5)
                await self._pause(str(error), at_least)
            except FAILURES as error:
                self._disconnected = True
                self._broke = self._broke or not (self._open and isinstance(error, TimeoutError))
                await self._pause(describe(error))
            except (
                Exception
            ) as error:  # a fault of ours must not end the watch; a new list repairs what it left
                LOG.exception("watch failed", kind=self.kind)
                self._version = ""
                await self._pause(describe(error))

    def start_over(self, *, went_back: bool) -> None:
        """The next `run` lists anew; the one under way has to be ended first.

        `went_back`: the server did, so that what was seen of versions counts no more.
        """
        self._version = ""
        if self.broken_since is None:
            self.broken_since = time.monotonic()
        self.problem = f"{self.kind}: to be listed anew"
        if went_back:
            self.highest = self._went_back = 0
            self._forget_versions = True

    def compare(self, server: ServerCount) -> bool:
        """Take the server's own word of its version and count. True if it is to be asked again
        soon.
        """
        if not self._version:
            return False
        self.highest = max(self.highest, server.version)
        own = self._sink.count(self.kind)
        self.counted.compare_soon(server, version_of(self._version), own, time.monotonic())
        return self.counted.differs(own)

    def _has_other_version(self) -> bool:
        """Whether there is a version of the API that was not asked for yet; it is the next one."""
        at = (self._paths.index(self.path) + 1) % len(self._paths)
        self.path = self._paths[at]
        return at > 0

    def _absent(self, problem: str) -> None:
        self._sink.absent(self.kind)
        if self.problem == f"{self.kind}: {problem}":
            return
        if self.unserved:
            LOG.info("the API server does not serve this kind", kind=self.kind, problem=problem)
        else:
            LOG.warning(
                "this kind is not shown, and goes unheeded", kind=self.kind, problem=problem
            )

    def _alive(self) -> None:
        if self.broken_since is not None:
            LOG.info("watching", kind=self.kind, version=self._version)
        self.problem = ""
        self.broken_since = None
        self.unserved = False
        if self._disconnected:
            self._disconnected = False
            self.on_return()

    def _progress(self) -> None:
        """A long list of a big cluster is no interruption: only a list that stands still is."""
        if self.broken_since is not None:
            self.broken_since = time.monotonic()

    async def _pause(self, problem: str, at_least_s: float = 0.0) -> None:
        if self.broken_since is None:
            self.broken_since = time.monotonic()
            LOG.warning("watch interrupted", kind=self.kind, problem=problem)
        self.problem = f"{self.kind}: {problem}"
        self.fails += 1
        self.interruptions += 1
        longest = Backoff(self._pace.backoff_s, self._pace.max_backoff_s).after(self.fails)
        await asyncio.sleep(max(at_least_s, longest * random.uniform(0.5, 1.0)))

    # --- list
    # ----------------------------------------------------------------------------------------------

    async def _list(self) -> None:
        token = ""
        begun = False
        complete = True
        started = time.monotonic()
        self.set_aside = 0
        while True:
            async with self._client.paging:
                raw = await self._page(token)
                if not begun:
                    self._begin(version_of(raw.metadata.resource_version))
                    begun = True
                items = tuple(seen for item in raw.items or () if (seen := self._read(item)))
                complete = complete and len(items) == len(raw.items or ()) and not self.set_aside
                if older := self._sink.page(self.kind, items):
                    self._back(*older)
            self._progress()
            token = raw.metadata.continue_ or ""
            if not token:
                break
        self._sink.end(self.kind)
        self._version = raw.metadata.resource_version
        self.counted.listed(complete=complete)
        LOG.info(
            "listed",
            kind=self.kind,
            version=self._version,
            seconds=round(time.monotonic() - started, 2),
        )

    async def _page(self, token: str) -> wire.RawList:
        while True:
            answer = await self._send(token)
            if not answer.head or self._limit == 1:
                break
            self._limit //= 2
        if answer.head:
            return self._beside_large_object(answer)
        if not answer.ok:
            raise _refusal(answer)
        if len(answer.body) < self._pace.page_bytes // 4:
            self._limit = min(self._pace.page, 2 * self._limit)
        try:
            return wire.read_list(answer.body)
        except wire.BROKEN as error:
            raise ListError(f"the list cannot be read: {error}", expired=True) from None

    async def _send(self, token: str) -> Response:
        # No resourceVersion: a quorum read. Version 0 could bring an older world back from a
        # lagging server.
        params = {
            "limit": str(self._limit),
            **self._select,
            **({"continue": token} if token else {}),
        }
        request = Request("GET", self.path, params=params)
        return await self._client.send(
            request, timeout_s=self._pace.list_s, max_body=self._pace.page_bytes
        )

    def _beside_large_object(self, answer: Response) -> wire.RawList:
        """A page without its only object, which is too large; ListError where not even its
        beginning can be read.
        """
        items = _ITEMS.search(answer.head)
        begun = answer.head[: items.end()] if items else b""
        try:
            empty = wire.read_list(begun + b"]}")
        except wire.BROKEN:
            raise _refusal(answer) from None
        _, named = wire.identity(answer.head[len(begun) :])
        self._set_aside(named, self._pace.page_bytes)
        return empty

    def _set_aside(self, named: wire.BareMeta, most: int) -> None:
        """Tell of an object that is too large to be read."""
        self.set_aside += 1
        LOG.warning(
            "an object is too large to be read: it counts for nothing",
            kind=self.kind,
            namespace=named.namespace,
            name=named.name,
            more_than_bytes=most,
            fix="delete it, or make it smaller",
        )

    def _begin(self, version: int) -> None:
        """Refuse a list older than what was seen, unless the server insists: then it was restored
        from a backup.
        """
        self._relists.listed(time.monotonic())
        restored = bool(version) and version < self.highest
        self._went_back = self._went_back + 1 if restored else 0
        if restored and self._went_back < RESTORED_AFTER:
            raise ListError(
                f"the list is at version {version}, older than {self.highest} already seen",
                expired=True,
            )
        if restored:
            self._back(self.highest, version)
            self._went_back = 0
        self.highest = version if restored else max(self.highest, version)
        self._sink.begin(self.kind, forget_versions=restored or self._forget_versions)
        self._forget_versions = False

    def _back(self, known: int, found: int) -> None:
        LOG.warning(
            "the API server went back to an older version", kind=self.kind, known=known, found=found
        )
        self.on_back(known, found)

    # --- watch
    # ----------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        seconds = self._pace.watch_s * random.uniform(1.0, 2.0)
        params = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(max(1, int(seconds))),
            **self._select,
        }
        opened = time.monotonic()
        self._open = False
        async with self._client.stream(
            Request("GET", self.path, params=params), self._pace.silence_s
        ) as answer:
            if answer.status != 200:
                raise _refusal(Response(answer.status, await answer.content.read(65536)))
            self._alive()
            self._open = True
            self._broke = False
            lines = Lines(self._pace.max_event)
            async for chunk in answer.content.iter_any():
                for line in lines.feed(chunk):
                    self._event(line)
        self.fails = 0
        # A server that ends every watch at once must not be asked again without a pause.
        await asyncio.sleep(max(0.0, self._pace.backoff_s - (time.monotonic() - opened)))

    def _large_event(self, head: bytes) -> None:
        """What it says of the object is not known; if it was known before, that stands until it is
        gone.
        """
        kind, named = wire.identity(head)
        seen = self._read(msgspec.json.encode({"metadata": named})) if named.name else None
        if seen is None:
            raise ListError(
                "a watch event is too large to be read, and not of an object", expired=True
            )
        self.counted.uncounted()
        self._set_aside(named, self._pace.max_event)
        if kind == "DELETED":
            self._sink.forget(self.kind, seen.key)
        if seen.version:
            self._advance(str(seen.version), seen.version)

    def _event(self, line: bytes) -> None:
        if isinstance(line, CutLine):
            self._large_event(line)
            return
        try:
            event = wire.read_event(line)
        except wire.BROKEN as error:
            raise ListError(f"a watch event cannot be read: {error}", expired=True) from None
        if event.type == "ERROR":
            status = wire.read_status(bytes(event.object))
            raise ListError(f"{status.code} {status.message}"[:300], expired=True)
        self.fails = 0
        if event.type == "BOOKMARK":
            version = wire.read_bookmark(event.object).metadata.resource_version
            self._pass(version_of(version) + 1)
            self._advance(version, version_of(version))
            return
        seen = self._read(event.object)
        if seen is None:
            self.counted.uncounted()
            return
        self._pass(seen.version)
        if event.type == "DELETED":
            self._sink.forget(self.kind, seen.key)
        else:
            self._sink.apply(seen)
        if seen.version:
            self._advance(str(seen.version), seen.version)

    def _pass(self, version: int) -> None:
        """An event of this version comes next."""
        if self.counted.passes(version):
            self.counted.passing(self._sink.count(self.kind))

    def _advance(self, version: str, number: int) -> None:
        if version and number >= version_of(self._version):
            self._version = version
            self.highest = max(self.highest, number)


def _refusal(answer: Response) -> ListError:
    status = wire.read_status(answer.body)
    text = status.message or f"status {answer.status}"
    shown = text if answer.status == 0 else f"{answer.status} {text}"
    return ListError(
        shown[:300],
        expired=answer.status == 410,
        retry_after_s=min(answer.retry_after_s, 30.0),
        status=answer.status,
    )
