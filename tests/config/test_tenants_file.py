"""The tree of tenants as a file: what it means, and what each mistake in it is told as."""

from pathlib import Path

import pytest

from dispatcher.config.problems import ConfigError
from dispatcher.config.tenants import read_tenants
from shared.model.pod import Toleration
from shared.model.tenant import FleetPart, Share, Tenant, part_of, quota_key, resource_of

WHOLE = """
tenants:
  - name: research
    nominal: {cpu: "40%", nvidia.com/gpu: 16}
    max_priority: 1000
  - name: vision
    parent: research
    namespaces: [vision-*]
    nominal: {nvidia.com/gpu: 8}
    borrowing_limit: {nvidia.com/gpu: 4, cpu: "10%"}
    lending_limit: {nvidia.com/gpu: 2}
    weight: 2.5
    clusters: [west]
    nodes: {selector: {pool: ml}, exclusive: true, tolerations: [{key: pool, value: ml, effect: NoExecute}]}
    spread: true
    quotas:
      - {cluster: west, nodes: {gpu: H100}, nominal: {nvidia.com/gpu: 2}, borrowing_limit: {nvidia.com/gpu: 0}}
"""
GIVES = "nodes: {{selector: {{a: b}}, tolerations: [{}]}}"
GIVEN = "tenants[1].nodes.tolerations[0]"
ONE = "tenants: [{{name: all, nominal: {{cpu: 8}}}}, {{name: a, namespaces: [a], parent: all, {}}}]"


def read(folder: Path, text: str) -> tuple[Tenant, ...]:
    (folder / "t.yaml").write_text(text)
    return read_tenants(folder / "t.yaml", ["east", "west"])


def problems(folder: Path, text: str) -> list[str]:
    try:
        read(folder, text)
    except ConfigError as error:
        return [f"{one.key}: {one.text}" for one in error.problems]
    return []


def test_everything_that_may_be_said_of_a_tenant(tmp_path: Path) -> None:
    research, vision = read(tmp_path, WHOLE)
    assert research == Tenant(
        "research", (), {"cpu": Share(ratio=0.4), "nvidia.com/gpu": Share(absolute=16)}, max_priority=1000
    )
    there = "nvidia.com/gpu@west,gpu=H100"
    assert vision == Tenant(
        "vision",
        ("vision-*",),
        {"nvidia.com/gpu": Share(absolute=8), there: Share(absolute=2)},
        parent="research",
        borrowing_limit={"nvidia.com/gpu": Share(absolute=4), "cpu": Share(ratio=0.1), there: Share(absolute=0)},
        lending_limit={"nvidia.com/gpu": Share(absolute=2)},
        weight=2500,
        clusters=("west",),
        selector={"pool": "ml"},
        exclusive=True,
        tolerations=(Toleration("pool", "Equal", "ml", "NoExecute"),),
        spread=True,
    )


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (FleetPart("west"), "nodes of cluster west"),
        (FleetPart("", (("a/b", "c"), ("d", ""))), "nodes with a/b=c and d="),
        (FleetPart("west", (("gpu", "H100"),)), "nodes of cluster west with gpu=H100"),
    ],
)
def test_the_key_of_a_quota_says_of_which_nodes_it_is(part: FleetPart, words: str) -> None:
    key = quota_key("cpu", part)
    assert (resource_of(key), part_of(key), part.words) == ("cpu", part, words)
    assert part_of("cpu") is None


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("parent: al", "tenants[1].parent: 'al' is no tenant; did you mean all?"),
        ("weight: -1", "tenants[1].weight: must be at least 0, not -1"),
        ("weight: 1.23456", "tenants[1].weight: must have three decimals at most"),
        ("borowing_limit: {}", "tenants[1].borowing_limit: unknown key; did you mean borrowing_limit?"),
        (
            "lending_limit: {memory: 1Gi}",
            "tenants[1].lending_limit.memory: limits nothing, as no tenant of its tree has `nominal` of it: "
            "give it to a, or to all",
        ),
        ("lending_limit: {cpu: x}", "tenants[1].lending_limit.cpu: quantity 'x' is not a number"),
        ("clusters: [wets]", "tenants[1].clusters[0]: 'wets' is no configured cluster; did you mean west?"),
        ("nodes: {selector: {}}", "tenants[1].nodes.selector: must be a map with a key at least, not {}"),
        ("nominal: {cpu: 4Gi}", "tenants[1].nominal.cpu: 4Gi of cpu is an amount of bytes: write 4"),
        ("nodes: {selector: {'a b': c}}", "tenants[1].nodes.selector.a b: must be the key of a label"),
        ("nodes: {selector: {a: 'b,c'}}", "tenants[1].nodes.selector.a: must be the value of a label of nodes"),
        (GIVES.format("{key: a.k8s.io/b}"), f"{GIVEN}.key: 'a.k8s.io/b' is of a taint that protects nodes"),
        (GIVES.format("{key: 'a b'}"), f"{GIVEN}.key: must be the key of a label"),
        (GIVES.format("{key: '', operator: Exists}"), f"{GIVEN}.key: must be the key of a label"),
        (GIVES.format("{key: a, value: 'b c'}"), f"{GIVEN}.value: must be the value of a label of nodes"),
        (GIVES.format("{key: a, operator: Exists, value: b}"), f"{GIVEN}.value: has no meaning with the operator"),
        (GIVES.format("{key: a, value: 5}"), f"{GIVEN}.value: must be text, not 5: put it in quotes"),
        (GIVES.format("{key: a}, " * 9), f"{GIVEN[:-3]}: must be a list with 8 entries at most"),
        (GIVES.format("{operator: Exists}"), f"{GIVEN}.key: is missing"),
        ("min_runtime_s: 2592001", "tenants[1].min_runtime_s: must be at most 2592000, not 2592001"),
        ("nodes: ", "tenants[1].nodes: is empty: say what holds, or take the key out"),
        ("max_priority: 2000000000", "tenants[1].max_priority: must be at most 1000000000"),
        ("quotas: [{nominal: {cpu: 1}}]", "tenants[1].quotas[0]: needs `cluster` or `nodes`"),
        ("quotas: [{cluster: norf, nominal: {cpu: 1}}]", "tenants[1].quotas[0].cluster: 'norf' is no configured"),
        (
            "quotas: [{cluster: west, nominal: {cpu: 1}}, {cluster: west, nominal: {pods: 1}}]",
            "tenants[1].quotas[1]: is of the same nodes as an entry before it",
        ),
    ],
)
def test_each_mistake_is_named_with_its_key(tmp_path: Path, said: str, problem: str) -> None:
    text = ONE.format(said) if "parent" not in said else ONE.format("").replace("parent: all", said)
    found = problems(tmp_path, text)
    assert len(found) == (2 if "parent" in said else 1), found
    assert found[-1].startswith(problem)


@pytest.mark.parametrize(
    ("tenants", "problem"),
    [
        ("[{name: a}]", "tenants[0].namespaces: is missing: a tenant has namespaces, or is the `parent`"),
        ("[{name: a, namespaces: a}]", "tenants[0].namespaces: must be a list of namespaces, not 'a'"),
        ("[{name: a, namespaces: []}]", "tenants[0].namespaces: must be a list with an entry at least"),
        (
            "[{name: a, namespaces: [a], nominal: {cpu: 1}, borrowing_limit: {cpu: 1}}]",
            "tenants[0].borrowing_limit: says nothing of a tenant without a `parent`",
        ),
        (
            "[{name: a, namespaces: [a], parent: b}, {name: b, parent: a}]",
            "tenants[0].parent: 'b' is part of a itself",
        ),
        ("[{name: a, namespaces: [a], parent: a}]", "tenants[0].parent: 'a' is part of a itself"),
        (
            "[{name: a, namespaces: [a], parent: b}, {name: b, parent: c}, {name: c, parent: b}]",
            "tenants[1].parent: 'c' is part of b itself",
        ),
        (
            "[{name: all, nominal: {cpu: 1}}, {name: a, namespaces: [a], parent: all, "
            "quotas: [{cluster: west, nominal: {cpu: 1}, borrowing_limit: {memory: 1Gi}}]}]",
            "tenants[1].quotas[0].borrowing_limit.memory: limits nothing, as no tenant of its tree has `nominal` of it",
        ),
    ],
)
def test_what_is_no_tree_is_told(tmp_path: Path, tenants: str, problem: str) -> None:
    found = problems(tmp_path, f"tenants: {tenants}")
    assert found[0].startswith(problem)
    assert len({one.partition(": ")[0] for one in found}) == len(found), "each key once"


PATTERNS = ["*", "a", "a*", "ab", "ab*", "west/*", "west/a", "west/a*", "west/ab", "east/a*"]
NAMES = [(cluster, name) for cluster in ("west", "east") for name in ("a", "ab", "ac", "abc", "b")]


@pytest.mark.parametrize("first", PATTERNS)
@pytest.mark.parametrize("second", PATTERNS)
def test_a_pattern_is_taken_where_one_before_it_means_all_that_it_means(
    tmp_path: Path, first: str, second: str
) -> None:
    one, other = ({name for name in NAMES if Tenant("t", (pattern,), {}).owns(*name)} for pattern in (first, second))
    wide = "/" not in second and "/" in first  # of other clusters, too
    found = problems(
        tmp_path, f"tenants: [{{name: a, namespaces: ['{first}']}}, {{name: b, namespaces: ['{second}']}}]"
    )
    assert bool(found) is (other <= one and not wide and not (second.endswith("*") and not first.endswith("*")))


POOL = "{{name: {}, namespaces: [{}], nodes: {{selector: {{pool: {}}}, exclusive: true}}{}}}"


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        (POOL.format("b", "b", "x", ""), "tenants[1].nodes.selector: means nodes that tenant a keeps for itself"),
        (POOL.format("b", "b", "y", ""), ""),
        (POOL.format("b", "b", "x", ", parent: a"), ""),
        (POOL.format("b", "b", "y", ", parent: a"), "tenants[1].nodes.selector.pool: must be x, as a has"),
        (POOL.format("b", "b", "x", ", clusters: [west]"), "tenants[1].nodes.selector: means nodes that tenant a"),
        ("{name: b, namespaces: [b], nodes: {selector: {pool: x}}}", ""),
    ],
)
def test_nodes_that_nobody_could_use_are_told(tmp_path: Path, second: str, problem: str) -> None:
    found = problems(tmp_path, f"tenants: [{POOL.format('a', 'a', 'x', '')}, {second}]")
    assert bool(found) is bool(problem)
    assert all(one.startswith(problem) for one in found)


def test_a_tree_is_no_deeper_than_can_be_followed(tmp_path: Path) -> None:
    levels = ["{name: t0, nominal: {cpu: 1}}"]
    levels += [f"{{name: t{at}, namespaces: [n{at}], parent: t{at - 1}}}" for at in range(1, 9)]
    found = problems(tmp_path, f"tenants: [{', '.join(levels)}]")
    assert found == ["tenants[8].parent: makes a tree of more than 8 levels"]


def test_a_tenant_is_not_called_as_everybody_else_is(tmp_path: Path) -> None:
    found = problems(tmp_path, "tenants: [{name: default, namespaces: [a]}]\ndefault: {nominal: {cpu: 1}}")
    assert found == ["tenants[0].name: tenant default is defined by `default` already: take another name"]


def test_a_default_that_was_cut_off_lifts_no_quota(tmp_path: Path) -> None:
    found = problems(tmp_path, "tenants: [{name: a, namespaces: [a]}]\ndefault:")
    assert found == ["default: is empty: say what holds, or take the key out"]


def test_a_default_behind_all_namespaces_is_told(tmp_path: Path) -> None:
    found = problems(tmp_path, "tenants: [{name: a, namespaces: ['*']}]\ndefault: {nominal: {cpu: 1}}")
    assert found == ["default: is for nobody: '*' of tenant a is every namespace"]
