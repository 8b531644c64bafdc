"""Secrets that follow pods to other clusters, by consent of both."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from shared.messages.relay import SignedAsk, decode_ask, decode_signed, decode_signed_given, encode_relay
from shared.security.sealing import Seal
from tests.simulation.acts.secrets import restarted_with
from tests.simulation.planted.followers import FOLLOW, _is
from tests.simulation.planted.scripted import Hint, Scene, Wait
from tests.simulation.planted.table import Patches, plant
from tests.simulation.world.apiserver import NAMESPACES, status
from tests.simulation.world.fleet import Sizes
from tests.simulation.world.objects import Object, Place

THREE = Sizes(nodes=1, followers=True)


def _running(at: Scene, *names: str, follow: str = "west") -> Iterator[Wait]:
    """These pods run in west, and have brought a Secret."""
    yield 12.0  # agents know what follows to whom
    at.put_secret(1, follow=follow)
    yield 5.0
    for name in names:
        at.submit(name, "west", 100, names=["$pass"])
    yield at.shows("Running", *names)


def followed_by_a_secret(at: Scene) -> Iterator[Wait]:
    """A pod goes, and its Secret with it."""
    yield from _running(at, "a")


def kept_from_the_start(at: Scene) -> Iterator[Wait]:
    """A pod names a Secret that its owner lets follow to another cluster alone."""
    yield 12.0
    at.put_secret(1, follow="east")
    at.submit("a", "west", 100, names=["$pass"])
    yield 15.0


def narrowed_later(at: Scene) -> Iterator[Wait]:
    """The owner of a Secret lets it follow to another cluster alone, and then changes it."""
    yield from _running(at, "a")
    yield 95.0
    at.put_secret(1, follow="east")
    yield 45.0
    at.put_secret(2)
    yield 45.0


def row_taken_back(at: Scene) -> Iterator[Wait]:
    """The target takes copies of other Secrets alone from now on; a pod runs on, and the Secret is changed at home."""
    yield from _running(at, "a")
    west = at.cluster("west")
    restarted_with(at.stage, west, lambda: west.take_secrets("other"))
    yield 85.0
    at.put_secret(2)
    yield 45.0
    restarted_with(at.stage, west, lambda: west.take_secrets("*"))
    yield 10.0


def of_another_type_later(at: Scene) -> Iterator[Wait]:
    """A Secret is replaced by one of its name and of another type while a pod runs that has brought it."""
    yield from _running(at, "a")
    yield 75.0
    at.put_secret(2, follow="west", kind="kubernetes.io/basic-auth", anew=True)
    yield 90.0


def of_a_controllers_type(at: Scene) -> Iterator[Wait]:
    """A Secret is replaced by one of which the controllers of the target would make a token."""
    yield from _running(at, "a")
    at.put_secret(2, follow="west", kind="kubernetes.io/service-account-token", anew=True)
    yield 60.0


def written_over_by_hand(at: Scene) -> Iterator[Wait]:
    """A user in the target writes into a copy."""
    yield from _running(at, "a")
    yield 75.0
    for path in at.copied_secrets("west"):
        at.cluster("west").api.ask("hostile", "PATCH", path, {"data": {"text": "bWluZQ=="}})
    yield 90.0


def gone_while_nobody_looked(at: Scene) -> Iterator[Wait]:
    """The agent of the target dies, and the pod that has brought a Secret goes before there is another one."""
    yield from _running(at, "a")
    at.cluster("west").agent.kill()
    at.delete("a")
    for pod in at.copies("west"):
        meta = pod["metadata"]
        path = f"{NAMESPACES}/default/pods/{meta['name']}"
        at.cluster("west").api.ask("admin", "PATCH", path, {"metadata": {"finalizers": None}})
        at.cluster("west").api.ask("admin", "DELETE", path, {"gracePeriodSeconds": 0})
    yield 5.0
    at.spawn(at.cluster("west").agent.start())
    yield 20.0


def new_key_at_home(at: Scene) -> Iterator[Wait]:
    """The agent at home has a new key from now on, and a Secret is changed."""
    yield from _running(at, "a")
    yield 20.0
    at.act("key-rotated", "north")
    yield 90.0
    at.put_secret(2)
    yield 80.0


def asked_wrongly(at: Scene) -> Iterator[Wait]:
    """The agent of a third cluster asks for what pods brought to another one, and sends on what that has asked."""
    yield from _running(at, "a", follow="west,east")
    at.act("asks-wrongly", "east")
    yield 10.0


def asked_for_more(at: Scene) -> Iterator[Wait]:
    """The agent of the target asks for a Secret that no pod there names, though its owner would let it follow."""
    at.put_secret(1, "lent", follow="west")
    yield from _running(at, "a")
    at.act("asks-wrongly", "west")
    yield 10.0


def refused_with_its_text(at: Scene) -> Iterator[Wait]:
    """A webhook of the target refuses copies, and says what is in them."""
    yield 12.0
    hooks = at.cluster("west").api.hooks
    hooks.append(_tells)
    at.put_secret(1, follow="west")
    at.submit("a", "west", 100, names=["$pass"])
    yield 20.0
    hooks.remove(_tells)


def _tells(actor: str, place: Place, obj: Object) -> Any:
    if not place.resource.endswith("/secrets"):
        return None
    return status(403, f'admission webhook "w.example.com" denied the request: bad data: {obj["data"]}', "Forbidden")


class _Thief:
    """A gateway that asks in place of who asks, by a key of its own, and looks at the answer."""

    def __init__(self, scene: Scene) -> None:
        self._scene, self._seal, self._ask = scene, Seal(), b""

    def __call__(self, body: bytes) -> bytes:
        """Of one frame, what is passed on."""
        if _is(body, decode_signed) and _is(decode_signed(body).ask, decode_ask):
            signed = decode_signed(body)
            ask = decode_ask(signed.ask)
            self._ask = encode_relay(SignedAsk(_with_seal(ask, self._seal.public), signed.signature))
            return self._ask
        if self._ask and not _is(body, decode_signed_given):
            with suppress(ValueError):
                self._scene.fleet.crossed(self._seal.opened(body, self._ask))
        return body


def _with_seal(ask: Any, seal: bytes) -> bytes:
    return encode_relay(msgspec.structs.replace(ask, seal=seal))


def asked_by_a_gateway(at: Scene) -> Iterator[Wait]:
    """Who passes a question on puts a key of its own into it."""
    yield 12.0
    at.fleet.relays.between = _Thief(at)
    at.put_secret(1, follow="west")
    at.submit("a", "west", 100, names=["$pass"])
    yield 20.0
    at.fleet.relays.between = lambda body: body


def restored_after_consent(at: Scene) -> Iterator[Wait]:
    """The target is restored to when a copy was there whose owner has taken consent back since."""
    yield from _running(at, "a")
    restore = at.back_up("west")
    at.put_secret(1, follow="none")
    yield lambda: not at.copied_secrets("west")
    restore()
    yield 130.0


def restored_to_before_its_pods(at: Scene) -> Iterator[Wait]:
    """Home is restored to when it had none of its pods; another one is made, and then the Secret changes."""
    yield 12.0
    at.put_secret(1, follow="west")
    restore = at.back_up("north")
    orphans = [f"a{number}" for number in range(7)]
    for name in orphans:
        at.submit(name, "west", 100, names=["$pass"])
    yield at.shows("Running", *orphans)
    restore()
    yield 5.0
    at.submit("b", "west", 100, names=["$pass"])
    yield at.shows("Running", "b")
    yield 10.0
    at.put_secret(2)
    yield 105.0


@plant("a Secret is given whatever its owner says", hint=Hint(kept_from_the_start, THREE))
def given_without_consent(patches: Patches) -> None:
    from agents.executor.objects import consent
    from agents.executor.objects.consent import Owner

    def of_owner(*_: Any) -> Any:
        yield from ()
        return Owner()

    patches.set(consent, "of_owner", of_owner)


@plant("what the owner of a Secret said once holds for good", hint=Hint(narrowed_later, THREE))
def consent_remembered(patches: Patches) -> None:
    from agents.executor.objects import consent
    from agents.executor.objects.consent import Owner

    real = consent.of_owner
    said: dict[tuple[str, str], Owner] = {}

    def of_owner(kind: str, namespace: str, name: str, cluster: str, body: Any) -> Any:
        owner = said.get((name, cluster)) or (yield from real(kind, namespace, name, cluster, body))
        if kind == "Secret" and not owner.why:
            said[name, cluster] = owner
        return owner

    patches.set(consent, "of_owner", of_owner)


@plant("a copy stays though its owner has taken consent back", hint=Hint(narrowed_later, THREE))
def kept_taken_for_denied(patches: Patches) -> None:
    from agents.executor.objects import copies
    from shared.messages.relay import DENIED, WITHDRAWN, Given

    real = copies._apply

    def apply(original: Any, given: Any, local: Any, now: Any) -> Any:
        return real(original, Given(DENIED, text=given.text) if given.state == WITHDRAWN else given, local, now)

    patches.set(copies, "_apply", apply)


@plant("a target goes on with copies that it does not take any more", hint=Hint(row_taken_back, FOLLOW))
def taken_without_a_row(patches: Patches) -> None:
    from agents.executor.crossing.policy import Grants

    patches.set(Grants, "takes", lambda self, kind, name: True)


@plant("the answer is not sealed", hint=Hint(followed_by_a_secret, FOLLOW))
def answers_in_clear(patches: Patches) -> None:
    from shared.security import sealing

    patches.set(sealing, "sealed", lambda public, ask, answer: answer)
    patches.set(sealing.Seal, "opened", lambda self, sealed, ask: bytes(sealed))


@plant("digests of Secrets need no key", hint=Hint(followed_by_a_secret, FOLLOW))
def digests_without_a_key(patches: Patches) -> None:
    import hashlib

    from agents.executor.objects import contents
    from agents.executor.relayed import giving
    from agents.runtime.relay import fetching

    def digest_of(encoded: bytes, key: bytes = b"") -> bytes:
        return hashlib.sha256(encoded).digest()

    for module in (contents, giving, fetching):
        patches.set(module, "digest_of", digest_of)


@plant("any cluster may ask in the name of another", hint=Hint(asked_wrongly, THREE))
def asked_in_anothers_name(patches: Patches) -> None:
    from shared.security import signatures

    patches.set(signatures, "is_ask_of", lambda *_: True)


@plant("a question is answered to whoever sends it on", hint=Hint(asked_wrongly, THREE))
def questions_good_twice(patches: Patches) -> None:
    from agents.executor.relayed import relay
    from shared.messages.relay import decode_ask, decode_signed

    real = relay.checked_ask

    def checked(body: bytes, challenge: bytes, *rest: Any) -> Any:
        return real(body, decode_ask(decode_signed(body).ask).challenge, *rest)

    patches.set(relay, "checked_ask", checked)


@plant("who passes a question on may change its key", hint=Hint(asked_by_a_gateway, FOLLOW))
def sealed_to_any_key(patches: Patches) -> None:
    from shared.security import signatures

    patches.set(signatures, "is_ask_of", lambda *_: True)


@plant("what a pod of the asker does not name is given", hint=Hint(asked_for_more, FOLLOW))
def given_beyond_what_is_named(patches: Patches) -> None:
    from agents.executor.relayed import giving

    def named(ask: Any, wants: Any, local: Any) -> Any:
        yield from ()
        return frozenset((one.kind, one.name) for one in wants.objects)

    patches.set(giving, "_named", named)


@plant("a copy keeps its type", hint=Hint(of_another_type_later, FOLLOW))
def types_stay(patches: Patches) -> None:
    from agents.executor.objects import copies

    patches.set(copies, "_takes", lambda there, content: True)


@plant("Secrets of any type follow", hint=Hint(of_a_controllers_type, FOLLOW))
def types_unchecked(patches: Patches) -> None:
    from agents.executor.objects.contents import Content

    patches.set(Content, "barred", "")


@plant("a copy that is here is not looked at again", hint=Hint(written_over_by_hand, FOLLOW))
def edits_unseen(patches: Patches) -> None:
    from agents.executor.duties import copy_upkeep

    patches.set(copy_upkeep, "CHECK_S", float("inf"))


@plant("no note is made of copies of Secrets", hint=Hint(gone_while_nobody_looked, FOLLOW))
def copies_not_noted(patches: Patches) -> None:
    from agents.executor.objects import copy_notes

    def written(*_: Any) -> Any:
        yield from ()

    patches.set(copy_notes, "written", written)


@plant("a new key of a cluster is not learned", hint=Hint(new_key_at_home, FOLLOW))
def new_keys_unknown(patches: Patches) -> None:
    from shared.security.keys import TrustedKeys

    real = TrustedKeys.of
    first: dict[str, tuple[str, ...]] = {}
    patches.set(TrustedKeys, "of", lambda self, uid: first.setdefault(uid, real(self, uid)) or first.pop(uid))


@plant("pods by which nothing is given are asked by again", hint=Hint(restored_to_before_its_pods, FOLLOW))
def orphans_asked_by(patches: Patches) -> None:
    from agents.executor.objects import copies

    patches.set(copies, "_note_denial", lambda *_: None)


@plant("an event says what a webhook says of a Secret", hint=Hint(refused_with_its_text, FOLLOW))
def told_in_clear(patches: Patches) -> None:
    from agents.executor.objects import copies
    from shared.kube.verdicts import error_text

    patches.set(copies, "_told", lambda original, response: error_text(response))


@plant("a restored copy of a Secret is believed to be gone", hint=Hint(restored_after_consent, FOLLOW))
def restored_secrets_unseen(patches: Patches) -> None:
    from agents.executor.objects import copies
    from agents.executor.objects.contents import SECRET

    real, removed = copies._remove, set()

    def remove(original: Any, local: Any, now: Any) -> Any:
        if original.kind == SECRET and original in removed:
            return None
        removed.add(original)
        return (yield from real(original, local, now))

    patches.set(copies, "_remove", remove)
