import os
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.config import ConfigError, agent_settings, check_config, load_config, plugin_registry
from dispatcher.config.document import MAX_BYTES, parse_document
from dispatcher.config.sections import ClusterSection, ConfigFile
from dispatcher.config.tenants import parse_share
from dispatcher.plugins.registry import REGISTRY
from dispatcher.scheduling.framework.plugin_args import check_args
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from shared.model.tenant import Share, Tenant

CONFIGS = Path(__file__).parents[2] / "configs"
MISSING = "there is no file {}: correct it (paths are relative to the folder of this file), or leave it out"


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("GLOBAL_DISPATCHER_")]:
        monkeypatch.delenv(name)


def problems_of(folder: Path, **files: str) -> list[str]:
    """Write dispatcher.yaml and what it names, check it, answer 'file:line: key: text' without the folder."""
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    found = check_config(folder / "dispatcher.yaml")
    return [str(one).replace(f"{folder}{os.sep}", "") for one in found]


def test_without_a_file_the_defaults_hold() -> None:
    config = load_config(None)
    assert config.profile == DEFAULT_PROFILE
    assert (config.http.host, config.http.port) == ("127.0.0.1", 7480)
    assert config.clusters == ()
    assert config.tenants == ()


def test_the_shipped_file_says_the_defaults() -> None:
    written, default = load_config(CONFIGS / "dispatcher.yaml"), load_config(None)
    names = "clusters profiles tenants ray http journal tracing quota leader_election timing log"
    for section in names.split():
        assert getattr(written, section) == getattr(default, section), section


def test_a_copy_of_the_shipped_file_works_in_any_folder(tmp_path: Path) -> None:
    (tmp_path / "dispatcher.yaml").write_text((CONFIGS / "dispatcher.yaml").read_text())
    assert check_config(tmp_path / "dispatcher.yaml") == []


def test_the_default_profile_is_the_built_in_one(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(f"profile: {CONFIGS / 'profiles' / 'default.yaml'}")
    written = load_config(tmp_path / "c.yaml").profile
    spelt_out = [(use.name, use.weight, check_args(REGISTRY[use.name].arguments, use.args)) for use in written.plugins]
    built_in = [
        (use.name, use.weight, check_args(REGISTRY[use.name].arguments, use.args)) for use in DEFAULT_PROFILE.plugins
    ]
    assert spelt_out == built_in
    assert written.scheduler_name == DEFAULT_PROFILE.scheduler_name


def test_the_shipped_file_shows_every_key() -> None:
    shown = yaml.safe_load((CONFIGS / "dispatcher.yaml").read_text())
    assert set(shown) == set(ConfigFile.model_fields)
    for key, section in ConfigFile().model_dump().items():
        if isinstance(section, dict):
            assert set(shown[key]) == set(section)


def test_the_file_of_tokens_is_relative_to_the_file_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("http: {login: {token_file: tokens}}")
    assert load_config(tmp_path / "c.yaml").http.login.token_file == str(tmp_path / "tokens")
    (tmp_path / "c.yaml").write_text("{}")
    assert load_config(tmp_path / "c.yaml").http.login.token_file == ""


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "t.yaml").write_text("tenants: [{name: team, namespaces: [team], nominal: {cpu: 10%}}]")
    (tmp_path / "c.yaml").write_text("{tenants: sub/t.yaml, clusters: [{name: west, kubeconfig: kube/west}]}")
    config = load_config(tmp_path / "c.yaml")
    assert config.tenants == (Tenant("team", ("team",), {"cpu": Share(ratio=0.1)}),)
    assert config.clusters[0].kubeconfig == str(tmp_path / "kube/west")


def test_the_environment_goes_before_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c.yaml").write_text("http: {port: 1, host: 0.0.0.0}")
    monkeypatch.setenv("GLOBAL_DISPATCHER_HTTP__PORT", "8080")
    config = load_config(tmp_path / "c.yaml")
    assert (config.http.host, config.http.port) == ("0.0.0.0", 8080)


@pytest.mark.parametrize(
    ("name", "value", "want"),
    [
        (
            "GLOBAL_DISPATCHER_HTTP__PORT",
            "x",
            "environment: GLOBAL_DISPATCHER_HTTP__PORT: must be a whole number, not 'x'",
        ),
        (
            "GLOBAL_DISPATCHER_HTTP__PROT",
            "1",
            "environment: GLOBAL_DISPATCHER_HTTP__PROT: unknown key; did you mean port",
        ),
        (
            "GLOBAL_DISPATCHER_CLUSTERS",
            "[",
            "environment: GLOBAL_DISPATCHER_CLUSTERS: must be JSON, as a section or a ",
        ),
    ],
)
def test_a_bad_variable_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, want: str
) -> None:
    monkeypatch.setenv(name, value)
    found = problems_of(tmp_path, dispatcher="http: {host: h}")
    assert len(found) == 1
    assert found[0].startswith(want)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("htpp: {}", "dispatcher.yaml:1: htpp: unknown key; did you mean http?"),
        (
            "http:\n  port: 70000",
            "dispatcher.yaml:2: http.port: must be at most 65535, not 70000",
        ),
        (
            "http: [1]",
            "dispatcher.yaml:1: http: must be a map of keys (host, port, login), not [1]",
        ),
        ("- a", "dispatcher.yaml:1: must be a map of keys, not ['a']"),
        ("timing: {tick_s: .nan}", "dispatcher.yaml:1: timing.tick_s: must be a finite number, not nan"),
        ("timing: {tick_s: 0}", "dispatcher.yaml:1: timing.tick_s: must be greater than 0, not 0"),
        (
            "timing:\n  poll_wait_s: 20",
            "dispatcher.yaml:2: timing.poll_wait_s: must not be greater than cluster_silent_s (10)",
        ),
        (
            "timing:\n  peers_s: 31",
            "dispatcher.yaml:2: timing.peers_s: must be at most a quarter of delegate_lease_s (120)",
        ),
        (
            "timing: {delegate_lease_s: 30}",
            "dispatcher.yaml:1: timing.delegate_lease_s: must be at least 60, not 30",
        ),
        ("clusters: {name: b}", "dispatcher.yaml:1: clusters: must be a list of clusters, not {'name': 'b'}"),
        ("clusters:", "dispatcher.yaml:1: clusters: must be a list of clusters, not empty"),
        (
            "clusters:\n- west",
            "dispatcher.yaml:2: clusters[0]: must be a map of keys (name, context, kubeconfig, agent, ...), not 'west'",
        ),
        ("plugin_files: a.py", "dispatcher.yaml:1: plugin_files: must be a list of plugin files, not 'a.py'"),
        (
            "timing: soon",
            "dispatcher.yaml:1: timing: must be a map of keys (cluster_silent_s, cluster_lost_s, "
            "poll_wait_s, first_sync_s, ...), not 'soon'",
        ),
        ("http: {host: ''}", "dispatcher.yaml:1: http.host: must be text that is not empty, not ''"),
        ("leader_election: {enabled: 7}", "dispatcher.yaml:1: leader_election.enabled: must be true or false, not 7"),
        ("clusters:\n- {context: x}", "dispatcher.yaml:2: clusters[0].name: is missing"),
        ("clusters:\n- name: a\n- name: a", "dispatcher.yaml:3: clusters[1].name: cluster a is listed twice"),
        (
            "clusters: [{name: A_b}]",
            "dispatcher.yaml:1: clusters[0].name: "
            "must be a DNS label (a-z, 0-9 and '-') of at most 42 characters, not 'A_b'",
        ),
        (
            "clusters:\n- name: a\n  agent:\n    kubelet:\n      intervall_s: 3",
            "dispatcher.yaml:5: clusters[0].agent.kubelet.intervall_s: unknown key; did you mean interval_s?",
        ),
        (
            "clusters:\n- name: a\n  agent:\n    executor:\n      accept:\n      - allow: [hostPorts]",
            "dispatcher.yaml:6: clusters[0].agent.executor.accept[0].allow[0]: must be 'hostPort', "
            "'capabilities', 'seccomp', 'appArmor', 'procMount', 'seLinux', 'sysctls', 'probeHost' or 'controlPlane', "
            "not 'hostPorts'",
        ),
        (
            "clusters: [{name: a, agent: {context: x}}]",
            "dispatcher.yaml:1: clusters[0].agent.context: is set by `context` of the cluster: remove it here",
        ),
        (
            "scheduling:\n  shards: 2",
            "dispatcher.yaml:1: scheduling: unknown key: remove it, as there are no shards any more",
        ),
        ("profile: gone.yaml", f"dispatcher.yaml:1: profile: {MISSING.format('gone.yaml')}"),
        ("http: {}\nprofiles: [gone.yaml]", f"dispatcher.yaml:2: profiles[0]: {MISSING.format('gone.yaml')}"),
        ("tenants: gone.yaml", f"dispatcher.yaml:1: tenants: {MISSING.format('gone.yaml')}"),
        ("plugin_files: [gone.py]", f"dispatcher.yaml:1: plugin_files[0]: {MISSING.format('gone.py')}"),
        (
            "log: {level: loud}",
            "dispatcher.yaml:1: log.level: must be 'debug', 'info', 'warning' or 'error', not 'loud'",
        ),
    ],
    ids=[
        "section",
        "value",
        "shape",
        "no map",
        "not a number",
        "bound",
        "two that do not go together",
        "renewals too far apart",
        "lease too short",
        "a map for a list",
        "nothing for a list",
        "text for a map",
        "text for a list",
        "text for a section",
        "empty text",
        "no yes or no",
        "missing",
        "cluster twice",
        "cluster name",
        "agent key",
        "word of an agent's policy",
        "agent key set elsewhere",
        "shards, which are gone",
        "missing profile",
        "missing one of the profiles",
        "missing tenants",
        "missing plugin",
        "choice",
    ],
)
def test_a_problem_names_file_line_and_key(tmp_path: Path, text: str, want: str) -> None:
    assert problems_of(tmp_path, dispatcher=text) == [want]


@pytest.mark.parametrize(
    ("key", "value"), [("profile", "d"), ("profiles[0]", "[d]"), ("tenants", "d"), ("plugin_files[0]", "[d]")]
)
def test_a_folder_where_a_file_belongs_is_told_with_its_key(tmp_path: Path, key: str, value: str) -> None:
    (tmp_path / "d").mkdir()
    found = problems_of(tmp_path, dispatcher=f"{key.partition('[')[0]}: {value}")
    assert found == [f"dispatcher.yaml:1: {key}: d is a folder: name a file, or leave it out"]


def test_all_problems_are_told_at_once_file_by_file(tmp_path: Path) -> None:
    found = problems_of(
        tmp_path,
        dispatcher="profile: p.yaml\ntenants: t.yaml\nclusters:\n- {nam: x}\nray: {adress: x}\n",
        p="plugins:\n- name: NodePort\n- name: PrioritySort\n",
        t="tenants:\n- {name: a, namespaces: [x], nominal: {cpu: -1}, extra: 1}\n",
    )
    assert found == [
        "dispatcher.yaml:4: clusters[0].name: is missing",
        "dispatcher.yaml:4: clusters[0].nam: unknown key; did you mean name?",
        "dispatcher.yaml:5: ray.adress: unknown key; did you mean address?",
        "p.yaml:2: plugins[0].name: unknown plugin 'NodePort'; did you mean NodePorts?",
        "t.yaml:2: tenants[0].extra: unknown key; "
        "known: name, namespaces, parent, nominal, borrowing_limit, lending_limit, weight, quotas, clusters, nodes, "
        "max_priority, spread, reclaim, reclaim_strategies, min_runtime_s",
        "t.yaml:2: tenants[0].nominal.cpu: quantity '-1' is negative; "
        "write a share such as 40% or a quantity such as 64 or 256Gi",
    ]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("a: &x [1]\nb: *x", "dispatcher.yaml:2: uses the alias *x: write it out"),
        ("[" * 100, "dispatcher.yaml:1: is nested deeper than 32 levels"),
        ("a: {b: 1", "dispatcher.yaml:1: is no YAML: "),
        ("a: 1\n---\nb: 2", "dispatcher.yaml:2: is no YAML: expected a single document in the stream"),
        ("http: {}\nlog: {}\nhttp: {}", "dispatcher.yaml:3: http: given twice, first on line 1"),
        ("? [a]\n: 1", "dispatcher.yaml:1: a key must be text"),
        ("a: !!python/object/apply:os.getcwd []", "dispatcher.yaml:1: a: unknown key"),
        ("a: 2024-99-99", "dispatcher.yaml:1: a: month must be in 1..12"),
        ("a: !!python/name:os.getcwd x", "dispatcher.yaml:1: a: could not determine a constructor"),
        ("#" * (MAX_BYTES + 1), "dispatcher.yaml: is larger than 1048576 bytes"),
        ("\x00", "dispatcher.yaml: is no YAML: "),
    ],
    ids=[
        "alias",
        "depth",
        "broken",
        "two documents",
        "key twice",
        "key that is a list",
        "tag on a list",
        "bad date",
        "tag on a scalar",
        "size",
        "control character",
    ],
)
def test_hostile_yaml_is_refused_in_one_line(tmp_path: Path, text: str, want: str) -> None:
    found = problems_of(tmp_path, dispatcher=text)
    assert len(found) == 1
    assert found[0].startswith(want)


@given(st.binary(max_size=300) | st.text("{}[]:-&*!? \n'\"|>%@ab1", max_size=60).map(str.encode))
def test_any_bytes_are_a_document_or_a_config_error(raw: bytes) -> None:
    try:
        document = parse_document(raw, "f.yaml")
    except ConfigError as error:
        assert all(str(one).startswith("f.yaml") and "\n" not in str(one) for one in error.problems)
    else:
        assert document.lines or document.data is None


PRIORITY = "- name: PrioritySort\n"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (PRIORITY + "- {name: LiveCPU, weight: -1}", "3: plugins[1].weight: must be from 0 to 1000, not -1"),
        (
            PRIORITY + "- {name: LiveCPU, weight: .inf}",
            "3: plugins[1].weight: must be a number from 0 to 1000, not inf",
        ),
        (
            PRIORITY + "- {name: LiveCPU, weight: yes}",
            "3: plugins[1].weight: must be a number from 0 to 1000, not True",
        ),
        (
            PRIORITY + "- {name: NodePorts, weight: 1}",
            "3: plugins[1].weight: NodePorts does not score: remove the weight",
        ),
        (
            PRIORITY + "- name: LiveCPU\n  args:\n    fresh: 3",
            "5: plugins[1].args.fresh: unknown argument; did you mean fresh_s?",
        ),
        (
            PRIORITY + "- name: LiveCPU\n  args:\n    fresh_s: 300",
            "4: plugins[1].args: stale_s (120) must be greater than fresh_s (300)",
        ),
        (PRIORITY + "- name: PrioritySort", "3: plugins[1].name: PrioritySort is listed twice"),
        ("- name: LiveCPU", "1: plugins: needs exactly one QueueSort plugin, such as PrioritySort; it has 0"),
        (PRIORITY + "scheduler_name: x", "3: scheduler_name: must be global-dispatcher or "),
    ],
    ids=[
        "negative weight",
        "infinite weight",
        "weight that is no number",
        "weight of a filter",
        "argument",
        "arguments that do not go together",
        "plugin twice",
        "no queue sort",
        "scheduler name",
    ],
)
def test_a_profile_problem_names_line_and_key(tmp_path: Path, text: str, want: str) -> None:
    found = problems_of(tmp_path, dispatcher="profile: p.yaml", p="plugins:\n" + text)
    assert len(found) == 1
    assert found[0].startswith("p.yaml:" + want)


def test_a_profile_keeps_order_weights_and_arguments(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(f"plugins:\n{PRIORITY}- {{name: LiveCPU, weight: 2.5, args: {{fresh_s: 1}}}}")
    (tmp_path / "c.yaml").write_text("profile: p.yaml")
    uses = load_config(tmp_path / "c.yaml").profile.plugins
    assert [(use.name, use.weight, use.args) for use in uses] == [
        ("PrioritySort", 1.0, {}),
        ("LiveCPU", 2.5, {"fresh_s": 1}),
    ]


HUGE = "1" + "0" * 400


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (f"- {{name: LiveCPU, weight: {HUGE}}}", "weight: must be a number from 0 to"),
        (f"- {{name: LiveCPU, args: {{fresh_s: {HUGE}}}}}", "must be a number from"),
    ],
)
def test_a_number_that_no_float_holds_is_told_and_raises_nothing_else(tmp_path: Path, line: str, told: str) -> None:
    (tmp_path / "p.yaml").write_text(f"plugins:\n{PRIORITY}{line}")
    (tmp_path / "c.yaml").write_text("profile: p.yaml")
    with pytest.raises(ConfigError, match=told):
        load_config(tmp_path / "c.yaml")


@pytest.mark.parametrize("text", ["tenants: {}", "profiles: [{}]"])
def test_a_path_that_no_file_system_takes_is_a_file_that_is_not_there(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.yaml").write_text(text.replace("{}", "a" * 5000))
    with pytest.raises(ConfigError, match="there is no file"):
        load_config(tmp_path / "c.yaml")


A = "tenants:\n- {name: a, namespaces: [web, 'west/ml-*']}\n"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (A + "- {name: a, namespaces: [x]}", "3: tenants[1].name: tenant a is defined twice"),
        (
            A + "- {name: b, namespaces: [x, web]}",
            "3: tenants[1].namespaces[1]: 'web' is taken already by 'web' of tenant a",
        ),
        (
            A + "- {name: b, namespaces: [east/web]}",
            "3: tenants[1].namespaces[0]: 'east/web' is taken already by 'web'",
        ),
        (A + "- {name: b, namespaces: [west/ml-x]}", "3: tenants[1].namespaces[0]: 'west/ml-x' is taken already by"),
        (A + "- {name: b, namespaces: ['a*b']}", "3: tenants[1].namespaces[0]: 'a*b' must be 'namespace' or"),
        (
            A + "- {name: default, namespaces: [x]}\ndefault: {nominal: {}}",
            "3: tenants[1].name: tenant default is defined",
        ),
        (
            A + "- {name: b, namespaces: [x], nominal: {cpu: 101%}}",
            "3: tenants[1].nominal.cpu: must be a share from 0%",
        ),
        (
            A + "- {name: b, namespaces: [x], nominal: {memory: 1e999999}}",
            "3: tenants[1].nominal.memory: quantity '1e999999'",
        ),
        (A + "- {name: b, namespaces: [x], nominal: {cpu: [1]}}", "3: tenants[1].nominal.cpu: must be a share such as"),
        (
            A + "- {name: b, namespaces: []}",
            "3: tenants[1].namespaces: must be a list with an entry at least, as it is",
        ),
    ],
    ids=[
        "name twice",
        "namespace twice",
        "namespace of one cluster",
        "namespace under a wildcard",
        "star inside",
        "default twice",
        "share above all",
        "absurd quantity",
        "no quantity",
        "no namespace",
    ],
)
def test_a_tenant_problem_names_line_and_key(tmp_path: Path, text: str, want: str) -> None:
    found = problems_of(tmp_path, dispatcher="tenants: t.yaml", t=text)
    assert len(found) == 1
    assert found[0].startswith("t.yaml:" + want)


def test_a_default_tenant_comes_last_and_owns_the_rest(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(A + "default: {nominal: {cpu: 4}}")
    (tmp_path / "c.yaml").write_text("tenants: t.yaml")
    tenants = load_config(tmp_path / "c.yaml").tenants
    assert tenants[-1] == Tenant("default", ("*",), {"cpu": Share(absolute=4000)})
    assert tenants[-1].owns("any", "thing")


@pytest.mark.parametrize(
    ("resource", "value", "want"),
    [
        ("cpu", "40%", Share(ratio=0.4)),
        ("cpu", "12.5 %", Share(ratio=0.125)),
        ("cpu", 64, Share(absolute=64_000)),
        ("cpu", "500m", Share(absolute=500)),
        ("cpu", 1.5, Share(absolute=1500)),
        ("memory", "1Gi", Share(absolute=2**30)),
        ("pods", 0, Share(absolute=0)),
    ],
)
def test_a_share_is_a_percentage_or_a_quantity(resource: str, value: object, want: Share) -> None:
    assert parse_share(resource, value) == want


@pytest.mark.parametrize(
    ("resource", "value", "meant"),
    [
        ("memory", 256, "256Gi"),
        ("memory", "100m", "100Mi"),
        ("hugepages-2Mi", "4", "4Gi"),
        ("pods", "500m", "1 or more"),
        ("cpu", "4u", "1m or more"),
    ],
)
def test_an_amount_so_small_that_its_unit_must_be_wrong_is_none(resource: str, value: object, meant: str) -> None:
    with pytest.raises(ValueError, match=f"{value} of {resource} .* {meant}"):
        parse_share(resource, value)


def test_an_agent_is_told_its_cluster_and_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    cluster = ClusterSection(name="west", context="admin", agent={"kubelet": {"interval_s": 7}})
    assert agent_settings(cluster).kubeconfig == ""
    (tmp_path / "config").touch()
    told = agent_settings(cluster)
    assert (told.cluster, told.context, told.kubeconfig) == ("west", "admin", str(tmp_path / "config"))
    assert told.kubelet.interval_s == 7


def test_plugins_of_other_packages_join_the_registry() -> None:
    ours = "dispatcher.plugins.registry"
    points = (
        EntryPoint("twice", f"{ours}:_SPECS", "global_dispatcher.plugins"),
        EntryPoint("gone", "no.such.module:x", "global_dispatcher.plugins"),
    )
    with pytest.raises(ConfigError) as caught:
        plugin_registry(points)
    assert [str(one) for one in caught.value.problems] == [
        f"entry point twice = {ours}:_SPECS: is no dispatcher.plugins.registry.PluginSpec",
        "entry point gone = no.such.module:x: cannot be loaded: ModuleNotFoundError: No module named 'no'",
    ]
    assert set(plugin_registry(())) >= {"LiveCPU", "PrioritySort"}


TWO_PLUGINS = "plugins: [{name: PrioritySort}, {name: NodeResourcesFit}]"


def test_several_profiles_are_told_apart_by_their_scheduler_names(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(TWO_PLUGINS)
    (tmp_path / "b.yaml").write_text(f"scheduler_name: global-dispatcher-batch\n{TWO_PLUGINS}")
    (tmp_path / "c.yaml").write_text("profiles: [a.yaml, b.yaml]")
    config = load_config(tmp_path / "c.yaml")
    assert [one.scheduler_name for one in config.profiles] == ["global-dispatcher", "global-dispatcher-batch"]
    assert config.profile is config.profiles[0]


@pytest.mark.parametrize(
    ("text", "profile", "want"),
    [
        ("profiles: [a.yaml, a.yaml]", TWO_PLUGINS, "dispatcher.yaml:1: profiles[1]: a.yaml: another profile has the"),
        ("{profile: a.yaml, profiles: [a.yaml]}", TWO_PLUGINS, "dispatcher.yaml:1: profile: is given beside profiles"),
        ("profiles: [a.yaml]", f"scheduler_name: mine\n{TWO_PLUGINS}", "a.yaml:1: scheduler_name: must be global-disp"),
    ],
    ids=["one name twice", "both keys", "a foreign name"],
)
def test_profiles_that_do_not_go_together_are_named(tmp_path: Path, text: str, profile: str, want: str) -> None:
    (found,) = problems_of(tmp_path, dispatcher=text, a=profile)
    assert found.startswith(want)
