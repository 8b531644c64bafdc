"""ConfigMaps that follow pods to other clusters."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tests.simulation.judges.facts import PREFIX
from tests.simulation.planted.scripted import OBJECTS, Hint, Scene, Wait
from tests.simulation.planted.table import Patches, plant
from tests.simulation.world.fleet import Sizes

FOLLOW = Sizes(clusters=("north", "west"), nodes=1, followers=True)


def _running(at: Scene, *names: str, objects: str = "shared") -> Iterator[Wait]:
    """These pods run in west, and have brought what they name."""
    yield 12.0  # agents know what follows to whom
    at.put_object("shared", "first")
    yield 5.0
    for name in names:
        at.submit(name, "west", 100, names=objects.split())
    yield at.shows("Running", *names)


def changed_at_home(at: Scene) -> Iterator[Wait]:
    """What a pod names is changed."""
    yield from _running(at, "a")
    yield 75.0
    at.put_object("shared", "second")
    yield 80.0


def changed_before_the_next(at: Scene) -> Iterator[Wait]:
    """It is changed, and at once another pod is made that names it; a few times, for copies follow in a while."""
    yield from _running(at, "a")
    for number in range(4):
        at.put_object("shared", f"change {number}")
        yield 3.0
        at.submit(f"b{number}", "west", 100, names=["shared"])
        yield 5.0


def optional_and_there(at: Scene) -> Iterator[Wait]:
    """A pod calls optional what is there at home."""
    yield from _running(at, "a", objects="?shared")


def named_by_one_that_is_not_told(at: Scene) -> Iterator[Wait]:
    """A user takes the marks off a delegate, so that nobody is told what it names."""
    yield from _running(at, "a")
    at.act("copy-stripped", "west")
    yield 110.0


def replaced_by_a_users_own(at: Scene) -> Iterator[Wait]:
    """A user puts an object of their own in the place of a copy."""
    yield from _running(at, "a")
    (name,) = at.copied("west") or [""]
    at.delete_object(name, cluster="west", actor="hostile")
    at.put_object(name, "mine", cluster="west", actor="hostile")
    yield 60.0
    at.delete_object(name, cluster="west", actor="hostile")


def asked_for_more(at: Scene) -> Iterator[Wait]:
    """The agent of a cluster asks for what a pod names that runs at home."""
    yield 12.0
    at.put_object("shared", "first")
    at.submit("a", "north", 100, names=["shared"])
    yield at.shows("Running", "a")
    at.act("asks-for-more", "west")
    yield 5.0


def gone_again(at: Scene) -> Iterator[Wait]:
    """A pod that has brought an object is deleted."""
    yield from _running(at, "a")
    at.delete("a")
    yield 20.0


def many_of_one(at: Scene) -> Iterator[Wait]:
    """Pods that name one object come one after the other, to clusters that are well."""
    yield 80.0
    yield from _running(at, *(f"p{number}" for number in range(6)))
    yield 45.0


def kept_at_home_later(at: Scene) -> Iterator[Wait]:
    """The owner of what a pod has brought with it says that it follows nobody."""
    yield from _running(at, "a")
    yield 60.0
    marks = {"metadata": {"annotations": {f"{PREFIX}follow": "none"}}}
    at.cluster("north").api.ask("user", "PATCH", f"{OBJECTS}/shared", marks)
    yield 50.0


def another_pod_while_it_goes(at: Scene) -> Iterator[Wait]:
    """The deletion of a copy is slow, and another pod comes that names it."""
    yield from _running(at, "a")
    wire = at.cluster("west").wire
    wire.hang = lambda request: 8.0 * (request.method == "DELETE" and "/configmaps/" in request.path)
    at.delete("a")
    at.strike("west", "delete-object", lambda: at.submit("b", "west", 100, names=["shared"]), moment="before")
    for _ in range(2):
        yield at.shows("Running", "b")
    wire.hang = lambda _: 0.0
    yield 10.0


class _Forger:
    """A gateway that answers in place of the cluster that is asked: it can seal, as the key is in the question, and not
    sign.
    """

    def __init__(self) -> None:
        self._ask = b""

    def __call__(self, body: bytes) -> bytes:
        """Of one frame, what is passed on."""
        from agents.executor.relayed.relay import CHALLENGE
        from shared.messages.relay import (
            CONTENT,
            Given,
            GivenObjects,
            SignedGiven,
            decode_ask,
            decode_head,
            decode_signed,
            encode_relay,
        )
        from shared.security.sealing import sealed

        if len(body) == CHALLENGE or _is(body, decode_head):
            return body
        if _is(body, decode_signed):
            self._ask = body
            return body
        ask = decode_ask(decode_signed(self._ask).ask)
        count = sum(len(wants.objects) for wants in ask.wants)
        given = encode_relay(GivenObjects((Given(CONTENT, b'{"data":{"value":"forged"}}'),) * count))
        return sealed(ask.seal, self._ask, encode_relay(SignedGiven(given, b"none")))


def _is(body: bytes, decode: Callable[[bytes], object]) -> bool:
    try:
        decode(body)
    except msgspec.MsgspecError:
        return False
    return True


def written_by_a_gateway(at: Scene) -> Iterator[Wait]:
    """A gateway answers in place of the cluster that is asked."""
    yield from _running(at, "a")
    at.fleet.relays.between = _Forger()
    yield 100.0
    at.fleet.relays.between = lambda body: body


def brought_back_by_a_restore(at: Scene) -> Iterator[Wait]:
    """The target is restored to when a copy was there that nobody named any more; it had been deleted since."""
    yield from _running(at, "a")
    at.delete("a")
    yield lambda: not at.copies("west")
    restore = at.back_up("west")
    for _ in range(3):
        yield lambda: not at.copied("west")
    restore()
    yield 30.0


@plant("copies never follow their originals", hint=Hint(changed_at_home, FOLLOW))
def copies_never_refreshed(patches: Patches) -> None:
    from agents.executor.duties import copy_upkeep

    def nothing(asked: str, local: Any, now: Any) -> Any:
        local.copies.due.pop(asked, None)
        yield from ()
        return ""

    patches.set(copy_upkeep, "refresh", nothing)


@plant("the giver says SAME of any digest", hint=Hint(changed_at_home, FOLLOW))
def same_of_any_digest(patches: Patches) -> None:
    from agents.executor.relayed import giving
    from shared.messages.relay import SAME, Given

    real = giving._given

    def given(ask: Any, pod: Any, wanted: Any, *rest: Any) -> Any:
        found = yield from real(ask, pod, wanted, *rest)
        return Given(SAME) if wanted.digest and found.content else found

    patches.set(giving, "_given", given)


@plant("a copy that is there is taken as it is for a new delegate", hint=Hint(changed_before_the_next, FOLLOW))
def old_copies_are_good_enough(patches: Patches) -> None:
    from agents.executor.objects import copies, copy_objects

    real = copies.bring

    def bring(intent: Any, local: Any, now: Any) -> Any:
        keys = [
            copy_objects.key_of(copy_objects.original_of(intent.source, one.kind, one.name))
            for one in copies.followers_here(intent, local, now)
        ]
        if all(key in local.copies.known and local.copies.known[key].digest for key in keys):
            return None
        return (yield from real(intent, local, now))

    patches.set(copies, "bring", bring)


@plant("a delegate is made before its copies are there", hint=Hint(optional_and_there, FOLLOW))
def copies_not_waited_for(patches: Patches) -> None:
    from agents.executor.objects import copies

    def bring(intent: Any, local: Any, now: Any) -> Any:
        yield from ()

    patches.set(copies, "bring", bring)


@plant("copies are deleted without a look at pods", hint=Hint(named_by_one_that_is_not_told, FOLLOW))
def collected_without_a_look(patches: Patches) -> None:
    from agents.executor.duties import copy_upkeep

    def named_in(namespace: str, sought: Any) -> Any:
        yield from ()
        return set()

    patches.set(copy_upkeep, "named_in", named_in)


@plant("an object under the name of a copy is taken for one", hint=Hint(replaced_by_a_users_own, FOLLOW))
def foreign_objects_adopted(patches: Patches) -> None:
    from agents.executor.duties import copy_upkeep
    from agents.executor.objects import copies, copy_objects, find_copies

    known: dict[str, Any] = {}
    key_of, original_in = copy_objects.key_of, copy_objects.original_in

    def noted(original: Any) -> Any:
        key = key_of(original)
        known[key[2]] = original
        return key

    patches.set(copy_objects, "key_of", noted)
    for module in (copies, copy_upkeep, find_copies):
        patches.set(module, "key_of", noted)
    for module in (copies, find_copies):
        patches.set(module, "original_in", lambda meta, *of: original_in(meta, *of) or known.get(meta.name))


@plant("objects are given without a claim", hint=Hint(asked_for_more, FOLLOW))
def given_without_a_claim(patches: Patches) -> None:
    from agents.executor.objects import pods
    from agents.executor.relayed import giving

    def named(ask: Any, wants: Any, local: Any) -> Any:
        look = yield from pods.look_up(wants.pod.namespace, wants.pod.name)
        return frozenset(giving._each_named(look.body)) if look.pod is not None else "no such pod"

    patches.set(giving, "_named", named)


@plant("copies that nobody names stay", hint=Hint(gone_again, FOLLOW))
def copies_stay(patches: Patches) -> None:
    from agents.executor.context.copy_table import Copies

    patches.set(Copies, "unused", lambda self, since: iter(()))


@plant("an executor asks as if it had no copies", hint=Hint(many_of_one, FOLLOW))
def asked_for_what_is_here(patches: Patches) -> None:
    from agents.executor.objects import copies
    from shared.messages.relay import WantedObject

    patches.set(copies, "_want", lambda original, local: WantedObject(original.kind, original.name))


@plant("what is not given any more is deleted", hint=Hint(kept_at_home_later, FOLLOW))
def denied_taken_for_absent(patches: Patches) -> None:
    from agents.executor.objects import copies
    from shared.messages.relay import ABSENT, DENIED, Given

    real = copies._apply

    def apply(original: Any, given: Any, local: Any, now: Any) -> Any:
        return real(original, Given(ABSENT) if given.state == DENIED else given, local, now)

    patches.set(copies, "_apply", apply)


@plant("a copy that is being deleted counts as one that is there", hint=Hint(another_pod_while_it_goes, FOLLOW))
def deleted_under_a_new_pod(patches: Patches) -> None:
    from agents.executor.objects import copies, copy_objects

    real = copies.delete_unused

    def collected(original: Any, local: Any, now: Any) -> Any:
        local.copies.known[copy_objects.key_of(original)].removing = False
        return (yield from real(original, local, now))

    patches.set(copies, "delete_unused", collected)


@plant("what comes from another cluster need not be signed by it", hint=Hint(written_by_a_gateway, FOLLOW))
def given_by_anybody(patches: Patches) -> None:
    from shared.security import signatures

    patches.set(signatures, "is_given_by", lambda *_: True)


@plant("what a restore brings back is not looked for", hint=Hint(brought_back_by_a_restore, FOLLOW))
def restored_copies_forgotten(patches: Patches) -> None:
    from agents.executor.context.copy_table import Copies

    doubt = Copies.doubt

    def doubt_content(self: Any) -> None:
        listed = self.listed
        doubt(self)
        self.listed = listed

    patches.set(Copies, "doubt", doubt_content)
