"""Promises about objects that follow pods: shown as at home, kept as at home, and nobody else's."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from tests.simulation.judges.court import Judge
from tests.simulation.judges.facts import CLAIM, PodFact, by_product
from tests.simulation.judges.objects import COPY, SECRET, Where, content_of, kind_of_copy
from tests.simulation.world.apiserver import FOLLOWING, PODS
from tests.simulation.world.kubelet import Container
from tests.simulation.world.objects import Object, active, named_by
from tests.simulation.world.relay import Gave
from tests.simulation.world.store import Kept, Write

_KINDS = {path: kind for kind, path in FOLLOWING.items()}
OLDEST_S = 60.0  # of a copy, while its cluster and that of the original hear each other
TROUBLED_S = 90.0  # after trouble, until that may be asked for again
READ_S = 2.0  # timestamps of pods are cut to a second
CLOCKS_S = 10.0  # where clocks differ, what was found at home is believed for so long
TRIED_S = 90.0  # the same at the end, of a copy that was made for a pod which did not come
UNUSED_S = 240.0  # within which a copy that nobody names is deleted
ON_THE_WAY_S = 60.0  # between the question whether a claim or an object is there, and what follows from it


class _Follows(Judge):
    """Knows whose copies a delegate names, and whether the two clusters hear each other."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._unheard: dict[str, float] = {}  # cluster -> when its agent was last not at work, or not to be reached

    def _look(self) -> None:
        """Once a second."""
        now = self.fleet.loop.time()
        gateways = any(one.dispatcher is not None and not one.process.paused for one in self.fleet.dispatchers.values())
        for name, cluster in self.fleet.clusters.items():
            links = [one for (_, of), one in self.fleet.weathers.items() if of == name]
            rough = any(one.relay_cut or one.relay_late_s > 1.0 or one.late_s > 1.0 for one in links)
            agent = cluster.agent
            asleep = agent.process.paused or agent.second is not None or name not in self.fleet.members
            slow = cluster.wire.weather.late_s > 1.0 or name in self.fleet.hanging
            if not gateways or rough or asleep or slow:
                self._unheard[name] = now

    def _well(self, cluster: str, for_s: float = TROUBLED_S) -> bool:
        facts = self.facts
        last = (facts.trouble, facts.watch_trouble, facts.restored, self._unheard)
        newest = max(one.get(cluster, float("-inf")) for one in last)
        return cluster in self.fleet.clusters and self.fleet.loop.time() - newest >= for_s

    def _pairs(self, fact: PodFact) -> Iterator[tuple[int, Where, Where]]:
        """Of what a delegate names: its number, the original at home, and what it reads in its place."""
        source = self.facts.source_of(fact)
        if source is None or source is fact or len(source.names) != len(fact.names):
            return
        for number, ((kind, own), (_, read)) in enumerate(zip(source.names, fact.names, strict=True)):
            yield (
                number,
                Where(source.cluster, source.namespace, own, kind),
                Where(fact.cluster, fact.namespace, read, kind),
            )

    def _named(self) -> Iterator[tuple[PodFact, Where, Where]]:
        """The copies that pods name which run, and that have to be as at home: pod, original, copy."""
        for uid in [*self.facts.running]:
            fact = self.facts.pods.get(uid)
            if fact is not None and self._counts(fact):
                yield from ((fact, home, here) for _, home, here in self._pairs(fact) if home.name != here.name)

    def _counts(self, fact: PodFact) -> bool:
        source = self.facts.source_of(fact)
        if source is None or source is fact or not fact.names:
            return False
        if fact.doomed or source.doomed or source.gone or source.ended or fact.gone:
            return False
        home, here = self.fleet.clusters.get(source.cluster), self.fleet.clusters.get(fact.cluster)
        paths = [f"/api/v1/namespaces/{one.namespace}/pods/{one.name}" for one in (source, fact)]
        if home is None or here is None or self.fleet.meddled & {*paths}:
            return False
        kept = home.api.kept(paths[0])
        claimed = kept.obj["metadata"].get("annotations", {}).get(CLAIM) if kept is not None else ""
        return claimed == fact.cluster and self._well(source.cluster) and self._well(fact.cluster)

    def _takes(self, home: Where, target: str, since: float) -> set[bool]:
        """Whether the target takes copies of this one, at any moment from then on."""
        cluster = self.fleet.clusters.get(target) or self.fleet.outside.get(target)
        if home.kind != SECRET or cluster is None:
            return {True}
        rows = cluster.taken
        first = max([number for number, (at, _) in enumerate(rows) if at <= since], default=0)
        return {any(fnmatchcase(home.name, one) for one in patterns) for _, patterns in rows[first:]}

    def _since(self, source: PodFact) -> float:
        """From when on the environment of a pod may show what its objects were."""
        agents = [one.agent for one in self.fleet.clusters.values()]
        exact = all(not one.offset and one.rate == 1.0 for one in agents)
        return source.created - (READ_S if exact else READ_S + CLOCKS_S)


class EnvironmentAsAtHome(_Follows):
    """A container that starts elsewhere reads what an object was at home at some moment since its pod was made."""

    promise = "S34"

    def started(self, cluster: str, container: Container) -> None:
        fact = self.facts.pods.get(container.uid)
        source = self.facts.source_of(fact) if fact is not None else None
        if fact is None or source is None:
            return
        lately = self.fleet.loop.time() - OLDEST_S
        for number, home, here in self._pairs(fact):
            shown = content_of(container.shown[number])
            renamed = home.name != here.name
            objects, since = self.facts.objects, self._since(source)
            known = objects.contents(home, since) | {one.content for one in objects.let_go(home, cluster, since)}
            if objects.harmed(here, lately) or shown in known:
                continue
            if shown is None and False in self._takes(home, cluster, lately):
                continue
            if shown is None:
                self._lacks(fact, home)
            elif renamed or home.kind == SECRET:  # else the target's own, which no row lends
                self._differs(fact, home)

    def _lacks(self, fact: PodFact, home: Where) -> None:
        """Somebody else tells."""

    def _differs(self, fact: PodFact, home: Where) -> None:
        self.say(fact.title, f"starts with {home.name} of {home.cluster} as it never was in the life of its pod")


class NothingOptionalLost(EnvironmentAsAtHome):
    """No pod starts without an optional object that is there at home."""

    def _lacks(self, fact: PodFact, home: Where) -> None:
        self.say(fact.title, f"starts without {home.name}, which was always there in {home.cluster}")

    def _differs(self, fact: PodFact, home: Where) -> None:
        """Somebody else tells."""


class CopiesKeepUp(_Follows):
    """While two clusters hear each other, a copy that is in use is never older than a minute."""

    promise = "S34"

    def tick(self, now: float) -> None:
        if not self.fleet.sizes.followers:
            return
        self._look()
        if int(now) % 5:
            return
        lately = self.fleet.loop.time() - OLDEST_S
        for fact, home, here in self._named():
            if self._is_old(home, here, lately):
                self.say(f"{fact.title} {home.name}", f"is older than {OLDEST_S:.0f} s in {here.cluster}")

    def _is_old(self, home: Where, here: Where, since: float) -> bool:
        objects = self.facts.objects
        stays = home.kind != SECRET and any(one.stays for one in objects.during(home, since))
        if stays or objects.harmed(here, since) or False in self._takes(home, here.cluster, since):
            return False
        was = {one.content for one in objects.let_go(home, here.cluster, since)}
        return objects.during(here, float("inf"))[0].content not in was


class NotCollectedInUse(_Follows):
    """No copy is deleted while a pod that lives names it, unless there was no original."""

    promise = "S34"

    def wrote(self, write: Write) -> None:
        if write.place.resource not in _KINDS or write.after is not None or not by_product(write.actor):
            return
        here = Where(write.cluster, write.place.namespace, write.place.name, _KINDS[write.place.resource])
        home = self.facts.objects.original.get(here)
        cluster = self.fleet.clusters.get(write.cluster)
        if cluster is None or home is None or False in self._takes(home, here.cluster, write.at - ON_THE_WAY_S):
            return
        was = self.facts.objects.let_go(home, here.cluster, write.at - ON_THE_WAY_S)
        if None in {one.content for one in was}:
            return
        if len({one.type for one in was}) > 1 or ((write.before or {}).get("immutable") and len(was) > 1):
            return  # it is made anew
        for pod in cluster.api.pods(here.namespace):
            alive = active(pod) and "deletionTimestamp" not in pod["metadata"]
            if alive and (here.kind, here.name) in ((one.kind, one.name) for one in named_by(pod)):
                self.say(f"{here.cluster}/{here.name}", f"is deleted while pod {pod['metadata']['name']} names it")


class OthersObjectsStay(Judge):
    """The product writes over no ConfigMap or Secret, and deletes none, that it has not made."""

    promise = "I7"

    def wrote(self, write: Write) -> None:
        if write.place.resource not in _KINDS or write.before is None or not by_product(write.actor):
            return
        made, kind = self.facts.objects.made.get(write.before["metadata"]["uid"], ""), _KINDS[write.place.resource]
        if not by_product(made):
            self.say(write.place.path, f"{write.actor} writes ({write.verb}) to a {kind} of {made or 'others'}")


class GivenByClaim(_Follows):
    """A cluster is given no object but one that a pod names which goes there by a claim of the giver."""

    promise = "S34"

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self._claimed: dict[tuple[str, str], str] = {}  # (UID of a source, cluster) -> the giver

    def wrote(self, write: Write) -> None:
        if write.place.resource != PODS or write.after is None or not by_product(write.actor):
            return
        target = write.after["metadata"].get("annotations", {}).get(CLAIM)
        if target:
            self._claimed[write.after["metadata"]["uid"], target] = write.cluster

    def gave(self, gave: Gave) -> None:
        for (uid, target), giver in self._claimed.items():
            fact = self.facts.pods[uid]
            way = (target, giver, fact.namespace) == (gave.asker, gave.giver, gave.namespace)
            if way and (gave.kind, gave.name) in fact.names:
                return
        self.say(f"{gave.giver}/{gave.name}", f"is given to {gave.asker}, where no pod goes that names it")


class CrossesOnce(_Follows):
    """An object crosses once to a cluster, however many pods there name it, and again when it changes."""

    promise = "S34"

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self._crossed: Counter[tuple[str, Where]] = Counter()

    def gave(self, gave: Gave) -> None:
        home = Where(gave.giver, gave.namespace, gave.name, gave.kind)
        key = (gave.asker, home)
        objects = self.facts.objects
        self._crossed[key] += 1
        copies = [one for one, of in objects.original.items() if of == home and one.cluster == gave.asker]
        lost = sum(not one.ours or one.content is None for copy in copies for one in objects.was[copy])
        most = 2 * (len(objects.was.get(home, ())) + lost + self._forgotten(home, gave.asker))
        if self._crossed[key] > most and self._calm(gave):
            self.say(f"{gave.giver}/{gave.name}", f"has crossed {self._crossed[key]} times to {gave.asker}")

    def _forgotten(self, home: Where, asker: str) -> int:
        """How often it may not be known any more by which key a digest is made, or a Namespace said something else."""
        if home.kind != SECRET:
            return 0
        agents = [self.fleet.clusters[one].agent for one in (home.cluster, asker) if one in self.fleet.clusters]
        return sum(one.lives for one in agents) + len(self.facts.objects.said.get((home.cluster, home.namespace), ()))

    def _calm(self, gave: Gave) -> bool:
        """Who is in trouble may be unable to write what it is given."""
        return self._well(gave.giver) and self._well(gave.asker)

    def tick(self, now: float) -> None:
        if self.fleet.sizes.followers:
            self._look()


class CopiesGo(_Follows):
    """A copy that no pod names goes after a while, and the last one in the end."""

    promise = "I8"

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self._unnamed: dict[str, float] = {}  # UID of a copy -> since when nobody names it

    def tick(self, now: float) -> None:
        if not self.fleet.sizes.followers:
            return
        self._look()
        if int(now) % 10:
            return
        since, self._unnamed = self._unnamed, {}
        for name, copy in self._left():
            uid = copy["metadata"]["uid"]
            self._unnamed[uid] = since.get(uid, now) if self._well(name, 1.0) else now
            if now - self._unnamed[uid] > UNUSED_S:
                self._say(name, copy)

    def at_end(self) -> None:
        """But for those of a pod that has just been refused again, of which each try makes new ones."""
        made_at = self.facts.objects.made_at
        for name, copy in self._left():
            if self.fleet.now - made_at[copy["metadata"]["uid"]] > TRIED_S:
                self._say(name, copy)

    def _left(self) -> Iterator[tuple[str, Object]]:
        for name, cluster in self.fleet.clusters.items():
            for copy in left_of({kind: cluster.api.store.all(kind) for kind in _KINDS}, cluster.api.pods()):
                if by_product(self.facts.objects.made.get(copy["metadata"]["uid"], "")):
                    yield name, copy

    def _say(self, cluster: str, copy: Object) -> None:
        self.say(f"{cluster}/{copy['metadata']['name']}", "is still there, and no pod names it")


def left_of(objects: Mapping[str, Iterable[Kept]], pods: list[Object]) -> Iterator[Object]:
    """Copies, and notes of copies, that nobody names. `objects`: by the path of all of a kind."""
    named = {(pod["metadata"]["namespace"], one.kind, one.name) for pod in pods for one in named_by(pod)}
    for resource, of in objects.items():
        for kept in of:
            meta, kind = kept.obj["metadata"], kind_of_copy(kept.obj, _KINDS[resource])
            if COPY in (meta.get("labels") or {}) and (meta["namespace"], kind, meta["name"]) not in named:
                yield kept.obj
