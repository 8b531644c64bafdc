"""What `config check` and `run` say of clusters that cannot be reached, or that are one under two names."""

import os
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from dispatcher.cli.main import app
from dispatcher.config import access, check_config, load_config
from dispatcher.service.errors import ExitCode

KUBECONFIG = {
    "current-context": "west",
    "contexts": [
        {"name": "west", "context": {"cluster": "w", "user": "admin"}},
        {"name": "east", "context": {"cluster": "e", "user": "admin"}},
        {"name": "west-again", "context": {"cluster": "w2"}},
        {"name": "tunnel-a", "context": {"cluster": "ta"}},
        {"name": "tunnel-b", "context": {"cluster": "tb"}},
        {"name": "broken", "context": {"cluster": "ww", "user": "admin"}},
        {"name": "nobody", "context": {"cluster": "w", "user": "adnim"}},
        {"name": "nowhere", "context": {"cluster": "blank"}},
        {"name": "odd", "context": {"cluster": "odd"}},
    ],
    "clusters": [
        {"name": "w", "cluster": {"server": "https://west.example.invalid:443/"}},
        {"name": "w2", "cluster": {"server": "https://WEST.example.invalid"}},
        {"name": "e", "cluster": {"server": "https://east.example.invalid:6443"}},
        {"name": "ta", "cluster": {"server": "https://localhost:6443", "tls-server-name": "a"}},
        {"name": "tb", "cluster": {"server": "https://127.0.0.1:6443", "tls-server-name": "b"}},
        {"name": "blank", "cluster": {}},
        {"name": "odd", "cluster": {"server": "west.example.invalid:6443"}},
    ],
    "users": [{"name": "admin", "user": {}}],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with kubeconfigs, and a home that has none."""
    for name in [name for name in os.environ if name.startswith("GLOBAL_DISPATCHER_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "kube").write_text(yaml.safe_dump(KUBECONFIG))
    (tmp_path / "bare").write_text(yaml.safe_dump({**KUBECONFIG, "current-context": ""}))
    (tmp_path / "empty").write_text("")
    (tmp_path / "torn").write_text("contexts: [")
    return tmp_path


def problems_of(folder: Path, *clusters: str, **files: str) -> list[str]:
    """'LINE: KEY: TEXT' of each problem of a dispatcher.yaml with these clusters, one a line from line 2 on."""
    lines = "".join(f"- {{{cluster}}}\n" for cluster in clusters)
    (folder / "dispatcher.yaml").write_text(f"clusters:\n{lines}{files.pop('more', '')}")
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    found = check_config(folder / "dispatcher.yaml", reach=True)
    return [str(one).replace(f"{folder}{os.sep}", "").removeprefix("dispatcher.yaml:") for one in found]


@pytest.mark.parametrize(
    ("cluster", "want"),
    [
        (
            "name: w, kubeconfig: gone",
            "2: clusters[0].kubeconfig: gone cannot be read: No such file or directory; name a kubeconfig file",
        ),
        ("name: w, kubeconfig: kube, context: wst", "kube has no context 'wst'; did you mean 'west'?"),
        ("name: w, kubeconfig: kube, context: zzz", "kube has no context 'zzz'; known: broken, east, nobody, nowhere,"),
        ("name: w, kubeconfig: bare", "is empty, and bare has no current-context: name one; known: broken, east,"),
        (
            "name: w, kubeconfig: kube, context: broken",
            "context 'broken' of kube names the cluster 'ww', which is not in it; did you mean 'w",
        ),
        (
            "name: w, kubeconfig: kube, context: nobody",
            "context 'nobody' of kube names the user 'adnim', which is not in it; did you mean 'admin'?",
        ),
        (
            "name: w, kubeconfig: kube, context: nowhere",
            "context 'nowhere' of kube has the server '': write its addres",
        ),
        (
            "name: w, kubeconfig: kube, context: odd",
            "context 'odd' of kube has the server 'west.example.invalid:6443':",
        ),
        ("name: w, kubeconfig: empty", "2: clusters[0].kubeconfig: empty is no kubeconfig: it holds no map of keys"),
        ("name: w, kubeconfig: torn", "2: clusters[0].kubeconfig: torn is no YAML: "),
        ("name: w, context: west", "'west' is in no kubeconfig: there is no .kube/config; give `kubeconfig`, too"),
    ],
    ids=[
        "no file",
        "a typo",
        "a stranger",
        "no current context",
        "its cluster is missing",
        "its user is missing",
        "no server",
        "no address",
        "an empty file",
        "no YAML",
        "no usual file",
    ],
)
def test_a_cluster_that_cannot_be_reached_is_told_with_line_key_and_fix(folder: Path, cluster: str, want: str) -> None:
    (found,) = problems_of(folder, cluster)
    at_context = f"2: clusters[0].context: {want}"
    assert found.startswith(want if want.startswith("2: ") else at_context)


def test_a_variable_that_names_no_file_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(folder / "gone"))
    text = "2: clusters[0].kubeconfig: is empty, and $KUBECONFIG names gone, which is no file"
    assert problems_of(folder, "name: w") == [text]
    monkeypatch.setenv("KUBECONFIG", f"{folder / 'kube'}{os.pathsep}{folder / 'gone'}")
    assert problems_of(folder, "name: w", "name: e, context: east") == []


@pytest.mark.parametrize(
    ("one", "other", "want"),
    [
        (
            "context: west",
            "context: west",
            "3: clusters[1].context: b is a under another name: both are https://west.example.invalid:443/; remove one",
        ),
        ("context: west", "context: west-again", "both are https://WEST.example.invalid; remove one of them"),
        ("name: x", "context: west", "3: clusters[1].context: b is x under another name"),
        ("context: west", "context: east", ""),
        ("context: tunnel-a", "context: tunnel-b", ""),
    ],
    ids=["the same context", "the same server", "the current context", "two servers", "two ends of a tunnel"],
)
def test_one_api_server_under_two_names_is_refused(folder: Path, one: str, other: str, want: str) -> None:
    first = one if one.startswith("name") else f"name: a, {one}"
    found = problems_of(folder, f"{first}, kubeconfig: kube", f"name: b, {other}, kubeconfig: kube")
    assert len(found) == (1 if want else 0)
    assert all(want in problem for problem in found)


def test_two_clusters_without_a_kubeconfig_are_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "TOKEN", folder / "kube")  # in a pod
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    (found,) = problems_of(folder, "name: a", "name: b")
    assert found.startswith("3: clusters[1].name: b is a under another name: both are the service account of the pod")


def test_clusters_of_a_ray_that_is_joined_have_their_files_elsewhere(folder: Path) -> None:
    joined = "ray: {address: 'ray.example.invalid:6379'}\n"
    assert problems_of(folder, "name: a", "name: b", "name: c, kubeconfig: gone", more=joined) == []


def test_a_configuration_whose_clusters_are_left_aside_need_not_reach_them(folder: Path) -> None:
    problems_of(folder, "name: a, kubeconfig: gone")
    assert [one.name for one in load_config(folder / "dispatcher.yaml").clusters] == ["a"]


@pytest.mark.parametrize("words", [("config", "check"), ("run", "--config")])
def test_config_check_and_run_refuse_a_context_that_is_not_there(folder: Path, words: tuple[str, ...]) -> None:
    problems_of(folder, "name: a, kubeconfig: kube, context: wst")
    done = CliRunner().invoke(app, [*words, str(folder / "dispatcher.yaml")])
    assert done.exit_code == ExitCode.FAILED
    want = f"{folder / 'dispatcher.yaml'}:2: clusters[0].context: {folder / 'kube'} has no context 'wst'; did you mean"
    assert want in done.stderr
    assert done.stdout == ""


def test_a_tenant_of_a_cluster_that_is_not_configured_is_told(folder: Path) -> None:
    tenants = "tenants:\n- name: a\n  namespaces: [web, west/ml, wset/x, 'east/*']\n"
    clusters = ("name: west, kubeconfig: kube", "name: east, kubeconfig: kube, context: east")
    assert problems_of(folder, *clusters, more="tenants: t.yaml\n", t=tenants) == [
        "t.yaml:3: tenants[0].namespaces[2]: 'wset/x' is of no configured cluster; did you mean west?"
    ]


def test_a_variable_of_no_section_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOBAL_DISPATCHER_HTPP__PORT", "8080")
    monkeypatch.setenv("GLOBAL_DISPATCHER_SERVICE_HOST", "10.0.0.1")  # a pod's, of a Service of our name
    want = "environment: GLOBAL_DISPATCHER_HTPP__PORT: unknown section; did you mean HTTP?"
    assert problems_of(folder, "name: w, kubeconfig: kube") == [want]


@pytest.mark.parametrize(
    ("files", "want"),
    [
        ({"more": "tenants: t.yaml", "t": "tenant: []"}, "t.yaml:1: tenant: unknown key; did you mean tenants?"),
        (
            {"more": "tenants: t.yaml", "t": "default:\n  nominl: {}\n  nominal: {}"},
            "t.yaml:2: default.nominl: unknown key; did you mean nominal?",
        ),
        (
            {"more": "profile: p.yaml", "p": "plugins:\n- name: PrioritySort\n  wight: 1"},
            "p.yaml:3: plugins[0].wight: unknown key; did you mean weight?",
        ),
        (
            {"more": "profile: p.yaml", "p": "schedulername: x\nplugins:\n- name: PrioritySort"},
            "p.yaml:1: schedulername: unknown key; did you mean scheduler_name?",
        ),
    ],
    ids=["tenants", "the default tenant", "a plugin", "a profile"],
)
def test_an_unknown_key_of_any_file_is_told(folder: Path, files: dict[str, str], want: str) -> None:
    assert problems_of(folder, "name: w, kubeconfig: kube", **files) == [want]
