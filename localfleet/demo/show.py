"""The demo on stage: progress and the live view on stderr, the result on stdout."""

import asyncio
import shlex
import shutil
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from dispatcher.cli.explain_view import in_short
from dispatcher.cli.output import (
    Output,
    harmless,
    make_console,
    print_table,
    print_trimmed,
    print_value,
)
from dispatcher.cli.tables import PODS
from dispatcher.scheduling.views import whole
from dispatcher.service.assembly import Dispatcher
from dispatcher.service.errors import ExitCode
from dispatcher.service.fleet_views import FleetViews
from localfleet.demo import view as demo_view
from localfleet.demo.clusters import Running
from localfleet.demo.view import Picture
from shared.model.signals import BASE_SIGNALS

_LOOK_S = 0.25
_SAY_S = 1.0
_CALM_S = 2.0  # so long must all run before the demo says so
_FULL = ("Insufficient ", "Too many pods")


def own_command() -> str:
    """How this program is started by hand from here: its name where that finds it, else its path."""
    name = "global-dispatcher"
    beside = Path(sys.executable).with_name("global-dispatcher")
    found = shutil.which(name)
    if not beside.exists() or (found and Path(found).resolve() == beside.resolve()):
        return name
    here = Path.cwd()
    return shlex.quote(str(beside.relative_to(here) if beside.is_relative_to(here) else beside))


class DemoShow:
    """Shows what goes on: a live view on a terminal, a line for each change otherwise."""

    def __init__(self, source: str, expected: int, started: float, note: str = "") -> None:
        self.picture = Picture(source=source, expected=expected, note=note)
        self._started = started
        self._console = Console(file=sys.stderr, highlight=False, markup=False, emoji=False)
        self._live = (
            Live(console=self._console, auto_refresh=False) if self._console.is_terminal else None
        )
        self._last_line = ""
        self._last_line_at = float("-inf")
        self._lenient = False

    def __enter__(self) -> "DemoShow":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._end_live()

    def say(self, text: str) -> None:
        """One line of progress."""
        if text == self._last_line:
            return
        self._last_line = text
        line = f"{self._seconds():6.1f} s  {text}"
        if self._live is not None:
            self._live.update(Text(line, style="dim"), refresh=True)
        else:
            self._console.print(line, soft_wrap=True)

    async def wait_for_nodes(
        self, dispatcher: Dispatcher, patience_s: float, *, read: bool
    ) -> None:
        """Until every cluster reports and takes orders, and if `read` every node has a live
        reading: load shall count from the start. After `patience_s` the demo goes on without, and
        says so.
        """
        self.say(
            "waiting for nodes and their first readings ..." if read else "waiting for nodes ..."
        )
        until = perf_counter() + patience_s
        missing = _missing(dispatcher, read=read)
        while missing and perf_counter() < until:
            await asyncio.sleep(_LOOK_S)  # views do not wake who waits
            missing = _missing(dispatcher, read=read)
        if missing:
            self.say(f"going on without {missing}")

    async def watch(self, dispatcher: Dispatcher, patience_s: float, *, lenient: bool) -> None:
        """Show placements until all that can run does, or for `patience_s`.

        `lenient`: pods for which the fleet has no room left count as unable to run.
        """
        self._lenient = lenient
        calm_since: float | None = None
        until = perf_counter() + patience_s
        while perf_counter() < until:
            looked_at = perf_counter()
            self._look(dispatcher)
            cost = perf_counter() - looked_at
            done = not self._missing() and len(self.picture.pods) >= self.picture.expected
            calm_since = (calm_since or perf_counter()) if done else None
            if calm_since is not None and perf_counter() - calm_since >= _CALM_S:
                return
            await asyncio.sleep(
                max(_LOOK_S, 9 * cost)
            )  # watching a large fleet must not slow it down

    async def watch_on(self, dispatcher: Dispatcher, port: int) -> None:
        """On a terminal: go on showing how load and pods move and say what to do next, until
        cancelled.
        """
        command = own_command()
        server = _server(port)
        self.picture = replace(
            self.picture,
            hint=f"Ctrl-C ends the demo. In another terminal: {command} explain "
            f"{self._a_pod()}{server}, or see "
            f"http://127.0.0.1:{port}/. With --keep the demo says how to use kubectl, too.",
        )
        while self._live is not None:
            self._look(dispatcher)
            await asyncio.sleep(1.0)

    def report(self, dispatcher: Dispatcher, output: Output) -> int:
        """Print the result; the exit code says whether all that can run does."""
        self._end_live()
        if output is Output.TABLE:
            print_table(PODS, _explained(dispatcher.views, self.picture.pods))
            sys.stdout.write("\n")
            print_trimmed(make_console(), demo_view.cluster_table(self.picture))
            sys.stdout.write(f"\n{demo_view.summary(self.picture)}\n")
            if self.picture.note:
                sys.stdout.write(f"{self.picture.note}\n")
        else:
            print_value(demo_view.report(self.picture), output)
        return self._judge()

    def invite(self, fleet: Running, contexts: list[str], port: int) -> None:
        """Say how to look around while the demo stays up."""
        first = contexts[0]
        other = contexts[min(1, len(contexts) - 1)]
        command = own_command()
        server = _server(port)
        self._console.print(
            f"\nThe fleet stays up until Ctrl-C. Contexts: {', '.join(contexts)}\n\n"
            f"  export KUBECONFIG={fleet.kubeconfig}\n"
            f"  {fleet.kubectl} --context {first} get deployments,pods -o wide\n"
            f"  {fleet.kubectl} --context {other} get pods -o wide\n"
            f"  {fleet.kubectl} --context {first} logs {self._a_pod().partition('/')[2]}\n"
            f"  {fleet.kubectl} --context {first} scale deployment web --replicas=0\n"
            f"  {command} pods{server}\n"
            f"  {command} explain {self._a_pod()}{server}\n"
            f"  http://127.0.0.1:{port}/\n\n{fleet.pods_note}",
            soft_wrap=True,
        )

    def _a_pod(self) -> str:
        return next(
            (f"{row['namespace']}/{row['name']}" for row in self.picture.pods), "NAMESPACE/POD"
        )

    def _look(self, dispatcher: Dispatcher) -> None:
        views = dispatcher.views
        before = self.picture
        self.picture = replace(
            before,
            clusters=whole(views.clusters()),
            nodes=whole(views.nodes()),
            pods=whole(views.pods()),
            seconds=self._seconds(),
        )
        demo_view.note_placements(self.picture, before)
        if self._live is not None:
            latest = _explained(views, demo_view.latest_placements(self.picture))
            self._live.update(demo_view.live(self.picture, latest), refresh=True)
        else:
            phases = ", ".join(
                f"{count} {phase}" for phase, count in sorted(self.picture.phases.items())
            )
            self._say_now_and_then(
                f"{len(self.picture.pods)}/{self.picture.expected} pods: {phases or 'none yet'}"
            )

    def _say_now_and_then(self, text: str) -> None:
        if perf_counter() - self._last_line_at >= _SAY_S or self.picture.settled:
            self._last_line_at = perf_counter()
            self.say(text)

    def _missing(self) -> list[Any]:
        return [row for row in self.picture.unsettled if not (self._lenient and no_room(row))]

    def _judge(self) -> int:
        missing = self._missing()
        unseen = self.picture.expected - len(self.picture.pods)
        if unseen > 0:
            self._console.print(
                f"error: {unseen} of {self.picture.expected} pods were never seen", soft_wrap=True
            )
        for row in missing[:20]:
            where = f" on {row['cluster']}/{row['node']}" if row["node"] else ""
            why = row["reason"] or "no reason is known yet"
            self._console.print(
                harmless(
                    f"error: pod {row['namespace']}/{row['name']} is {row['phase']}{where}: {why}"
                ),
                soft_wrap=True,
            )
        return int(ExitCode.FAILED if missing or unseen > 0 else ExitCode.OK)

    def _end_live(self) -> None:
        if self._live is not None:
            self._live.update(Text(), refresh=True)
            self._live.stop()
            self._live = None

    def _seconds(self) -> float:
        return perf_counter() - self._started


def _missing(dispatcher: Dispatcher, *, read: bool) -> str:
    """What is not there yet, in words; '' if all is."""
    clusters = whole(dispatcher.views.clusters())
    for cluster in clusters:
        if cluster["problem"] or not cluster["nodes"]:
            return f"cluster {cluster['name']}: {cluster['problem'] or 'no nodes yet'}"
    if not (clusters and dispatcher.service.ready):
        return "clusters: not all have reported"
    for node in whole(dispatcher.views.nodes()) if read else ():
        if any(node["load"][name]["used"] is None for name in BASE_SIGNALS):
            return f"readings of node {node['name']}"
    return ""


def _server(port: int) -> str:
    return "" if port == 7480 else f" --server http://127.0.0.1:{port}"


def _explained(views: FleetViews, rows: Iterable[demo_view.Row]) -> list[demo_view.Row]:
    """The pods with a line of why for each: which plugins made the lead."""
    return [{**row, "reason": _why(views, row) or row["reason"]} for row in rows]


def _why(views: FleetViews, row: demo_view.Row) -> str:
    return in_short(
        (views.explain(row["namespace"], row["name"], row["source"]) or {}).get("decision")
    )


def no_room(row: demo_view.Row) -> bool:
    """Whether every node refused the pod for want of room alone."""
    _, _, reasons = str(row["reason"]).partition(" nodes are available: ")
    parts = [part.strip(" .").lstrip("0123456789 ") for part in reasons.split(",")]
    return bool(reasons) and all(part.startswith(_FULL) for part in parts)
