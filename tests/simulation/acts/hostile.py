"""Hostile users: what anybody may do who can write pods of a namespace."""

import hashlib
import random

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shared.model.pod import SourceRef
from shared.security import signatures
from shared.security.signatures import SignedClaim
from tests.simulation.acts.table import Act, Stage, act, plain_pod, pods_of
from tests.simulation.faults import Fault
from tests.simulation.judges.facts import CLAIM, EPOCH, FINALIZER, PREFIX, PROXY, SOURCE_UID, PodFact
from tests.simulation.world.apiserver import NAMESPACES
from tests.simulation.world.controllers import path_of
from tests.simulation.world.fleet import Cluster
from tests.simulation.world.objects import Object

KEY = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"the key of one who is hostile").digest())


def _annotate(stage: Stage, cluster: Cluster, pod: Object, changes: dict[str, str | None]) -> None:
    path = path_of(pod)
    stage.fleet.meddled.add(path)
    cluster.api.ask("hostile", "PATCH", path, {"metadata": {"annotations": changes}})


def _forged(stage: Stage, victim: PodFact, target: str) -> str:
    """A claim as the victim's cluster would sign it, with a key of one's own."""
    home = stage.fleet.clusters.get(victim.cluster)  # it may have burnt down
    system = home.api.kept(f"{NAMESPACES}/kube-system") if home else None
    uid = system.obj["metadata"]["uid"] if system else ""
    source = SourceRef(victim.cluster, uid, victim.namespace, victim.name, victim.uid, 1)
    node = stage.fleet.clusters[target].nodes[0]
    return signatures.sign_claim(KEY, SignedClaim(source, target, "", node, signatures.digest_of(b"{}")))


@act("forge-delegate")
def _forge_delegate(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """A pod of one's own, dressed as the delegate of somebody else's pod; deleted after a while."""
    victims = [one for one in stage.facts.pods.values() if one.is_source and one.cluster != fault.cluster]
    if not victims:
        return
    victim = dice.choice(victims)
    name, scheduler = f"evil{stage.number()}", dice.choice(("default-scheduler", PREFIX + "delegate"))
    pod = plain_pod(name, "team", 100, scheduler=scheduler)
    pod["metadata"]["labels"][PREFIX + "delegate"] = "true"
    uid = dice.choice(("x", f"{victim.cluster}-namespace-1"))
    marks = {"source-cluster": victim.cluster, "source-cluster-uid": uid, "source-namespace": victim.namespace}
    marks |= {"source-name": victim.name, "source-uid": victim.uid, "epoch": "1"}
    marks |= {"claim": _forged(stage, victim, fault.cluster), "delegate-proof": dice.choice(("", "AAAA", "A" * 88))}
    pod["metadata"]["annotations"] = {PREFIX + key: value for key, value in marks.items() if value}
    pod["spec"]["nodeName"] = dice.choice(cluster.nodes)
    cluster.api.ask("hostile", "POST", f"{NAMESPACES}/team/pods", pod)
    yield
    cluster.api.ask("hostile", "DELETE", f"{NAMESPACES}/team/pods/{name}")


@act("forge-claim")
def _forge_claim(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    target = dice.choice([name for name in stage.fleet.clusters if name != fault.cluster])
    node = dice.choice(stage.fleet.clusters[target].nodes)
    pod = plain_pod(
        f"cheat{stage.number()}", "team", 700, cluster=target, node=node, epoch=dice.choice(("1", "9" * 17))
    )
    if dice.random() < 0.5:
        pod["metadata"]["finalizers"] = [FINALIZER]
    victims = [one for one in stage.facts.pods.values() if one.is_source and one.cluster == fault.cluster]
    if victims:
        pod["metadata"]["annotations"][PREFIX + "claim"] = _forged(stage, dice.choice(victims), target)
    stage.fleet.meddled.add(f"{NAMESPACES}/team/pods/{pod['metadata']['name']}")
    cluster.api.ask("hostile", "POST", f"{NAMESPACES}/team/pods", pod)
    yield


@act("strip-annotation")
def _strip_annotation(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    pods = pods_of(stage, cluster, source=dice.random() < 0.7)
    if pods:
        pod = dice.choice(pods)
        own = [key for key in pod["metadata"].get("annotations", {}) if key.startswith(PREFIX)]
        if own:
            _annotate(stage, cluster, pod, {dice.choice(own): None})
    yield


@act("strip-finalizer")
def _strip_finalizer(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    if pods := pods_of(stage, cluster, source=True, on_proxy=True):
        pod = dice.choice(pods)
        stage.fleet.meddled.add(path_of(pod))
        cluster.api.ask("hostile", "PATCH", path_of(pod), {"metadata": {"finalizers": None}})
    yield


@act("replay-annotation")
def _replay(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """A claim that was signed for another pod or another time: kubectl replace of an old file."""
    if pods := pods_of(stage, cluster, source=True, on_proxy=True):
        other = dice.choice([name for name in stage.fleet.clusters if name != fault.cluster])
        signed = dice.choice(pods)["metadata"].get("annotations", {}).get(PREFIX + "claim", "")
        _annotate(stage, cluster, dice.choice(pods), {CLAIM: other, EPOCH: "1", PREFIX + "claim": signed})
    yield


@act("relabel")
def _relabel(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """A delegate passed off as that of another pod, by one who may write pods in the target's namespace."""
    pods, others = pods_of(stage, cluster, source=False), [*stage.facts.copies]
    if pods and others:
        _annotate(stage, cluster, dice.choice(pods), {SOURCE_UID: dice.choice(others)})
    yield


@act("bind-to-proxy")
def _bind_to_proxy(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    target = dice.choice([name for name in stage.fleet.clusters if name != fault.cluster])
    pod = plain_pod(
        f"stow{stage.number()}", "team", 100, scheduler=dice.choice(("global-dispatcher", "default-scheduler"))
    )
    pod["spec"]["nodeName"] = PROXY + target
    name = pod["metadata"]["name"]
    cluster.api.ask("hostile", "POST", f"{NAMESPACES}/team/pods", pod)
    yield
    cluster.api.ask("hostile", "DELETE", f"{NAMESPACES}/team/pods/{name}")
