"""All kubelets of a cluster in one loop over due times: they run, stop and report what is bound to
their nodes.
"""

import asyncio
import heapq
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from math import inf
from zlib import crc32

from localfleet.embedded.addresses import node_address
from localfleet.embedded.api import Api, ApiError, Event, Subscription
from localfleet.embedded.apiserver.deletion import Options
from localfleet.embedded.kubelet import status
from localfleet.embedded.kubelet.admission import Rejection, admit, effective_requests, unreadable
from localfleet.embedded.kubelet.behaviour import read_behaviour
from localfleet.embedded.kubelet.heartbeat import Heartbeat
from localfleet.embedded.kubelet.lifecycle import PodRun
from localfleet.embedded.kubelet.node import SimulatedNode
from localfleet.embedded.kubelet.podips import PodAddresses
from localfleet.embedded.kubelet.references import Lack, lacking
from localfleet.embedded.kubelet.shapes import EMBEDDED_LABEL
from localfleet.embedded.kubelet.status import Place
from localfleet.embedded.meta import Object, annotations_of, is_finished, labels_of
from localfleet.embedded.recorder import NORMAL, WARNING, Recorder
from shared.model.resources import QuantityError, Resources

_LOG = logging.getLogger(__name__)
_TURN = 16  # due things between two turns of the API server
_RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds between a node's heartbeats, and before the second start of a container that ended."""

    heartbeat_s: float = 10.0
    backoff_s: float = 10.0


class Kubelets:
    """The kubelets of every node with the embedded label.

    `on_address` is told each node's address before the node reports Ready, so that its endpoint
    listens by then.
    """

    def __init__(
        self, api: Api, clock: Callable[[], float], *, block: int, port: int, seed: int, pace: Pace
    ) -> None:
        self.nodes: dict[str, SimulatedNode] = {}
        self.by_address: dict[str, SimulatedNode] = {}
        self.runs: dict[str, PodRun] = {}
        self.by_name: dict[tuple[str, str], PodRun] = {}
        self.on_address: Callable[[str], None] = lambda _: None
        self._api = api
        self._clock = clock
        self._seed = seed
        self._pace = pace
        self._block = block
        self._heartbeat = Heartbeat(api, port)
        self._recorder = Recorder(api, clock, "kubelet")
        self._pod_addresses = PodAddresses(block)
        self._due: list[tuple[float, int, str]] = []  # (when, tie-break, pod uid or "node/" + name)
        self._order = count()
        self._wake = asyncio.Event()
        self._watches: tuple[tuple[Subscription, Callable[[Event], None]], ...] = ()

    def containers_on(self, node: SimulatedNode) -> Iterator[tuple[PodRun, list[str]]]:
        """The pods that run on a node, each with the names of its containers."""
        for run in node.runs.values():
            if run.uses and (pod := self._api.find("pods", run.name, run.namespace)) is not None:
                yield run, [container["name"] for container in pod["spec"]["containers"]]

    # --- what is told to us ---

    def start(self) -> None:
        """Watch from now on, and take up every node and pod that is already there."""
        self._watches = (
            (self._api.watch("nodes"), self.handle_node),
            (self._api.watch("pods"), self.handle_pod),
        )
        for pod in self._api.list("pods"):
            self._pod_addresses.note(pod)
        for node in self._api.list("nodes"):
            self._see_node(node)

    def catch_up(self) -> None:
        """Take over all that has changed, without waiting."""
        for watch, handle in self._watches:
            for event in watch.drain():
                handle(event)

    def handle_node(self, event: Event) -> None:
        """A node came, changed or went."""
        name = event.object["metadata"]["name"]
        if event.type != "DELETED":
            self._see_node(event.object)
        elif name in self.nodes:
            self._lose(name)

    def handle_pod(self, event: Event) -> None:
        """A pod came, changed or went."""
        if event.type != "DELETED":
            self._see_pod(event.object)
        elif run := self.runs.get(event.object["metadata"]["uid"]):
            self._forget(run)

    def _see_node(self, node: Object) -> None:
        name = node["metadata"]["name"]
        now = self._clock()
        known = self.nodes.get(name)
        if known is not None and known.uid != node["metadata"]["uid"]:
            self._lose(name)
            known = None
        if known is None:
            if labels_of(node).get(EMBEDDED_LABEL) == "true":
                self._adopt(node, now)
            return
        was_down = known.down
        problems = known.problems
        known.observe(node, now)
        if known.problems != problems:
            self._complain(node, "Node", known.problems)
        if was_down and not known.down:
            self._schedule(now, f"node/{name}")
            for run in known.runs.values():
                self._schedule(min(run.due, now), run.uid)

    def _lose(self, name: str) -> None:
        gone = self.nodes.pop(name)
        del self.by_address[gone.address]
        for run in list(gone.runs.values()):
            self._forget(run)

    def _adopt(self, node: Object, now: float) -> None:
        name = node["metadata"]["name"]
        found = SimulatedNode(node, self._address(node), self._seed, now)
        self.nodes[name] = self.by_address[found.address] = found
        self.on_address(found.address)
        self._complain(node, "Node", found.problems)
        self._write(lambda: self._heartbeat.register(node, found.address, now))
        # Heartbeats are spread over the period, so that a thousand nodes do not beat at once.
        phase = crc32(name.encode()) % 1000 / 1000
        self._schedule(now + phase * self._pace.heartbeat_s, f"node/{name}")
        # What already runs keeps its room before what was only bound is admitted.
        for pod in sorted(self._api.list("pods", fields=f"spec.nodeName={name}"), key=_not_begun):
            self._see_pod(pod)

    def _address(self, node: Object) -> str:
        prefix = f"127.{self._block}."
        for entry in node.get("status", {}).get("addresses") or ():
            address = entry.get("address", "")
            if (
                entry.get("type") == "InternalIP"
                and address.startswith(prefix)
                and address not in self.by_address
            ):
                return str(address)
        taken = len(self.by_address)
        return next(
            a for i in count(taken) if (a := node_address(self._block, i)) not in self.by_address
        )

    def _see_pod(self, pod: Object) -> None:
        run = self.runs.get(pod["metadata"]["uid"])
        now = self._clock()
        if run is None:
            node = self.nodes.get(pod["spec"].get("nodeName", ""))
            if node is not None:
                self._take(pod, node, now)
            return
        if annotations_of(pod) != run.annotations:
            self._change_load(pod, run, now)
        self._resize(pod, run)
        held = run.holds
        due = run.due
        run.observe(pod, now)
        if held and not run.holds:
            self._release(run, now)
        if run.due != due:
            self._schedule(run.due, run.uid)

    def _take(self, pod: Object, node: SimulatedNode, now: float) -> None:
        requests, rejection = self._admission(pod, node)
        behaviour = read_behaviour(pod, requests)
        self._complain(pod, "Pod", behaviour.problems)
        place = Place(node.address, self._pod_addresses.give(pod, node.address))
        run = PodRun(pod, behaviour, requests, place, now)
        self.runs[run.uid] = self.by_name[run.namespace, run.name] = run
        if rejection is not None and run.holds:
            run.reject()
            node.runs[run.uid] = run
            self._recorder.record(
                pod, "Pod", WARNING, rejection.reason, rejection.event_message, node.name
            )
            self._write(lambda: self._put_status(pod, status.rejected(pod, rejection, now)))
        else:
            node.hold(run)
            if run.uses:
                node.load.start(run.uid, behaviour, now)
            elif run.holds and behaviour.start_s >= 1:
                self._write(lambda: self._put_status(pod, status.starting(pod, place, now)))
        run.observe(pod, now)
        self._schedule(run.due, run.uid)

    def _change_load(self, pod: Object, run: PodRun, now: float) -> None:
        """Load annotations count as they are now; times and exit code as they were at the start."""
        run.annotations = annotations_of(pod)
        behaviour = read_behaviour(pod, run.requests)
        self._complain(pod, "Pod", behaviour.problems)
        self.nodes[run.node].load.change(run.uid, behaviour, now)
        times = ("start_s", "run_s", "stop_s", "exit_code")
        run.behaviour = replace(behaviour, **{key: getattr(run.behaviour, key) for key in times})

    def _resize(self, pod: Object, run: PodRun) -> None:
        if pod["metadata"].get("generation") == run.generation:
            return
        run.generation = pod["metadata"].get("generation")
        with suppress(QuantityError):
            requests = effective_requests(pod["spec"])
            if run.holds and run.node in self.nodes and requests != run.requests:
                self.nodes[run.node].resize(run, requests)

    @staticmethod
    def _admission(pod: Object, node: SimulatedNode) -> tuple[Resources, Rejection | None]:
        try:
            requests = effective_requests(pod["spec"])
        except QuantityError as error:
            return {}, unreadable(error)
        # A pod that this kubelet admitted in an earlier life of the process keeps its place.
        if is_finished(pod) or not _not_begun(pod):
            return requests, None
        return requests, admit(requests, node.used, node.allocatable)

    # --- what is due ---

    def next_due(self) -> float:
        """When `tick` has something to do (unix seconds, inf: not before the next event)."""
        return self._due[0][0] if self._due else inf

    def tick(self, now: float, most: int = 1_000_000) -> int:
        """Do what is due at `now`, at most so many things; answers how many were done."""
        done = 0
        while self._due and self._due[0][0] <= now and done < most:
            due, _, key = heapq.heappop(self._due)
            done += 1
            with _contained(key):
                self._act(due, key, now)
        return done

    def _act(self, due: float, key: str, now: float) -> None:
        if key.startswith("node/"):
            self._beat(key.removeprefix("node/"), now)
        elif (run := self.runs.get(key)) is not None and due >= run.due:
            self._advance(run, now)

    def _beat(self, name: str, now: float) -> None:
        node = self.nodes.get(name)
        if node is None or node.down:
            return
        self._write(lambda: self._heartbeat.beat(name, now))
        self._schedule(now + self._pace.heartbeat_s, f"node/{name}")

    def _advance(self, run: PodRun, now: float) -> None:
        node = self.nodes[run.node]
        if node.down:
            return
        try:
            pod = self._api.get("pods", run.name, run.namespace)
        except ApiError:
            return  # its DELETED event is on the way
        if pod["metadata"]["uid"] != run.uid:
            return
        if run.begins and (lack := lacking(pod, partial(self._find, run.namespace))):
            self._wait_for(pod, run, lack, now)
            return
        held = run.holds
        used = run.uses
        step = run.advance(pod, now, self._pace.backoff_s)
        written = self._write(
            lambda: self._carry_out(pod, step.status, remove=step.remove, run=run)
        )
        if not written:
            run.due = now + _RETRY_S
        self._account(run, node, held=held, used=used, now=now)
        if run.uses and not used:
            self._recorder.record(
                pod, "Pod", NORMAL, "Started", "Started all containers (simulated)", run.node
            )
        self._schedule(run.due, run.uid)

    def _find(self, namespace: str, plural: str, name: str) -> Object | None:
        try:
            return self._api.get(plural, name, namespace)
        except ApiError:
            return None

    def _wait_for(self, pod: Object, run: PodRun, lack: Lack, now: float) -> None:
        """Say what is not there, once, and look again soon."""
        if run.lack != lack:
            for event in lack.events:
                self._recorder.record(pod, "Pod", WARNING, *event, run.node)
            self._write(
                lambda: self._put_status(
                    pod, status.lacking_configuration(pod, run.place, now, lack)
                )
            )
        run.lack = lack
        run.due = now + _RETRY_S
        self._schedule(run.due, run.uid)

    def _carry_out(self, pod: Object, new: Object | None, *, remove: bool, run: PodRun) -> None:
        if new is not None:
            self._put_status(pod, new)
        if remove:
            self._api.delete("pods", run.name, run.namespace, Options(run.uid, grace_seconds=0))

    def _account(
        self, run: PodRun, node: SimulatedNode, *, held: bool, used: bool, now: float
    ) -> None:
        if held and not run.holds:
            self._release(run, now)
        elif used and not run.uses:
            node.load.stop(run.uid, now)
        elif run.uses and not used:
            node.load.start(run.uid, run.behaviour, now)

    def _release(self, run: PodRun, now: float) -> None:
        self._pod_addresses.take_back(run.place.pod_ip)
        if run.node in self.nodes:
            self.nodes[run.node].release(run, now)

    def _forget(self, run: PodRun) -> None:
        if run.holds:
            self._release(run, self._clock())
        self.runs.pop(run.uid, None)
        if self.by_name.get((run.namespace, run.name)) is run:
            del self.by_name[run.namespace, run.name]
        if run.node in self.nodes:
            self.nodes[run.node].runs.pop(run.uid, None)

    # --- writing ---

    def _put_status(self, pod: Object, new: Object) -> None:
        self._api.update("pods", {**pod, "status": new}, subresource="status")

    def _write(self, write: Callable[[], None]) -> bool:
        """Write through the API; a refusal never stops the loop. False: worth trying again."""
        try:
            write()
        except ApiError as error:
            if error.status.get("reason") == "NotFound":
                return True
            _LOG.warning("a kubelet's write was refused: %s", error.status.get("message"))
            return False
        return True

    def _complain(self, about: Object, kind: str, problems: tuple[str, ...]) -> None:
        for problem in problems:
            self._recorder.record(about, kind, WARNING, "InvalidSimulation", problem)

    def _schedule(self, due: float, key: str) -> None:
        if due < inf:
            heapq.heappush(self._due, (due, next(self._order), key))
            if self._due[0][0] == due:
                self._wake.set()

    # --- the loop ---

    async def run(self) -> None:
        """Watch and work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for watch, handle in self._watches:
                tasks.create_task(_follow(watch, handle))
            tasks.create_task(self._work())

    async def _work(self) -> None:
        while True:
            self._wake.clear()
            worked = self.tick(self._clock(), most=_TURN)
            await self._rest(0.0 if worked else self.next_due() - self._clock())

    async def _rest(self, wait: float) -> None:
        if wait <= 0:
            await asyncio.sleep(0)  # let the API server answer in between
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(wait if wait < inf else None):
                await self._wake.wait()


def _not_begun(pod: Object) -> bool:
    return not pod.get("status", {}).get("containerStatuses")


async def _follow(watch: Subscription, handle: Callable[[Event], None]) -> None:
    async for event in watch:
        with _contained(event.object["metadata"]["name"]):
            handle(event)


@contextmanager
def _contained(about: str) -> Iterator[None]:
    """What one object makes go wrong must not stop the others."""
    try:
        yield
    except Exception:
        _LOG.exception("a kubelet failed on %s", about)
