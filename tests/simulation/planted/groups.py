"""Groups whose pods start together."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from dispatcher.scheduling.groups.place_group import place_group
from tests.simulation.acts import plain_pod
from tests.simulation.planted.scripted import Hint, Scene, Wait
from tests.simulation.planted.table import Patches, plant
from tests.simulation.world.apiserver import NAMESPACES, PODS, Hook, status
from tests.simulation.world.fleet import Sizes
from tests.simulation.world.objects import Object, Place

ROOMY = Sizes(nodes=2, node_cpu=2000)


def submit(at: Scene, *names: str, least: int, away: str = "", cpu: int = 300) -> None:
    """Pods of one group of cluster north."""
    marks = {"group": "train", "group-min": str(least), **({"clusters": away} if away else {})}
    for name in names:
        pod = plain_pod(name, "default", cpu, **marks)
        at.cluster("north").api.ask("user", "POST", f"{NAMESPACES}/default/pods", pod)


def refuses(at: Scene, *names: str) -> Hook:
    """A webhook that refuses the copies of these, each once."""
    left = list(names)

    def hook(actor: str, place: Place, obj: Object) -> tuple[int, bytes] | None:
        away = place.resource == PODS and actor.startswith("agent/")
        found = [one for one in left if obj["metadata"].get("name", "").startswith(f"{one}-")] if away else []
        for one in found:
            left.remove(one)
        return status(403, "denied by webhook", "Forbidden") if found else None

    return hook


def two_of_four_refused(at: Scene) -> Iterator[Wait]:
    """A webhook refuses two of four once."""
    at.cluster("west").api.hooks.append(refuses(at, "b", "d"))
    submit(at, "a", "b", "c", "d", least=4, away="west")
    yield 45.0


def refused_for_good(at: Scene) -> Iterator[Wait]:
    """A webhook refuses one of three for ever."""
    at.cluster("west").api.hooks.append(refuses(at, *(["c"] * 1000)))
    submit(at, "a", "b", "c", least=3, away="west")
    yield 170.0


def others_come_late(at: Scene) -> Iterator[Wait]:
    """Of four that start together three are there, and the fourth is not made."""
    submit(at, "a", "b", "c", least=4)
    yield 40.0


def one_too_many(at: Scene) -> Iterator[Wait]:
    """Of three that want to start together two fit."""
    at.load("east", 1500)
    at.load("north", 1500)
    at.load("west", 1500)
    submit(at, "a", "b", "c", least=3, cpu=400)
    yield 40.0


def comes_later(at: Scene) -> Iterator[Wait]:
    """Where a group is there is no room for one more."""
    at.load("east", 2000)
    at.load("north", 2000)
    submit(at, "a", "b", "c", least=3, cpu=1000, away="west")
    yield 15.0
    at.unload("east")
    submit(at, "d", least=3, cpu=1100, away="west,east")
    yield 30.0


@plant("each pod of a group is bound as soon as its copy is made", hint=Hint(two_of_four_refused, ROOMY))
def no_barrier(patches: Patches) -> None:
    from dispatcher.scheduling.core.booked_groups import BookedGroups

    patches.set(BookedGroups, "holds_back", lambda self, tracked, in_flight, now: False)
    patches.set(BookedGroups, "lost", lambda self, pod_id, words, now: None)


@plant("a group is not given back where one of it is refused, nor later", hint=Hint(refused_for_good, ROOMY))
def never_given_back(patches: Patches) -> None:
    from dispatcher.scheduling.core.booked_groups import BookedGroups

    patches.set(BookedGroups, "lost", lambda self, pod_id, words, now: None)
    patches.set(BookedGroups, "tick", lambda self, now: None)


@plant("what was begun for a group that is given back is not undone", hint=Hint(refused_for_good, ROOMY))
def nothing_withdrawn(patches: Patches) -> None:
    from dispatcher.scheduling.core.booked_groups import BookedGroups

    patches.set(BookedGroups, "_withdraw", lambda self, tracked, now: None)


@plant("a group is decided before enough of its pods are there", hint=Hint(others_come_late, ROOMY))
def no_gate(patches: Patches) -> None:
    from dispatcher.scheduling.core import deciding
    from dispatcher.scheduling.waiting_groups import WaitingGroup

    patches.set(WaitingGroup, "is_whole", property(lambda self: True))
    patches.set(deciding, "place_group", partial(_as_many_as_fit, place_group))


@plant("as many of a group as fit are started", hint=Hint(one_too_many, ROOMY))
def partial_groups(patches: Patches) -> None:
    from dispatcher.scheduling.core import deciding

    patches.set(deciding, "place_group", partial(_as_many_as_fit, place_group))


@plant("who comes later goes anywhere", hint=Hint(comes_later, ROOMY))
def later_members_anywhere(patches: Patches) -> None:
    from dispatcher.scheduling.core import deciding

    real = place_group
    patches.set(
        deciding,
        "place_group",
        lambda profiles, group, waiting, placed=(): _as_many_as_fit(real, profiles, group, waiting),
    )


def _as_many_as_fit(place: Any, profiles: Any, group: Any, waiting: Any, placed: Any = ()) -> Any:
    import msgspec

    return place(profiles, msgspec.structs.replace(group, min_count=1), waiting, placed)
