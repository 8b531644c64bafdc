"""Secrets that follow pods: consent that comes and goes on either side, other keys, and agents that ask for others'."""

import asyncio
import random
from collections.abc import Callable, Iterator

from agents.executor.context.local import Local
from shared.messages.relay import (
    OBJECTS,
    PodWants,
    RelayAsk,
    RelayOpen,
    SignedAsk,
    WantedObject,
    encode_relay,
)
from shared.model.pod import PodRef, SourceRef
from shared.security.sealing import Seal
from shared.streams.relayed import StreamReset
from tests.simulation.acts.table import Act, Stage, act, naming, plain_pod
from tests.simulation.faults import CLUSTERS, Fault
from tests.simulation.judges.facts import CLAIM, PREFIX
from tests.simulation.judges.objects import SECRETS_FOLLOW, TYPES
from tests.simulation.world.apiserver import NAMESPACES
from tests.simulation.world.fleet import Cluster, Fleet
from tests.simulation.world.keys import key_file
from tests.simulation.world.loop import in_process
from tests.simulation.world.objects import Object, named_by
from tests.simulation.world.secrets import secret

OWN, LENT = "pass", "lent"  # what its own annotation lets go, and what its Namespace does
EVERYWHERE = ",".join((*CLUSTERS, "south"))
NOBODYS = ("kubernetes.io/service-account-token", "helm.sh/release.v1")
ANSWER_S = 30.0
Ask = Callable[[bytes], bytes]  # what is sent in answer to a challenge


def path_of_secret(space: str, name: str = "") -> str:
    """Where one is."""
    return f"{NAMESPACES}/{space}/secrets" + (f"/{name}" if name else "")


def provide_secrets(cluster: Cluster, space: str, number: int = 0) -> None:
    """Make all of them that are not there."""
    _say(cluster, space, EVERYWHERE)
    for name in (OWN, LENT):
        _make(cluster, space, name, number)


def _make(cluster: Cluster, space: str, name: str, number: int, kind: str = TYPES[0]) -> None:
    follow = EVERYWHERE if name == OWN else None
    cluster.api.ask("user", "POST", path_of_secret(space), secret(cluster.name, space, name, number, kind, follow))


def _say(cluster: Cluster, space: str, words: str | None) -> None:
    marks = {"metadata": {"annotations": {SECRETS_FOLLOW: words}}}
    cluster.api.ask("user", "PATCH", f"{NAMESPACES}/{space}", marks)


def _follow(cluster: Cluster, space: str, words: str) -> None:
    marks = {"metadata": {"annotations": {f"{PREFIX}follow": words}}}
    cluster.api.ask("user", "PATCH", path_of_secret(space, OWN), marks)


def _space(dice: random.Random) -> str:
    return dice.choice(("default", "team"))


def write_anew(cluster: Cluster, space: str, name: str, number: int) -> None:
    """Another text."""
    data = secret(cluster.name, space, name, number)["data"]
    cluster.api.ask("user", "PATCH", path_of_secret(space, name), {"data": data})


@act("secret-changes")
def _changes(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """And a moment later a pod is made that has to see that."""
    space, name, number = _space(dice), dice.choice((OWN, LENT)), stage.number()
    write_anew(cluster, space, name, number)
    others = [one for one in stage.fleet.clusters if one != cluster.name]
    pod = plain_pod(f"trusted{number}", space, 100, clusters=",".join(others))
    cluster.api.ask("user", "POST", f"{NAMESPACES}/{space}/pods", naming(pod, [f"${name}"]))
    yield


@act("secret-kept")
def _kept(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """Its owner takes back that it may follow anybody, and changes it; then gives it anew."""
    space = _space(dice)
    _follow(cluster, space, "none")
    write_anew(cluster, space, OWN, stage.number())
    yield
    _follow(cluster, space, EVERYWHERE)


@act("secret-narrowed")
def _narrowed(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """Or lets it follow to one cluster alone."""
    space = _space(dice)
    _follow(cluster, space, dice.choice(CLUSTERS))
    yield
    _follow(cluster, space, EVERYWHERE)


@act("namespace-keeps")
def _namespace_keeps(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    space = _space(dice)
    _say(cluster, space, dice.choice((None, "none", dice.choice(CLUSTERS))))
    yield
    _say(cluster, space, EVERYWHERE)


@act("secret-replaced")
def _replaced(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """Another one of its name, of another type, which may be one that follows nobody."""
    space, name = _space(dice), dice.choice((OWN, LENT))
    for kind in (dice.choice((*TYPES[1:3], *NOBODYS)), TYPES[0]):
        cluster.api.ask("user", "DELETE", path_of_secret(space, name))
        _make(cluster, space, name, stage.number(), kind)
        yield


@act("secret-deleted")
def _deleted(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    space, name = _space(dice), dice.choice((OWN, LENT))
    cluster.api.ask("user", "DELETE", path_of_secret(space, name))
    yield
    _make(cluster, space, name, stage.number())


@act("row-narrowed")
def _row(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """The admin of this cluster takes copies of other names alone, for a while."""
    for patterns in (("other",), ("*",)):
        restarted_with(stage, cluster, lambda patterns=patterns: cluster.take_secrets(*patterns))  # type: ignore[misc]
        yield


@act("key-rotated")
def _rotated(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """Its agent begins anew, and signs by a new key."""

    def rotate() -> None:
        cluster.turns += 1
        changed = {"key_file": key_file(cluster.name, cluster.turns)}
        cluster.agent.settings = cluster.agent.settings.model_copy(update=changed)

    if cluster.agent.wire is cluster.wire:
        restarted_with(stage, cluster, rotate)
    yield


def restarted_with(stage: Stage, cluster: Cluster, change: Callable[[], None]) -> None:
    """Its agent ends, and begins anew after this."""
    cluster.agent.kill()
    change()
    stage.spawn(cluster.agent.start())


# --- agents that have fallen to a user


@act("asks-wrongly")
def _asks(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """The agent of this cluster asks others for Secrets that its pods do not name, or in others' names."""
    for other in stage.fleet.clusters.values():
        if other is not cluster and cluster.agent.agent is not None:
            for opening, ask in asked_wrongly(stage.fleet, cluster, other):
                stage.spawn(_send(stage.fleet, cluster, opening, ask))
    yield


def asked_wrongly(fleet: Fleet, cluster: Cluster, other: Cluster) -> Iterator[tuple[bytes, Ask]]:
    """Questions that are none of this cluster's: how a stream is opened, and what is asked over it."""
    agent = cluster.agent.agent
    local = agent._fetching._local if agent is not None else None
    for pod in other.api.pods():
        claim = pod["metadata"].get("annotations", {}).get(CLAIM, "")
        if local is None or not claim:
            continue
        opening = encode_relay(RelayOpen(other.name, pod["metadata"]["uid"]))
        if claim == cluster.name:
            names = {one.name for one in named_by(pod)}
            yield opening, _asks_of(local, other, pod, [name for name in (OWN, LENT) if name not in names])
        else:
            victim = fleet.clusters.get(claim)
            yield opening, _asks_of(local, other, pod, [one.name for one in named_by(pod)], victim)
    for asked, question in [*fleet.relays.questions][-3:]:
        if asked == other.name:
            yield encode_relay(RelayOpen(other.name, "none")), lambda _, question=question: question  # type: ignore[misc]


def _asks_of(local: Local, other: Cluster, pod: Object, names: list[str], as_of: Cluster | None = None) -> Ask:
    """`as_of`: in the name of that cluster."""
    meta = pod["metadata"]
    wants = PodWants(
        PodRef(meta["namespace"], meta["name"], meta["uid"]), tuple(WantedObject("Secret", one) for one in names)
    )
    source = SourceRef(other.name, _uid_of(other), meta["namespace"], meta["name"], meta["uid"], 0)
    target = (local.cluster, local.cluster_uid) if as_of is None else (as_of.name, _uid_of(as_of))

    def ask(challenge: bytes) -> bytes:
        seal = Seal().public
        body = encode_relay(
            RelayAsk(source, *target, challenge, OBJECTS, "GET", wants=(wants,), nonce=b"n" * 16, seal=seal)
        )
        return encode_relay(SignedAsk(body, local.keys.sign_ask(body)))

    return ask


def _uid_of(cluster: Cluster) -> str:
    system = cluster.api.store.look(f"{NAMESPACES}/kube-system") or {"metadata": {"uid": ""}}
    return str(system["metadata"]["uid"])


async def _send(fleet: Fleet, cluster: Cluster, opening: bytes, ask: Ask) -> None:
    async def sent() -> None:
        try:
            async with asyncio.timeout(ANSWER_S):
                for stream in fleet.relays.of(cluster.agent)(opening):
                    await stream.write(ask(await stream.read()))
                    while await stream.read():
                        pass
                    stream.finish()
        except (TimeoutError, StreamReset):
            pass

    await in_process(cluster.agent.process, lambda: asyncio.ensure_future(sent()))
