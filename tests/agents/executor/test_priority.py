"""A delegate has the PriorityClass of its name in its own cluster, up to what a row of the policy there lets in."""

from typing import Any

import msgspec
import pytest

from agents.executor.crossing.manifest import ManifestError, sanitise
from agents.executor.crossing.needs import needs_of
from agents.executor.crossing.policy import HIGHEST_OF_USERS, Accept, ExecutorPolicy
from shared.messages import BOUND, OF_CLUSTER, REFUSED, Outcome, PodRef
from shared.model import names
from shared.model.pod import Need
from tests.agents.executor.world import World, order_for, pod_object

FIELD = 'spec.priorityClassName is PriorityClass "high"'
NO_NEED = f"annotation {names.PRIORITY}: none"


def target(value: int | None = 100_000, *, shown: bool = True, **row: Any) -> World:
    """A cluster with PriorityClass `high`, if it has a value. Not `shown`: its agent may not list those."""
    world = World(cluster="b", policy=ExecutorPolicy(accept=(Accept(**row),)))
    world.api.put_class("system-node-critical", 2_000_001_000)
    if value is not None:
        world.api.put_class("high", value)
    if shown:
        world.sync()
    return world


def urgent(annotation: str = "") -> dict[str, Any]:
    pod = pod_object(priorityClassName="high", priority=100_000, preemptionPolicy="Never")
    pod["metadata"]["annotations"] = {names.PRIORITY: annotation} if annotation else {}
    return pod


def asked(world: World, pod: dict[str, Any] | None = None) -> Outcome:
    ref = PodRef("default", "web", "source-uid")
    return world.do(order_for(ref, 1, "n1", msgspec.json.encode(pod or urgent())))


def spec_of(world: World) -> dict[str, Any]:
    (pod,) = world.api.pods()
    found: dict[str, Any] = pod["spec"]
    return found


@pytest.mark.parametrize("value", [100_000, 7, -5, HIGHEST_OF_USERS])
def test_a_delegate_has_the_class_of_its_source_and_the_value_that_it_has_in_its_own_cluster(value: int) -> None:
    world = target(value)
    assert asked(world).verdict == BOUND
    assert (spec_of(world)["priorityClassName"], spec_of(world)["priority"]) == ("high", value)
    assert "preemptionPolicy" not in spec_of(world)


def test_a_pod_without_a_class_is_left_to_the_default_of_the_cluster() -> None:
    world = target()
    assert asked(world, pod_object(priority=0)).verdict == BOUND
    assert {"priority", "priorityClassName"}.isdisjoint(spec_of(world))


@pytest.mark.parametrize(
    ("value", "row", "says"),
    [
        pytest.param(None, {}, "which does not exist in that cluster: create it there", id="lacking"),
        pytest.param(1001, {"max_priority": 1000}, "is 1001: it takes that only if a row", id="above its cap"),
        pytest.param(2_000_000_000, {}, "has `max_priority` of as much", id="as high as Kubernetes' own"),
    ],
)
def test_a_pod_that_cannot_be_as_important_is_refused_by_that_cluster_before_it_is_made(
    value: int | None, row: dict[str, Any], says: str
) -> None:
    world = target(value, **row)
    outcome = asked(world)
    assert (outcome.verdict, outcome.scope, world.api.done) == (REFUSED, OF_CLUSTER, [])
    assert outcome.message.startswith(FIELD)
    assert says in outcome.message
    assert NO_NEED in outcome.message
    assert names.STAY in outcome.message


@pytest.mark.parametrize(("value", "row"), [(None, {}), (1001, {"max_priority": 1000}), (100, {})])
def test_it_runs_without_where_the_pod_says_that_it_does_without(value: int | None, row: dict[str, Any]) -> None:
    world = target(value, **row)
    assert asked(world, urgent(names.NONE)).verdict == BOUND
    assert {"priority", "priorityClassName"}.isdisjoint(spec_of(world))


@pytest.mark.parametrize(("value", "kept"), [(None, False), (1001, False), (1000, True)])
def test_a_row_lets_it_run_without_a_class_that_it_cannot_have_there(value: int | None, *, kept: bool) -> None:
    world = target(value, max_priority=1000, priority="none")
    assert asked(world).verdict == BOUND
    assert ("priorityClassName" in spec_of(world)) == kept


def test_a_row_lets_it_run_without_where_classes_are_not_shown() -> None:
    world = target(None, shown=False, priority="none")
    assert asked(world).verdict == BOUND
    assert "priorityClassName" not in spec_of(world)


def test_of_several_rows_the_one_that_lets_in_most_counts() -> None:
    policy = ExecutorPolicy(accept=(Accept(max_priority=10), Accept(clusters=("a",), max_priority=20)))
    world = target(15)
    world.local.policy = policy
    assert asked(world).verdict == BOUND
    world = target(15)
    world.local.policy = ExecutorPolicy(accept=(Accept(max_priority=10), Accept(clusters=("c",), max_priority=20)))
    assert asked(world).verdict == REFUSED


def test_where_classes_are_not_shown_the_server_tells_that_one_is_lacking() -> None:
    outcome = asked(target(None, shown=False))
    assert (outcome.verdict, outcome.message) == (REFUSED, "no PriorityClass with name high was found (HTTP 403)")


def test_where_classes_are_not_shown_one_that_is_too_high_is_deleted_before_it_has_a_node() -> None:
    world = target(1001, shown=False, max_priority=1000)
    outcome = asked(world)
    assert (outcome.verdict, outcome.scope) == (REFUSED, OF_CLUSTER)
    assert outcome.message.startswith(f"{FIELD}, whose value in that cluster is 1001")
    assert world.api.pods() == []
    assert "bind" not in {verb for verb, *_ in world.api.done}


def test_what_a_pod_needs_of_its_class_is_told_with_it() -> None:
    found = needs_of(msgspec.json.encode(urgent()))
    assert found is not None
    assert found.of_policy == (Need("max_priority", "high", "spec.priorityClassName", 'is PriorityClass "high"'),)
    assert needs_of(msgspec.json.encode(urgent(names.NONE))) is None


def test_a_priority_without_a_class_cannot_cross() -> None:
    with pytest.raises(ManifestError, match=r"^spec.priority is of no PriorityClass"):
        sanitise(msgspec.json.encode(pod_object(priority=5)))
    sanitise(msgspec.json.encode(pod_object(priority=0)))
