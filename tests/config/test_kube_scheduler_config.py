from textwrap import dedent

import pytest

from dispatcher.config import ConfigError
from dispatcher.config.document import parse_document
from dispatcher.config.kube_scheduler import KubeScheduler, is_kube_scheduler, read_kube_scheduler
from dispatcher.config.kube_scheduler.merge import DEFAULTS, Use, at_point, merged
from dispatcher.config.kube_scheduler.sections import PluginSet
from dispatcher.plugins.registry import REGISTRY
from dispatcher.scheduling.framework import PluginUse
from shared.model.topology import label_key

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
FLEET = ["TenantPriority", "TenantQuota", "TenantNodes", "TenantNodeQuota"]
FLEET += ["ClusterAllowed", "ClusterRefused", "NamespaceOpen", "NodeReady"]


def read(text: str) -> KubeScheduler:
    document = parse_document((HEAD + dedent(text)).encode(), "s.yaml")
    assert is_kube_scheduler(document)
    return read_kube_scheduler(document, REGISTRY)


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(text)
    return [str(one) for one in caught.value.problems]


def uses(text: str) -> dict[str, PluginUse]:
    (profile,) = read(text).profiles
    return {use.name: use for use in profile.plugins}


def test_an_empty_file_means_the_default_plugins_of_kube_scheduler_under_our_rules_of_the_fleet() -> None:
    (profile,) = read("").profiles
    names = [use.name for use in profile.plugins]
    assert profile.scheduler_name == "global-dispatcher"
    assert [name for name in names if name in FLEET] == FLEET
    known = {"FaultDomainSpread" if name == "PodTopologySpread" else name for name, _ in DEFAULTS} & set(REGISTRY)
    assert set(names) == known | set(FLEET)
    weights = {use.name: use.weight for use in profile.plugins}
    assert weights["TaintToleration"] == 3
    assert weights["NodeAffinity"] == 2


@pytest.mark.parametrize(
    ("changes", "plugin", "weight"),
    [
        ("multiPoint: {enabled: [{name: NodeAffinity, weight: 7}]}", "NodeAffinity", 7),
        ("multiPoint: {enabled: [{name: LiveCPU, weight: 2}]}", "LiveCPU", 2),
        ("score: {disabled: [{name: NodeAffinity}]}", "NodeAffinity", 0),
        ("score: {disabled: [{name: '*'}], enabled: [{name: TaintToleration, weight: 4}]}", "TaintToleration", 4),
        ("score: {disabled: [{name: '*'}], enabled: [{name: TaintToleration}]}", "NodeResourcesFit", 0),
        ("multiPoint: {disabled: [{name: NodePorts}]}", "NodePorts", None),
        ("filter: {disabled: [{name: NodePorts}]}\n    preFilter: {disabled: [{name: NodePorts}]}", "NodePorts", None),
        ("multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}]}", "NodeResourcesFit", None),
        ("score: {disabled: [{name: NodeResourcesBalancedAllocation}]}", "NodeResourcesBalancedAllocation", 0),
        ("multiPoint: {disabled: [{name: TenantQuota}]}", "TenantQuota", None),
    ],
)
def test_plugins_are_switched_as_kube_scheduler_would(changes: str, plugin: str, weight: float | None) -> None:
    text = f"profiles:\n- schedulerName: global-dispatcher\n  plugins:\n    {changes}\n"
    found = uses(text).get(plugin)
    assert (found.weight if found else None) == weight


def test_filters_named_again_come_first_in_the_order_of_the_file() -> None:
    text = """
        profiles:
        - plugins:
            filter: {enabled: [{name: NodeResourcesFit}, {name: TaintToleration}]}
        """
    (profile,) = read(text).profiles
    filters = [use.name for use in profile.plugins if "Filter" in REGISTRY[use.name].points and use.name not in FLEET]
    assert filters[:2] == ["NodeResourcesFit", "TaintToleration"]


def test_arguments_are_taken_over() -> None:
    text = """
        profiles:
        - pluginConfig:
          - name: NodeResourcesFit
            args:
              apiVersion: kubescheduler.config.k8s.io/v1
              kind: NodeResourcesFitArgs
              scoringStrategy:
                type: RequestedToCapacityRatio
                resources: [{name: cpu, weight: 3}, {name: memory}]
                requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}
          - name: NodeResourcesBalancedAllocation
            args: {resources: [{name: cpu, weight: 1}]}
          - name: PodTopologySpread
            args:
              defaultingType: List
              defaultConstraints: [{maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway},
                {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]
        """
    found = uses(text)
    assert found["NodeResourcesFit"].args == {
        "strategy": "RequestedToCapacityRatio",
        "resources": {"cpu": 3, "memory": 1},
        "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}],
    }
    assert found["NodeResourcesBalancedAllocation"].args == {"resources": ["cpu"]}
    # A label that is named like one of our levels is that label.
    assert found["FaultDomainSpread"].args["defaults"] == [
        {"key": label_key("zone"), "max_skew": 2, "hard": False},
        {"key": "zone", "max_skew": 1, "hard": True},
    ]


@pytest.mark.parametrize("args", ["{}", "{apiVersion: kubescheduler.config.k8s.io/v1, kind: PodTopologySpreadArgs}"])
def test_spread_arguments_without_defaulting_type_mean_system_defaults(args: str) -> None:
    text = f"profiles: [{{pluginConfig: [{{name: PodTopologySpread, args: {args}}}]}}]"
    assert uses(text)["FaultDomainSpread"].args == {"defaulting": "System"}


def test_the_default_wait_for_volumes_may_be_written_out_as_kube_scheduler_does() -> None:
    text = "profiles: [{pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: 600}}]}]"
    assert uses(text)["VolumeBinding"].args == {}


def test_several_profiles_and_the_backoffs_are_read() -> None:
    text = """
        podInitialBackoffSeconds: 2
        podMaxBackoffSeconds: 20
        profiles:
        - schedulerName: global-dispatcher
        - schedulerName: global-dispatcher-packing
          pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]
        """
    found = read(text)
    assert [one.scheduler_name for one in found.profiles] == ["global-dispatcher", "global-dispatcher-packing"]
    assert (found.backoff_first_s, found.backoff_longest_s) == (2, 20)


def test_what_means_nothing_here_is_noted() -> None:
    text = """
        percentageOfNodesToScore: 30
        parallelism: 16
        profiles:
        - percentageOfNodesToScore: 100
        """
    assert {one.key: one.text for one in read(text).notes} == {
        "parallelism": "is about the process of kube-scheduler: has no meaning here",
        "percentageOfNodesToScore": "has no meaning here: all feasible nodes are scored, always",
    }


PROFILE = "profiles:\n- schedulerName: global-dispatcher\n"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("profils: []", "s.yaml:3: profils: unknown key; did you mean profiles?"),
        (
            "profiles: [{plugins: {fliter: {}}}]",
            "s.yaml:3: profiles[0].plugins.fliter: unknown key; did you mean filter?",
        ),
        (
            "profiles: [{schedulerName: default-scheduler}]",
            "s.yaml:3: profiles[0].schedulerName: must be global-dispatcher or global-dispatcher-..., the pods of "
            "which the agents hand over, not 'default-scheduler'",
        ),
        (
            PROFILE + "  plugins: {score: {enabled: [{name: NodeResourceFit}]}}",
            "s.yaml:5: profiles[0].plugins.score.enabled[0].name: unknown plugin 'NodeResourceFit'; "
            "did you mean NodeResourcesFit?",
        ),
        (
            PROFILE + "  plugins: {multiPoint: {enabled: [{name: GangScheduling}]}}",
            "s.yaml:5: profiles[0].plugins.multiPoint.enabled[0].name: GangScheduling is not supported: "
            "pod groups are not scheduled as gangs",
        ),
        ("extenders: [{urlPrefix: x}]", "s.yaml:3: extenders: extenders are not supported: write a plugin instead"),
        (
            PROFILE + "  pluginConfig: [{name: NodeResourcesFit, args: {scoringStrateg: {}}}]",
            "s.yaml:5: profiles[0].pluginConfig[0].args.scoringStrateg: unknown argument; "
            "did you mean scoringStrategy?",
        ),
        (
            PROFILE + "  pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: Best}}}]",
            "s.yaml:5: profiles[0].pluginConfig[0].args.strategy: must be one of LeastAllocated, MostAllocated, "
            "RequestedToCapacityRatio, not 'Best'",
        ),
        (
            PROFILE + "  pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: 60}}]",
            "s.yaml:5: profiles[0].pluginConfig[0].args.bindTimeoutSeconds: must be 600: the wait for volumes is "
            "fixed here, not 60",
        ),
        (
            PROFILE + "  pluginConfig: [{name: NodeName}, {name: NodePorts}, {name: NodePorts}]",
            "s.yaml:5: profiles[0].pluginConfig[2].name: NodePorts is listed twice",
        ),
        (
            PROFILE + "  plugins: {filter: {disabled: [{name: NodeAffinity}]}}",
            "s.yaml:5: profiles[0].plugins: NodeAffinity is off at Filter alone: a plugin's rules are on or off "
            "together",
        ),
    ],
    ids=["key", "point", "name", "plugin", "gangs", "extender", "argument", "value", "wait", "twice", "half"],
)
def test_what_cannot_be_followed_is_named(text: str, want: str) -> None:
    assert want in problems(text)


def test_a_plugin_in_place_of_its_default_keeps_the_place() -> None:
    default = [Use("A"), Use("B", 1), Use("C")]
    given = PluginSet.model_validate(
        {"enabled": [{"name": "D"}, {"name": "B", "weight": 5}], "disabled": [{"name": "A"}]}
    )
    assert merged(default, given) == [Use("B", 5), Use("C"), Use("D")]


def test_a_point_puts_what_it_names_again_first_and_what_it_alone_names_last() -> None:
    multi = [Use("A"), Use("B"), Use("C")]
    given = PluginSet.model_validate({"enabled": [{"name": "X"}, {"name": "C"}], "disabled": [{"name": "A"}]})
    assert [use.name for use in at_point(multi, given)] == ["C", "B", "X"]
