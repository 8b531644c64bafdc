"""Forged marks that are believed: one entry for each who has to verify them."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from agents.executor.crossing import manifest
from shared.messages import AnyIntent, Bind, CreateDelegate, IntentBatch, PodRef
from shared.model import names
from shared.model.pod import SourceRef
from shared.model.tenant import Share, Tenant
from shared.security import signatures
from shared.security.signatures import SignedClaim
from tests.simulation.acts import plain_pod
from tests.simulation.acts.hostile import KEY
from tests.simulation.planted.scripted import Hint, Scene, Wait
from tests.simulation.planted.table import Patches, plant
from tests.simulation.world.apiserver import NAMESPACES
from tests.simulation.world.fleet import Sizes
from tests.simulation.world.keys import key_file
from tests.simulation.world.loop import WORLD, running_loop
from tests.simulation.world.objects import Object
from tests.simulation.world.processes import LinkWeather, SimLink, title

SCARCE = Sizes(tenants=(Tenant("team", ("default",), {"cpu": Share(absolute=600)}),))
Key = Ed25519PrivateKey
NEWEST = 10**17  # an attempt above all others


# --- what they do who are hostile ------------------------------------------------------------------------------------


def _claim(at: Scene, name: str, target: str, body: bytes = b"{}", key: Key = KEY) -> tuple[SourceRef, str]:
    """A claim on a pod of cluster north as its cluster would write it, signed with another key."""
    pod, system = at.pod(name), at.cluster("north").api.kept(f"{NAMESPACES}/kube-system")
    assert pod is not None
    assert system is not None
    uids = system.obj["metadata"]["uid"], pod["metadata"]["uid"]
    source = SourceRef("north", uids[0], "default", name, uids[1], NEWEST)
    return source, signatures.sign_claim(key, SignedClaim(source, target, "", f"{target}-0", _digest(body)))


def _digest(body: bytes) -> bytes:
    return signatures.digest_of(body)


def _marked(at: Scene, name: str, target: str) -> None:
    """Its owner puts such a claim on a pod."""
    _, mark = _claim(at, name, target)
    marks = {names.CLAIM: mark, names.CLAIM_CLUSTER: target, names.CLAIM_NODE: f"{target}-0"}
    at.patch(name, {"annotations": marks, "finalizers": [names.FINALIZER]}, actor="hostile")


def _order(at: Scene, cluster: str, make: Callable[[], AnyIntent]) -> None:
    """Whoever has taken over Ray speaks as the dispatcher that leads."""
    stage = at.dispatcher.dispatcher
    assert stage is not None
    leader = stage.leader_status
    at.fleet.ranks[title(WORLD, leader.epoch)] = at.fleet.ranks[title(at.dispatcher.process, leader.epoch)]
    link = SimLink(cluster, at.cluster(cluster).agent, LinkWeather(), running_loop(), random.Random(1))
    batch = IntentBatch(leader.identity, leader.epoch, (make(),))
    at.spawn(link.execute(batch, timeout_s=15.0))


def _dressed(at: Scene, marks: dict[str, str], proof: Callable[[str], str], cluster: str = "west") -> None:
    """A pod of one's own in the dress of a delegate; the proof is for its UID."""
    pod = plain_pod("evil", "default", 100, scheduler=names.DELEGATE_SCHEDULER)
    pod["metadata"]["labels"][names.DELEGATE_LABEL] = "true"
    pod["metadata"]["annotations"] = marks
    pod["spec"]["nodeName"] = f"{cluster}-0"
    api = at.cluster(cluster).api
    api.ask("hostile", "POST", f"{NAMESPACES}/default/pods", pod)
    uid = at.pod("evil", home=cluster)["metadata"]["uid"]  # type: ignore[index]
    at.patch("evil", {"annotations": {names.DELEGATE_PROOF: proof(uid)}}, home=cluster, actor="hostile")


# --- stories ---------------------------------------------------------------------------------------------------------


def _ordered_with_a_forged_claim(at: Scene) -> Iterator[Wait]:
    """A pod runs at home; somebody orders its delegate elsewhere, with a claim that its cluster has not signed."""
    at.submit("a", "north")
    yield at.shows("Running", "a")

    def make() -> AnyIntent:
        pod: Object = at.pod("a") or {}
        body = manifest.sanitise(msgspec.json.encode(pod))
        source, mark = _claim(at, "a", "west", body)
        ref = PodRef("default", "a", source.uid)
        return CreateDelegate("x.create.1", ref, NEWEST, source, "west-0", body, record=mark)

    _order(at, "west", make)
    yield 20.0


def _bound_with_a_forged_claim(at: Scene) -> Iterator[Wait]:
    """The owner of a pod that fits nowhere claims it himself, and somebody orders to bind it to the proxy node."""
    at.submit("a", "north", 9000)
    yield 5.0
    _marked(at, "a", "west")

    def make() -> AnyIntent:
        pod: Object = at.pod("a") or {}
        ref = PodRef("default", "a", pod["metadata"]["uid"])
        return Bind("x.proxy.1", ref, NEWEST, names.proxy_node_name("west"), proxy=True)

    _order(at, "north", make)
    yield 20.0
    at.delete("a")
    yield 5.0


def _claimed_for_no_cluster(at: Scene) -> Iterator[Wait]:
    """The owner of a pod that waits for its quota claims it for a cluster that does not exist; then there is quota."""
    at.submit("a", "north", 600)
    yield at.shows("Running", "a")
    at.submit("b", "north", 600)
    yield 5.0
    _marked(at, "b", "nowhere")
    yield 5.0
    at.delete("a")
    yield 60.0


def _copied_claim(at: Scene) -> Iterator[Wait]:
    """A pod with the claim of a genuine delegate and a proof of nobody is deleted by its owner."""
    at.submit("a", "west")
    yield at.shows("Running", "a")
    genuine = at.copies("west")[0]["metadata"]["annotations"]
    _dressed(at, {key: value for key, value in genuine.items() if key != names.DELEGATE_PROOF}, lambda _: "A" * 86)
    yield 10.0
    at.delete("evil", home="west")
    yield 20.0


def _forged_by_an_admin(at: Scene) -> Iterator[Wait]:
    """An admin of one cluster signs for the delegate of a pod that another cluster runs itself."""
    at.submit("a", "north")
    yield at.shows("Running", "a")
    key = load_pem_private_key(Path(key_file("west")).read_bytes(), None)
    assert isinstance(key, Ed25519PrivateKey)
    _, mark = _claim(at, "a", "west", key=key)
    _dressed(at, {names.CLAIM: mark}, lambda uid: signatures.sign_proof(key, uid, mark))
    yield 20.0


# --- the faults ------------------------------------------------------------------------------------------------------


def _believing(patches: Patches, module: Any, **judges: Any) -> None:
    """`module` reads marks by other judges than the product's; nobody else does."""
    shim = SimpleNamespace(**{**vars(signatures), **judges})
    patches.set(module, "signatures", shim)


@plant("the target's executor does not verify claims", hint=Hint(_ordered_with_a_forged_claim))
def target_believes_claims(patches: Patches) -> None:
    from agents.executor.intents import delegate

    patches.set(delegate, "unsigned", lambda intent, local: None)


@plant("the home's executor does not verify claims", hint=Hint(_bound_with_a_forged_claim))
def home_believes_claims(patches: Patches) -> None:
    from agents.executor.objects import pods

    _believing(patches, pods, is_claim_of=lambda keys, mark: True)


@plant("neither the home's observer nor the dispatcher verifies claims", hint=Hint(_claimed_for_no_cluster, SCARCE))
def observer_believes_claims(patches: Patches) -> None:
    from agents.observer import mark_verifier

    _believing(patches, mark_verifier, is_claim_of=lambda keys, mark: True)
    dispatcher_believes_claims(patches)


@plant("the target's observer does not verify proofs", hint=Hint(_copied_claim))
def observer_believes_proofs(patches: Patches) -> None:
    from agents.observer import mark_verifier

    _believing(patches, mark_verifier, is_proof_of=lambda keys, uid, claim, proof: True)


@plant("the dispatcher does not verify claims of delegates", hint=Hint(_forged_by_an_admin))
def dispatcher_believes_claims(patches: Patches) -> None:
    from dispatcher.scheduling.core import reports

    patches.set(reports, "is_claim_of", lambda keys, mark: True)
