"""`doctor`: what it finds in what clusters and agents tell, and what it says to do."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from cryptography import x509
from prometheus_client import CollectorRegistry, generate_latest
from typer.testing import CliRunner, Result

from agents.executor.trust import state
from dispatcher.cli.api_client import ApiClient
from dispatcher.cli.diagnosis import NOTE, PROBLEM, diagnose
from dispatcher.cli.expiry import SOON_S, about_expiry
from dispatcher.cli.main import app
from dispatcher.cli.operate import members
from dispatcher.cli.own_files import about_own_files
from dispatcher.config.certificates import SOON
from dispatcher.service.collectors import ReloadCollector, WrittenCollector
from dispatcher.service.errors import CommandError, ExitCode
from dispatcher.service.files.reload import Reloader
from dispatcher.service.gateway.agent_connection import AgentConnection
from dispatcher.service.gateway.authority import ensure, revoke
from dispatcher.service.gateway.gateway import Gateway
from dispatcher.service.gateway.link import GatewayLink
from dispatcher.service.gateway.metrics import CertificateCollector, RelayCollector
from dispatcher.service.links.link import AgentMissing
from localfleet.embedded.fleet import EmbeddedFleet
from shared.kube.client import KubeClient
from shared.kube.http import Request, Response
from shared.messages import SourceReport, UnreadSignal
from shared.model import names
from tests.cli.test_cluster_refusals import LEASES
from tests.service.gateway.test_gateway import section
from tests.system.cluster_api import ClusterApi

FRESH = {"cpu": (10, 3.0, 9.0), "memory": (10, 3.0, 9.0)}
WELL = SourceReport("prometheus", "telemetry.prometheus[0]", asked=9, answered_s=2.0, lag_s=0.1, nodes=10, ages=FRESH)


def a_cluster(name: str = "east", *, ready: bool = True, problem: str = "") -> dict[str, Any]:
    return {"name": name, "ready": ready, "problem": problem}


def telemetry(*sources: SourceReport, unread: tuple[UnreadSignal, ...] = (), **more: Any) -> dict[str, Any]:
    plain = {"cluster": "east", "problem": "", "nodes": 10, "stale_s": 60.0}
    told = {"sources": [msgspec.structs.asdict(one) for one in sources]}
    return {**plain, **told, "unread": [msgspec.structs.asdict(one) for one in unread], **more}


def but(**changed: Any) -> SourceReport:
    return msgspec.structs.replace(WELL, **changed)


def test_where_all_is_well_nothing_is_found() -> None:
    assert diagnose([a_cluster()], [telemetry(WELL)]) == []


@pytest.mark.parametrize(
    ("told", "level", "text", "fix"),
    [
        ({"clock_ahead_s": 7.2}, NOTE, "clock is at least 7 s ahead of the dispatcher's", "NTP"),
        (
            {"clock_ahead_s": 7.2, "silent": True},
            NOTE,
            "when it last answered, its agent's clock was at least 7 s ahead of the dispatcher's",
            "NTP",
        ),
        ({"clock_ahead_s": 7.2, "silent": False}, NOTE, "its agent's clock is at least 7 s", "NTP"),
        ({"clock_ahead_s": -95.0}, PROBLEM, "clock is at least 95 s behind the dispatcher's", "NTP"),
        (
            {"agent_version": "0.2.0"},
            NOTE,
            "its agent is of version 0.2.0, the dispatcher of 0.3.0",
            "upgrade the older",
        ),
        ({"server_version": "v1.30.4"}, PROBLEM, "its API server is of v1.30.4", "1.31 is the oldest"),
    ],
)
def test_clocks_and_versions_that_do_not_go_together_are_found(
    told: dict[str, Any], level: str, text: str, fix: str
) -> None:
    (found,) = diagnose([{**a_cluster(), **told}], [], "0.3.0")
    assert (found.cluster, found.level) == ("east", level)
    assert text in found.text
    assert fix in found.fix


@pytest.mark.parametrize(
    "told",
    [
        {"clock_ahead_s": 1.5, "agent_version": "0.3.0", "server_version": "v1.31.0+k3s1"},
        {"clock_ahead_s": None, "agent_version": "", "server_version": ""},
        {"server_version": "v1.40.0"},
        {"server_version": "of somebody else"},
    ],
)
def test_what_goes_together_or_is_not_told_is_no_finding(told: dict[str, Any]) -> None:
    assert diagnose([{**a_cluster(), **told}], [telemetry(WELL)], "0.3.0") == []


CASES = {
    "a source that fails": (
        but(problem="http://p:9090: ConnectError: refused", errors=3, answered_s=95.0),
        PROBLEM,
        "fails, and has last answered 95 s ago: http://p:9090: ConnectError: refused",
        "telemetry.prometheus[0].url",
    ),
    "a source that never answered": (
        but(problem="http://p answers 401: b''", errors=9, answered_s=None, ages={}, nodes=0),
        PROBLEM,
        "fails, and has never answered: http://p answers 401",
        "telemetry.prometheus[0].token_file",
    ),
    "one query of several that fails": (
        but(problem="gpu: the query failed: parse error"),
        PROBLEM,
        "does not tell all that it is asked: gpu: the query failed",
        "telemetry.prometheus[0].queries",
    ),
    "stale samples": (
        but(nodes=0, silent=10, ages={"cpu": (10, 300.0, 900.0)}),
        PROBLEM,
        "answers, but its samples are stale: 300 s old, and 60 s is the limit",
        "telemetry.stale_s",
    ),
    "nodes that are left out": (
        but(nodes=8, silent=2, silent_names=("n1", "n2")),
        PROBLEM,
        "tells nothing fresh of 2 of 10 nodes (n1; n2)",
        "node_labels",
    ),
    "nothing of any node": (
        but(nodes=0, silent=10, ages={}),
        PROBLEM,
        "answers, but tells nothing of any of the 10 nodes",
        "signals check",
    ),
    "unmatched series": (
        but(unmatched=25, unmatched_names=("node=a", "node=b", "node=c", "node=d")),
        NOTE,
        "25 series (node=a; node=b; node=c and 1 more) of no known node",
        "telemetry.prometheus[0].node_labels",
    ),
    "ambiguous series": (
        but(ambiguous=1, ambiguous_names=("n1 twice",)),
        PROBLEM,
        "1 series (n1 twice) of several nodes, or several of one node",
        "telemetry.prometheus[0].cluster_label",
    ),
    "names in a file that nobody knows": (
        but(key="telemetry.file[0]", unmatched=1, unmatched_names=("name=a",)),
        NOTE,
        "1 series (name=a) of no known node",
        "call nodes by their names, hostnames or addresses; names of other nodes do no harm",
    ),
    "numbers that are not believed": (
        but(rejected={"from the future": 4}),
        NOTE,
        "numbers that were not believed so far: 4 from the future",
        "clocks",
    ),
    "a slow answer": (but(lag_s=4.2), NOTE, "took 4.2 s for its latest answer", "ask it for less"),
    "a source that was not asked": (but(asked=0), NOTE, "was not asked yet", "wait"),
    "kubelets that do not answer": (
        but(key="kubelet", failing=2, failing_names={"n1": "kubelet of n1 answers 403: b''", "n2": "x"}),
        PROBLEM,
        "2 of 10 nodes (n1; n2) do not answer; n1: kubelet of n1 answers 403",
        "nodes/stats",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_with_a_source_is_told_with_the_key_that_mends_it(name: str) -> None:
    source, level, text, fix = CASES[name]
    (found,) = diagnose([a_cluster()], [telemetry(source)])
    assert (found.cluster, found.about, found.level) == ("east", "prometheus", level)
    assert text in found.text
    assert fix in found.fix


def test_signals_that_nobody_tells_of_the_same_nodes_are_one_finding() -> None:
    names = ("n1", "n2", "n3", "n4")
    unread = tuple(UnreadSignal(signal, 4, names) for signal in ("cpu", "memory"))
    first, second = diagnose([], [telemetry(WELL, unread=(*unread, UnreadSignal("gpu", 10)))])
    assert first.text.startswith(
        "no source tells cpu, memory of 4 of 10 nodes (n1; n2; n3 and 1 more), or not any more"
    )
    assert second.text.startswith("no source tells gpu of all 10 nodes")
    assert (first.level, second.level) == (PROBLEM, NOTE)


def test_a_cluster_that_is_not_ready_and_an_agent_that_does_not_answer_are_found() -> None:
    away = telemetry(problem="agent of cluster east did not answer telemetry within 5 s")
    ready, silent = diagnose([a_cluster(ready=False, problem="API server: 503")], [away])
    assert ready.text == "no new pods go there: API server: 503"
    assert silent.text.startswith("its sources are not known: agent of cluster east did not answer")


async def test_an_agent_that_does_not_reach_the_gateway_is_looked_for_on_the_way_there(tmp_path: Path) -> None:
    ensure(tmp_path, ["localhost"], ["east"])
    gateway = Gateway(section(tmp_path), ["east"])
    with pytest.raises(AgentMissing) as missing:
        await gateway.link("east").hello(timeout_s=5)
    (found,) = diagnose([a_cluster(ready=False, problem=str(missing.value))], [])
    assert "does not reach the gateway" in found.fix
    assert "API server" not in found.fix


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Rows of the API by kind, or the error; and its page of metrics."""
    told: dict[str, Any] = {
        "clusters": [a_cluster(), a_cluster("west")],
        "/metrics": "# no gateway\n",
        "telemetry": [telemetry(WELL), telemetry(but(problem="x: \x1b[31m refused", errors=1), cluster="west")],
    }

    def rows(_self: ApiClient, kind: str, **_query: str) -> Any:
        if isinstance(told[kind], CommandError):
            raise told[kind]
        return told[kind]

    monkeypatch.setattr(ApiClient, "rows", rows)
    monkeypatch.setattr(ApiClient, "content", lambda _self, path: told[path].encode())
    monkeypatch.setattr(ApiClient, "version", lambda _self: "0.1.0")
    return told


def doctor(*words: str) -> Result:
    return CliRunner().invoke(app, ["doctor", *words])


@pytest.mark.usefixtures("answers")
def test_the_table_is_of_all_clusters_and_what_is_wrong_stands_below() -> None:
    shown = doctor()
    lines = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert shown.exit_code == ExitCode.FAILED
    assert lines[1] == "east prometheus ok 10/10 2s 100ms 3s 9s 0/9 cpu, memory"
    assert lines[2].startswith("west prometheus failing")
    assert lines[4] == "problem: west: prometheus: fails, and has last answered 2 s ago: x: \\x1b[31m refused"
    assert lines[5].startswith("do: see that it runs, that telemetry.prometheus[0].url is right")


@pytest.mark.usefixtures("answers")
def test_of_one_cluster_where_all_is_well_it_says_so() -> None:
    shown = doctor("--cluster", "east")
    assert (shown.exit_code, shown.stdout.splitlines()[-1]) == (ExitCode.OK, "nothing is wrong")
    assert "west" not in shown.stdout
    unknown = doctor("--cluster", "wset")
    assert (unknown.exit_code, unknown.stderr) == (ExitCode.NOT_FOUND, "error: no cluster wset; known: east, west\n")


@pytest.mark.usefixtures("answers")
def test_json_has_the_findings_and_what_they_rest_on() -> None:
    told = json.loads(doctor("-o", "json").stdout)
    assert not told["ok"]
    assert [(one["cluster"], one["about"], one["level"]) for one in told["findings"]] == [
        ("west", "prometheus", "problem")
    ]
    assert [row["cluster"] for row in told["telemetry"]] == ["east", "west"]


def test_a_dispatcher_that_stands_by_still_tells_of_the_sources(answers: dict[str, Any]) -> None:
    answers["clusters"] = CommandError("standby: the lease is held by other")
    shown = doctor()
    assert shown.exit_code == ExitCode.FAILED
    assert "problem: dispatcher: standby: the lease is held by other" in shown.stdout
    assert "problem: west: prometheus" in shown.stdout


def test_a_dispatcher_that_does_not_answer_is_one_line(answers: dict[str, Any]) -> None:
    answers["clusters"] = CommandError("no dispatcher answers", ExitCode.UNREACHABLE)
    shown = doctor()
    assert (shown.exit_code, shown.stderr) == (ExitCode.UNREACHABLE, "error: no dispatcher answers\n")


@pytest.mark.parametrize(
    ("broken", "about", "level", "text", "fix"),
    [
        ("policies", "profiles", PROBLEM, "fail their checks: the old ones hold", "config check"),
        ("journal", "journal.path", PROBLEM, "decisions are missing", "make room"),
        ("quota_ledger", "quota.ledger", PROBLEM, "tenants wait for clusters that are silent", "make room"),
        ("dispatcher", "dispatcher.yaml", NOTE, "read at the start alone", "then restart"),
        ("", "", "", "", ""),
    ],
)
def test_files_of_the_dispatcher_that_do_not_hold_or_are_not_written_are_told_by_its_metrics(
    broken: str, about: str, level: str, text: str, fix: str
) -> None:
    unread = frozenset({broken} & {"dispatcher"})
    reloader = SimpleNamespace(refused=broken == "policies", start_files={"dispatcher": ""}, unread=unread)
    files = {name: SimpleNamespace(failing=name == broken) for name in ("journal", "quota_ledger")}
    registry = CollectorRegistry()
    registry.register(ReloadCollector(cast(Reloader, reloader)))
    registry.register(WrittenCollector(files))
    found = about_own_files(generate_latest(registry).decode())
    assert [(one.cluster, one.about, one.level) for one in found] == ([("", about, level)] if broken else [])
    assert all(text in one.text and fix in one.fix for one in found)


def test_doctor_fails_where_changed_policies_are_refused(answers: dict[str, Any]) -> None:
    answers["telemetry"] = []
    assert doctor().exit_code == ExitCode.OK
    answers["/metrics"] = "global_dispatcher_policies_refused 1.0\n"
    shown = doctor()
    assert shown.exit_code == ExitCode.FAILED
    assert "the old ones hold" in shown.stdout


DAY_S = 86_400.0
GATEWAY = {"gateway": {"cert_file": "a", "key_file": "b", "client_ca_file": "c"}, "leader_election": {"enabled": False}}


@pytest.mark.parametrize(
    ("days", "level", "words"),
    [(-1, PROBLEM, "expired at"), (3, NOTE, "expires at"), (13, NOTE, "expires at"), (15, "", ""), (90, "", "")],
)
def test_what_of_the_gateway_ends_soon_is_told_by_its_metrics(
    tmp_path: Path, days: int, level: str, words: str
) -> None:
    ensure(tmp_path, ["gw.example"], ["east"])
    revoke(tmp_path, "east")
    registry = CollectorRegistry()
    registry.register(CertificateCollector(str(tmp_path / "gateway.crt"), str(tmp_path / "ca.crt")))
    page = generate_latest(registry).decode()
    ends = {
        "the gateway's certificate": (tmp_path / "gateway.crt"),
        "a revocation list in gateway.client_ca_file": (tmp_path / "ca.crt"),
    }
    for what, file in ends.items():
        until = x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc.timestamp()
        told = [one for one in about_expiry(page, until - days * DAY_S) if one.text.startswith(what)]
        assert [(one.about, one.level, words in one.text) for one in told] == (
            [("gateway", level, True)] if level else []
        )


@pytest.mark.parametrize(
    ("days", "level", "words"), [(-1, PROBLEM, "expired at"), (13, NOTE, "expires at"), (15, "", "")]
)
def test_an_agents_certificate_that_ends_soon_is_told_once_with_its_fix(days: int, level: str, words: str) -> None:
    line = cast(AgentConnection, SimpleNamespace(until=100 * DAY_S))
    registry = CollectorRegistry()
    registry.register(RelayCollector([GatewayLink(name, lambda _: line) for name in ("east", "west")]))
    page = generate_latest(registry).decode()
    told = about_expiry(page, (100 - days) * DAY_S, only="east")
    assert [(one.cluster, one.about, one.level, words in one.text) for one in told] == (
        [("east", "certificate", level, True)] if level else []
    )
    assert all("(observer, executor)" in one.text and "`global-dispatcher join" in one.fix for one in told)
    assert len(about_expiry(page, (100 - days) * DAY_S)) == 2 * len(told)


def test_the_plugin_of_kubectl_warns_as_early_as_config_check() -> None:
    assert SOON.total_seconds() == SOON_S


def test_with_a_configuration_it_asks_each_cluster_for_its_opt_in(
    answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch, fleet: EmbeddedFleet, tmp_path: Path
) -> None:
    file = tmp_path / "dispatcher.yaml"
    rows = [{"name": name, "context": name, "kubeconfig": str(fleet.kubeconfig)} for name in ("east", "west")]
    rows.append({"name": "north", "via": "gateway"})
    rows[1]["uid"] = "00000000-0000-4000-8000-000000000000"
    file.write_text(json.dumps({"clusters": rows, **GATEWAY}))
    answers["telemetry"] = [telemetry(WELL), telemetry(WELL, cluster="west"), telemetry(WELL, cluster="north")]
    opened: list[KubeClient] = []

    def client(*said: Any) -> KubeClient:
        opened.append(KubeClient(*said))
        return opened[-1]

    monkeypatch.setattr(members, "KubeClient", client)
    shown = doctor("--config", str(file))
    assert len(opened) == 3, "the connections are there once for all that is asked"
    lines = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert "east in force, by what these rights do not show" in lines
    assert "west not known: context 'west' reaches another cluster, as `uid` says" in lines
    assert "north not known: the configuration has no `context` of it" in lines
    monkeypatch.setattr(names, "SCHEDULER_NAME", "another")
    told = json.loads(doctor("--config", str(file), "--cluster", "east", "-o", "json").stdout)
    assert [(one["cluster"], one["acts"]) for one in told["opt_in"]] == [("east", False)]
    assert [(one["about"], one["level"]) for one in told["findings"]] == [("opt-in", NOTE)]


@pytest.mark.parametrize("waits", [True, False], ids=["waited for", "refused at once"])
def test_a_cluster_that_was_waited_for_in_vain_is_asked_nothing_more_and_holds_nothing_up(
    answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch, fleet: EmbeddedFleet, tmp_path: Path, waits: bool
) -> None:
    file = tmp_path / "dispatcher.yaml"
    rows = [{"name": name, "context": name, "kubeconfig": str(fleet.kubeconfig)} for name in ("east", "west")]
    file.write_text(json.dumps({"clusters": rows}))
    answers["telemetry"] = [telemetry(WELL), telemetry(WELL, cluster="west")]
    asked = dict.fromkeys(("east", "west"), 0)
    whole = KubeClient.send

    async def send(client: KubeClient, request: Request, **more: Any) -> Response:
        asked[client.access.context] += 1
        return Response(0, b"timeout") if client.access.context == "east" else await whole(client, request, **more)

    monkeypatch.setattr(KubeClient, "send", send)
    monkeypatch.setattr(members, "LONG_S", 0.0 if waits else 60.0)
    told = json.loads(doctor("--config", str(file), "-o", "json").stdout)
    about = [one["text"] for one in told["findings"] if (one["cluster"], one["about"]) == ("east", "API server")]
    assert about == (["the API server did not answer (timeout): it was asked nothing more"] if waits else [])
    assert (asked["east"] == 1) is waits
    assert asked["west"] > 5


def test_contexts_that_are_mixed_up_or_lead_nowhere_are_told_with_the_key_that_mends_them(
    answers: dict[str, Any], fleet: EmbeddedFleet, tmp_path: Path
) -> None:
    file = tmp_path / "dispatcher.yaml"
    rows = [
        {"name": "east", "context": "west", "kubeconfig": str(fleet.kubeconfig)},
        {"name": "west", "kubeconfig": str(tmp_path / "gone")},
        {"name": "north", "via": "gateway"},
    ]
    file.write_text(json.dumps({"clusters": rows, **GATEWAY}))
    answers["telemetry"] = [telemetry(WELL), telemetry(WELL, cluster="west"), telemetry(WELL, cluster="north")]
    west = ClusterApi(fleet.kubeconfig, "west")
    values = {state.VALUES: f'{{"{state.CLUSTER}": "west"}}'}
    assert west.create(LEASES, {"metadata": {"name": state.NAME, "annotations": values}}).is_success
    shown = doctor("--config", str(file))
    west.delete(state.PATH)
    lines = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert shown.exit_code == ExitCode.FAILED
    at = next(i for i, line in enumerate(lines) if line.startswith("problem: east: context: cluster east is given"))
    assert "context 'west' of" in lines[at]
    assert "which is that of west" in lines[at]
    assert lines[at + 1] == f"do: mend `context`, or `kubeconfig`, of these in {file}"
    assert any(line.startswith("problem: west: context: `kubeconfig` of its entry:") for line in lines)
    assert not any(line.startswith("note: west: opt-in") for line in lines)


def test_a_cluster_that_can_have_no_proxy_node_since_a_machine_has_its_name_is_found_with_the_remedy() -> None:
    (found,) = diagnose([a_cluster("west") | {"name_taken_in": ["east"]}], [])
    assert (found.cluster, found.about, found.level) == ("west", "proxy node in east", PROBLEM)
    assert "named global-dispatcher-west" in found.text
    assert "rename" in found.fix
    assert "kubectl delete node global-dispatcher-west" in found.fix


def test_namespaces_whose_pods_stay_for_what_other_clusters_lack_are_named_with_the_remedy() -> None:
    services = {"north": ["a", "b", "c", "d"], "south": ["a", "b", "c", "d"]}
    apart = [{"namespace": "team", "absent_in": ["west"], "services": services}]
    absent, lacking = diagnose([a_cluster() | {"apart": apart}], [telemetry(WELL)])
    assert {(one.cluster, one.about, one.level) for one in (absent, lacking)} == {("east", "namespace team", NOTE)}
    assert ("west" in absent.text, "create namespace team" in absent.fix) == (True, True)
    assert "executor.namespaces.create" in absent.fix
    assert lacking.text.endswith("where Services are lacking (a; b; c and 1 more): in north; south")
    assert f"label namespace team {names.SERVICES}=none in cluster east" in lacking.fix
