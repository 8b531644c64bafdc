"""Small stories that are written instead of drawn: a script, and trouble at the very write that it names."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from agents.kube.convert import pod_seen
from shared.messages import Changes
from tests.simulation.acts import config_map, naming, plain_pod, spread_by_zone
from tests.simulation.effects import kind_of
from tests.simulation.faults import Fault, Story
from tests.simulation.judges.objects import COPY
from tests.simulation.telling import Teller, Told
from tests.simulation.world.apiserver import CONFIG_MAPS, NAMESPACES
from tests.simulation.world.controllers import path_of
from tests.simulation.world.fleet import Cluster, Sizes
from tests.simulation.world.loop import WORLD, in_process
from tests.simulation.world.net import Asked
from tests.simulation.world.objects import Object, class_of
from tests.simulation.world.processes import DispatcherProcess, LinkWeather
from tests.simulation.world.secrets import secret

OBJECTS, SECRETS = f"{NAMESPACES}/default/configmaps", f"{NAMESPACES}/default/secrets"
PATIENCE_S = 60  # for what a script waits for; then it goes on all the same
Wait = float | Callable[[], object]
Script = Callable[["Scene"], Iterator[Wait]]
Do = Callable[[], object]


@dataclass(frozen=True)
class Hint:
    """A script, and the fleet in which it plays."""

    script: Script
    sizes: Sizes = field(default_factory=Sizes)


@dataclass
class _Strike:
    """What is done at the nth write of a kind; it says "lose" if the request (or, after it, the reply) is lost.

    After it, "reset": instead of the reply the connection ends, at once.
    """

    kind: str
    moment: str
    do: Callable[[Asked, str], object]
    left: int
    at: int = 0  # id of the request that it strikes


class Scene(Teller):
    """A teller that follows a script. Pods are submitted in cluster north unless it is said otherwise."""

    def __init__(self, hint: Hint, seed: int) -> None:
        super().__init__(Story(seed, hint.sizes, (), (), ()))
        self.script = hint.script
        self._strikes: dict[str, list[_Strike]] = {name: [] for name in self.fleet.clusters}
        for name, cluster in self.fleet.clusters.items():
            cluster.wire.tap = self._tap(self._strikes[name])

    async def tell(self) -> Told:
        """Follow the script, heal, settle."""
        for cluster in self.fleet.clusters.values():
            cluster.api.add_namespace("team")
        await self.fleet.start()
        await self._wait(3.0)
        for wait in self.script(self):
            await self._wait(wait)
        self._heal()
        await self._settle()
        return self.told()

    async def _wait(self, what: Wait) -> None:
        ends = self.fleet.now + (what if isinstance(what, float | int) else PATIENCE_S)
        while self.fleet.now < ends and not (callable(what) and what()):
            await self.fleet.second()
            self._end_acts()

    # --- people ------------------------------------------------------------------------------------------------------

    @property
    def dispatcher(self) -> DispatcherProcess:
        """The first one."""
        return self.fleet.dispatchers["dispatcher"]

    def cluster(self, name: str) -> Cluster:
        """One of the fleet."""
        return self.fleet.clusters[name]

    def submit(
        self,
        name: str,
        away: str = "",
        cpu: int = 300,
        *,
        home: str = "north",
        namespace: str = "default",
        priority: int = 0,
        names: Sequence[str] = (),
    ) -> None:
        """A user's pod that may run in the clusters named in `away`, in any without. `names`: as of `naming`."""
        pod = naming(plain_pod(name, namespace, cpu, **({"clusters": away} if away else {})), names)
        pod["spec"]["priorityClassName"] = class_of(priority)
        self.cluster(home).api.ask("user", "POST", f"{NAMESPACES}/{namespace}/pods", pod)

    def spread(self, name: str, app: str) -> None:
        """A pod that may run anywhere, with as many of its application in each zone."""
        pod = plain_pod(name, "default", 300)
        pod["metadata"]["labels"] = {"app": app}
        pod["spec"]["topologySpreadConstraints"] = [spread_by_zone(app)]
        self.cluster("north").api.ask("user", "POST", f"{NAMESPACES}/default/pods", pod)

    def load(self, cluster: str, cpu: int) -> None:
        """Pods of another scheduler, so much on each node: the others are the better choice."""
        for node in self.cluster(cluster).nodes:
            pod = plain_pod(f"load-{node}", "default", cpu, scheduler="default-scheduler")
            pod["spec"]["nodeName"] = node
            self.cluster(cluster).api.ask("rival", "POST", f"{NAMESPACES}/default/pods", pod)

    def unload(self, cluster: str) -> None:
        """They go."""
        for node in self.cluster(cluster).nodes:
            path = f"{NAMESPACES}/default/pods/load-{node}"
            self.cluster(cluster).api.ask("rival", "DELETE", path, {"gracePeriodSeconds": 0})

    def pod(self, name: str, *, home: str = "north", namespace: str = "default") -> Object | None:
        """As its API server has it."""
        kept = self.cluster(home).api.kept(f"{NAMESPACES}/{namespace}/pods/{name}")
        return kept.obj if kept else None

    def shows(self, phase: str, *names: str, home: str = "north", namespace: str = "default") -> Callable[[], bool]:
        """Whether these pods show this phase; "" that they are gone."""

        def reached() -> bool:
            found = [self.pod(name, home=home, namespace=namespace) for name in names]
            return all((pod["status"].get("phase") if pod else "") == phase for pod in found)

        return reached

    def put_object(self, name: str, text: str, *, cluster: str = "north", actor: str = "user") -> None:
        """A ConfigMap with this text, made or changed."""
        api, made = self.cluster(cluster).api, config_map(name, text)
        if api.ask(actor, "POST", OBJECTS, made)[0] == 409:
            api.ask(actor, "PATCH", f"{OBJECTS}/{name}", {"data": made["data"]})

    def delete_object(self, name: str, *, cluster: str = "north", actor: str = "user") -> None:
        """kubectl delete configmap."""
        self.cluster(cluster).api.ask(actor, "DELETE", f"{OBJECTS}/{name}")

    def put_secret(
        self, number: int, name: str = "pass", *, follow: str | None = None, kind: str = "Opaque", anew: bool = False
    ) -> None:
        """A Secret of cluster north with the text of this number, made or changed; `anew`: another one of its name."""
        api, path = self.cluster("north").api, f"{SECRETS}/{name}"
        made = secret("north", "default", name, number, kind, follow)
        if anew:
            api.ask("user", "DELETE", path)
        if api.ask("user", "POST", SECRETS, made)[0] == 409:
            marks = {"annotations": made["metadata"]["annotations"]} if follow is not None else {}
            api.ask("user", "PATCH", path, {"metadata": marks, "data": made["data"]})

    def copied(self, cluster: str) -> list[str]:
        """Names of what has followed pods to there."""
        found = (one.obj["metadata"] for one in self.cluster(cluster).api.store.all(CONFIG_MAPS, "default"))
        return [meta["name"] for meta in found if COPY in meta.get("labels", {})]

    def copied_secrets(self, cluster: str) -> list[str]:
        """Paths of Secrets that have followed pods to there."""
        found = (one.obj["metadata"] for one in self.cluster(cluster).api.store.all("/api/v1/secrets", "default"))
        return [f"{SECRETS}/{meta['name']}" for meta in found if COPY in meta.get("labels", {})]

    def delete(self, name: str, *, home: str = "north", grace: int | None = None) -> None:
        """kubectl delete pod."""
        path = f"{NAMESPACES}/default/pods/{name}"
        self.cluster(home).api.ask("user", "DELETE", path, None if grace is None else {"gracePeriodSeconds": grace})

    def patch(self, name: str, metadata: Object, *, home: str = "north", actor: str = "user") -> None:
        """kubectl annotate, or edit."""
        path = f"{NAMESPACES}/default/pods/{name}"
        self.fleet.meddled.add(path)
        self.cluster(home).api.ask(actor, "PATCH", path, {"metadata": metadata})

    def copies(self, cluster: str) -> list[Object]:
        """Pods there that were made for pods of other clusters."""
        facts = self.facts.pods
        made = [(pod, facts[pod["metadata"]["uid"]]) for pod in self.cluster(cluster).api.pods()]
        return [pod for pod, fact in made if fact.source and not fact.is_source]

    def drain(self, cluster: str) -> None:
        """An admin deletes all copies there."""
        for pod in self.copies(cluster):
            self.cluster(cluster).api.ask("admin", "DELETE", path_of(pod))

    # --- trouble -----------------------------------------------------------------------------------------------------

    def act(self, kind: str, cluster: str, seconds: float = 0.0, dice: int = 1) -> None:
        """One of the acts, now."""
        self._begin(Fault(self.fleet.now, kind, cluster, seconds, dice))

    def weather(self, cluster: str, seconds: float, **changes: Any) -> None:
        """The way to an API server is so for a while."""
        now, calm = self.cluster(cluster).wire.weather, {}
        for name, value in changes.items():
            calm[name] = getattr(now, name)
            setattr(now, name, value)
        self.later(seconds, lambda: vars(now).update(calm))

    def links(self, cluster: str, seconds: float, **changes: Any) -> None:
        """So is the way between its agent and the dispatchers."""
        for weather in self.stage.links(cluster):
            vars(weather).update(changes)
        self.later(seconds, lambda: [vars(one).update(vars(LinkWeather())) for one in self.stage.links(cluster)])

    def freeze(self, *clusters: str, seconds: float) -> None:
        """Their watches stand still."""
        for name in clusters:
            wire = self.cluster(name).wire
            wire.weather.frozen = True
            self.later(seconds, wire.thaw)

    def say_deleted(self, cluster: str, uid: str) -> None:
        """From now on its observer says once more with each report that this pod was deleted."""

        def deleted(told: Changes) -> Changes:
            pods = tuple(pod for pod in told.pods if pod.uid != uid)
            return msgspec.structs.replace(told, pods=pods, pods_gone=() if told.full else (*told.pods_gone, uid))

        self._report(cluster, deleted)

    def say_ended(self, cluster: str, uid: str, phase: str) -> None:
        """From now on, until it begins anew, its observer shows this pod in this phase, whatever becomes of it."""
        told_so: dict[str, Any] = {"phase": phase, "status": msgspec.json.encode({"phase": phase})}

        def ended(told: Changes) -> Changes:
            pods = [msgspec.structs.replace(pod, **told_so) if pod.uid == uid else pod for pod in told.pods]
            return msgspec.structs.replace(told, pods=tuple(pods))

        self._report(cluster, ended)

    def say_waits(self, cluster: str, pod: Object) -> None:
        """From now on its observer tells with each report of a pod that is not there."""
        seen = pod_seen(msgspec.json.encode(pod))
        assert seen is not None
        assert seen.pod is not None
        made_up = seen.pod
        self._report(cluster, lambda told: msgspec.structs.replace(told, pods=(*told.pods, made_up)))

    def _report(self, cluster: str, otherwise: Callable[[Changes], Changes]) -> None:
        """The observer of a cluster tells something else than it sees, until it begins anew."""
        agent = self.cluster(cluster).agent.agent
        assert agent is not None
        honest: Any = agent.changes

        async def changes(*since: Any) -> Changes:
            return otherwise(await honest(*since))

        agent.changes = changes  # type: ignore[assignment,method-assign]

    def end(self, cluster: str, uid: str, phase: str) -> None:
        """The containers of a pod end by themselves."""
        kubelets = self.cluster(cluster).kubelets
        container = kubelets.running[uid]
        container.ends_at, container.ends_as = kubelets.clock(), phase

    def back_up(self, cluster: str) -> Callable[[], None]:
        """etcdctl snapshot save; what is returned restores it."""
        api, backup = self.cluster(cluster).api, self.cluster(cluster).api.store.backup()

        def restore() -> None:
            api.store.restore(backup)
            self.facts.went_back(cluster)
            self.cluster(cluster).wire.cut()

        return restore

    def crash(self, seconds: float = 2.0, *, soon: bool = False) -> str:
        """The dispatcher dies and begins anew; what it was about to do is lost. `soon`: its Lease is taken away."""
        self.dispatcher.kill()
        if soon:
            self.act("lease-deleted", "north")
        self.later(seconds, self._start_dispatcher)
        return "lose"

    def _start_dispatcher(self) -> None:
        if self.dispatcher.dispatcher is None:
            self.dispatcher.start()

    def crash_agent(self, cluster: str, seconds: float = 2.0) -> str:
        """So does an agent."""
        agent = self.cluster(cluster).agent

        def start() -> None:
            if agent.agent is None:
                self._spawn(agent.start())

        agent.kill()
        self.later(seconds, start)
        return "lose"

    def later(self, seconds: float, call: Do) -> None:
        """Somebody does something in a while."""
        in_process(WORLD, self.fleet.loop.call_later, seconds, call)

    def strike(self, cluster: str, kind: str, *do: Do, moment: str = "after", nth: int = 1) -> None:
        """Do this at the nth write of a kind that the agent of a cluster asks for; the last of them may lose it."""

        def all_of_them(request: Asked, actor: str) -> object:
            return [one() for one in do][-1]

        self._strikes[cluster].append(_Strike(kind, moment, all_of_them, nth))

    def repeat(self, cluster: str, kind: str, seconds: float) -> None:
        """The first write of a kind reaches the server once more, so many seconds later."""
        api = self.cluster(cluster).api

        def again(request: Asked, actor: str) -> None:
            sent = (actor, request.method, request.path, request.body, request.content_type)
            self.later(seconds, lambda: api.handle(*sent))

        self._strikes[cluster].append(_Strike(kind, "after", again, 1))

    def _tap(self, strikes: Sequence[_Strike]) -> Callable[[str, Asked, str], str]:
        def tap(moment: str, request: Asked, actor: str) -> str:
            kind, answer = kind_of(request), ""
            for one in strikes:
                if moment == "before" and one.kind == kind and one.left > 0:
                    one.left -= 1
                    one.at = id(request) if one.left == 0 else 0
                if one.moment == moment and one.at == id(request):
                    one.at = 0
                    said = one.do(request, actor)
                    answer = said if said in ("lose", "reset") else answer
            return answer

        return tap

    def spawn(self, work: Any) -> None:
        """Somebody begins something that takes time."""
        self._tasks.append(asyncio.ensure_future(work))
