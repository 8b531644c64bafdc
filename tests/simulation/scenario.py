"""Stories as text: a line is a step, and what stands under `----` is what the step shows.

The first line, behind `#`, says what the story is about; the steps are the methods of `Director`. With REWRITE=1 the
test writes down what is shown now instead of comparing it: read the difference before you commit it. At the end
everything heals, and the judges of all stories have found nothing, or what the step `end` shows.
"""

import os
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from shared.messages import Changes, IntentBatch, OutcomeBatch
from shared.model.pod import Pod
from tests.simulation.acts import naming, plain_pod
from tests.simulation.judges.facts import FINALIZER, PREFIX, PROXY, SCHEDULER, PodFact
from tests.simulation.judges.objects import COPY_OF
from tests.simulation.planted.scripted import OBJECTS, PATIENCE_S, Hint, Scene, Wait
from tests.simulation.telling import Told
from tests.simulation.world.apiserver import NAMESPACES, NODES
from tests.simulation.world.controllers import ReplicaSet, path_of
from tests.simulation.world.fleet import Sizes
from tests.simulation.world.loop import live
from tests.simulation.world.objects import Object, class_of, condition
from tests.simulation.world.processes import LinkWeather, sim_client

REWRITE = bool(os.environ.get("REWRITE"))
SHOWN = "----"
# A pod that goes at once when its node is lost: nothing but the product keeps a second copy from being made.
AT_ONCE = [
    {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
    for name in ("not-ready", "unreachable")
]


class Step(NamedTuple):
    """One line: its verb, words and settings, and what stands under it; None if nothing does."""

    line: str
    verb: str
    words: list[str]
    settings: dict[str, str]
    shown: list[str] | None


class Story(NamedTuple):
    """A text taken apart."""

    head: list[str]
    steps: list[Step]


def read(text: str) -> Story:
    """Take a story apart."""
    lines = iter(text.splitlines())
    head: list[str] = []
    steps: list[Step] = []
    for line in lines:
        if line.startswith("#"):
            head.append(line)
        elif line == SHOWN:
            shown = []
            for one in lines:
                if not one:
                    break
                shown.append(one)
            steps[-1] = steps[-1]._replace(shown=shown)
        elif line:
            verb, *words = shlex.split(line)
            pairs = dict(word.split("=", 1) for word in words if "=" in word)
            steps.append(Step(line, verb, [word for word in words if "=" not in word], pairs, None))
    return Story(head, steps)


class Director(Scene):
    """Carries out the steps of a story, and keeps what each of them has shown."""

    def __init__(self, story: Story, seed: int) -> None:
        self.shown_at: dict[int, list[str]] = {}
        self._marks: dict[str, int] = {}
        self._reports: Counter[str] = Counter()
        self._orders: Counter[str] = Counter()
        self._backups: dict[str, Callable[[], object]] = {}
        super().__init__(Hint(lambda _: self._steps(story), _sizes(story)), seed)

    def _steps(self, story: Story) -> Iterator[Wait]:
        for number, step in enumerate(story.steps):
            if step.verb in ("fleet", "end"):
                continue
            done: Any = getattr(self, f"step_{step.verb.replace('-', '_')}")(*step.words, **step.settings)
            if isinstance(done, float):
                yield done
            elif callable(done):
                yield done
                assert done(), f"{step.line}: not within {PATIENCE_S} s\n" + "\n".join(self.step_show())
            elif done is not None:
                self.shown_at[number] = list(done)

    # --- people ------------------------------------------------------------------------------------------------------

    def step_submit(self, name: str, *flags: str, **settings: str) -> None:
        """NAME [to=CLUSTERS] [home=] [cpu=] [namespace=] [priority=] [failover=] [replicas=] [names=] [at-once] [gated]
        [host].

        Its pod may run in any cluster if none is said. `at-once`: it tolerates no lost node for a second. `names`: the
        ConfigMaps of its environment, "?" before one that is optional.
        """
        home = settings.get("home", "north")
        namespace = settings.get("namespace", "default")
        marks = {"clusters": settings.get("to", ""), "failover": settings.get("failover", "")}
        chosen = {key: value for key, value in marks.items() if value}
        pod = plain_pod(name, namespace, int(settings.get("cpu", "300")), **chosen)
        naming(pod, [one for one in settings.get("names", "").split(",") if one])
        spec = pod["spec"]
        spec["priorityClassName"] = class_of(int(settings.get("priority", "0")))
        spec |= {"tolerations": AT_ONCE} if "at-once" in flags else {}
        spec |= {"schedulingGates": [{"name": "example.com/hold"}]} if "gated" in flags else {}
        spec |= {"hostPID": True} if "host" in flags else {}
        spec |= {"nodeName": settings["node"]} if "node" in settings else {}
        if "claimed" in settings:
            self._claim_by_hand(pod, settings["claimed"])
        if "replicas" in settings:
            made = ReplicaSet(name, namespace, int(settings["replicas"]), pod)
            self.cluster(home).controllers.sets.append(made)
        else:
            self.cluster(home).api.ask("user", "POST", f"{NAMESPACES}/{namespace}/pods", pod)

    def _claim_by_hand(self, pod: Object, cluster: str) -> None:
        """What the product writes when it has decided, without a signature."""
        claim = {"cluster": cluster, "node": self.cluster(cluster).nodes[0], "epoch": "1"}
        pod["metadata"].setdefault("annotations", {}).update({PREFIX + key: value for key, value in claim.items()})
        pod["metadata"]["finalizers"] = [FINALIZER]

    def step_forge(self, name: str, *flags: str, cluster: str = "west", home: str = "north", cpu: str = "100") -> None:
        """NAME [genuine] [ours] [cluster=] [cpu=]: a user there makes a pod that says it is the copy of that pod.

        `genuine`: with the claim and the proof of the real copy, which everybody may read. `ours`: placed by us.
        """
        victim = self.pod(name, home=home)
        scheduler = SCHEDULER if "ours" in flags else "default-scheduler"
        pod = plain_pod(f"evil{self.stage.number()}", "team", int(cpu), scheduler=scheduler)
        marks = {"source-cluster": home, "source-namespace": "default", "source-name": name, "epoch": "9"}
        marks |= {"source-cluster-uid": f"{home}-namespace-1"}
        marks |= {"source-uid": victim["metadata"]["uid"] if victim else "none"}
        marks = {PREFIX + key: value for key, value in marks.items()}
        if "genuine" in flags:
            real = self.copies(cluster)[0]["metadata"]["annotations"]
            marks |= {key: real[key] for key in (PREFIX + "claim", PREFIX + "delegate-proof")}
        pod["metadata"]["annotations"] = marks
        pod["metadata"]["labels"][PREFIX + "delegate"] = "true"
        pod["metadata"]["finalizers"] = ["evil.example.com/hold"]
        pod["spec"]["nodeName"] = self.cluster(cluster).nodes[-1]
        self.cluster(cluster).api.ask("hostile", "POST", f"{NAMESPACES}/team/pods", pod)

    def step_unforge(self, cluster: str = "west") -> None:
        """[CLUSTER]: those pods are deleted; their finalizers hold them."""
        for pod in self.cluster(cluster).api.pods("team"):
            if pod["metadata"]["name"].startswith("evil"):
                self.cluster(cluster).api.ask("hostile", "DELETE", path_of(pod))

    def step_release(self, cluster: str = "west") -> None:
        """[CLUSTER]: nothing holds them any more."""
        for pod in self.cluster(cluster).api.pods("team"):
            if pod["metadata"]["name"].startswith("evil"):
                self.cluster(cluster).api.ask("hostile", "PATCH", path_of(pod), {"metadata": {"finalizers": None}})

    def step_template(self, name: str, home: str = "north", **settings: str) -> None:
        """NAME [to=CLUSTERS]: what its ReplicaSet makes from now on may run there."""
        (found,) = [one for one in self.cluster(home).controllers.sets if one.name == name]
        found.template["metadata"]["annotations"][f"{PREFIX}clusters"] = settings["to"]

    def step_delete(self, name: str, home: str = "north") -> None:
        """NAME: kubectl delete pod."""
        self.delete(name, home=home)

    def step_annotate(self, name: str, *words: str, home: str = "north", **settings: str) -> None:
        """NAME KEY=VALUE ... KEY- ...: kubectl annotate; the keys without our prefix."""
        changes: Object = {PREFIX + key: value for key, value in settings.items()}
        changes |= {PREFIX + word.rstrip("-"): None for word in words}
        self.patch(name, {"annotations": changes}, home=home)

    def step_strip(self, name: str, *parts: str, home: str = "north") -> None:
        """NAME [annotations] [finalizers]: all of them are taken off."""
        self.patch(name, dict.fromkeys(parts), home=home)

    def step_strip_copy(self, name: str, mark: str) -> None:
        """NAME proof|label: so is that mark of its copy."""
        part = (
            {"labels": {f"{PREFIX}delegate": None}}
            if mark == "label"
            else {"annotations": {PREFIX + "delegate-proof": None}}
        )
        for cluster, fact in self._copies(name):
            path = f"{NAMESPACES}/{fact.namespace}/pods/{fact.name}"
            self.fleet.meddled.add(path)
            self.cluster(cluster).api.ask("hostile", "PATCH", path, {"metadata": part})

    def step_marks(self, name: str, home: str = "north") -> list[str]:
        """NAME: its annotations of ours, and whether our finalizer holds it."""
        meta = (self.pod(name, home=home) or {"metadata": {}})["metadata"]
        keys = sorted(key.removeprefix(PREFIX) for key in meta.get("annotations", {}) if key.startswith(PREFIX))
        return [" ".join(keys) + (", held" if FINALIZER in (meta.get("finalizers") or ()) else ", not held")]

    def step_fence(self, cluster: str, word: str = "on") -> None:
        """CLUSTER [off]: what `global-dispatcher cluster fence` writes in every other cluster."""
        label = {f"{PREFIX}fenced": "true" if word == "on" else None}
        for fact in self.facts.pods.values() if word == "on" else ():
            copies = self.facts.copies.get(fact.source, ())
            if (fact.cluster == cluster and not fact.is_source) or fact.node == PROXY + cluster:
                fact.doomed = fact.doomed or "fenced"  # by whoever says that nothing runs there any more
                self.fleet.meddled |= {f"{NAMESPACES}/{one.namespace}/pods/{one.name}" for one in copies}
        for name, one in self.fleet.clusters.items():
            if name != cluster:
                one.api.ask("admin", "PATCH", f"{NODES}/{PROXY}{cluster}", {"metadata": {"labels": label}})

    def step_cordon(self, cluster: str, word: str = "on") -> None:
        """CLUSTER [off]: all of its nodes."""
        for node in self.cluster(cluster).nodes:
            self.cluster(cluster).cordon(node, on=word == "on")

    def step_drain_proxy(self, cluster: str, home: str = "north") -> None:
        """CLUSTER: its proxy node is cordoned, and the pods there are evicted."""
        api = self.cluster(home).api
        self.cluster(home).cordon(PROXY + cluster, on=True)
        for pod in api.pods():
            if pod["spec"].get("nodeName") == PROXY + cluster:
                api.ask("admin", "DELETE", path_of(pod))

    def step_uncordon_proxy(self, cluster: str, home: str = "north") -> None:
        """CLUSTER."""
        self.cluster(home).cordon(PROXY + cluster, on=False)

    def step_drain(self, cluster: str) -> None:
        """CLUSTER: its admin deletes all copies there."""
        self.drain(cluster)

    def step_load(self, cluster: str, cpu: str = "1000") -> None:
        """CLUSTER [CPU]: other pods, so much on each node, so that others are the better choice."""
        self.load(cluster, int(cpu))

    def step_remove_namespace(self, cluster: str, name: str) -> None:
        """CLUSTER NAME."""
        self.cluster(cluster).api.ask("admin", "DELETE", f"{NAMESPACES}/{name}")

    def step_end_of(self, name: str, phase: str) -> None:
        """NAME PHASE: the containers of its copy come to that end."""
        for cluster, fact in self._copies(name):
            if fact.uid in self.cluster(cluster).kubelets.running:
                self.end(cluster, fact.uid, phase)

    def step_label(self, name: str, text: str, home: str = "north") -> None:
        """NAME TEXT: its user changes its label `text`."""
        for pod in self._sources(home):
            if _called(pod) == name:
                self.cluster(home).api.ask("user", "PATCH", path_of(pod), {"metadata": {"labels": {"text": text}}})

    def step_labelled(self, name: str, text: str) -> Callable[[], bool]:
        """NAME TEXT: until all its copies have that label."""
        return lambda: {self._label(cluster, fact) for cluster, fact in self._copies(name)} == {text}

    def _label(self, cluster: str, fact: PodFact) -> str:
        kept = self.cluster(cluster).api.kept(f"{NAMESPACES}/{fact.namespace}/pods/{fact.name}")
        return str(kept.obj["metadata"]["labels"].get("text", "")) if kept is not None else ""

    # --- objects that follow -----------------------------------------------------------------------------------------

    def step_config(self, name: str, text: str, cluster: str = "north") -> None:
        """NAME TEXT [cluster=]: a user writes that into this ConfigMap."""
        self.put_object(name, text, cluster=cluster)

    def step_unconfig(self, name: str, cluster: str = "north") -> None:
        """NAME [cluster=]: and deletes it."""
        self.delete_object(name, cluster=cluster)

    def step_spoil(self, cluster: str, text: str = "") -> None:
        """CLUSTER [TEXT]: a user there writes that into all copies; without it, deletes them."""
        for name in self.copied(cluster):
            if text:
                self.put_object(name, text, cluster=cluster, actor="hostile")
            else:
                self.delete_object(name, cluster=cluster, actor="hostile")

    def step_copied(self, cluster: str) -> list[str]:
        """CLUSTER: what has followed pods to there."""
        kept = [self.cluster(cluster).api.store.look(f"{OBJECTS}/{name}") or {} for name in self.copied(cluster)]
        lines = [f"{one['metadata']['annotations'][COPY_OF]}: {one['data']['text']}" for one in kept]
        return sorted(lines) or ["nothing"]

    def step_environment(self, name: str) -> list[str]:
        """NAME: what the containers of its copy have read."""
        lines = []
        for cluster, fact in self._copies(name):
            container = self.cluster(cluster).kubelets.running.get(fact.uid)
            shown = [one["data"]["text"] if one else "-" for one in container.shown] if container else ["not started"]
            lines.append(f"{name} in {cluster}: {', '.join(shown)}")
        return lines or ["nothing"]

    # --- trouble -----------------------------------------------------------------------------------------------------

    def step_wait(self, seconds: str) -> float:
        """SECONDS."""
        return float(seconds)

    def step_until(self, name: str, phase: str, home: str = "north") -> Callable[[], bool]:
        """NAME PHASE: until it shows that; `gone`, or `bound`."""
        if phase == "bound":
            return lambda: bool((self.pod(name, home=home) or {"spec": {}})["spec"].get("nodeName"))
        return self.shows_phase("" if phase == "gone" else phase, name, home)

    def shows_phase(self, phase: str, name: str, home: str) -> Callable[[], bool]:
        """Whether all pods of this name or ReplicaSet show this phase."""

        def reached() -> bool:
            found = [pod["status"].get("phase") for pod in self._sources(home) if _called(pod) == name]
            return set(found) == ({phase} if phase else set())

        return reached

    def step_cut(self, *clusters: str) -> None:
        """CLUSTERS: no dispatcher reaches their agents."""
        for name in clusters:
            self._links(name, cut_there=True, cut_back=True)

    def step_mend(self, *clusters: str) -> None:
        """CLUSTERS: the way to their agents and servers is as it was."""
        for name in clusters:
            self._links(name, **vars(LinkWeather()))
            self.cluster(name).wire.weather.down = False
            self.fleet.lost.pop(name, None)

    def step_links(self, cluster: str, **settings: str) -> None:
        """CLUSTER [late_s=] [lose=] [twice=]: the weather between its agent and the dispatchers."""
        self._links(cluster, **{key: float(value) for key, value in settings.items()})

    def _links(self, cluster: str, **changes: Any) -> None:
        for weather in self.stage.links(cluster):
            vars(weather).update(changes)

    def step_down(self, *clusters: str) -> None:
        """CLUSTERS: their API servers are away."""
        for name in clusters:
            self.cluster(name).wire.weather.down = True

    def step_lose(self, *clusters: str) -> None:
        """CLUSTERS: both; their kubelets go on."""
        self.step_down(*clusters)
        self.step_cut(*clusters)
        self.fleet.lost |= dict.fromkeys(clusters, self.fleet.now)

    def step_backup(self, cluster: str) -> None:
        """CLUSTER: etcdctl snapshot save."""
        self._backups[cluster] = self.back_up(cluster)

    def step_restore(self, cluster: str) -> None:
        """CLUSTER: from that backup."""
        self._backups[cluster]()

    def step_confirm(self, cluster: str) -> None:
        """CLUSTER: its operator says that what its API server shows since then is meant."""
        agent = self.cluster(cluster).agent.agent
        assert agent is not None
        for fact in self.facts.pods.values():
            if fact.cluster == cluster and fact.was_taken:
                fact.doomed = "confirmed"
        agent._executor.accepted_leader.confirm_restored()

    def step_act(self, kind: str, cluster: str, seconds: str = "1") -> None:
        """KIND CLUSTER [seconds=]: one of the acts of drawn stories."""
        self.act(kind, cluster, float(seconds))

    def step_freeze(self, *clusters: str, seconds: str = "18") -> None:
        """CLUSTERS [seconds=]: their watches stand still."""
        self.freeze(*clusters, seconds=float(seconds))

    def step_kill(self, what: str) -> None:
        """CLUSTER or `dispatcher`: SIGKILL."""
        (self.dispatcher if what == "dispatcher" else self.cluster(what).agent).kill()

    def step_start(self, what: str) -> None:
        """The same: a new life."""
        if what == "dispatcher":
            self.dispatcher.start()
        else:
            self._spawn(self.cluster(what).agent.start())

    def step_clock(self, cluster: str, rate: str) -> None:
        """CLUSTER RATE: how fast the clock of its agent runs."""
        self.cluster(cluster).agent.process.rate = float(rate)

    def step_strike(self, cluster: str, kind: str, *line: str, **settings: str) -> None:
        """CLUSTER KIND STEP: take that step just before the next write of the kind."""
        verb, *words = line
        do = getattr(self, f"step_{verb.replace('-', '_')}")
        self.strike(cluster, kind, lambda: do(*words, **settings), moment="before")

    # --- an observer that lies ---------------------------------------------------------------------------------------

    def step_lie(self, name: str, what: str = "", source: str = "", claim: str = "own", home: str = "") -> None:
        """NAME gone|PHASE|phase-in-status|deleting, or NAME source=OTHER [claim=other]: so it is shown until `truth`.

        Of the copy of that pod; with `home` of the pod itself. `source`: as the copy of that other pod.
        """
        fact = next(one for one in self.facts.pods.values() if one.is_source and one.name == name)
        cluster = home or next(
            one.cluster for one in self.facts.copies[fact.source] if not one.is_source and not one.gone
        )
        uid = next(one.uid for one in self.facts.copies[fact.source] if one.cluster == cluster and not one.gone)
        if what == "gone":
            self.say_deleted(cluster, uid)
        else:
            other = next((one for one in self.facts.pods.values() if one.is_source and one.name == source), None)
            self._report(cluster, self._told_otherwise(uid, what, other.uid if other else "made-up", claim))
        self._report_anew(cluster)

    def _told_otherwise(self, uid: str, what: str, other: str, claim: str) -> Callable[[Changes], Changes]:
        seen: dict[str, Pod] = {}

        def lie(pod: Pod) -> Pod:
            if what == "deleting":
                return msgspec.structs.replace(pod, terminating=True)
            if what == "twice":
                return msgspec.structs.replace(pod, status=b'{"phase":"Running","phase":"Failed"}')
            if what:
                told: Object = {"status": msgspec.json.encode({"phase": what.removesuffix("-in-status")})}
                told |= {} if what.endswith("-in-status") else {"phase": what}
                return msgspec.structs.replace(pod, **told)
            assert pod.source is not None
            marks = pod.annotations
            if claim == "other":
                marks = next(one.annotations for one in seen.values() if one.source and one.uid != uid)
            return msgspec.structs.replace(
                pod, source=msgspec.structs.replace(pod.source, uid=other), annotations=marks
            )

        def told(changes: Changes) -> Changes:
            seen.update({pod.uid: pod for pod in changes.pods})
            others = tuple(pod for pod in changes.pods if pod.uid != uid)
            gone = tuple(one for one in changes.pods_gone if one != uid)
            mine = (lie(seen[uid]),) if uid in seen else ()
            return msgspec.structs.replace(changes, pods=(*others, *mine), pods_gone=gone)

        return told

    def _report_anew(self, cluster: str) -> None:
        """The dispatcher asks for all that there is, so that the lie reaches it."""
        agent = self.cluster(cluster).agent.agent
        assert agent is not None
        lying: Any = agent.changes
        asked: list[object] = []

        async def changes(incarnation: str, since: int, wait_s: float) -> Changes:
            told: Changes = await (lying(incarnation, since, wait_s) if asked else lying("", 0, wait_s))
            asked.append(told)
            return told

        agent.changes = changes  # type: ignore[method-assign]

    def step_truth(self, cluster: str) -> None:
        """CLUSTER: its agent begins anew, and tells what it sees."""
        self.crash_agent(cluster, 1.0)

    # --- what is to be seen ------------------------------------------------------------------------------------------

    def step_show(self, *clusters: str) -> list[str]:
        """[CLUSTERS]: pods that were submitted to us, and under each the copies that run for it elsewhere."""
        lines = []
        for name in clusters or self.fleet.clusters:
            for pod in self._sources(name):
                lines.append(f"{name}/{_called(pod)} {self._state(name, pod)}")
                lines += [f"  {one}" for one in self._shown_copies(pod["metadata"]["uid"])]
        held = {pod["metadata"]["uid"] for name in self.fleet.clusters for pod in self._sources(name)}
        orphans = {fact.source for _, fact in self._all_copies() if fact.source not in held}
        for uid in sorted(orphans):
            lines.append(f"no source, it was {self.facts.pods[uid].cluster}/{self.facts.pods[uid].name}")
            lines += [f"  {one}" for one in self._shown_copies(uid)]
        return sorted_groups(lines) or ["nothing"]

    def _state(self, cluster: str, pod: Object) -> str:
        ready = (condition(pod, "Ready") or {}).get("status")
        node = pod["spec"].get("nodeName", "")
        words = [str(pod["status"].get("phase"))]
        words += ["ready"] if ready == "True" else ["not ready"] if ready else []
        words += ["deleting"] if pod["metadata"].get("deletionTimestamp") else []
        words += [f"on {node}"] if node.startswith(PROXY) else ["at home"] if node else ["unbound"]
        return " ".join(words)

    def _shown_copies(self, uid: str) -> list[str]:
        shown = []
        for cluster, fact in self._all_copies():
            if fact.source == uid:
                pod = self.cluster(cluster).api.kept(f"{NAMESPACES}/{fact.namespace}/pods/{fact.name}")
                going = pod is not None and pod.obj["metadata"].get("deletionTimestamp")
                runs = "runs" if fact.uid in self.facts.running else "does not run"
                shown.append(f"its copy in {cluster} {runs}{', deleting' if going else ''}")
        return sorted(shown)

    def _all_copies(self) -> list[tuple[str, PodFact]]:
        return [
            (one.cluster, one) for one in self.facts.pods.values() if one.source and not one.is_source and not one.gone
        ]

    def _copies(self, name: str) -> list[tuple[str, PodFact]]:
        sources = {one.uid for one in self.facts.pods.values() if one.is_source and one.name == name}
        return [one for one in self._all_copies() if one[1].source in sources]

    def _sources(self, cluster: str) -> list[Object]:
        facts = self.facts.pods
        pods = [pod for pod in self.cluster(cluster).api.pods() if facts[pod["metadata"]["uid"]].is_source]
        return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))

    def step_nodes(self, home: str = "north") -> list[str]:
        """[CLUSTER]: its proxy nodes."""
        shown = []
        for node in self.cluster(home).api.nodes():
            name = node["metadata"]["name"]
            words = ["ready" if (condition(node, "Ready") or {}).get("status") == "True" else "not ready"]
            words += ["fenced"] if f"{PREFIX}fenced" in node["metadata"].get("labels", {}) else []
            words += ["cordoned"] if node["spec"].get("unschedulable") else []
            shown += [f"{name} {', '.join(words)}"] if name.startswith(PROXY) else []
        return sorted(shown)

    def step_why(self, name: str, home: str = "north", namespace: str = "default") -> list[str]:
        """NAME: why it is said to wait."""
        pod = self.pod(name, home=home, namespace=namespace) or {"status": {}}
        return [str((condition(pod, "PodScheduled") or {}).get("message", ""))]

    def step_written(self, cluster: str) -> list[str]:
        """CLUSTER: what its agent wrote to pods since this was asked last, and how often."""
        lines = self.tape.lines
        since, self._marks[cluster] = self._marks.get(cluster, 0), len(lines)
        mine = f"{cluster} {NAMESPACES}"
        found = Counter(
            what.partition(" by ")[0]
            for _, of, what in lines[since:]
            if of.startswith(mine) and "/pods/" in of and f" by agent/{cluster}" in what
        )
        return [f"{what} {count}" for what, count in sorted(found.items())] or ["nothing"]

    def step_orders(self, cluster: str) -> list[str]:
        """CLUSTER: what its executor is ordered from now on is counted; what was counted is shown."""
        if f"orders {cluster}" not in self._marks:
            self._marks[f"orders {cluster}"] = 0
            agent: Any = self.cluster(cluster).agent.agent
            honest = agent.execute

            async def execute(batch: IntentBatch) -> OutcomeBatch:
                self._orders.update(type(one).__name__ for one in batch.intents)
                answer: OutcomeBatch = await honest(batch)
                return answer

            agent.execute = execute
        found, self._orders = self._orders, Counter()
        return [f"{what} {count}" for what, count in sorted(found.items())] or ["nothing"]

    def step_reports(self, cluster: str) -> list[str]:
        """CLUSTER: what its agent reports from now on is counted; what was counted is shown."""
        if cluster not in self._marks:
            self._marks[cluster] = 0

            def count(told: Changes) -> Changes:
                self._reports["whole" if told.full else "with changes" if told.pods or told.pods_gone else "empty"] += 1
                return told

            self._report(cluster, count)
        found, self._reports = self._reports, Counter()
        return [f"{what}" for what in sorted(found) if what != "empty"] or ["nothing"]


def sorted_groups(lines: list[str]) -> list[str]:
    """Groups of a line and the indented ones under it, in order."""
    groups: list[list[str]] = []
    for line in lines:
        if line.startswith(" "):
            groups[-1].append(line)
        else:
            groups.append([line])
    return [line for group in sorted(groups) for line in group]


def _called(pod: Object) -> str:
    meta = pod["metadata"]
    refs = meta.get("ownerReferences")
    return str(refs[0]["name"] if refs else meta["name"])


def _sizes(story: Story) -> Sizes:
    given = {key: value for step in story.steps if step.verb == "fleet" for key, value in step.settings.items()}
    kinds = {one.name: type(getattr(Sizes(), one.name)) for one in fields(Sizes)}
    return Sizes(**{key: kinds[key](value) for key, value in given.items()})


def tell(text: str, seed: int = 1) -> tuple[str, str]:
    """(the story as it was written, the story with what it shows now)."""
    story = read(text)

    async def told() -> tuple[Director, Told]:
        director = Director(story, seed)
        return director, await director.tell()

    with sim_client():
        director, ended = live(told, seed)
    found = sorted({one.judge for one in ended.violations})
    assert found == [] or any(step.verb == "end" for step in story.steps), [*map(str, ended.violations)]
    shows = director.shown_at | {n: found for n, step in enumerate(story.steps) if step.verb == "end"}
    return _written(story, {n: step.shown for n, step in enumerate(story.steps)}), _written(story, shows)


def _written(story: Story, shown: dict[int, list[str] | None] | dict[int, list[str]]) -> str:
    lines = [*story.head, ""]
    for number, step in enumerate(story.steps):
        lines.append(step.line)
        if (under := shown.get(number)) is not None:
            lines += [SHOWN, *under, ""]
    return "\n".join(lines).rstrip("\n") + "\n"


STORIES = sorted(Path(__file__).with_name("stories").glob("*.txt"))
