"""Namespaces whose pods cannot leave their cluster for what others lack, as `doctor` is told of them."""

import msgspec

from dispatcher.scheduling.views import clusters_view, whole
from shared.model import names
from shared.model.crossing import Opening
from shared.model.objects import AnyObject, Namespace, Service
from tests.laws.cores import make_core
from tests.scheduling.core.test_core import pod, report

SHOP, TEAM, WEB = Namespace("shop"), Namespace("team"), Service("shop", "web")
API = Service("default", "kubernetes")


def apart(*there: AnyObject, opens: tuple[Opening, ...] = (), **of_pod: object) -> list[dict[str, object]]:
    """What is said of east, which has Service shop/web and one pod in each of two namespaces; `there` is in west, and
    `opens` its policy.
    """
    core = make_core(("east", "west"))
    core.clusters["west"].opens = opens
    for one in there:
        core.fleet.kept.put("west", one)
    pods = [msgspec.structs.replace(pod(name), namespace=name, **of_pod) for name in ("shop", "team")]
    report(core, *pods, objects=(SHOP, TEAM, WEB, API))
    (row,) = [row for row in whole(clusters_view(core)) if row["name"] == "east"]
    found: list[dict[str, object]] = row["apart"]
    return found


def test_what_others_lack_is_named_by_namespace() -> None:
    assert apart(SHOP, API) == [
        {"namespace": "shop", "absent_in": [], "services": {"west": ["web"]}},
        {"namespace": "team", "absent_in": ["west"], "services": {}},
    ]


def test_a_namespace_that_is_made_there_is_not_absent_but_lacks_its_services() -> None:
    row = Opening(("*",), ("*",), (), (), creates=("te*", "shop"))
    assert apart(Namespace("default"), API, opens=(row,)) == [
        {"namespace": "shop", "absent_in": [], "services": {"west": ["web"]}}
    ]


def test_nothing_is_said_where_all_is_there_or_nothing_is_known_or_wanted() -> None:
    assert apart(SHOP, TEAM, WEB, API) == []
    assert apart() == []
    assert apart(SHOP, API, annotations={names.STAY: "true"}) == []
    assert apart(SHOP, TEAM, API, annotations={names.SERVICES: "none"}) == []


def test_services_are_not_missed_where_the_policy_says_that_these_pods_call_none() -> None:
    row = Opening(("east",), ("shop",), (), (), services="none")
    assert apart(SHOP, TEAM, API, opens=(row,)) == []
    assert apart(SHOP, TEAM, API, opens=(msgspec.structs.replace(row, namespaces=("team",)),)) != []
