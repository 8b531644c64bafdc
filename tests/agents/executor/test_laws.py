"""The executor's laws under lost requests, lost replies, late landings, duplicates, any order and restarts.

Two clusters, two pod names whose pods are replaced again and again, and a dispatcher that says anything at any time.
Whatever happens: one delegate a source, one bind a pod, no write to a pod that was not meant, what has ended stays
ended, and nobody hears "refused" of a delegate that runs.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.executor.crossing.manifest import sanitise
from agents.executor.intents.procedures import carry_out
from shared import messages as m
from shared.kube.http import Procedure, Request, Response
from shared.messages import PodRef
from shared.model import names
from tests.agents.executor.world import NOW, World, delegate_of, node_object, order_for, pod_object, pod_path, source_of

STEPS = 250
POD_NAMES = ("one", "two")
PROXY = names.proxy_node_name("b")
MANIFEST = sanitise(msgspec.json.encode(pod_object()))
PHASES = ("Pending", "Running", "Running", "Succeeded")
ENDED = ("Succeeded", "Failed")
Order = Callable[[PodRef, int, str], m.AnyIntent]

STATUSES = {phase: msgspec.json.encode({"phase": phase}) for phase in PHASES}
# What is ordered about a source, and how often.
SOURCE_ORDERS: dict[str, tuple[int, Order]] = {
    "bind": (2, lambda ref, epoch, _: m.Bind("i", ref, epoch, "n1")),
    "claim": (4, lambda ref, epoch, _: m.Claim("i", ref, epoch, "b", "n1")),
    "unclaim": (1, lambda ref, epoch, _: m.Unclaim("i", ref, epoch)),
    "proxy": (8, lambda ref, epoch, _: m.Bind("i", ref, epoch, PROXY, proxy=True)),
    "mirror": (10, lambda ref, epoch, phase: m.MirrorStatus("i", ref, epoch, STATUSES[phase])),
    "finish": (1, lambda ref, epoch, _: m.FinishSource("i", ref, epoch)),
    "sign": (2, lambda ref, epoch, _: m.SignManifest("i", ref, epoch)),
    "report": (3, lambda ref, epoch, phase: m.ReportUnschedulable("i", ref, epoch, f"no room {phase}")),
}
# What happens next, and how often.
ODDS = {"replace": 2, "order": 6, "order_delegate": 3, "advance": 30, "land": 4, "sync": 8, "kubelet": 1}
ODDS |= {"restart": 1, "cordon": 2}
FATES = {"done": 12, "request lost": 2, "reply lost": 2, "late": 3}


class Sent(NamedTuple):
    """A request, and the UID of the pod that it is about (itself, or the source of a delegate)."""

    world: World
    request: Request
    meant: str


class Running:
    """A procedure under way, and the request that it waits for."""

    def __init__(self, world: World, intent: m.AnyIntent) -> None:
        self.world, self.meant, self.creates = world, intent.pod.uid, isinstance(intent, m.CreateDelegate)
        self.procedure: Procedure[m.Outcome] = carry_out(intent, 1, world.local, NOW)
        self.request: Request | None = None
        self.advance(None)

    def advance(self, response: Response | None) -> None:
        try:
            self.request = next(self.procedure) if response is None else self.procedure.send(response)
        except StopIteration as end:
            self.request = None
            if self.creates and end.value.verdict == m.REFUSED:
                assert not self._runs(), "refused, and runs"

    def _runs(self) -> bool:
        return any(
            pod["metadata"]["annotations"].get(names.SOURCE_UID) == self.meant
            for pod in self.world.api.pods()
            if pod["spec"].get("nodeName")
        )


class Clusters:
    """Source cluster a, target cluster b, and everything that is on its way. Each step checks the laws."""

    def __init__(self, seed: int) -> None:
        big = node_object(cpu="100", pods="100")
        self.home, self.away = World(big, cluster="a", peers=("b",)), World(big, cluster="b")
        self.random = random.Random(seed)
        self.cordoned = False
        self.running: list[Running] = []
        self.late: list[Sent] = []
        self.refs: list[PodRef] = []
        for name in POD_NAMES:
            self.submit(name)

    def step(self) -> None:
        (what,) = self.random.choices(list(ODDS), list(ODDS.values()))
        getattr(self, what)()

    def submit(self, name: str) -> None:
        self.refs = [*self.refs[-3:], self.home.submit(pod_object(name))]

    # --- users and the dispatcher ------------------------------------------------------------------------------------

    def replace(self) -> None:
        """A pod is deleted by force, and its controller makes another under the same name; the view may lag."""
        name = self.random.choice(POD_NAMES)
        self.home.api.objects.pop(pod_path(name), None)
        self.refs = [*self.refs[-3:], self.home.api.put_pod(pod_object(name))]

    def order(self) -> None:
        ((_, make),) = self.random.choices([*SOURCE_ORDERS.values()], [odds for odds, _ in SOURCE_ORDERS.values()])
        order = make(self.random.choice(self.refs), self.epoch(), self.random.choice(PHASES))
        self.running.append(Running(self.home, order))

    def order_delegate(self) -> None:
        ref, epoch = self.random.choice(self.refs), self.epoch()
        pod = self.away.api.pod(delegate_of(ref))
        if pod is not None and self.random.random() < 0.3:
            delegate = PodRef("default", pod["metadata"]["name"], pod["metadata"]["uid"])
            self.running.append(Running(self.away, m.DeleteDelegate("i", delegate, epoch)))
        else:
            self.running.append(Running(self.away, order_for(ref, epoch, "n1", MANIFEST)))

    def epoch(self) -> int:
        return self.random.randint(1, 3)

    # --- the network -------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        self.running = [one for one in self.running if one.request is not None]
        if not self.running:
            return
        one = self.random.choice(self.running)
        assert one.request is not None
        sent = Sent(one.world, one.request, one.meant)
        (fate,) = self.random.choices(list(FATES), list(FATES.values()))
        told = self._arrive(sent) if fate in {"done", "reply lost"} else Response(0)
        if fate == "late":
            self.late.append(sent)
        one.advance(told if fate == "done" else Response(0))

    def land(self) -> None:
        if self.late:
            self._arrive(self.late.pop(self.random.randrange(len(self.late))))

    def _arrive(self, sent: Sent) -> Response:
        before, allowed = len(sent.world.api.done), {sent.meant, *self._delegates(sent.meant)}
        response = sent.world.api.answer(sent.request)
        for effect in sent.world.api.done[before:]:
            self._check(effect, sent.world, allowed)
        return response

    # --- time and faults ---------------------------------------------------------------------------------------------

    def sync(self) -> None:
        self.random.choice((self.home, self.away)).sync()

    def kubelet(self) -> None:
        self.away.api.kubelet_stops()

    def cordon(self) -> None:
        """The node takes no pods, or takes them again."""
        self.cordoned = not self.cordoned
        self.away.api.put_node(node_object(cpu="100", pods="100", unschedulable=self.cordoned))

    def restart(self) -> None:
        """A new life of an executor; its lists may be long in coming."""
        world = self.random.choice((self.home, self.away))
        world.restart(listed=self.random.random() < 0.5)
        self.running = [one for one in self.running if one.world is not world]

    # --- the laws ----------------------------------------------------------------------------------------------------

    def _delegates(self, source: str) -> Iterator[str]:
        for pod in self.away.api.pods():
            if pod["metadata"]["annotations"][names.SOURCE_UID] == source:
                yield pod["metadata"]["uid"]

    def _check(self, effect: tuple[str, str, str], world: World, allowed: set[str]) -> None:
        verb, uid, detail = effect
        if verb == "create":
            sources = Counter(pod["metadata"]["annotations"][names.SOURCE_UID] for pod in self.away.api.pods())
            assert max(sources.values()) == 1, "two delegates of one source"
            return
        assert uid in allowed, f"{verb} hit a pod that was not meant"
        if verb == "bind":
            assert [done[1] for done in world.api.done if done[0] == "bind"].count(uid) == 1, "bound twice"
        before, _, after = detail.partition(">")
        assert verb != "patch" or before not in ENDED or before == after, "what had ended lives again"


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_laws_hold_whatever_is_lost_late_doubled_or_restarted(seed: int) -> None:
    clusters = Clusters(seed)
    for _ in range(STEPS):
        clusters.step()


def test_the_laws_are_not_held_by_doing_nothing() -> None:
    done: Counter[str] = Counter()
    for seed in range(20):
        clusters = Clusters(seed)
        for _ in range(STEPS):
            clusters.step()
        done.update(verb for world in (clusters.home, clusters.away) for verb, _, _ in world.api.done)
    assert all(done[verb] >= 10 for verb in ("create", "bind", "patch", "delete", "gone")), done


def test_the_story_from_claim_to_end_leaves_nothing_behind() -> None:
    home, away = World(cluster="a", peers=("b",)), World(cluster="b")
    ref = home.submit()

    def both_see() -> None:
        home.sync()
        away.sync()

    def delegate() -> dict[str, Any] | None:
        return away.api.pod(delegate_of(ref))

    claimed = home.do(m.Claim("1", ref, 1, "b", "n1", "b-cluster-uid"))
    created = away.do(m.CreateDelegate("2", ref, 1, source_of(ref, 1), "n1", claimed.manifest, record=claimed.record))
    both_see()
    bound = home.do(m.Bind("3", ref, 1, PROXY, proxy=True))
    both_see()
    mirrored = home.do(m.MirrorStatus("4", ref, 1, STATUSES["Running"]))
    assert [one.verdict for one in (claimed, created, bound, mirrored)] == [m.CLAIMED, m.BOUND, m.BOUND, m.DONE]
    home.api.answer(Request("DELETE", pod_path("web")))
    both_see()
    runs = delegate()
    assert runs is not None
    away.do(m.DeleteDelegate("5", PodRef("default", runs["metadata"]["name"], runs["metadata"]["uid"]), 1))
    away.api.kubelet_stops()
    home.do(m.FinishSource("6", ref, 1))
    assert delegate() is None
    assert home.api.pod("web") is None
