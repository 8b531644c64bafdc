"""Between which clusters the gateway passes streams about a pod."""

from types import SimpleNamespace
from typing import cast

import pytest

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.delegation.tracked_pods import TrackedPods
from dispatcher.scheduling.delegation.tracking import Tracked
from dispatcher.service.fleet_views import CoreViews
from shared.model.names import proxy_node_name
from shared.model.pod import Claim, Pod

ID = ("east", "u1")
CLAIMED = Pod("u1", "default", "web", claim=Claim("west", "w1", 5), has_finalizer=True)
BOUND = Pod("u1", "default", "web", node=proxy_node_name("west"), claim=CLAIMED.claim, has_finalizer=True)


def views(*, source: Pod, delegate: bool = False) -> CoreViews:
    tracked = TrackedPods()
    tracked[ID] = Tracked(ID, source)
    if delegate:
        tracked[ID].see_delegate("west", Pod("d1", "default", "web-1", node="w1"))
    core = SimpleNamespace(tracked=tracked)
    made = CoreViews.__new__(CoreViews)
    made._core = cast(SchedulerCore, core)
    return made


@pytest.mark.parametrize(("source", "delegate"), [(CLAIMED, False), (BOUND, True)], ids=["on its way", "there"])
def test_where_a_pod_goes_may_ask_its_home_and_nobody_else_may(source: Pod, delegate: bool) -> None:
    asked = views(source=source, delegate=delegate)
    assert asked.relay_objection("west", "east", "u1") == ""
    assert asked.relay_objection("north", "east", "u1")
    assert asked.relay_objection("west", "east", "u2")
    assert asked.relay_objection("west", "north", "u1")


@pytest.mark.parametrize(("source", "delegate"), [(CLAIMED, False), (BOUND, True)], ids=["on its way", "there"])
def test_its_home_may_ask_where_its_copy_shows(source: Pod, delegate: bool) -> None:
    assert (views(source=source, delegate=delegate).relay_objection("east", "west", "u1") == "") == delegate
