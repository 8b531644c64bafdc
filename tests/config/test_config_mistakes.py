"""Mistakes that an operator makes easily: `config check` names line, key and fix of each before anything starts."""

import os
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from dispatcher.cli.main import app
from dispatcher.config import access, check_config, load_config
from dispatcher.service.errors import ExitCode
from shared.process.keyfile import load_keys

KUBECONFIG = {
    "current-context": "west",
    "contexts": [{"name": "west", "context": {"cluster": "w"}}],
    "clusters": [{"name": "w", "cluster": {"server": "https://west.example.invalid"}}],
}
WEST = "clusters:\n- {name: west, kubeconfig: kube}\n"
A_KEY = "A" * 43 + "="
AGENT = "clusters:\n- name: west\n  kubeconfig: kube\n  agent:\n    "


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a kubeconfig, on a machine that has no other and is no pod."""
    for name in [name for name in os.environ if name.startswith("GLOBAL_DISPATCHER_")]:
        monkeypatch.delenv(name)
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "kube").write_text(yaml.safe_dump(KUBECONFIG))
    return tmp_path


def problems_of(folder: Path, text: str, tenants: str = "") -> list[str]:
    """'LINE: KEY: TEXT' of each problem of a dispatcher.yaml."""
    (folder / "dispatcher.yaml").write_text(text)
    (folder / "t.yaml").write_text(tenants)
    found = check_config(folder / "dispatcher.yaml", reach=True)
    return [str(one).replace(f"{folder}{os.sep}", "").removeprefix("dispatcher.yaml:") for one in found]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (
            WEST + "leader_election: {kubeconfig: gone}",
            "3: leader_election.kubeconfig: gone cannot be read: No such file or directory; name a kubeconfig file",
        ),
        (
            WEST + "leader_election: {kubeconfig: kube, context: wset}",
            "3: leader_election.context: kube has no context 'wset'; did you mean 'west'?",
        ),
        (
            WEST + "leader_election: {context: wset}",
            "3: leader_election.context: kube has no context 'wset'; did you mean 'west'?",
        ),
        (
            WEST + "leader_election: {kubeconfig: in-cluster}",
            "3: leader_election.kubeconfig: in-cluster: that means the service account of a pod, and there",
        ),
        (
            WEST + "ray: {address: 'ray.example.invalid:1'}\nleader_election: {kubeconfig: gone}",
            "4: leader_election.kubeconfig: gone cannot be read",
        ),
        (
            "clusters: [{name: west}]",
            "1: clusters[0].kubeconfig: is empty, and there is no .kube/config: that means the service account of a",
        ),
        (
            AGENT + "key_file: keys/west.pem",
            "5: clusters[0].agent.key_file: keys/west.pem: the keys of cluster 'west': No such file or directory: "
            "make one with openssl genpkey -algorithm ed25519 -out keys/west.pem",
        ),
        (
            AGENT + "kubelet: {ca_file: ca.crt}",
            "5: clusters[0].agent.kubelet.ca_file: there is no file ca.crt: name the CA of the kubelets' certificates",
        ),
        (
            AGENT + "executor: {accept: [{clusters: [west], namespaces: []}]}",
            "5: clusters[0].agent.executor.accept[0].namespaces: must be a list with an entry at least, not []",
        ),
        (
            AGENT + "executor: {accept: [{clusters: ['*'], namespaces: [a]}, {clusters: [west, wset, 'w?st']}]}",
            "5: clusters[0].agent.executor.accept[1].clusters[1]: 'wset' is no configured cluster; did you mean west?",
        ),
        (
            WEST + "timing:\n  cluster_lost_s: 3",
            "4: timing.cluster_lost_s: must not be less than cluster_silent_s (10)",
        ),
        (
            AGENT + "executor: {peer_ttl_s: 9}",
            "5: clusters[0].agent.executor.peer_ttl_s: must be at least twice timing.peers_s (5), or remote pods are "
            "refused in between",
        ),
        (
            WEST + "timing: {peers_s: 31, delegate_lease_s: 600}",
            "2: clusters[0].agent.executor.peer_ttl_s: must be at least twice timing.peers_s (31)",
        ),
        (
            WEST + "rebalancing:\n  mode: dry-run",
            "4: rebalancing.mode: must be 'off', 'dry_run' or 'on', not 'dry-run'",
        ),
        (
            WEST + "rebalancing:\n  hot: 0.5\n  cool: 0.5",
            "5: rebalancing.cool: must be less than hot (0.5)",
        ),
        (
            WEST + "rebalancing:\n  signals: [CPU]",
            "4: rebalancing.signals[0]: must be lower case letters, digits and '_', at most 40, beginning with a "
            "letter, not 'CPU'",
        ),
        (
            WEST + "links: {between: [{clusters: [west, east], rtt_ms: 40}]}",
            "3: links.between[0].clusters[1]: 'east' is no configured cluster; did you mean west?",
        ),
        (
            WEST + "links:\n  between:\n  - {clusters: [west, west], rtt_ms: 40}",
            "5: links.between[0].clusters: names a cluster and itself: name two",
        ),
        (
            WEST + "links: {between: [{clusters: [west], rtt_ms: 40}]}",
            "3: links.between[0].clusters",
        ),
        (
            AGENT + "links: {listen: '0.0.0.0'}",
            "5: clusters[0].agent.links.listen: must be an IP address and a port, such as 192.0.2.7:7490",
        ),
        (
            AGENT + "links: {allow: [192.0.2.0/24, everything]}",
            "5: clusters[0].agent.links.allow: 'everything' is no network such as 192.0.2.0/24",
        ),
        (
            "clusters:\n  - {name: west, kubeconfig: kube, uid: 'u 1'}",
            "2: clusters[0].uid: must be what `kubectl get ns kube-system -o jsonpath={.metadata.uid}` says there",
        ),
        (
            "clusters:\n  - {name: west, uid: u1}\n  - {name: east, uid: u1}\n"
            "ray: {address: 'ray.example.invalid:1'}\nleader_election: {enabled: false}",
            "3: clusters[1].uid: u1 is that of west, too: one cluster may be listed once",
        ),
        (
            f"clusters:\n  - {{name: west, key: {A_KEY}}}\n  - {{name: east, key: {A_KEY}}}\n"
            "ray: {address: 'ray.example.invalid:1'}\nleader_election: {enabled: false}",
            f"3: clusters[1].key: {A_KEY} is given for west and for east: each cluster signs with a key of its own",
        ),
        ("", "1: clusters: none is listed: name at least one, such as {name: west, context: west-admin}"),
        ("http: {}\nclusters: []", "2: clusters: none is listed: name at least one"),
    ],
    ids=[
        "no file of the Lease",
        "a context of the Lease",
        "a context of the Lease in the first cluster",
        "the Lease by a pod's account",
        "the Lease beside a Ray that is joined",
        "no pod",
        "no key file",
        "no CA file",
        "a row that accepts nobody",
        "a row for a cluster that is none",
        "lost before silent",
        "a word of peers that is too old before the next",
        "peers that are told too seldom",
        "a mode that is none",
        "cool that is hot",
        "a signal that is none",
        "a way to a cluster that is none",
        "a way from a cluster to itself",
        "a way to nobody",
        "a name to listen on",
        "a network that is none",
        "a UID that is none",
        "a UID of two clusters",
        "a key of two clusters",
        "an empty file",
        "no clusters",
    ],
)
def test_it_is_told_with_line_key_and_fix(folder: Path, text: str, want: str) -> None:
    (found,) = problems_of(folder, text)
    assert found.startswith(want)


def test_a_bad_entry_hides_nothing_else(folder: Path) -> None:
    text = (
        "clusters:\n- {nam: west, kubeconfig: kube}\n- {name: b, kubeconfig: gone, agent: {kubelet: {interval: 1}}}\n"
        "http: {port: 70000}\ntiming: {poll_wait_s: 50}\nplugin_files: [[a.py]]\nprofile: p.yaml\n"
        "leader_election: {retry_s: 9}\n"
    )
    (folder / "p.yaml").write_text("plugins: [{name: PrioritySort}, {name: MadeByA}, {name: LiveCPU, weight: -1}]")
    found = problems_of(folder, text)
    assert [": ".join(one.split(": ")[:2]) for one in found] == [
        "2: clusters[0].name",
        "2: clusters[0].nam",
        "3: clusters[1].agent.kubelet.interval",
        "3: clusters[1].kubeconfig",
        "4: http.port",
        "5: timing.poll_wait_s",
        "6: plugin_files[0]",
        "8: leader_election.retry_s",
        "p.yaml:1: plugins[2].weight",
    ]


def test_a_bad_name_of_a_cluster_that_dials_in_leaves_its_gateway_known(folder: Path) -> None:
    gateway = "gateway: {cert_file: a.crt, key_file: a.key, client_ca_file: ca.crt}"
    found = problems_of(
        folder, f"clusters: [{{name: East, via: gateway}}]\n{gateway}\nleader_election: {{enabled: false}}\n"
    )
    assert not any("is missing" in one or "leader_election" in one for one in found), found


def test_a_bad_variable_is_all_that_is_told_of_a_good_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOBAL_DISPATCHER_HTTP__PORT", "x")
    (folder / "p.yaml").write_text("plugins: [{name: PrioritySort}, {name: MadeByA}]")
    found = problems_of(folder, WEST + "plugin_files: [a.py]\nprofile: p.yaml")
    assert found == ["environment: GLOBAL_DISPATCHER_HTTP__PORT: must be a whole number, not 'x'"]


def test_run_refuses_an_empty_file_in_the_words_of_config_check(folder: Path) -> None:
    (folder / "dispatcher.yaml").touch()
    for words in (("config", "check"), ("run", "--config")):
        done = CliRunner().invoke(app, [*words, str(folder / "dispatcher.yaml")])
        assert done.exit_code == ExitCode.FAILED
        assert "dispatcher.yaml:1: clusters: none is listed" in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        WEST + "leader_election: {enabled: false, kubeconfig: gone}",
        WEST + "leader_election: {kubeconfig: kube, context: west}",
        "clusters: [{name: west, agent: {key_file: gone.pem}}]\nray: {address: 'ray.example.invalid:1'}\n",
        AGENT + "executor: {accept: []}",
    ],
    ids=["a Lease that nobody needs", "a Lease that is there", "agents that run elsewhere", "nobody is accepted"],
)
def test_what_can_be_used_is_not_told(folder: Path, text: str) -> None:
    assert problems_of(folder, text) == []


def test_in_a_pod_no_kubeconfig_is_needed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "TOKEN", folder / "kube")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert problems_of(folder, "clusters: [{name: west}]\nleader_election: {kubeconfig: in-cluster}") == []


@pytest.mark.parametrize(
    ("resource", "want"),
    [
        ("cpus", "t.yaml:1: default.nominal.cpus: is no resource of all nodes, nor one with a domain"),
        ("gpu", "t.yaml:1: default.nominal.gpu: is no resource of all nodes, nor one with a domain, such as nvidia"),
        ("nvidia.com/gpu", ""),
        ("hugepages-2Mi", ""),
        ("ephemeral-storage", ""),
    ],
)
def test_a_share_of_a_resource_that_no_node_has_is_told(folder: Path, resource: str, want: str) -> None:
    found = problems_of(folder, WEST + "tenants: t.yaml", f"default: {{nominal: {{{resource}: 3M}}}}")
    assert len(found) == (1 if want else 0)
    assert all(problem.startswith(want) for problem in found)


def test_a_variable_with_one_underscore_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOBAL_DISPATCHER_HTTP_PORT", "80")
    monkeypatch.setenv("GLOBAL_DISPATCHER_LEADER_ELECTION_LEASE_S", "9")
    assert problems_of(folder, WEST) == [
        "environment: GLOBAL_DISPATCHER_HTTP_PORT: sets nothing; did you mean GLOBAL_DISPATCHER_HTTP__PORT?",
        "environment: GLOBAL_DISPATCHER_LEADER_ELECTION_LEASE_S: sets nothing; "
        "did you mean GLOBAL_DISPATCHER_LEADER_ELECTION__LEASE_S?",
    ]
    monkeypatch.delenv("GLOBAL_DISPATCHER_LEADER_ELECTION_LEASE_S")
    monkeypatch.setenv("GLOBAL_DISPATCHER_HTTP_PORT", "tcp://10.0.0.1:80")  # a Service of that name
    assert problems_of(folder, WEST) == []


def test_all_files_are_beside_the_configuration(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    load_keys("", "west")
    (folder / "state/global-dispatcher/keys/west.pem").rename(folder / "west.pem")
    (folder / "ca.crt").touch()
    more = "journal: {path: j}\nquota: {ledger: ~/q}\nleader_election: {kubeconfig: kube}\n"
    assert problems_of(folder, f"{AGENT}key_file: west.pem\n    kubelet: {{ca_file: ca.crt}}\n{more}") == []
    config = load_config(folder / "dispatcher.yaml")
    assert config.clusters[0].agent == {
        "key_file": str(folder / "west.pem"),
        "kubelet": {"ca_file": str(folder / "ca.crt")},
    }
    assert (config.journal.path, config.quota.ledger) == (str(folder / "j"), str(folder / "q"))
    assert config.leader_election.kubeconfig == str(folder / "kube")


def test_files_of_telemetry_sources_are_beside_the_configuration(folder: Path) -> None:
    server = "{url: 'https://p', token_file: token, header_files: {X-Key: key}}"
    telemetry = f"telemetry: {{prometheus: [{server}], file: [{{path: load.yaml}}], stale_s: 30}}"
    assert problems_of(folder, f"{AGENT}{telemetry}\n") == []
    (server_told,) = (told := load_config(folder / "dispatcher.yaml").clusters[0].agent["telemetry"])["prometheus"]
    assert (server_told["token_file"], server_told["header_files"]) == (
        str(folder / "token"),
        {"X-Key": str(folder / "key")},
    )
    assert (told["file"], told["stale_s"]) == ([{"path": str(folder / "load.yaml")}], 30)


@pytest.mark.parametrize(
    ("telemetry", "problem"),
    [
        ("{prometheus: [{}]}", "5: clusters[0].agent.telemetry.prometheus[0].url: is missing"),
        (
            "{prometheus: [{url: 'http://p', windov: 2m}]}",
            "5: clusters[0].agent.telemetry.prometheus[0].windov: unknown key; did you mean window?",
        ),
        ("{order: {cpu: [grafana]}}", "order.cpu names 'grafana', which is no source: kubelet"),
        ("{prometheus: [{url: 'http://p', token_file: t}]}", "over http everybody on the way reads the credentials"),
        (
            "7",
            "5: clusters[0].agent.telemetry: must be a map of keys (prometheus, node_exporter, load_watcher, file, ...",
        ),
    ],
)
def test_mistakes_in_telemetry_are_told_with_line_and_key(folder: Path, telemetry: str, problem: str) -> None:
    assert any(problem in found for found in problems_of(folder, f"{AGENT}telemetry: {telemetry}\n"))


@pytest.mark.parametrize(("written", "mode"), [("off", "off"), ("on", "on"), ("'on'", "on"), ("dry_run", "dry_run")])
def test_bare_on_and_off_are_modes_of_rebalancing_though_yaml_takes_them_for_booleans(
    folder: Path, written: str, mode: str
) -> None:
    file = folder / "dispatcher.yaml"
    file.write_text(f"rebalancing: {{mode: {written}}}")
    assert load_config(file).rebalancing.mode == mode
