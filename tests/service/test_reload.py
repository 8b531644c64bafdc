"""A running dispatcher takes over changed profiles, plugins and tenants, and refuses those that fail their checks."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from dispatcher.config import DispatcherConfig, load_config
from dispatcher.kit.template import new_plugin
from dispatcher.plugins.registry import REGISTRY
from dispatcher.service.collectors import ReloadCollector
from dispatcher.service.files import reload
from dispatcher.service.files.reload import Reloader

QUIET = new_plugin("QuietZone")["quiet_zone.py"]
PROFILE = "plugins: [{name: PrioritySort}, {name: NodeResourcesFit}, {name: QuietZone, weight: 3}]"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "c.yaml").write_text("{profile: p.yaml, plugin_files: [q.py], http: {port: 1}}")
    (tmp_path / "p.yaml").write_text(PROFILE)
    (tmp_path / "q.py").write_text(QUIET)
    return tmp_path


class TermRunner:
    """A reloader and what it has handed on."""

    def __init__(self, folder: Path) -> None:
        self.taken: list[DispatcherConfig] = []
        self.reloader = Reloader(load_config(folder / "c.yaml"), REGISTRY, self.taken.append)


def told(reloader: Reloader) -> dict[str, float]:
    """What /metrics says of it: by the label `file`, or by the metric's name."""
    samples = [sample for family in ReloadCollector(reloader).collect() for sample in family.samples]
    return {sample.labels.get("file", sample.name): sample.value for sample in samples}


async def test_nothing_happens_while_nothing_changes(folder: Path) -> None:
    stage = TermRunner(folder)
    await stage.reloader.look()
    assert stage.taken == []


async def test_a_changed_profile_is_taken_over(folder: Path) -> None:
    stage = TermRunner(folder)
    (folder / "p.yaml").write_text(PROFILE.replace("weight: 3", "weight: 7"))
    await stage.reloader.look()
    (config,) = stage.taken
    assert config.profile.plugins[-1].weight == 7


async def test_a_changed_plugin_file_is_taken_over_though_its_name_stays(folder: Path) -> None:
    stage = TermRunner(folder)
    before = load_config(folder / "c.yaml").registry["QuietZone"].plugin
    (folder / "q.py").write_text(QUIET.replace("example.com/avoid", "example.com/shun"))
    await stage.reloader.look()
    assert stage.taken[0].registry["QuietZone"].arguments["avoid"].default == "example.com/shun"
    assert stage.taken[0].registry["QuietZone"].plugin is not before


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("p.yaml", "plugins: [{name: NodeResourceFit}]"),
        ("q.py", "def broken(:"),
        ("q.py", QUIET.replace("MAX_SCORE, 0.0)", "2 * MAX_SCORE, 101.0)")),
        ("q.py", None),
    ],
    ids=["unknown plugin", "no Python", "broken law", "gone"],
)
async def test_what_fails_its_checks_is_refused_and_the_old_stays(folder: Path, file: str, text: str | None) -> None:
    stage = TermRunner(folder)
    if text is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(text)
    await stage.reloader.look()
    assert stage.taken == []
    assert stage.reloader.outcomes == {"taken": 0, "refused": 1}
    assert told(stage.reloader)["global_dispatcher_policies_refused"] == 1
    await stage.reloader.look()
    assert stage.reloader.outcomes["refused"] == 1, "told once"
    assert told(stage.reloader)["global_dispatcher_policies_refused"] == 1, "as long as it is so"


async def test_after_a_refusal_the_mended_file_is_taken_over(folder: Path) -> None:
    stage = TermRunner(folder)
    (folder / "p.yaml").write_text("plugins: 1")
    await stage.reloader.look()
    (folder / "p.yaml").write_text(PROFILE)
    await stage.reloader.look()
    assert stage.reloader.outcomes == {"taken": 1, "refused": 1}
    assert told(stage.reloader)["global_dispatcher_policies_refused"] == 0


@pytest.mark.parametrize("file", ["c.yaml", "t.yaml"])
async def test_after_a_refusal_for_another_file_it_is_tried_again_when_that_is_mended(folder: Path, file: str) -> None:
    (folder / "t.yaml").write_text("tenants: []")
    (folder / "c.yaml").write_text("{profile: p.yaml, plugin_files: [q.py], tenants: t.yaml}")
    stage = TermRunner(folder)
    good = (folder / file).read_text()
    (folder / file).write_text("{wrong: 1}")
    (folder / "p.yaml").write_text(PROFILE.replace("weight: 3", "weight: 7"))
    await stage.reloader.look()
    assert told(stage.reloader)["global_dispatcher_policies_refused"] == 1
    (folder / file).write_text(good)
    await stage.reloader.look()
    assert told(stage.reloader)["global_dispatcher_policies_refused"] == 0
    assert [config.profile.plugins[-1].weight for config in stage.taken] == [7]
    assert stage.reloader.outcomes == {"taken": 1, "refused": 1}


async def test_changed_tenants_are_taken_over(folder: Path) -> None:
    (folder / "t.yaml").write_text("tenants: []")
    (folder / "c.yaml").write_text("{profile: p.yaml, plugin_files: [q.py], tenants: t.yaml}")
    (folder / "p.yaml").write_text("extends: default")
    stage = TermRunner(folder)
    (folder / "t.yaml").write_text("tenants: [{name: shop, namespaces: [shop], nominal: {pods: 5}}]")
    await stage.reloader.look()
    assert [[one.name for one in config.tenants] for config in stage.taken] == [["shop"]]


@pytest.mark.parametrize(
    "text",
    ["", "tenants: [{name: shop}]", "tenants: [{name: shop, namespaces: [shop], nominal: {cpu: -1}}]", None],
    ids=["cut off", "no namespaces", "a wrong number", "gone"],
)
async def test_broken_tenants_are_refused_and_the_old_ones_stay(folder: Path, text: str | None) -> None:
    (folder / "t.yaml").write_text("tenants: []")
    (folder / "c.yaml").write_text("{profile: p.yaml, plugin_files: [q.py], tenants: t.yaml}")
    stage = TermRunner(folder)
    if text is None:
        (folder / "t.yaml").unlink()
    else:
        (folder / "t.yaml").write_text(text)
    await stage.reloader.look()
    assert stage.taken == []
    assert told(stage.reloader)["global_dispatcher_policies_refused"] == 1


async def test_of_very_many_problems_the_log_has_the_first_alone(folder: Path) -> None:
    (folder / "t.yaml").write_text("tenants: []")
    (folder / "c.yaml").write_text("{profile: p.yaml, plugin_files: [q.py], tenants: t.yaml}")
    stage = TermRunner(folder)
    (folder / "t.yaml").write_text(f"tenants: [{', '.join(['{name: A}'] * 900)}]")
    with capture_logs() as logs:
        await stage.reloader.look()
    (line,) = logs
    assert (len(line["problems"]), line["count"]) == (reload.MOST_PROBLEMS, 900)


async def test_what_is_written_while_it_is_read_is_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = TermRunner(folder)

    def slow(*args: Any, **kwargs: Any) -> DispatcherConfig:
        found = load_config(*args, **kwargs)
        (folder / "p.yaml").write_text(PROFILE.replace("weight: 3", "weight: 7"))
        return found

    monkeypatch.setattr(reload, "load_config", slow)
    (folder / "p.yaml").write_text(PROFILE.replace("weight: 3", "weight: 5"))
    await stage.reloader.look()
    assert stage.taken == []
    await stage.reloader.look()
    assert [config.profile.plugins[-1].weight for config in stage.taken] == [7]


async def test_a_changed_file_that_is_read_at_the_start_alone_is_told_once_and_shown_until_it_is_as_it_was(
    folder: Path,
) -> None:
    file = "c.yaml"
    (folder / "t.yaml").write_text("tenants: []")
    (folder / "c.yaml").write_text("{profile: p.yaml, plugin_files: [q.py], tenants: t.yaml}")
    stage = TermRunner(folder)
    before = (folder / file).read_text()
    with capture_logs() as lines:
        await stage.reloader.look()
        assert not lines
        (folder / file).write_text(before + "\n")
        for _ in range(2):
            await stage.reloader.look()
            assert told(stage.reloader)["dispatcher"] == 1
        (folder / file).write_text(before)
        await stage.reloader.look()
    assert told(stage.reloader)["dispatcher"] == 0
    (line,) = lines
    assert line["event"] == "a changed file is read at the start alone: what it said then holds"
    assert line["file"] == str(folder / file)
    assert f"config check {folder / 'c.yaml'}`, then restart" in line["fix"]
    assert stage.taken == []


async def test_pauses_of_pods_that_a_changed_profile_names_are_told_to_wait_for_a_start(folder: Path) -> None:
    kube = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\npodMaxBackoffSeconds: "
    (folder / "p.yaml").write_text(f"{kube}30")
    stage = TermRunner(folder)
    with capture_logs() as lines:
        for seconds, weight in ((60, ""), (60, "\n")):
            (folder / "p.yaml").write_text(f"{kube}{seconds}{weight}")
            await stage.reloader.look()
    assert len(stage.taken) == 2
    told = [line for line in lines if line["log_level"] == "warning"]
    assert [line["event"] for line in told] == ["changed times hold from the next start on alone"]
    assert told[0]["changed"] == ["timing.backoff_longest_s"]


async def test_a_dispatcher_that_cannot_take_it_goes_on(folder: Path) -> None:
    def fail(config: DispatcherConfig) -> None:
        raise RuntimeError("no")

    reloader = Reloader(load_config(folder / "c.yaml"), REGISTRY, fail)
    (folder / "p.yaml").write_text(PROFILE + "\n")
    await reloader.look()
    assert reloader.outcomes == {"taken": 0, "refused": 1}


LIMITED = "{profile: p.yaml, tenants: t.yaml}"


@pytest.fixture
def limited(tmp_path: Path) -> Path:
    (tmp_path / "c.yaml").write_text(LIMITED)
    (tmp_path / "p.yaml").write_text("extends: default")
    (tmp_path / "t.yaml").write_text("tenants: [{name: shop, namespaces: [shop], nominal: {pods: 5}}]")
    return tmp_path


async def test_a_profile_that_drops_the_quota_in_force_is_refused(limited: Path) -> None:
    stage = TermRunner(limited)
    (limited / "p.yaml").write_text("extends: kube-scheduler")
    with capture_logs() as logs:
        await stage.reloader.look()
    assert (stage.taken, stage.reloader.refused) == ([], True)
    (told_of,) = next(log["problems"] for log in logs if "problems" in log)
    assert "profile: profile global-dispatcher has no TenantQuota" in told_of


async def test_it_is_taken_over_with_tenants_that_have_none(limited: Path) -> None:
    stage = TermRunner(limited)
    (limited / "p.yaml").write_text("extends: kube-scheduler")
    (limited / "t.yaml").write_text("tenants: []")
    await stage.reloader.look()
    assert (len(stage.taken), stage.reloader.refused) == (1, False)


async def test_it_is_taken_over_once_dispatcher_yaml_says_that_it_is_without_quota(limited: Path) -> None:
    stage = TermRunner(limited)
    (limited / "p.yaml").write_text("extends: kube-scheduler")
    await stage.reloader.look()
    (limited / "c.yaml").write_text(LIMITED.replace("}", ", quota: {unlimited_profiles: [global-dispatcher]}}"))
    await stage.reloader.look()
    assert (len(stage.taken), stage.reloader.refused) == (1, False)
