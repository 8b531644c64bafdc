"""Promises about Secrets that follow pods: by consent of both sides at that time, and in clear nowhere else."""

from base64 import b64decode, b64encode
from hashlib import sha256

import msgspec

from tests.simulation.judges.court import Judge
from tests.simulation.judges.facts import by_product
from tests.simulation.judges.followers import _Follows
from tests.simulation.judges.objects import SECRET, TYPES, Where
from tests.simulation.world.apiserver import SECRETS
from tests.simulation.world.objects import Object
from tests.simulation.world.relay import Gave
from tests.simulation.world.secrets import MARK, home_of
from tests.simulation.world.store import Write

GIVING_S = 35.0  # for which an answer may be under way in the cluster that gives it
WRITING_S = 75.0  # between the look at its owner's consent and the write of a copy
GONE_S = 30.0  # within which a copy is gone whose owner's consent is: what is asked each 20 s, and the way
_MARKS = (MARK, b64encode(MARK))
_ENCODE = msgspec.json.Encoder(order="sorted").encode


def in_clear(what: bytes) -> bool:
    """Whether the text of a Secret can be read in it."""
    return any(one in what for one in _MARKS)


class NobodyBetweenReads(Judge):
    """Neither a dispatcher, nor who passes bytes on, reads what is in a Secret, or can try guesses of it."""

    promise = "S34"

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._digests: set[bytes] = set()

    def wrote(self, write: Write) -> None:
        if write.place.resource == SECRETS and write.after is not None:
            held = {key: value for key in ("data", "immutable", "type") if (value := write.after.get(key))}
            digest = sha256(_ENCODE(held))
            self._digests |= {digest.digest(), digest.hexdigest().encode()}

    def crossed(self, what: bytes) -> None:
        if in_clear(what):
            self.say("a message to or by a dispatcher", "has the text of a Secret")
        if any(one in what for one in self._digests):
            self.say("a message by or to a dispatcher", "has a digest of a Secret for which nobody needs a key")


class ByConsent(_Follows):
    """A Secret is given, and a copy made, where its owner and the target want that; its text is nowhere else."""

    promise = "S34"

    def gave(self, gave: Gave) -> None:
        if gave.kind == SECRET:
            home = Where(gave.giver, gave.namespace, gave.name, SECRET)
            self._judge(home, gave.asker, gave.at, GIVING_S, "is given to")

    def _judge(self, home: Where, target: str, at: float, grace: float, what: str) -> None:
        if all(one.content is None for one in self.facts.objects.let_go(home, target, at - grace)):
            self.say(f"{home.cluster}/{home.name}", f"{what} {target}, which its owner does not let it")
        elif True not in self._takes(home, target, at - grace):
            self.say(f"{home.cluster}/{home.name}", f"{what} {target}, which does not take it")

    def wrote(self, write: Write) -> None:
        if write.after is None or not self.fleet.sizes.followers or not by_product(write.actor):
            return
        if write.place.resource != SECRETS:
            self._look_through(write.cluster, write.place.path, write.after)
            return
        here = Where(write.cluster, write.place.namespace, write.place.name, SECRET)
        home = self.facts.objects.original.get(here)
        if home is None:
            self.say(write.place.path, "is a Secret that the product wrote, and no copy")
        elif write.after.get("type") not in TYPES:
            self.say(write.place.path, f"is made of type {write.after.get('type')}")
        else:
            self._judge(home, write.cluster, write.at, WRITING_S, "is written in")
            text = b64decode((write.after.get("data") or {}).get("text", ""))
            if text.startswith(MARK) and home_of(text) != tuple(home[:3]):
                self.say(write.place.path, f"has the text of another Secret: {text!r}")

    def said(self, cluster: str, actor: str, event: Object) -> None:
        if by_product(actor):
            self._look_through(cluster, "an event", event)

    def _look_through(self, cluster: str, what: str, obj: Object) -> None:
        if in_clear(msgspec.json.encode(obj)):
            self.say(f"{cluster} {what}", "shows the text of a Secret")


class GoneWithConsent(_Follows):
    """While two clusters hear each other, no copy outlives the consent of its owner at home."""

    promise = "S34"

    def tick(self, now: float) -> None:
        if not self.fleet.sizes.followers:
            return
        self._look()
        if int(now) % 5:
            return
        objects, since = self.facts.objects, self.fleet.loop.time() - GONE_S
        for fact, home, here in self._named():
            there = objects.during(here, float("inf"))[0].content is not None
            if home.kind != SECRET or not there or objects.harmed(here, since):
                continue
            wanted = any(one.content is not None for one in objects.let_go(home, here.cluster, since))
            if not wanted and False not in self._takes(home, here.cluster, since):
                self.say(f"{fact.title} {home.name}", f"is in {here.cluster} though its owner keeps it at home")
