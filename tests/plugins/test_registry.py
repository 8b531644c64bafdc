import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import pytest

from dispatcher import plugins
from dispatcher.plugins.hot_node import HOT
from dispatcher.plugins.registry import (
    REGISTRY,
    PluginContext,
    PluginSpec,
    build,
    queue_sort,
    reason_clash,
    reasons_of,
)
from dispatcher.scheduling import rules
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import SKIP, Plugin, PluginUse, PodInfo, Profile
from dispatcher.scheduling.framework.plugin_args import Args, table_of
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from shared.model.names import CLUSTERS, DATA, NEAR, ZONE
from shared.model.pod import Volume
from shared.model.reasons import Reason
from tests.builders import fleet, pod, selector
from tests.plugins.asking import make, state_of
from tests.plugins.storage import bound, storing, volume

NAMES = sorted(REGISTRY)
# Arguments without which a plugin has nothing to say.
SPEAKING: dict[str, dict[str, Any]] = {
    "EgressPrice": {"prices": [{"from": "*", "to": "*", "per_gib": 0.1}]},
    "NodePrice": {"prices": {"m5.large": 0.096}},
}


def test_registry_builds_the_default_profile_in_its_order() -> None:
    plugins = build(DEFAULT_PROFILE, PluginContext())
    assert [plugin.name for plugin in plugins] == [use.name for use in DEFAULT_PROFILE.plugins]
    assert getattr(queue_sort(plugins), "name", "") == "PrioritySort"


@pytest.mark.parametrize("name", NAMES)
def test_every_plugin_says_what_it_looks_at_in_a_hashable_way(name: str) -> None:
    asking = pod().cpu(1).labels(a="b").spread("zone").port(80).tolerates("x").prefers(1, "x", "In", "y").port(81)
    hash(make(name).class_key(asking.placed()))


@pytest.mark.parametrize("name", NAMES)
def test_every_default_argument_passes_its_own_check_or_is_what_the_check_gives(name: str) -> None:
    for key, arg in REGISTRY[name].arguments.items():
        assert arg.doc, key
    assert make(name).name == name


@pytest.mark.parametrize("name", NAMES)
def test_every_plugin_stands_an_empty_fleet(name: str) -> None:
    plugin, state = make(name), storing(bound("data", "pv1"), volume("pv1", labels={ZONE: "z"}), nodes=())
    volumes = (Volume("claim", "data"), Volume("gcePersistentDisk", "d"))
    asking = (
        pod().set(volumes=volumes).cpu(1).labels(a="b").port(80).prefers(1, "x", "Exists").annotation(CLUSTERS, "a")
    )
    asking = asking.near("zone", selector(a="b")).away("host", selector(a="b")).near("zone", selector(), weight=5)
    asked = state_of(plugin, asking.spread("zone", hard=False).spread("rack"), state)
    if asked is SKIP:
        return
    if "Filter" in REGISTRY[name].points:
        assert len(plugin.filter(asked, view_of(state), slice(0, 0))) == 0
    if "Score" in REGISTRY[name].points:
        assert len(plugin.normalize(plugin.score(asked, view_of(state), slice(0, 0)))) == 0


@pytest.mark.parametrize("name", NAMES)
def test_every_explanation_is_plain_json(name: str) -> None:
    asking = pod().labels(a="b").spread("cluster").annotation(NEAR, "cluster/a").annotation(DATA, "maps")
    plugin, state = make(name, **SPEAKING.get(name, {})), fleet(a=["n1"])
    if hasattr(plugin, "explain"):
        json.dumps(plugin.explain(state_of(plugin, asking, state), asking.placed(), view_of(state), 0), allow_nan=False)


def test_points_are_kube_schedulers_names() -> None:
    points = {name: spec.points for name, spec in REGISTRY.items()}
    assert points["PrioritySort"] == ("QueueSort",)
    assert points["TenantQuota"] == ("PreFilter", "Reserve")
    assert points["NodeResourcesFit"] == ("PreFilter", "Filter", "Score")
    assert points["HomeCluster"] == ("PreFilter", "Score")


@pytest.mark.parametrize(
    ("use", "want"),
    [
        (PluginUse("NodeResourceFit"), "unknown plugin NodeResourceFit; did you mean NodeResourcesFit?"),
        (PluginUse("LiveCPU", args={"fresh": 1}), "LiveCPU.fresh: unknown argument; did you mean fresh_s?"),
    ],
    ids=["plugin", "argument"],
)
def test_build_names_what_it_does_not_know(use: PluginUse, want: str) -> None:
    with pytest.raises(ValueError, match="unknown") as caught:
        build(Profile("p", (use,)), PluginContext())
    assert str(caught.value) == want


def test_build_takes_plugins_of_others() -> None:
    class Mine(Plugin):
        name = "Mine"

        def class_key(self, pod_info: PodInfo) -> None:
            return None

    plugins = build(Profile("p", (PluginUse("Mine"),)), PluginContext(), {"Mine": PluginSpec(Mine)})
    assert [type(plugin) for plugin in plugins] == [Mine]


def test_queue_sort_wants_exactly_one() -> None:
    with pytest.raises(ValueError, match="exactly one QueueSort plugin, such as PrioritySort; it has 0"):
        queue_sort([make("NodePorts")])


def test_every_plugin_file_is_registered() -> None:
    folder = Path(__file__).parents[2] / "dispatcher" / "plugins"
    files = {path.stem for path in folder.glob("*.py")} - {"__init__", "registry"}
    assert files == {spec.plugin.__module__.rpartition(".")[2] for spec in REGISTRY.values()}


@pytest.mark.parametrize("name", NAMES)
def test_every_default_may_be_written(name: str) -> None:
    for key, arg in REGISTRY[name].arguments.items():
        assert arg.check(_written(name, key, arg.default)) == arg.default, key


def _written(name: str, key: str, default: Any) -> object:
    """A default as a profile would have it, where that is not the same."""
    others: dict[tuple[str, str], object] = {
        ("ExpectedLoad", "signals"): {"cpu": 2, "memory": 1, "network": 1},
        ("NetworkTopology", "levels"): {"rack": 1, "zone": 1, "region": 1, "cluster": 1},
        ("NodeAffinity", "added_affinity"): [],
        ("NodeResourcesFit", "resources"): {"cpu": 1, "memory": 1},
        ("NodeResourcesFit", "shape"): [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}],
        ("DataLocality", "datasets"): {},
        ("EgressPrice", "datasets"): {},
        ("NodePrice", "prices"): {},
        ("NodePrice", "clusters"): {},
        ("GPUFragmentation", "mix"): [{"cpu": 0, "gpu": 1000, "share": 1}],
    }
    return others.get((name, key), default)


def test_an_argument_without_bounds_needs_a_reader() -> None:
    class Loose(Args):
        most: float = 1.0

    with pytest.raises(TypeError, match="argument most needs bounds, or a reader"):
        table_of(Loose)


def test_no_two_reasons_are_alike() -> None:
    known = reasons_of(REGISTRY)
    assert len({one.name for one in known}) == len({one.words for one in known}) == len(known)
    own = [one for spec in REGISTRY.values() for one in spec.plugin.REASONS]
    assert len(own) == len(set(own)), "a reason is of one plugin"


@pytest.mark.parametrize("package", [plugins, rules])
def test_every_reason_that_a_policy_declares_is_in_the_list(package: ModuleType) -> None:
    known = reasons_of(REGISTRY)
    for found in iter_modules(package.__path__, f"{package.__name__}."):
        declared = [one for one in vars(import_module(found.name)).values() if isinstance(one, Reason)]
        assert all(one in known for one in declared), found.name


@pytest.mark.parametrize("alike", [replace(HOT, words="-"), replace(HOT, name="warm")])
def test_a_plugin_that_comes_may_not_have_the_name_or_words_of_another_reason(alike: Reason) -> None:
    class Own(Plugin):
        name = "Own"
        REASONS = (alike,)

        def class_key(self, pod_info: PodInfo) -> None: ...

    assert reason_clash(PluginSpec(Own), REGISTRY)
    assert not reason_clash(REGISTRY["HotNode"], REGISTRY)
