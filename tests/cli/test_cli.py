"""The command: what it prints, in which form, and how it fails."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from dispatcher.cli import api_client
from dispatcher.cli.api_client import ApiClient
from dispatcher.cli.main import app
from dispatcher.cli.output import Column, print_table
from dispatcher.cli.tables import PODS
from dispatcher.scheduling.views import whole
from dispatcher.service.errors import CommandError, ExitCode
from shared.model.pod import Pod
from tests.service.fakes import FakeViews

NOBODY = "http://127.0.0.1:1"


def run(*words: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(app, list(words), env=env or {})


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands see the rows of FakeViews, selected as a server would."""
    views = FakeViews()

    def rows(_self: ApiClient, kind: str, **query: str) -> list[dict[str, Any]]:
        told = getattr(views, kind)()
        found: list[dict[str, Any]] = told if isinstance(told, list) else whole(told)
        wanted = {key: value for key, value in query.items() if value}
        return [row for row in found if all(row[key] == value for key, value in wanted.items())]

    def explain(_self: ApiClient, namespace: str, name: str, cluster: str = "") -> dict[str, Any]:
        found = views.explain(namespace, name, cluster)
        if found is None:
            raise CommandError(f"nothing is known of pod {namespace}/{name}", ExitCode.NOT_FOUND)
        return found

    def tenant(_self: ApiClient, name: str) -> dict[str, Any] | None:
        found = views.tenant(name)
        return found and {**found, "next_victims": whole(views.next_victims(name))}

    def quota(_self: ApiClient, **query: str) -> dict[str, Any]:
        requests = json.loads(query["requests"])
        asked = Pod("", query["namespace"], "", requests=requests, priority=int(query["priority"]))
        return views.quota(query["cluster"], asked, int(query["replicas"]))

    monkeypatch.setattr(api_client.ApiClient, "rows", rows)
    monkeypatch.setattr(api_client.ApiClient, "tenant", tenant)
    monkeypatch.setattr(api_client.ApiClient, "quota", quota)

    def queue(_self: ApiClient, limit: int) -> dict[str, Any]:
        return {"queue": views.queue(limit), "counts": views.queue_counts()}

    monkeypatch.setattr(api_client.ApiClient, "explain", explain)
    monkeypatch.setattr(api_client.ApiClient, "queue", queue)
    monkeypatch.setattr(api_client.ApiClient, "place", lambda _self, *pod: views.place(*pod))


def test_the_command_starts_without_anything_heavy() -> None:
    code = (
        "import sys, dispatcher.cli.main\n"
        "heavy = {'ray', 'numpy', 'kubernetes', 'pydantic', 'aiohttp', 'httpx', 'rich', 'yaml', 'structlog'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_agent_is_told_its_file_address_and_role_and_ends_with_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []

    def join(*given: Any) -> int:
        told.append(given)
        return 2

    monkeypatch.setattr("agents.runtime.join.process.join", join)
    options = ("--node-ip", "10.1.2.3", "--role", "observer")
    assert run("agent", "--config", "agent.yaml", *options).exit_code == 2
    assert told == [(Path("agent.yaml"), "10.1.2.3", "observer")]


def test_help_names_every_command_and_the_exit_codes() -> None:
    shown = run("--help")
    assert shown.exit_code == 0
    commands = (
        "demo",
        "run",
        "agent",
        "join",
        "revoke",
        "install",
        "explain",
        "journal",
        "clusters",
        "nodes",
        "pods",
        "queue",
        "rebalance",
        "tenants",
        "quota",
        "top",
        "doctor",
        "signals",
        "cluster",
        "config",
        "version",
    )
    for word in (*commands, "3 the dispatcher"):
        assert word in shown.stdout


@pytest.mark.usefixtures("answering")
@pytest.mark.parametrize(
    ("words", "heading", "line"),
    [
        (("clusters",), "NAME", "east   Ready,Cordoned      1/1      2        0           3     0.4s   -"),
        (("clusters",), "NAME", "west   NotReady,Fenced     0/1      1        1           0        -   <b>silent</b>"),
        (("clusters", "--links"), "FROM", "east   west   40.6ms    1.2ms   3.1%    7s   41.0ms   measured"),
        (("clusters", "--links"), "FROM", "west   east        -        -      -     -        -   unknown"),
        (
            ("nodes",),
            "CLUSTER",
            "east      east-1   Ready    500m/4   500m/4   500m/4    34%    20%      -           3s",
        ),
        (
            ("pods",),
            "NAMESPACE",
            "default     web-1   east     west      west-1   Running   score 71.3, 2.1 ahead of east/east-1",
        ),
        (
            ("queue",),
            "PLACE",
            "    2   default     web-2   east            5   red        25%      3s   priority 5, tenant red",
        ),
        (
            ("queue", "web-1"),
            "PLACE",
            "    1   default     web-1   east            5   red        25%      3s   "
            "number 1 of 3: priority 5, tenant red",
        ),
        (
            ("tenants",),
            "TENANT",
            "  shop   cpu              4      5          1      0       8   12.5%         2",
        ),
        (("tenants",), "TENANT", "free     -                -      -          -      -       -    0.0%         0"),
        (
            ("rebalance",),
            "NAMESPACE",
            "default     web-1   east     east/east-1   west/west-1    3.2   evicted   30s   east-1 is hot",
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_tables_have_no_borders_and_nothing_cut(words: tuple[str, ...], heading: str, line: str) -> None:
    lines = run(*words).stdout.splitlines()
    assert lines[0].startswith(heading)
    assert line in lines
    assert "\x1b" not in "".join(lines)


@pytest.mark.usefixtures("answering")
def test_the_queue_says_how_many_wait_for_other_things() -> None:
    shown = run("queue", "--limit", "2")
    assert "2 of 3 pods that are to be decided; 2 back off; 7 wait for something" in shown.stderr


@pytest.mark.usefixtures("answering")
@pytest.mark.parametrize("kind", ["clusters", "nodes", "pods"])
def test_json_and_yaml_are_the_rows_as_they_are(kind: str) -> None:
    want = whole(getattr(FakeViews(), kind)())
    assert json.loads(run(kind, "-o", "json").stdout) == want
    assert yaml.safe_load(run(kind, "-o", "yaml").stdout) == want


@pytest.mark.usefixtures("answering")
def test_links_are_rows_too() -> None:
    assert json.loads(run("clusters", "--links", "-o", "json").stdout) == whole(FakeViews().links())


@pytest.mark.usefixtures("answering")
def test_pods_are_selected_by_namespace_and_source() -> None:
    names = [row["name"] for row in json.loads(run("pods", "-n", "shop", "--source", "east", "-o", "json").stdout)]
    assert names == ["api-1"]


@pytest.mark.usefixtures("answering")
def test_no_pods_is_said_on_stderr() -> None:
    shown = run("pods", "-n", "shop", "--cluster", "west")
    assert (shown.exit_code, shown.stdout, shown.stderr) == (0, "", "no pods match\n")


def test_a_server_without_a_scheme_is_told_how_to_write_it() -> None:
    shown = run("pods", "--server", "localhost:7480")
    assert shown.exit_code == ExitCode.USAGE
    assert shown.stderr == "error: --server localhost:7480: write http://localhost:7480\n"


@pytest.mark.usefixtures("answering")
@pytest.mark.parametrize(
    ("pod", "code", "text"),
    [
        pytest.param("web-1", ExitCode.OK, "west / west-1", id="a bare name is of the default namespace"),
        pytest.param("shop/api-1", ExitCode.OK, "nowhere yet", id="a pending pod says it is nowhere"),
        pytest.param("shop/web-9", ExitCode.NOT_FOUND, "error: nothing is known", id="an unknown pod is not found"),
        pytest.param("a/b/c", ExitCode.USAGE, "error: 'a/b/c' is no pod", id="too many slashes are wrong usage"),
        pytest.param("/web", ExitCode.USAGE, "error: '/web' is no pod", id="an empty namespace is wrong usage"),
        pytest.param("deploy/web", ExitCode.OK, "default/web  1 of 1 pods ready", id="a Deployment by its short name"),
        pytest.param("rs/web-5d4f", ExitCode.OK, "in full: global-dispatcher explain default/web-1", id="rs"),
        pytest.param("sts/api", ExitCode.NOT_FOUND, "StatefulSet/api in namespace default", id="of another namespace"),
        pytest.param("Job/web", ExitCode.NOT_FOUND, "belongs on its pod template", id="a Job without pods"),
    ],
)
def test_explain(pod: str, code: ExitCode, text: str) -> None:
    shown = run("explain", pod)
    assert shown.exit_code == code
    assert text in shown.output


@pytest.mark.usefixtures("answering")
@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        pytest.param(("api-1", "-n", "shop"), ExitCode.OK, "nowhere yet", id="of the namespace that -n names"),
        pytest.param(("shop/api-1", "-n", "shop"), ExitCode.OK, "nowhere yet", id="both say the same"),
        pytest.param(("sts/api", "-n", "shop"), ExitCode.OK, "0/2 nodes are available", id="a StatefulSet there"),
        pytest.param(
            ("shop/api-1", "-n", "web"), ExitCode.USAGE, "'shop/api-1' is not of namespace web", id="they differ"
        ),
    ],
)
def test_explain_takes_a_namespace_as_kubectl_does(words: tuple[str, ...], code: ExitCode, text: str) -> None:
    shown = run("explain", *words)
    assert shown.exit_code == code
    assert text in shown.output


def test_a_server_that_does_not_answer_is_one_line_with_the_fix() -> None:
    shown = run("pods", "--server", NOBODY)
    assert shown.exit_code == ExitCode.UNREACHABLE
    assert shown.stdout == ""
    assert shown.stderr.startswith(f"error: no dispatcher answers at {NOBODY}")
    assert shown.stderr.count("\n") == 1
    assert "--server" in shown.stderr


def test_the_server_may_come_from_the_environment() -> None:
    shown = run("clusters", env={"GLOBAL_DISPATCHER_SERVER": "http://127.0.0.1:2"})
    assert "127.0.0.1:2" in shown.stderr


def test_version_is_one_line_or_json() -> None:
    assert run("version").stdout.startswith("global-dispatcher ")
    assert set(json.loads(run("version", "-o", "json").stdout)) == {"version", "python"}


@pytest.mark.parametrize("text", ["[red]x[/red]", "[/]", "[link=http://example.invalid]x[/link]", "[...] :smile:"])
def test_tables_show_names_and_reasons_as_they_stand(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"namespace": "d", "name": text, "source": text, "cluster": text, "node": text, "phase": text, "reason": text}
    print_table((*PODS, Column(text, lambda row: "-")), [row])
    head, line = capsys.readouterr().out.splitlines()
    assert head.endswith(text)
    assert " ".join(line.split()) == " ".join(["d", *[text] * 6, "-"])


def test_config_check_tells_every_problem(tmp_path: Path) -> None:
    file = tmp_path / "dispatcher.yaml"
    file.write_text("http:\n  prt: 1\nclusters:\n  - name: A_b\n    kubeconfig: gone\n")
    shown = run("config", "check", str(file))
    assert shown.exit_code == ExitCode.FAILED
    assert f"{file}:2: http.prt" in shown.stderr
    assert f"{file}:4: clusters[0].name" in shown.stderr
    told = json.loads(run("config", "check", str(file), "-o", "json").stdout)
    assert not told["ok"]
    assert [one["key"] for one in told["problems"]] == ["http.prt", "clusters[0].name", "clusters[0].kubeconfig"]


def test_config_check_takes_a_tenants_file_by_itself(tmp_path: Path) -> None:
    file = tmp_path / "tenants.yaml"
    file.write_text("tenants:\n- {name: a, namespaces: [a], nominal: {cpu: 4Gi}}\n")
    assert f"{file}:2: tenants[0].nominal.cpu: 4Gi of cpu" in run("config", "check", str(file)).stderr
    file.write_text("default: {nominal: {cpu: 4}}\n")
    assert run("config", "check", str(file)).stdout == f"{file}: ok\n"


def test_of_the_shipped_file_only_the_clusters_are_missing() -> None:
    shown = run("config", "check", "configs/dispatcher.yaml")
    assert [line.split(": ")[1:3] for line in shown.stderr.splitlines()] == [["clusters", "none is listed"]]


def test_run_refuses_a_configuration_without_clusters(tmp_path: Path) -> None:
    file = tmp_path / "dispatcher.yaml"
    file.write_text("clusters: []\n")
    shown = run("run", "--config", str(file))
    assert shown.exit_code == ExitCode.FAILED
    assert shown.stderr.startswith(f"error: {file}:1: clusters: none is listed: name at least one, such as ")


def test_a_demo_with_a_configuration_that_is_wrong_does_not_begin(tmp_path: Path) -> None:
    (tmp_path / "demo.yaml").write_text("plugin_files: [nobodys.py]")
    done = run("demo", "--once", "--config", str(tmp_path / "demo.yaml"))
    assert done.exit_code == 1
    assert f"plugin_files[0]: there is no file {tmp_path / 'nobodys.py'}: correct it" in done.stderr


@pytest.mark.usefixtures("answering")
def test_a_tenant_is_explained_with_its_arithmetic_and_its_rules() -> None:
    shown = run("tenants", "explain", "shop")
    lines = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    for want in (
        "Tenant all / shop",
        "Namespaces shop, west/till-*",
        "Waiting 2 pods, 1 of them for what is its own",
        "Share 12.5% (of cpu), weight 2",
        "Rules of all max_priority: 7",
        "Rules of shop nodes: pool=x; clusters: west; spread: yes",
        "Not limited uses pods 5",
        "Next victim for cpu of the fleet: pod shop/web-3 on west/n4 (priority 0), for pods of bank",
        "given 4 = nominal 4 (40% of the fleet)",
        "keeps 3: lends at most 1",
        "uses 5: borrowed 1, lent 0, may borrow 2",
        "left 1 of 6, limited by all",
    ):
        assert want in lines
    told = json.loads(run("tenants", "explain", "shop", "-o", "json").stdout)
    assert told == {**(FakeViews().tenant("shop") or {}), "next_victims": whole(FakeViews().next_victims("shop"))}


AMOUNTS = {"requests": {"cpu": "250m"}, "limits": {"cpu": "1", "memory": "1Gi"}}  # memory is requested, too
POD = {"containers": [{"name": "c", "image": "i", "resources": AMOUNTS}]}
TEMPLATE = {"template": {"spec": POD}}


@pytest.mark.usefixtures("answering")
@pytest.mark.parametrize(
    ("manifest", "words", "code", "line"),
    [
        ({"kind": "Pod", "spec": POD}, (), ExitCode.OK, "Asks      cpu 250, memory 1073741824"),
        ({"kind": "Deployment", "spec": {"replicas": 2, **TEMPLATE}}, (), ExitCode.OK, "Passes    2 of 2 pods"),
        ({"kind": "Job", "spec": {"parallelism": 3, **TEMPLATE}}, (), ExitCode.FAILED, "Passes    2 of 3 pods"),
        ({"kind": "CronJob", "spec": {"jobTemplate": {"spec": TEMPLATE}}}, (), ExitCode.OK, "Passes    1 of 1 pods"),
        ({"kind": "Pod", "spec": POD}, ("--priority", "9"), ExitCode.FAILED, "Passes    0 of 1 pods"),
        (
            {"kind": "Pod", "spec": POD},
            ("--priority", "9"),
            ExitCode.FAILED,
            "Frees     1 of cpu has to come free in tenant all",
        ),
        ({"kind": "Pod", "spec": POD}, (), ExitCode.OK, "Not on    nodes of cluster west"),
        ({"kind": "Service", "spec": {}}, (), ExitCode.USAGE, "kind 'Service' is none of those that are read: Pod,"),
        ({"kind": "Pod", "metadata": [1], "spec": POD}, (), ExitCode.USAGE, "metadata must be a map of keys"),
        ({"kind": "Job", "spec": {"template": {"spec": 5}}}, (), ExitCode.USAGE, "spec must be a map of keys"),
        ({"kind": "Deployment", "spec": {}}, (), ExitCode.USAGE, "spec.template is missing"),
        ({"kind": "Deployment", "spec": {"replicas": "x", **TEMPLATE}}, (), ExitCode.USAGE, "must be a whole number"),
    ],
)
def test_a_manifest_is_checked_against_quota(
    tmp_path: Path, manifest: dict[str, Any], words: tuple[str, ...], code: ExitCode, line: str
) -> None:
    (tmp_path / "m.yaml").write_text(yaml.safe_dump(manifest))
    shown = run("quota", "check", "-f", str(tmp_path / "m.yaml"), "-n", "shop", *words)
    assert shown.exit_code == code, shown.output
    assert line in (shown.stdout if code in (ExitCode.OK, ExitCode.FAILED) else shown.stderr)


@pytest.mark.parametrize("text", ["", "a: [", "[1]", "a: 1\n---\nb: 2"])
def test_what_is_no_manifest_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "m.yaml").write_text(text)
    shown = run("quota", "check", "-f", str(tmp_path / "m.yaml"))
    assert shown.exit_code == ExitCode.USAGE
    assert str(tmp_path / "m.yaml") in shown.stderr
