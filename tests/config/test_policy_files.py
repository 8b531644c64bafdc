"""Profiles and plugins that a configuration names: in our form, in kube-scheduler's, as Python files."""

from pathlib import Path

import pytest

from dispatcher.config import ConfigError, check_config, load_config
from dispatcher.kit.template import new_plugin

KUBE = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
QUIET = new_plugin("QuietZone")["quiet_zone.py"]
PROFILE = "plugins: [{name: PrioritySort}, {name: NodeResourcesFit}, {name: QuietZone, weight: 3}]"


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / name.replace("_dot_", ".")).write_text(text)
    return folder / "c.yaml"


def test_a_profile_may_be_a_configuration_of_kube_scheduler(tmp_path: Path) -> None:
    kube = KUBE + "podInitialBackoffSeconds: 3\npodMaxBackoffSeconds: 30\nparallelism: 4\nprofiles: [{}]\n"
    config = load_config(write(tmp_path, c_dot_yaml="profile: k.yaml", k_dot_yaml=kube))
    assert "TaintToleration" in {use.name for use in config.profile.plugins}
    assert (config.timing.backoff_first_s, config.timing.backoff_longest_s) == (3, 30)
    assert [note.key for note in config.notes] == ["parallelism"]
    assert config.policy_files == (tmp_path / "k.yaml",)


def test_files_of_both_kinds_stand_beside_each_other(tmp_path: Path) -> None:
    kube = KUBE + "profiles: [{schedulerName: global-dispatcher-k}]"
    ours = "plugins: [{name: PrioritySort}, {name: NodeResourcesFit}]"
    path = write(tmp_path, c_dot_yaml="profiles: [p.yaml, k.yaml]", p_dot_yaml=ours, k_dot_yaml=kube)
    names = [one.scheduler_name for one in load_config(path).profiles]
    assert names == ["global-dispatcher", "global-dispatcher-k"]


def test_one_scheduler_name_in_two_files_is_told(tmp_path: Path) -> None:
    kube = KUBE + "profiles: [{schedulerName: global-dispatcher}]"
    ours = "plugins: [{name: PrioritySort}]"
    path = write(tmp_path, c_dot_yaml="profiles: [p.yaml, k.yaml]", p_dot_yaml=ours, k_dot_yaml=kube)
    (problem,) = check_config(path)
    assert problem.text == "k.yaml: another profile has the scheduler_name global-dispatcher already"


def test_a_plugin_file_makes_its_plugin_known_to_profiles(tmp_path: Path) -> None:
    text = "{profile: p.yaml, plugin_files: [quiet.py]}"
    config = load_config(write(tmp_path, c_dot_yaml=text, p_dot_yaml=PROFILE, quiet_dot_py=QUIET))
    assert config.registry["QuietZone"].points == ("PreFilter", "Filter", "Score")
    assert set(config.policy_files) == {tmp_path / "quiet.py", tmp_path / "p.yaml"}


def test_a_plugin_file_that_breaks_a_law_is_refused_with_the_law(tmp_path: Path) -> None:
    broken = QUIET.replace("MAX_SCORE, 0.0)", "2 * MAX_SCORE, 101.0)")
    path = write(tmp_path, c_dot_yaml="{profile: p.yaml, plugin_files: [q.py]}", p_dot_yaml=PROFILE, q_dot_py=broken)
    with pytest.raises(ConfigError, match=r"q\.py: QuietZone: scores must lie in 0\.\.100"):
        load_config(path)


def test_a_plugin_file_that_cannot_be_used_is_told_once_and_the_others_stay_known(tmp_path: Path) -> None:
    other = new_plugin("OtherZone")["other_zone.py"]
    profile = PROFILE.replace("]", ", {name: OtherZone}]")
    text = "{profile: p.yaml, plugin_files: [q.py, o.py]}"
    path = write(tmp_path, c_dot_yaml=text, p_dot_yaml=profile, q_dot_py="def broken(:", o_dot_py=other)
    (problem,) = check_config(path)
    assert (problem.file, problem.text[:12]) == (str(tmp_path / "q.py"), "is no Python")


def test_a_plugin_file_that_exits_is_refused_and_ends_nobody(tmp_path: Path) -> None:
    path = write(tmp_path, c_dot_yaml="{profile: p.yaml, plugin_files: [q.py]}", p_dot_yaml=PROFILE, q_dot_py="exit(3)")
    (problem,) = check_config(path)
    assert (problem.file, problem.text) == (str(tmp_path / "q.py"), "cannot be run: SystemExit: 3")


@pytest.mark.parametrize("text", ["", "# half written\n"])
def test_a_file_of_tenants_that_is_empty_lifts_no_quota(tmp_path: Path, text: str) -> None:
    (problem,) = check_config(write(tmp_path, c_dot_yaml="{tenants: t.yaml}", t_dot_yaml=text))
    assert (problem.file, problem.text) == (
        str(tmp_path / "t.yaml"),
        "is empty: write `tenants: []` if nobody is to be limited",
    )


def test_without_its_file_a_plugin_is_unknown(tmp_path: Path) -> None:
    path = write(tmp_path, c_dot_yaml="{profile: p.yaml}", p_dot_yaml=PROFILE)
    assert any("unknown plugin 'QuietZone'" in one.text for one in check_config(path))


TENANTS = "tenants: [{name: shop, namespaces: [shop], nominal: {pods: 5}}]"
LIMITED = "{profile: p.yaml, tenants: t.yaml}"
NO_QUOTA = (
    "profile global-dispatcher has no TenantQuota, so its pods would pass the quota of tenants and not count in it: "
    "add TenantQuota to its plugins, or take it out of `disabled`, or list global-dispatcher in "
    "quota.unlimited_profiles if that is meant"
)


@pytest.mark.parametrize(
    "profile",
    [
        "{extends: default, disabled: [TenantQuota]}",
        "extends: kube-scheduler",
        "plugins: [{name: PrioritySort}, {name: NodeResourcesFit}]",
        KUBE + "profiles: [{plugins: {multiPoint: {disabled: [{name: TenantQuota}]}}}]",
    ],
    ids=["left out", "of kube-scheduler's kind", "not listed", "kube-scheduler's file"],
)
def test_a_profile_without_quota_beside_tenants_that_have_one_is_refused(tmp_path: Path, profile: str) -> None:
    path = write(tmp_path, c_dot_yaml=LIMITED, t_dot_yaml=TENANTS, p_dot_yaml=profile)
    (problem,) = check_config(path)
    assert (problem.key, problem.text) == ("profile", NO_QUOTA)


def test_of_several_profiles_the_one_without_quota_is_named_by_its_key(tmp_path: Path) -> None:
    other = "{scheduler_name: global-dispatcher-b, extends: kube-scheduler}"
    text = "{profiles: [p.yaml, q.yaml], tenants: t.yaml}"
    path = write(tmp_path, c_dot_yaml=text, t_dot_yaml=TENANTS, p_dot_yaml="extends: default", q_dot_yaml=other)
    (problem,) = check_config(path)
    assert (problem.key, problem.text[:27]) == ("profiles[1]", "profile global-dispatcher-b")


def test_a_profile_that_is_said_to_be_without_quota_is_taken_with_a_note(tmp_path: Path) -> None:
    text = "{profile: p.yaml, tenants: t.yaml, quota: {unlimited_profiles: [global-dispatcher]}}"
    path = write(tmp_path, c_dot_yaml=text, t_dot_yaml=TENANTS, p_dot_yaml="extends: kube-scheduler")
    (note,) = load_config(path).notes
    assert note.key == "quota.unlimited_profiles[0]"
    assert note.text == "pods of this profile pass the quota of tenants, and do not count in it"


def test_a_profile_with_quota_that_is_said_to_be_without_is_noted(tmp_path: Path) -> None:
    text = "{tenants: t.yaml, quota: {unlimited_profiles: [global-dispatcher]}}"
    (note,) = load_config(write(tmp_path, c_dot_yaml=text, t_dot_yaml=TENANTS)).notes
    assert note.text == "has no meaning: this profile has TenantQuota, and holds its pods to the quota of tenants"


def test_a_name_of_no_profile_cannot_be_without_quota(tmp_path: Path) -> None:
    (problem,) = check_config(write(tmp_path, c_dot_yaml="quota: {unlimited_profiles: [global-dispatcher-x]}"))
    assert problem.key == "quota.unlimited_profiles[0]"
    assert problem.text == "'global-dispatcher-x' is no profile's scheduler_name; did you mean global-dispatcher?"


@pytest.mark.parametrize(
    ("said", "plugin"),
    [
        ("nodes: {selector: {a: b}}", "TenantNodes"),
        ("max_priority: 5", "TenantPriority"),
        ("quotas: [{nodes: {a: b}, nominal: {cpu: 1}}]", "TenantNodeQuota"),
    ],
)
def test_a_profile_without_the_plugin_for_what_a_tenant_asks_for_is_refused(
    tmp_path: Path, said: str, plugin: str
) -> None:
    tenants = f"tenants: [{{name: shop, namespaces: [shop], {said}}}]"
    profile = f"{{extends: default, disabled: [{plugin}]}}"
    (problem,) = check_config(write(tmp_path, c_dot_yaml=LIMITED, t_dot_yaml=tenants, p_dot_yaml=profile))
    assert problem.text.startswith(f"profile global-dispatcher has no {plugin}, so its pods would pass `")


@pytest.mark.parametrize("tenants", ["tenants: []", "tenants: [{name: shop, namespaces: [shop]}]"])
def test_without_any_quota_a_profile_needs_no_plugin_for_it(tmp_path: Path, tenants: str) -> None:
    path = write(tmp_path, c_dot_yaml=LIMITED, t_dot_yaml=tenants, p_dot_yaml="extends: kube-scheduler")
    assert check_config(path) == []


def test_a_plugin_that_is_made_of_tenant_quota_holds_quota_too(tmp_path: Path) -> None:
    plugin = (
        "from dispatcher.plugins.registry import PluginSpec\n"
        "from dispatcher.plugins.tenant_quota import TenantQuota\n"
        "class OurQuota(TenantQuota):\n    name = 'OurQuota'\n"
        "PLUGIN = PluginSpec(OurQuota, factory=lambda args, context: OurQuota(context.quota))\n"
    )
    profile = "{extends: kube-scheduler, plugins: [{name: OurQuota}]}"
    text = "{profile: p.yaml, tenants: t.yaml, plugin_files: [o.py]}"
    path = write(tmp_path, c_dot_yaml=text, t_dot_yaml=TENANTS, p_dot_yaml=profile, o_dot_py=plugin)
    assert check_config(path) == []
