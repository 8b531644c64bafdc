"""What is bound is what the server made: webhooks, LimitRanges and runtime classes may have changed the delegate."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from agents.executor.intents.procedures import carry_out
from shared.kube.http import Request, Response
from shared.messages import BOUND, OF_CLUSTER, REFUSED, CreateDelegate, Outcome, PodRef
from shared.model import names
from tests.agents.executor.world import NOW, World, lost_reply, node_object, order_for, pod_object, run

Object = dict[str, Any]
Webhook = Callable[[Object], None]


def order(number: int = 0, cpu: str = "300m", epoch: int = 1) -> CreateDelegate:
    ref = PodRef("default", f"web{number}", f"u{number}")
    manifest = msgspec.json.encode(pod_object(ref.name, cpu=cpu))
    return order_for(ref, epoch, "n1", manifest)


def mutating(world: World, webhook: Webhook) -> Callable[[Request], Response]:
    """The server, with a webhook that changes what is created."""

    def answer(request: Request) -> Response:
        if request.method == "POST" and request.path.endswith("/pods"):
            pod = msgspec.json.decode(request.body)
            webhook(pod)
            request = Request("POST", request.path, msgspec.json.encode(pod))
        return world.api.answer(request)

    return answer


def sidecar(pod: Object) -> None:
    pod["spec"]["containers"].append({"name": "istio-proxy", "resources": {"requests": {"cpu": "500m"}}})


def limit_range(pod: Object) -> None:
    pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "800m", "memory": "256Mi"}


def runtime_class(pod: Object) -> None:
    pod["spec"]["overhead"] = {"cpu": "500m"}


def placed(world: World, intent: CreateDelegate, webhook: Webhook) -> Outcome:
    return run(carry_out(intent, 1, world.local, NOW), mutating(world, webhook))


def bound_cpu(world: World) -> int:
    """Milli-CPU that the pods on n1 really request."""
    pods = [pod for pod in world.api.pods() if pod["spec"].get("nodeName") == "n1"]
    return sum(int(one["resources"]["requests"]["cpu"][:-1]) for pod in pods for one in pod["spec"]["containers"])


def test_three_delegates_that_a_sidecar_makes_larger_never_over_commit_their_node() -> None:
    world = World(node_object(cpu="1"), cluster="b")
    verdicts = [placed(world, order(number, epoch=number + 1), sidecar).verdict for number in range(3)]
    assert verdicts == [BOUND, REFUSED, REFUSED]
    assert bound_cpu(world) == 800


@pytest.mark.parametrize("first", [0, 1])
def test_two_that_grow_at_the_same_time_never_over_commit_their_node(first: int) -> None:
    world = World(node_object(cpu="1"), cluster="b")
    answer = mutating(world, sidecar)
    both = [carry_out(order(number), 1, world.local, NOW) for number in range(2)]
    waiting = {number: next(procedure) for number, procedure in enumerate(both)}
    turn = first
    while waiting:
        turn = turn if turn in waiting else next(iter(waiting))
        with suppress(StopIteration):
            waiting[turn] = both[turn].send(answer(waiting.pop(turn)))
        turn = 1 - turn
    assert bound_cpu(world) <= 1000


def test_one_that_still_fits_is_bound_and_its_true_size_is_held_and_told() -> None:
    world = World(node_object(cpu="1"), cluster="b")
    outcome = placed(world, order(), sidecar)
    assert (outcome.verdict, outcome.message, outcome.requests) == (BOUND, "", {"cpu": 800})
    held = list(world.local.ledger.held("n1", world.cache, NOW.mono))
    assert [booking.requests for booking in held] == [{"cpu": 800}]


def changing(**fields: Any) -> Webhook:
    return lambda pod: pod["spec"]["containers"][0].update(fields)


def of_the_server(pod: Object) -> None:
    """What an API server adds to every pod, and what is the target's to say."""
    changing(imagePullPolicy="Always", terminationMessagePath="/dev/termination-log", securityContext={})(pod)
    pod["spec"] |= {"priority": 0, "serviceAccountName": "default", "dnsPolicy": "ClusterFirst", "tolerations": [{}]}


ALTERED: dict[str, tuple[Webhook, str]] = {
    "a sidecar": (sidecar, "spec.containers"),
    "another image": (changing(image="mirror/busybox"), "spec.containers[0].image"),
    "limits": (
        changing(resources={"requests": {"cpu": "300m"}, "limits": {"memory": "1Gi"}}),
        "spec.containers[0].resources.limits",
    ),
    "another user": (changing(securityContext={"runAsUser": 7}), "spec.containers[0].securityContext"),
    "variables": (changing(env=[{"name": "A"}], envFrom=[{}]), "spec.containers[0].env, spec.containers[0].envFrom"),
    "many": (lambda pod: pod["spec"].update(dnsConfig={"a": 1}, volumes=[{}]), "spec.dnsConfig, spec.volumes"),
    "nothing": (of_the_server, ""),
}


@pytest.mark.parametrize("what", ALTERED)
def test_the_owner_is_told_what_admission_has_made_another_than_it_is_at_home(what: str) -> None:
    webhook, fields = ALTERED[what]
    world = World(node_object(cpu="2"), cluster="b")
    assert placed(world, order(), webhook).verdict == BOUND
    told = [msgspec.json.decode(one.body) for one in world.local.events]
    words = [(one["type"], one["note"].rpartition(" has set ")[2]) for one in told if one["reason"] != "Scheduled"]
    assert words == ([("Warning", fields)] if fields else [])


MiB = 2**20
# what made it larger -> what is said, and its true size
LARGER: dict[str, tuple[Webhook, str, dict[str, int]]] = {
    "a sidecar": (sidecar, "cpu 300m -> 800m (container istio-proxy was added)", {"cpu": 800}),
    "a LimitRange": (
        limit_range,
        "cpu 300m -> 800m, memory 0 -> 256Mi (requests were changed)",
        {"cpu": 800, "memory": 256 * MiB},
    ),
    "a runtime class": (runtime_class, "cpu 300m -> 800m (overhead was added)", {"cpu": 800}),
}


@pytest.mark.parametrize("what", LARGER)
def test_one_that_does_not_fit_is_deleted_and_refused_with_what_grew_and_its_true_size(what: str) -> None:
    webhook, said, requests = LARGER[what]
    world = World(node_object(cpu="500m"), cluster="b")
    outcome = placed(world, order(), webhook)
    assert outcome.verdict == REFUSED
    assert outcome.message == f'node "n1": Insufficient cpu; the server made it larger: {said}'
    assert outcome.requests == requests
    assert world.api.pods() == []
    assert world.api.count("bind") == 0


def test_the_room_of_one_that_grew_too_large_is_given_back() -> None:
    world = World(node_object(cpu="500m"), cluster="b")
    assert placed(world, order(0), sidecar).verdict == REFUSED
    assert world.do(order(1)).verdict == BOUND


def test_one_that_is_found_after_a_lost_reply_is_judged_by_its_true_size_too() -> None:
    world = World(node_object(cpu="500m"), cluster="b")
    outcome = run(carry_out(order(), 1, world.local, NOW), lost_reply(mutating(world, sidecar), "POST"))
    assert (outcome.verdict, outcome.requests) == (REFUSED, {"cpu": 800})
    assert world.api.pods() == []


def test_one_that_the_server_left_alone_tells_no_size() -> None:
    assert World(cluster="b").do(order()).requests == {}


def selects_others(pod: Object) -> None:
    pod["spec"]["nodeSelector"] = {"pool": "other"}


def wants_a_port(pod: Object) -> None:
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]


def unreadable(pod: Object) -> None:
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1e999999"}}


@pytest.mark.parametrize(
    ("webhook", "said"),
    [
        (selects_others, "didn't match Pod's node affinity/selector"),
        (wants_a_port, "didn't have free ports"),
        (unreadable, "what the server made of the delegate cannot be read"),
    ],
)
def test_the_place_is_checked_for_the_pod_as_made(webhook: Webhook, said: str) -> None:
    world = World(cluster="b")
    taken = pod_object("other", nodeName="n1")
    taken["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    world.submit(taken)
    outcome = placed(world, order(), webhook)
    assert outcome.verdict == REFUSED
    assert said in outcome.message
    assert [pod["metadata"]["name"] for pod in world.api.pods()] == ["other"]


# at_most of the order -> verdict, what the outcome tells of its size
ALLOWED: list[tuple[dict[str, int], str, dict[str, int]]] = [
    ({}, BOUND, {"cpu": 800}),
    ({"cpu": 300}, REFUSED, {"cpu": 800}),
    ({"cpu": 799}, REFUSED, {"cpu": 800}),
    ({"cpu": 800}, BOUND, {"cpu": 800}),
    ({"memory": 2**30}, REFUSED, {"cpu": 800}),
]


@pytest.mark.parametrize(("at_most", "verdict", "told"), ALLOWED)
def test_one_that_grew_beyond_what_was_booked_for_it_is_never_bound(
    at_most: dict[str, int], verdict: str, told: dict[str, int]
) -> None:
    world = World(node_object(cpu="4"), cluster="b")
    outcome = placed(world, msgspec.structs.replace(order(), at_most=at_most), sidecar)
    assert (outcome.verdict, outcome.requests) == (verdict, told)
    assert world.api.count("bind") == (verdict == BOUND)
    assert len(world.api.pods()) == (verdict == BOUND)


def sidecar_and_selector(pod: Object) -> None:
    sidecar(pod)
    selects_others(pod)


def test_one_that_grew_and_may_not_go_there_for_something_else_too_tells_no_size() -> None:
    outcome = placed(World(node_object(cpu="500m"), cluster="b"), order(), sidecar_and_selector)
    assert (outcome.verdict, outcome.scope, outcome.requests) == (REFUSED, OF_CLUSTER, {})
    assert "the server made it larger" in outcome.message


@pytest.mark.parametrize(("code", "passing"), [(500, True), (403, False), (422, False)])
def test_a_webhook_that_fails_refuses_for_now_and_a_rule_for_longer(code: int, passing: bool) -> None:
    world = World(cluster="b")

    def fails(request: Request) -> Response:
        if request.method == "POST" and request.path.endswith("/pods"):
            said = {"kind": "Status", "message": "Internal error occurred: failed calling webhook"}
            return Response(code, msgspec.json.encode(said))
        return world.api.answer(request)

    outcome = run(carry_out(order(), 1, world.local, NOW), fails)
    assert (outcome.verdict, outcome.scope, outcome.passing) == (REFUSED, OF_CLUSTER, passing)


def reaches_into_the_node(pod: Object) -> None:
    pod["spec"]["volumes"] = [{"name": "ca", "hostPath": {"path": "/etc/ssl"}}]
    pod["spec"]["containers"][0]["securityContext"] = {"privileged": True}


def test_what_the_admins_of_the_target_add_is_theirs_to_add() -> None:
    world = World(cluster="b")
    assert placed(world, order(), reaches_into_the_node).verdict == BOUND
    (pod,) = world.api.pods()
    assert pod["spec"]["volumes"][0]["hostPath"] == {"path": "/etc/ssl"}


def takes_the_label_off(pod: Object) -> None:
    del pod["metadata"]["labels"][names.DELEGATE_LABEL]


def changes_the_source(pod: Object) -> None:
    pod["metadata"]["annotations"][names.SOURCE_UID] = "another"


def gives_it_to_another_scheduler(pod: Object) -> None:
    pod["spec"]["schedulerName"] = "default-scheduler"


NOT_OURS: dict[str, tuple[Webhook, str]] = {
    "our label is gone": (takes_the_label_off, f"the server took our mark off: labels {names.DELEGATE_LABEL}"),
    "our annotation was changed": (
        changes_the_source,
        f"the server took our mark off: annotations {names.SOURCE_UID}",
    ),
    "it is another scheduler's": (
        gives_it_to_another_scheduler,
        'the server gave it to scheduler "default-scheduler"',
    ),
}


@pytest.mark.parametrize("what", NOT_OURS)
def test_one_that_is_not_ours_any_more_is_deleted_and_refused_with_words(what: str) -> None:
    webhook, said = NOT_OURS[what]
    world = World(cluster="b")
    outcome = placed(world, order(), webhook)
    assert (outcome.verdict, outcome.message) == (REFUSED, said)
    assert (world.api.pods(), world.api.count("bind")) == ([], 0)


def fully_fledged() -> CreateDelegate:
    """Of a pod with fields that a server may be too old for."""
    exits = {"operator": "In", "values": [1]}
    container = {
        "name": "main",
        "image": "busybox",
        "lifecycle": {"stopSignal": "SIGUSR1"},
        "restartPolicyRules": [{"action": "Restart", "exitCodes": exits}],
        "env": [{"name": "E", "valueFrom": {"fileKeyRef": {"key": "k", "path": "p", "volumeName": "v"}}}],
        "volumeMounts": [{"name": "v", "mountPath": "/v", "bindMountOptions": ["noexec"]}],
    }
    security = {"supplementalGroupsPolicy": "Strict"}
    volumes = [{"name": "v", "emptyDir": {"mode": 448}}]
    more: Object = {"hostUsers": False, "hostnameOverride": "a.b", "securityContext": security, "volumes": volumes}
    pod = pod_object("web0", containers=[container], **more)
    return order_for(PodRef("default", "web0", "u0"), 1, "n1", msgspec.json.encode(pod))


LEFT_OUT = {
    "spec.hostUsers": lambda spec: spec,
    "spec.hostnameOverride": lambda spec: spec,
    "spec.securityContext.supplementalGroupsPolicy": lambda spec: spec["securityContext"],
    "spec.containers[0].restartPolicyRules": lambda spec: spec["containers"][-1],
    "spec.containers[0].lifecycle.stopSignal": lambda spec: spec["containers"][-1]["lifecycle"],
    "spec.containers[0].env[0].valueFrom.fileKeyRef": lambda spec: spec["containers"][-1]["env"][0]["valueFrom"],
    "spec.containers[0].volumeMounts[0].bindMountOptions": lambda spec: spec["containers"][-1]["volumeMounts"][0],
    "spec.volumes[0].emptyDir.mode": lambda spec: spec["volumes"][0]["emptyDir"],
}


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside a sidecar"])
@pytest.mark.parametrize(("field", "holder"), LEFT_OUT.items(), ids=LEFT_OUT.keys())
def test_a_delegate_of_which_the_server_left_a_field_out_is_refused_by_its_name(
    field: str, holder: Callable[[Object], Object], beside: bool
) -> None:
    world = World(node_object(), cluster="b")

    def too_old(pod: Object) -> None:
        if beside:
            pod["spec"]["containers"].insert(0, {"name": "proxy", "image": "proxy"})
        del holder(pod["spec"])[field.rpartition(".")[2]]

    refused = placed(world, fully_fledged(), too_old)
    assert (refused.verdict, refused.scope) == (REFUSED, OF_CLUSTER)
    assert refused.message.startswith(f"the server left {field} out")
    assert world.api.pods() == []


def test_what_the_server_adds_or_changes_is_its_admins_right() -> None:
    world = World(node_object(cpu="4"), cluster="b")

    def defaults(pod: Object) -> None:
        pod["spec"] |= {"dnsPolicy": "ClusterFirst", "serviceAccountName": "default", "hostnameOverride": "c.d"}
        pod["spec"]["volumes"].append({"name": "token", "projected": {"sources": []}})
        pod["spec"]["containers"][0]["image"] = "mirror/busybox"

    assert placed(world, fully_fledged(), defaults).verdict == BOUND
