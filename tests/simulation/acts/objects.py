"""Objects that follow pods: what users do with ConfigMaps at home, with copies, and agents that ask for too much."""

import asyncio
import random

from agents.executor.objects.copies import PeerAsk
from shared.messages.relay import PodWants, WantedObject
from shared.model.pod import PodRef
from tests.simulation.acts.secrets import path_of_secret, provide_secrets
from tests.simulation.acts.table import Act, Stage, act, config_map, naming, plain_pod
from tests.simulation.faults import Fault
from tests.simulation.judges.facts import CLAIM, PREFIX
from tests.simulation.judges.objects import COPY, SECRET
from tests.simulation.world.apiserver import FOLLOWING, NAMESPACES
from tests.simulation.world.fleet import Cluster, Fleet
from tests.simulation.world.loop import in_process
from tests.simulation.world.objects import Object, named_by

SPACES, NAMES, STAYS = ("default", "team"), ("shared", "own", "stays"), "stays"


def provide(cluster: Cluster) -> None:
    """Make all of them that are not there, and Secrets."""
    for space in SPACES:
        provide_secrets(cluster, space)
        for name in NAMES:
            marks = {"follow": "none"} if name == STAYS else {}
            made = config_map(name, f"first of {cluster.name}", **marks)
            cluster.api.ask("user", "POST", path_of_object(space), made)


def path_of_object(space: str, name: str = "") -> str:
    """Where one is."""
    return f"{NAMESPACES}/{space}/configmaps" + (f"/{name}" if name else "")


def _any(dice: random.Random) -> tuple[str, str]:
    return dice.choice(SPACES), dice.choice(NAMES[:2])


@act("config-changes")
def _changes(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """And a moment later a pod is made that has to see that."""
    space, name = _any(dice)
    cluster.api.ask("user", "PATCH", path_of_object(space, name), {"data": {"text": f"change {stage.number()}"}})
    others = [one for one in stage.fleet.clusters if one != cluster.name]
    pod = plain_pod(f"reader{stage.number()}", space, 100, clusters=",".join(others))
    cluster.api.ask("user", "POST", f"{NAMESPACES}/{space}/pods", naming(pod, [name]))
    yield


@act("config-deleted")
def _deleted(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """And made again, by other content."""
    space, name = _any(dice)
    cluster.api.ask("user", "DELETE", path_of_object(space, name))
    yield
    cluster.api.ask("user", "POST", path_of_object(space), config_map(name, f"again {stage.number()}"))


@act("config-stays")
def _stays(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """Its owner keeps it at home for a while."""
    space, name = _any(dice)
    for word in ("none", None):
        marks = {"metadata": {"annotations": {f"{PREFIX}follow": word}}}
        cluster.api.ask("user", "PATCH", path_of_object(space, name), marks)
        yield


def _copies(cluster: Cluster) -> list[Object]:
    """And notes of copies."""
    kept = (one.obj for kind in FOLLOWING.values() for one in cluster.api.store.all(kind))
    return [obj for obj in kept if COPY in obj["metadata"].get("labels", {})]


def _path_of(obj: Object) -> str:
    meta, path = obj["metadata"], path_of_secret if obj["kind"] == SECRET else path_of_object
    return path(meta["namespace"], meta["name"])


@act("copy-edited")
def _edited(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    if copies := _copies(cluster):
        cluster.api.ask("hostile", "PATCH", _path_of(dice.choice(copies)), {"data": {"text": "what I like"}})
    yield


@act("copy-deleted")
def _copy_deleted(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    if copies := _copies(cluster):
        cluster.api.ask("hostile", "DELETE", _path_of(dice.choice(copies)))
    yield


@act("copy-replaced")
def _replaced(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """By an object of a user's own."""
    copies = [one for one in _copies(cluster) if one["kind"] != SECRET]
    if not copies:
        return
    meta = dice.choice(copies)["metadata"]
    path = path_of_object(meta["namespace"], meta["name"])
    cluster.api.ask("hostile", "DELETE", path)
    cluster.api.ask("hostile", "POST", path_of_object(meta["namespace"]), config_map(meta["name"], "mine"))
    yield
    if (cluster.api.store.look(path) or {}).get("data") == {"text": "mine"}:
        cluster.api.ask("hostile", "DELETE", path)


@act("copy-stripped")
def _stripped(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """A user there takes off a delegate what says that objects follow it."""
    pods = [pod for pod in cluster.api.pods() if f"{PREFIX}follows" in pod["metadata"].get("annotations", {})]
    if pods:
        meta = dice.choice(pods)["metadata"]
        path = f"{NAMESPACES}/{meta['namespace']}/pods/{meta['name']}"
        stage.fleet.meddled.add(path)
        cluster.api.ask("hostile", "PATCH", path, {"metadata": {"annotations": {f"{PREFIX}follows": None}}})
    yield


@act("asks-for-more")
def _asks(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """The agent of this cluster has fallen to a user, who asks every other one for what no pod brings here."""
    for other in stage.fleet.clusters.values():
        if other is not cluster:
            wanted = [pod for pod in other.api.pods() if named_by(pod) and _claim(pod) != cluster.name]
            if wanted and cluster.agent.agent is not None:
                stage.spawn(_ask(stage.fleet, cluster, other, dice.choice(wanted)))
    yield


def _claim(pod: Object) -> str:
    return str(pod["metadata"].get("annotations", {}).get(CLAIM, ""))


async def _ask(fleet: Fleet, cluster: Cluster, other: Cluster, pod: Object) -> None:
    meta, agent = pod["metadata"], cluster.agent.agent
    assert agent is not None
    objects = tuple(WantedObject(one.kind, one.name) for one in named_by(pod))
    system = other.api.store.look(f"{NAMESPACES}/kube-system") or {"metadata": {"uid": ""}}
    ask = PeerAsk(
        "GET",
        "objects",
        cluster=other.name,
        cluster_uid=system["metadata"]["uid"],
        wants=(PodWants(PodRef(meta["namespace"], meta["name"], meta["uid"]), objects),),
    )
    await in_process(cluster.agent.process, lambda: asyncio.ensure_future(agent._fetching.send(ask)))


@act("relay-cut")
def _cut(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """Agents do not hear each other, though dispatchers hear them."""
    for weather in stage.links(fault.cluster):
        weather.relay_cut = True
    yield
    for weather in stage.links(fault.cluster):
        weather.relay_cut = False


@act("relay-slow")
def _slow(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    for weather in stage.links(fault.cluster):
        weather.relay_late_s = 8.0
    yield
    for weather in stage.links(fault.cluster):
        weather.relay_late_s = 0.0
