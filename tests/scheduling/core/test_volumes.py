"""Pods with claims through the whole core: what is ordered before the bind, and what gives the place back."""

from collections.abc import Sequence

import msgspec

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.events import Answered, ClusterChanged, Effect, SendIntents, Tick
from shared.messages import (
    DONE,
    STALE,
    AnyIntent,
    Bind,
    BindVolume,
    Changes,
    Outcome,
    ReportUnschedulable,
    SelectNode,
)
from shared.model.names import SCHEDULER_NAME
from shared.model.node import Node
from shared.model.objects import AnyObject, ObjectRef, PersistentVolume, PersistentVolumeClaim
from shared.model.pod import CLAIM, Pod, Volume
from tests.laws.cores import make_core
from tests.plugins.storage import CLASSES, NOW, STATIC, bound, claim, volume

NODE = Node("n1", ready=True, allocatable={"cpu": 4000, "memory": 2**33, "pods": 20})


class Story:
    """One cluster, its core, and a clock that moves a second a step."""

    def __init__(self, *objects: AnyObject, pods: int = 1) -> None:
        self.core: SchedulerCore = make_core(("east",))
        self.now, self.revision = 1.0, 0
        mine = tuple(
            Pod(
                f"uid-{at}",
                "default",
                f"p{at}",
                requests={"cpu": 100},
                scheduler_name=SCHEDULER_NAME,
                volumes=(Volume(CLAIM, "data"),),
            )
            for at in range(pods)
        )
        self.sent = self.report(full=True, nodes=(NODE,), pods=mine, objects=(*CLASSES, *objects))

    def report(self, **changes: object) -> list[AnyIntent]:
        """The cluster tells of changes; answers what is ordered then and at the next tick."""
        since, self.revision = self.revision, self.revision + 1
        told = Changes("east", "east-uid", "life-1", since, self.revision)
        effects = self.core.handle(ClusterChanged(msgspec.structs.replace(told, **changes)), self.now)
        return self.intents(effects) + self.tick()

    def tick(self) -> list[AnyIntent]:
        """A second passes."""
        self.now += 1.0
        return self.intents(self.core.handle(Tick(), self.now))

    def answer(self, intent: AnyIntent, verdict: str = DONE, message: str = "") -> list[AnyIntent]:
        """The agent answers an intent."""
        outcome = Outcome(intent.id, intent.pod.uid, intent.epoch, verdict, message)
        effects = self.core.handle(Answered("east", (outcome,)), self.now)
        return self.intents(effects) + self.tick()

    @staticmethod
    def intents(effects: Sequence[Effect]) -> list[AnyIntent]:
        return [one for effect in effects if isinstance(effect, SendIntents) for one in effect.intents]


def kinds(intents: Sequence[AnyIntent]) -> list[type]:
    return [type(intent) for intent in intents]


def test_a_claim_that_waits_for_its_pod_learns_its_node_and_is_bound_before_the_pod_is() -> None:
    story = Story(claim("data"))
    (order,) = story.sent
    assert isinstance(order, SelectNode)
    assert (order.claim, order.claim_uid, order.node) == ("default/data", "uid-data", "n1")
    assert story.answer(order) == []
    assert story.report(objects=(claim("data", selected_node="n1"),)) == []
    after = story.report(objects=(bound("data", "made", selected_node="n1"), volume("made")))
    assert kinds(after) == [Bind]


def test_a_pod_whose_volume_is_not_made_yet_says_for_what_it_waits() -> None:
    story = Story(claim("data"))
    (order,) = story.sent
    told = (*story.answer(order), *story.tick(), *story.tick(), *story.tick(), *story.tick())
    (report,) = [one for one in told if isinstance(one, ReportUnschedulable)]
    assert report.message == (
        "waiting on PreBind plugin VolumeBinding for a volume for claim default/data; its place on east/n1 is held"
    )


def test_a_free_volume_is_set_aside_and_bound_before_the_pod_is() -> None:
    free = volume("pv1", 1, STATIC)
    story = Story(claim("data", 1, STATIC), free)
    (order,) = story.sent
    assert isinstance(order, BindVolume)
    assert (order.volume, order.claim) == ("pv1", "default/data")
    assert story.answer(order) == []
    kept = msgspec.structs.replace(free, claim="default/data", claim_uid="uid-data", phase="Bound")
    assert kinds(story.report(objects=(kept, bound("data", "pv1", storage_class=STATIC)))) == [Bind]


def test_a_pod_whose_claims_are_bound_is_bound_at_once() -> None:
    assert kinds(Story(bound("data", "pv1"), volume("pv1")).sent) == [Bind]


def test_a_volume_that_somebody_else_took_gives_the_place_back() -> None:
    story = Story(claim("data", 1, STATIC), volume("pv1", 1, STATIC))
    (order,) = story.sent
    taken = volume("pv1", 1, STATIC, claim="default/other", phase="Bound")
    after = story.answer(order, STALE, 'persistentvolume "pv1" is kept for default/other')
    assert Bind not in kinds(after)
    assert story.core.fleet.occupant(("east", "uid-0")) is None
    (shown,) = story.core.fleet.kept.of("east", PersistentVolume).values()
    assert shown.claim == ""
    story.report(objects=(taken,))
    assert Bind not in kinds(story.tick())


def test_a_claim_that_comes_wakes_the_pod_that_waits_for_it() -> None:
    story = Story()
    (told,) = story.sent
    assert isinstance(told, ReportUnschedulable)
    assert 'persistentvolumeclaim "data" not found' in told.message
    found: list[AnyIntent] = story.report(objects=(bound("data", "pv1"), volume("pv1")))
    for _ in range(3):
        found += story.tick()
    assert Bind in kinds(found)


def test_two_pods_of_one_claim_go_to_one_node_and_order_it_once_each() -> None:
    story = Story(claim("data"), pods=2)
    assert kinds(story.sent) == [SelectNode, SelectNode]
    assert {order.node for order in story.sent if isinstance(order, SelectNode)} == {"n1"}
    (shown,) = story.core.fleet.kept.of("east", PersistentVolumeClaim).values()
    assert shown.selected_node == "n1"


def reports(intents: Sequence[AnyIntent]) -> list[str]:
    return [one.message for one in intents if isinstance(one, ReportUnschedulable)]


def changed_soon_after_it_was_told() -> tuple[Story, list[AnyIntent]]:
    """A pod that was told that its claim is missing, two seconds before the claim came and waits for its volume."""
    story = Story()
    (first,) = story.sent
    assert 'persistentvolumeclaim "data" not found' in reports([first])[0]
    return story, [*story.answer(first), *story.report(objects=(claim("data", storage_class=NOW),))]


def test_what_a_pod_waits_for_is_told_in_the_end_also_when_it_changed_soon_after_it_was_told() -> None:
    story, sent = changed_soon_after_it_was_told()
    assert reports(sent) == []
    for _ in range(30):
        sent += story.tick()
    (told,) = reports(sent)
    assert "pod has unbound immediate PersistentVolumeClaims" in told


def test_what_does_not_hold_any_more_is_not_told() -> None:
    story, sent = changed_soon_after_it_was_told()
    sent += story.report(objects=(bound("data", "pv1", storage_class=NOW), volume("pv1", 1, NOW)))
    for _ in range(30):
        sent += story.tick()
    assert kinds(sent) == [Bind]


def test_what_is_as_it_was_told_again_is_not_told_anew() -> None:
    story, sent = changed_soon_after_it_was_told()
    sent += story.report(objects_gone=(ObjectRef(PersistentVolumeClaim.__name__, "default/data"),))
    for _ in range(30):
        sent += story.tick()
    assert reports(sent) == []
