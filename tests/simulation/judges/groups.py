"""Promises about groups: their pods start together or not at all, in one domain, and hold no room for long before."""

from collections.abc import Iterator

from tests.simulation.judges.court import Judge
from tests.simulation.judges.facts import PROXY, PodFact, claim_of

_Name = tuple[str, str, str]  # home cluster, namespace, group


class _OfGroups(Judge):
    def _groups(self) -> Iterator[tuple[_Name, list[PodFact]]]:
        """Of each group its pods that are there, and that nothing ends."""
        found: dict[_Name, list[PodFact]] = {}
        for fact in self.facts.pods.values():
            if fact.is_source and fact.group and not (fact.gone or fact.doomed or fact.ended):
                found.setdefault(fact.group_name, []).append(fact)
        yield from found.items()

    def _places(self, source: PodFact) -> list[PodFact]:
        """Copies of a pod that have a real node, the pod itself if it stays at home."""
        return [
            one
            for one in self.facts.copies.get(source.uid, ())
            if one.node and not one.node.startswith(PROXY) and not one.gone
        ]

    def _excused(self, members: list[PodFact]) -> bool:
        """Whether something went wrong of late in a cluster that any of them has to do with, or others took room."""
        clusters = {one.cluster for member in members for one in self.facts.copies.get(member.uid, ())}
        now = self.fleet.loop.time()
        moved = any(now - at < 60.0 for (cluster, _), at in self.facts.changed.items() if cluster in clusters)
        doomed = any(one.doomed for member in members for one in self.facts.copies.get(member.uid, ()))
        return moved or doomed or any(map(self.facts.in_trouble, clusters)) or not self._well()

    def _well(self) -> bool:
        """Whether one dispatcher has led all the time."""
        only = self.fleet.dispatchers["dispatcher"]
        alive = only.dispatcher is not None and not only.process.paused
        return len(self.fleet.dispatchers) == 1 and only.lives == 1 and alive and not self.fleet.lease_wire.weather.down


class NeverHalfAGroup(_OfGroups):
    """Of a group either no pod has a node, or as many as have to start together; a moment is excused.

    Once all is over and calm, pods that are missing are told why they wait.
    """

    promise = "groups"
    together_s = 15.0

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._half: dict[_Name, float] = {}

    def tick(self, now: float) -> None:
        halves = set[_Name]()
        for name, members in self._groups():
            started = [one for one in members if self._places(one)]
            if not 0 < len(started) < members[0].least:
                continue
            known = [one for one in self.facts.pods.values() if one.is_source and one.group == name[2]]
            lost = len(known) > len(members)  # of those that started with them some have ended
            if lost or self._excused(members):
                self._half.pop(name, None)
                continue
            halves.add(name)
            since = self._half.setdefault(name, now)
            if now - since > self.together_s:
                self.say("/".join(name), f"{len(started)} of least {members[0].least} pods have started, and no more")
        self._half = {name: since for name, since in self._half.items() if name in halves}

    def at_end(self) -> None:
        for name, members in self._groups():
            waiting = [one for one in members if not self._places(one)]
            started = len(members) - len(waiting)
            if started and waiting and started < members[0].least <= len(members):
                untold = [one.name for one in waiting if one.told == float("-inf")]
                if untold:
                    self.say("/".join(name), f"half of it waits and is not told why: {', '.join(untold)}")


class HeldForAMoment(_OfGroups):
    """A pod of a group is claimed for another cluster for a minute at most before it is bound, or gives that back."""

    promise = "groups"
    held_s = 60.0 + 45.0

    def tick(self, now: float) -> None:
        for _, members in self._groups():
            for one in members if int(now) % 5 == 0 else ():
                held = self.fleet.loop.time() - one.decided
                too_long = held > self.held_s and not one.node
                if too_long and not self._excused(members) and not self._lost(one):
                    self.say(one.title, f"is claimed for {held:.0f} s, and neither bound nor given back")

    def _lost(self, source: PodFact) -> bool:
        """Whether nobody can say what became of it where it was claimed for."""
        kept = self.kept(source)
        return kept is not None and self.facts.in_trouble(claim_of(kept))


class OneDomain(_OfGroups):
    """Pods of a group that stays within one cluster all have their nodes there."""

    promise = "groups"

    def tick(self, now: float) -> None:
        for name, members in self._groups():
            if members[0].within != "cluster":
                continue
            clusters = {one.cluster for member in members for one in self._places(member)}
            if len(clusters) > 1 and not self._excused(members):
                self.say("/".join(name), f"its pods have nodes in clusters {', '.join(sorted(clusters))}")
