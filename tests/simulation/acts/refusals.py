"""What a cluster refuses, changes or holds up."""

import random
from collections.abc import Callable

from tests.simulation.acts.table import Act, Stage, act
from tests.simulation.faults import Fault
from tests.simulation.world.apiserver import NAMESPACES, PODS, Reply, status
from tests.simulation.world.fleet import Cluster
from tests.simulation.world.net import Asked
from tests.simulation.world.objects import Object, Place


def _refusal(code: int, text: str, namespace: str) -> Callable[[str, Place, Object], Reply | None]:
    def hook(actor: str, place: Place, obj: Object) -> Reply | None:
        away = place.resource == PODS and place.namespace == namespace and actor.startswith("agent/")
        return status(code, text, "Forbidden") if away else None

    return hook


@act("no-namespace")
def _no_namespace(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    cluster.api.ask("admin", "DELETE", f"{NAMESPACES}/{dice.choice(('team', 'default'))}")
    yield


@act("webhook-refuses")
def _webhook_refuses(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    text = 'admission webhook "policy.example.com" denied the request: no'
    cluster.api.hooks.append(_refusal(dice.choice((400, 403)), text, "team"))
    stage.fleet.closed.add((fault.cluster, "team"))
    yield


@act("quota-refuses")
def _quota_refuses(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    cluster.api.hooks.append(_refusal(403, "exceeded quota: compute, requested: cpu=300m, used: cpu=0", "team"))
    stage.fleet.closed.add((fault.cluster, "team"))
    yield


@act("sidecar")
def _sidecar(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    cpu = dice.choice((200, 500))

    def hook(actor: str, place: Place, obj: Object) -> Reply | None:
        if place.resource == PODS and place.namespace == "team" and actor.startswith("agent/"):
            proxy = {"name": "istio-proxy", "image": "x", "resources": {"requests": {"cpu": f"{cpu}m"}}}
            obj["spec"]["containers"].append(proxy)
        return None

    if (fault.cluster, "team") not in stage.fleet.sidecars:
        cluster.api.hooks.append(hook)
        stage.fleet.sidecars[fault.cluster, "team"] = cpu
    yield


@act("webhook-hangs")
def _webhook_hangs(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    def hang(request: Asked) -> float:
        return 12.0 if request.method == "POST" and request.path.endswith("/team/pods") else 0.0

    cluster.wire.hang = hang
    stage.fleet.hanging[fault.cluster] = ("team", stage.fleet.now)
    yield
    cluster.wire.hang = lambda _: 0.0
    stage.fleet.hanging.pop(fault.cluster, None)
