"""A ConfigMap that a delegate names is looked for before it is made: a cluster without it refuses the pod."""

from typing import Any

import msgspec
import pytest

from agents.executor.intents.procedures import carry_out
from agents.executor.objects.target_needs import MOST
from shared.kube.http import Request, Response
from shared.messages import BOUND, CLAIMED, OF_CLUSTER, REFUSED, Claim, Outcome, PodRef
from tests.agents.executor.world import NOW, World, order_for, pod_object, run

SETTINGS = "/api/v1/namespaces/default/configmaps/settings"
NAMED = {"name": "settings"}
KEYED = {"name": "settings", "key": "colour"}
ITEMS = {"name": "settings", "items": [{"key": "colour", "path": "c"}]}


def container(**more: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "busybox", **more}]}


def volume(**source: Any) -> dict[str, Any]:
    return {**container(), "volumes": [{"name": "v", **source}]}


def variable(source: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": "COLOUR", "valueFrom": {"configMapKeyRef": source}}]


NEEDS: dict[str, dict[str, Any]] = {
    "spec.volumes[0].configMap": volume(configMap=NAMED),
    "spec.volumes[0].projected.sources[0].configMap": volume(projected={"sources": [{"configMap": ITEMS}]}),
    "spec.containers[0].env[0].valueFrom.configMapKeyRef": container(env=variable(KEYED)),
    "spec.containers[0].envFrom[0].configMapRef": container(envFrom=[{"configMapRef": NAMED}]),
    "spec.initContainers[0].envFrom[0].configMapRef": {
        **container(),
        "initContainers": [{"name": "i", "image": "busybox", "envFrom": [{"configMapRef": NAMED}]}],
    },
}


class Target:
    """A cluster that pods come to; what it was asked about ConfigMaps."""

    def __init__(self, *, data: dict[str, str] | None = None, answer: Response | None = None) -> None:
        self.world, self.asked, self._answer = World(cluster="b"), list[str](), answer
        if data is not None:
            self.world.api.put(SETTINGS, {"metadata": {"name": "settings"}, "data": data})

    def create(self, spec: dict[str, Any], name: str = "web") -> Outcome:
        order = order_for(PodRef("default", name, f"u-{name}"), 1, "n1", msgspec.json.encode(pod_object(**spec)))
        return run(carry_out(order, 1, self.world.local, NOW), self._said)

    def _said(self, request: Request) -> Response:
        if "/configmaps/" not in request.path:
            return self.world.api.answer(request)
        self.asked.append(request.path)
        return self._answer or self.world.api.answer(request)


@pytest.mark.parametrize("field", NEEDS)
def test_a_pod_whose_config_map_is_lacking_is_refused_by_that_cluster_before_anything_is_made(field: str) -> None:
    target = Target()
    outcome = target.create(NEEDS[field])
    assert (outcome.verdict, outcome.scope, outcome.passing) == (REFUSED, OF_CLUSTER, False)
    assert outcome.message.startswith(f'ConfigMap "default/settings" ({field}) does not exist in cluster "b": make it')
    assert target.world.api.done == []


@pytest.mark.parametrize("field", NEEDS)
def test_a_pod_whose_config_map_is_there_runs(field: str) -> None:
    assert Target(data={"colour": "red"}).create(NEEDS[field]).verdict == BOUND


def test_a_key_that_is_lacking_is_named() -> None:
    outcome = Target(data={"other": "x"}).create(container(env=variable(KEYED)))
    assert outcome.verdict == REFUSED
    assert 'has no key "colour" in cluster "b"' in outcome.message


@pytest.mark.parametrize(
    "spec",
    [
        volume(configMap={**NAMED, "optional": True}),
        volume(projected={"sources": [{"configMap": {**ITEMS, "optional": True}}]}),
        container(env=variable({**KEYED, "optional": True})),
        container(envFrom=[{"configMapRef": {**NAMED, "optional": True}}]),
    ],
)
def test_what_is_optional_is_not_asked_for(spec: dict[str, Any]) -> None:
    target = Target()
    assert (target.create(spec).verdict, target.asked) == (BOUND, [])


OPTIONAL: list[dict[str, Any]] = [
    volume(configMap={**NAMED, "optional": True}),
    volume(configMap={**ITEMS, "optional": True}),
    volume(projected={"sources": [{"configMap": {**ITEMS, "optional": True}}]}),
    container(env=variable({**KEYED, "optional": True})),
    container(envFrom=[{"configMapRef": {**NAMED, "optional": True}}]),
]


def claimed(spec: dict[str, Any], home: World, answer: Response | None = None) -> bytes:
    """What crosses of a pod with this spec; `answer`: of home's API server to each question for a ConfigMap."""
    claim = Claim("c", home.submit(pod_object(**spec)), 1, "b", "n1", "b-cluster-uid")

    def said(request: Request) -> Response:
        return answer if answer is not None and "/configmaps/" in request.path else home.api.answer(request)

    outcome = run(carry_out(claim, 1, home.local, NOW), said)
    assert outcome.verdict == CLAIMED
    return outcome.manifest


@pytest.mark.parametrize("spec", OPTIONAL)
def test_what_is_optional_and_there_at_home_must_be_there_elsewhere(spec: dict[str, Any]) -> None:
    home, there = World(peers=("b",)), Target()
    home.api.put(SETTINGS, {"metadata": {"name": "settings"}, "data": {"colour": "red"}})
    crosses = msgspec.json.decode(claimed(spec, home))["spec"]
    assert there.create(crosses).message.startswith('ConfigMap "default/settings"')
    there.world.api.put(SETTINGS, {"metadata": {"name": "settings"}, "data": {"colour": "red"}})
    assert there.create(crosses, "again").verdict == BOUND


@pytest.mark.parametrize("spec", OPTIONAL)
def test_what_is_optional_and_lacking_at_home_stays_so(spec: dict[str, Any]) -> None:
    assert b'"optional":true' in claimed(spec, World(peers=("b",)))


@pytest.mark.parametrize("spec", [one for one in OPTIONAL if "colour" in str(one)])
def test_what_is_optional_and_has_not_the_key_at_home_stays_so(spec: dict[str, Any]) -> None:
    home = World(peers=("b",))
    home.api.put(SETTINGS, {"metadata": {"name": "settings"}, "data": {"other": "x"}})
    assert b'"optional":true' in claimed(spec, home)


def test_of_optional_keys_those_that_are_at_home_must_be_there_elsewhere() -> None:
    home = World(peers=("b",))
    home.api.put(SETTINGS, {"metadata": {"name": "settings"}, "data": {"colour": "red"}})
    both = [{"key": "colour", "path": "c"}, {"key": "size", "path": "s"}]
    crosses = msgspec.json.decode(claimed(volume(configMap={**NAMED, "items": both, "optional": True}), home))
    (of,) = [one["configMap"] for one in crosses["spec"]["volumes"] if "configMap" in one]
    assert of == {**NAMED, "items": both[:1]}


@pytest.mark.parametrize("answer", [Response(403), Response(500), Response(0), Response(200, b"[]")])
@pytest.mark.parametrize("spec", OPTIONAL)
def test_what_is_optional_and_not_known_at_home_must_be_there_elsewhere(spec: dict[str, Any], answer: Response) -> None:
    assert b'"optional":true' not in claimed(spec, World(peers=("b",)), answer)


@pytest.mark.parametrize("answer", [Response(403), Response(500), Response(0), Response(200, b"[]")])
def test_what_may_not_be_read_or_is_not_answered_holds_nothing_up(answer: Response) -> None:
    target = Target(answer=answer)
    assert target.create(container(envFrom=[{"configMapRef": NAMED}])).verdict == BOUND
    assert len(target.asked) <= 2


def test_replicas_ask_once_and_what_was_lacking_is_asked_for_again() -> None:
    spec, target = container(envFrom=[{"configMapRef": NAMED}]), Target()
    assert target.create(spec).verdict == REFUSED
    target.world.api.put(SETTINGS, {"metadata": {"name": "settings"}})
    assert [target.create(spec, name).verdict for name in ("one", "two", "three")] == [BOUND] * 3
    assert len(target.asked) == 2


def test_a_pod_of_very_many_config_maps_costs_few_looks() -> None:
    target = Target(answer=Response(200, b"{}"))
    many = [{"configMapRef": {"name": f"settings-{number}"}} for number in range(500)]
    assert target.create(container(envFrom=many)).verdict == BOUND
    assert len(target.asked) == MOST


def test_a_cluster_that_is_closed_to_the_pod_tells_nothing_of_its_config_maps() -> None:
    target = Target(data={})
    order = order_for(PodRef("kube-system", "web", "u"), 1, "n1", msgspec.json.encode(pod_object(**NEEDS[min(NEEDS)])))
    assert run(carry_out(order, 1, target.world.local, NOW), target._said).verdict == REFUSED
    assert target.asked == []


def test_what_is_remembered_of_a_pod_of_very_long_keys_is_short() -> None:
    keys = [f"{number:0250}" for number in range(400)]
    target = Target(data=dict.fromkeys(keys, ""))
    items = [{"key": key, "path": "p"} for key in keys]
    assert target.create(volume(configMap={"name": "settings", "items": items})).verdict == BOUND
    assert len(target.world.local.config_maps) == 1
    assert len(msgspec.json.encode(list(target.world.local.config_maps._entries))) < 100
