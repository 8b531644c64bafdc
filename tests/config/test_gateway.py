"""Clusters that dial in: what the gateway needs, and what must not be said of them here."""

import datetime as dt
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from dispatcher.cli.main import app
from dispatcher.config import check_config, gateway, load_config
from dispatcher.config.certificates import SERVER, PairFiles, authority_problems, pair_problems
from dispatcher.service.errors import ExitCode
from dispatcher.service.gateway.authority import ensure
from dispatcher.service.run import read_config

DIALLING = "clusters: [{name: east, via: gateway}]\nleader_election: {enabled: false}\n"
KEY_AND_CA = "gateway: {key_file: gateway.key, client_ca_file: ca.crt}\n"
FILES = "gateway: {cert_file: gateway.crt, key_file: gateway.key, client_ca_file: ca.crt}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ensure(tmp_path, ["gateway.example"], ["east"])
    return tmp_path


def written(folder: Path, text: str) -> Path:
    file = folder / "dispatcher.yaml"
    file.write_text(text)
    return file


def test_files_are_relative_to_the_configuration(folder: Path) -> None:
    config = load_config(written(folder, DIALLING + FILES), reach=True)
    assert config.gateway.cert_file == str(folder / "gateway.crt")


def test_a_cluster_that_dials_in_needs_no_kubeconfig_and_no_ray(folder: Path) -> None:
    assert check_config(written(folder, DIALLING + FILES), reach=True) == []


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        (
            DIALLING + KEY_AND_CA,
            "gateway.cert_file",
            "is missing: cluster east comes through the gateway",
        ),
        (DIALLING + FILES.replace("gateway.key", "none.key"), "gateway.key_file", "there is no file"),
        (
            DIALLING.replace("via: gateway", "via: gateway, agent: {log_level: debug}") + FILES,
            "clusters[0].agent",
            "a file of its own",
        ),
        (DIALLING.replace("enabled: false", "") + FILES, "leader_election.kubeconfig", "say where the Lease is"),
    ],
)
def test_what_is_wrong_is_named_with_its_key(folder: Path, text: str, key: str, words: str) -> None:
    problems = check_config(written(folder, text), reach=True)
    assert [(one.key, words in one.text) for one in problems] == [(key, True)], problems


def test_files_that_cannot_be_used_are_told_before_anything_starts(folder: Path, tmp_path: Path) -> None:
    ensure(tmp_path / "other", ["gateway.example"], ["east"])
    (folder / "gateway.key").write_bytes((tmp_path / "other" / "gateway.key").read_bytes())
    (folder / "ca.crt").write_text("none")
    problems = check_config(written(folder, DIALLING + FILES), reach=True)
    assert [(one.key, one.text.split(":")[0].replace(f"{folder}/", "")) for one in problems] == [
        ("gateway.key_file", "gateway.key is not the key of gateway.crt"),
        ("gateway.client_ca_file", "ca.crt holds no certificate (PEM)"),
    ]


@pytest.mark.parametrize(
    ("days", "words"),
    [(-1, "is not valid before"), (1, ""), (89, ""), (91, "expired at")],
    ids=["too early", "good", "good to the end", "too late"],
)
def test_certificates_are_good_for_a_time(folder: Path, days: int, words: str) -> None:
    now = dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
    told = list(pair_problems(PairFiles(str(folder / "gateway.crt"), str(folder / "gateway.key")), now))
    assert [(one.key, words in one.text) for one in told] == ([("cert_file", True)] if words else [])


def test_a_dispatcher_starts_with_an_expired_certificate_and_config_check_tells_of_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(folder, DIALLING + FILES)
    late = dt.datetime.now(dt.UTC) + dt.timedelta(days=91)
    monkeypatch.setattr(gateway, "dt", SimpleNamespace(UTC=dt.UTC, datetime=SimpleNamespace(now=lambda zone: late)))
    assert ["expired at" in one.text for one in check_config(file, reach=True)] == [True]
    config, _ = read_config(file, reach=True)
    assert [cluster.via for cluster in config.clusters].count("gateway")


def test_a_clients_certificate_is_none_for_the_gateway(folder: Path) -> None:
    swapped = FILES.replace("gateway.crt", "cluster-east.crt").replace("gateway.key", "cluster-east.key")
    problems = check_config(written(folder, DIALLING + swapped), reach=True)
    told = "cluster-east.crt is of no server, by its extended key usage"
    assert [(one.key, told in one.text) for one in problems] == [("gateway.cert_file", True)]


def test_files_that_were_taken_for_each_other_are_told_by_what_is_in_them(folder: Path) -> None:
    swapped = PairFiles(str(folder / "gateway.key"), str(folder / "gateway.crt"), SERVER)
    told = {one.key: one.text for one in pair_problems(swapped, None)}
    assert told["cert_file"].endswith("holds no certificate (PEM): it has a block of private key, of another file")
    assert told["key_file"].endswith(": it has a block of certificate, of another file")
    assert told.keys() == {"cert_file", "key_file"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is empty"),
        ("serial", "nothing in it begins with -----BEGIN"),
        ("-----BEGIN CERTIFICATE-----\nMII", "its block of certificate is cut off or spoilt"),
        ("-----BEGIN CERTIFICATE REQUEST-----\nMII", "it has a block of certificate request, of another file"),
        ("-----BEGIN ENCRYPTED PRIVATE KEY-----\nMII", "it has a block of encrypted private key, of another file"),
    ],
)
def test_a_file_without_a_certificate_is_told_by_what_is_in_it(
    folder: Path, tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "x.crt").write_text(text)
    found = [*pair_problems(PairFiles(str(tmp_path / "x.crt"), str(folder / "gateway.key"), SERVER), None)]
    assert [one.text.endswith(words) for one in found] == [True], found


def test_one_good_authority_of_several_is_enough(folder: Path, tmp_path: Path) -> None:
    ensure(tmp_path / "other", ["gateway.example"], ["east"])
    both = tmp_path / "both.crt"
    both.write_bytes((folder / "ca.crt").read_bytes() + (tmp_path / "other" / "ca.crt").read_bytes())
    assert list(authority_problems("ca_file", str(both), dt.datetime.now(dt.UTC))) == []
    late = dt.datetime.now(dt.UTC) + dt.timedelta(days=36_500)
    assert ["expired" in one.text for one in authority_problems("ca_file", str(both), late)] == [True]


def test_a_file_that_may_not_be_read_is_named(folder: Path) -> None:
    told = list(authority_problems("ca_file", str(folder), dt.datetime.now(dt.UTC)))
    assert [one.text for one in told] == [f"{folder} cannot be read: Is a directory"]


@pytest.mark.parametrize("kind", ["gateway.crt", "cluster-east.crt"])
def test_a_certificate_that_signs_no_others_is_no_authority(folder: Path, kind: str) -> None:
    problems = check_config(written(folder, DIALLING + FILES.replace("ca.crt", kind)), reach=True)
    assert [one.key for one in problems] == ["gateway.client_ca_file"]
    assert re.search(
        rf"{kind} holds no authority: the certificate of CN=.* \(CA:FALSE\): name .* ca\.crt", problems[0].text
    )
    chain = folder / "chain.crt"
    chain.write_bytes((folder / kind).read_bytes() + (folder / "ca.crt").read_bytes())
    assert check_config(written(folder, DIALLING + FILES.replace("ca.crt", "chain.crt")), reach=True) == []


@pytest.mark.parametrize(
    ("http", "gateway", "agent", "met"),
    [
        ("port: 7443", "port: 7443", "via: gateway", True),
        ("port: 7443, host: 0.0.0.0", "port: 7443, host: 10.0.0.1", "via: gateway", True),
        ("port: 7443, host: localhost", "port: 7443", "via: gateway", True),
        ("port: 7443, host: 10.0.0.2", "port: 7443, host: 10.0.0.1", "via: gateway", False),
        ("port: 0", "port: 0", "via: gateway", False),
        ("port: 7443", "port: 7443", "context: east", False),
    ],
    ids=["equal", "every address", "loopback", "other addresses", "any port", "none dials in"],
)
def test_one_port_for_two_listeners_is_told_by_both_names(
    folder: Path, http: str, gateway: str, agent: str, met: bool
) -> None:
    text = (
        f"clusters: [{{name: east, {agent}}}]\nhttp: {{{http}}}\n"
        f"gateway: {{{gateway}, cert_file: a, key_file: b, client_ca_file: c}}\n"
    )
    told = [str(one).partition("dispatcher.yaml:")[2] for one in check_config(written(folder, text))]
    assert told == (
        ["3: gateway.port: port 7443 is that of http.port, too: give each a port of its own"] if met else []
    )


@pytest.mark.parametrize(("agent", "met"), [("context: east", True), ("via: gateway", False)])
def test_where_started_agents_dial_is_a_listener_where_there_are_any(folder: Path, agent: str, met: bool) -> None:
    text = f"clusters: [{{name: east, {agent}}}]\nhttp: {{port: 7444}}\nray: {{port: 7444}}\n"
    files = "gateway: {cert_file: a, key_file: b, client_ca_file: c}\n"
    assert ["ray.port" in one.key for one in check_config(written(folder, text + files))] == [True] * met


@pytest.mark.parametrize(
    ("relays", "ray", "want"),
    [
        ("{port: 0} {port: 0}", "{}", []),
        ("{port: 10250} {port: 10251}", "{}", []),
        ("{} {port: 10250}", "{}", ["1: clusters[1].agent.relay.port: port 10250 is that of clusters[0].agent.relay"]),
        ("{} {}", "{address: 'ray.example.invalid:6379'}", []),
        ("{port: 7444} {}", "{port: 7444}", ["1: clusters[0].agent.relay.port: port 7444 is that of ray.port"]),
        ("{prot: 0} {}", "{}", ["1: clusters[0].agent.relay.prot: unknown key; did you mean port?"]),
    ],
    ids=["any ports", "two ports", "one port", "on other machines", "where agents dial", "a key misspelt"],
)
def test_where_agents_that_are_started_serve_logs_is_checked_as_in_files_of_their_own(
    folder: Path, relays: str, ray: str, want: list[str]
) -> None:
    one, other = relays.split(" {")
    clusters = f"[{{name: east, agent: {{relay: {one}}}}}, {{name: west, agent: {{relay: {{{other}}}}}]"
    told = [
        str(one).partition("dispatcher.yaml:")[2]
        for one in check_config(written(folder, f"clusters: {clusters}\nray: {ray}\n"))
    ]
    assert [line.startswith(start) for line, start in zip(told, want, strict=True)] == [True] * len(want), told


# --- agent.yaml ------------------------------------------------------------------------------------------------------

AGENT = "cluster: {cluster}\ngateway:\n  urls: ['wss://gateway.example:7443']\n  ca_file: {folder}/ca.crt\n"
PAIR = "  cert_file: {folder}/cluster-east.crt\n  key_file: {folder}/cluster-{key}.key\n"
HALF = "  cert_file: {folder}/cluster-east.{key}.crt\n  key_file: {folder}/cluster-east.{key}.key\n"


KUBE = (
    "contexts: [{name: east, context: {cluster: c, user: u}}]\n"
    "clusters: [{name: c, cluster: {server: 'https://east.example'}}]\nusers: [{name: u, user: {}}]\n"
)


def agent_yaml(folder: Path, text: str, cluster: str = "east", key: str = "east") -> Path:
    (folder / "kube").write_text(KUBE)
    file = folder / "agent.yaml"
    file.write_text(text.format(folder=folder, cluster=cluster, key=key))
    return file


@pytest.fixture
def no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.usefixtures("no_home")
@pytest.mark.parametrize(
    ("text", "cluster", "key", "want"),
    [
        (AGENT + PAIR, "east", "east", []),
        ((AGENT + PAIR).replace("{folder}/", ""), "east", "east", []),
        (AGENT + PAIR, "east", "none", ["6: gateway.key_file: there is no file"]),
        (AGENT + PAIR, "west", "east", ["5: gateway.cert_file: cluster-east.crt is not of cluster west: its URIs are"]),
        (AGENT + PAIR + "  serer_name: x\n", "east", "east", ["7: gateway.serer_name: unknown key; did you mean"]),
        (AGENT + PAIR + "kubelet: {{ca_file: none.crt}}\n", "east", "east", ["7: kubelet.ca_file: there is no file"]),
        (AGENT + PAIR + "orders: {{ca_file: none.crt}}\n", "east", "east", ["7: orders.ca_file: there is no file"]),
        (AGENT + PAIR + "orders: {{ca_file: {folder}/ca.crt}}\n", "east", "east", []),
        (
            AGENT + PAIR + "orders: {{authority: {folder}/ca.crt}}\n",
            "east",
            "east",
            ["7: orders.authority: the text holds no authorities (PEM), so all orders would be refused"],
        ),
        (
            AGENT + PAIR + "orders: {{ca_file: {folder}/cluster-east.key}}\n",
            "east",
            "east",
            ["7: orders.ca_file: cluster-east.key holds no authorities (PEM), so all orders would be refused"],
        ),
        (AGENT + PAIR + "key_file: none.pem\n", "east", "east", ["7: key_file: none.pem: the keys of cluster 'east'"]),
        (AGENT + HALF + "role: observer\nkey_file: none.pem\n", "east", "observer", []),
        (
            AGENT + HALF + "role: executor\n",
            "east",
            "observer",
            ["5: gateway.cert_file: cluster-east.observer.crt is not"],
        ),
        (
            AGENT + PAIR.replace("cluster-east", "gateway").replace("cluster-{key}", "gateway"),
            "east",
            "east",
            ["5: gateway.cert_file: gateway.crt is of no client"],
        ),
        (
            AGENT.replace("ca.crt", "cluster-east.crt") + PAIR,
            "east",
            "east",
            ["4: gateway.ca_file: cluster-east.crt holds no authority"],
        ),
        (
            AGENT
            + PAIR
            + "metrics: {{enabled: true}}\nlinks: {{listen: '127.0.0.1:7482', address: '10.0.0.1:7482'}}\n",
            "east",
            "east",
            ["8: links.listen: port 7482 is that of metrics.port, too"],
        ),
        (
            AGENT + PAIR + "metrics: {{enabled: true}}\nlinks: {{pod_port: 7482}}\n",
            "east",
            "east",
            ["8: links.pod_port: port 7482 is that of metrics.port, too"],
        ),
        (
            AGENT + HALF + "role: observer\nkey_file: none.pem\nrelay: {{port: 7481}}\n",
            "east",
            "observer",
            [],
        ),
        (
            AGENT + PAIR + "kubeconfig: none\n",
            "east",
            "east",
            ["7: kubeconfig: none cannot be read: No such file or directory"],
        ),
        (
            AGENT + PAIR + "kubeconfig: {folder}/kube\ncontext: eest\n",
            "east",
            "east",
            ["8: context: kube has no context 'eest'; did you mean 'east'?"],
        ),
        (AGENT + PAIR + "kubeconfig: {folder}/kube\ncontext: east\n", "east", "east", []),
        (
            AGENT.replace("wss://gateway.example:7443", "gateway.example:7443") + PAIR,
            "east",
            "east",
            ["3: gateway.urls[0]: must be wss://HOST:PORT, not 'gateway.example:7443'"],
        ),
        (
            AGENT.replace("gateway.example:7443", "gateway.example:74430', 'wss://one,two:7443', 'wss://u:p@gw:7443")
            + PAIR,
            "east",
            "east",
            [
                "3: gateway.urls[0]: must be wss://HOST:PORT with one host and a port of 1 to 65535",
                "3: gateway.urls[1]: must be wss://HOST:PORT with one host and a port of 1 to 65535",
                "3: gateway.urls[2]: must be wss://HOST:PORT with one host and a port of 1 to 65535",
            ],
        ),
        (
            AGENT.replace("'wss://gateway.example:7443'", "") + PAIR,
            "east",
            "east",
            ["3: gateway.urls: must name a gateway at least: wss://HOST:PORT"],
        ),
        ("cluster: east\n", "east", "east", ["1: gateway: "]),
    ],
    ids=[
        "good",
        "beside it",
        "no key",
        "of another cluster",
        "a key misspelt",
        "no CA of kubelets",
        "no authorities of orders",
        "authorities of orders",
        "a path as authority of orders",
        "a key as authorities of orders",
        "no keys",
        "observer",
        "of another role",
        "a server's certificate",
        "no authority",
        "two listeners",
        "the port of pods",
        "an observer relays nothing",
        "no kubeconfig",
        "a context misspelt",
        "a context that is there",
        "no URL",
        "nowhere to dial",
        "no gateway",
        "no way",
    ],
)
def test_config_check_looks_into_agent_yaml(folder: Path, text: str, cluster: str, key: str, want: list[str]) -> None:
    file = agent_yaml(folder, text, cluster, key)
    shown = CliRunner().invoke(app, ["config", "check", str(file)])
    told = [line.replace(f"{file}:", "").replace(f"{folder}/", "") for line in shown.stderr.splitlines()]
    assert [line.startswith(start) for line, start in zip(told, want, strict=True)] == [True] * len(want), told
    assert shown.exit_code == (ExitCode.FAILED if want else ExitCode.OK)
