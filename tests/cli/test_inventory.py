"""ClusterProfiles as rows and as a kubeconfig; which programs they may choose, and what they may add to one."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from dispatcher.cli.inventory.profiles import entries, listed
from dispatcher.cli.inventory.providers import Providers
from dispatcher.cli.main import app
from dispatcher.service.errors import CommandError, ExitCode

Object = dict[str, Any]
ARGS = "clusterprofiles.multicluster.x-k8s.io/exec/additional-args"
ENVS = "clusterprofiles.multicluster.x-k8s.io/exec/additional-envs"
CONFIG = {"audience": "west"}
_ONE = "{name: a, execConfig: {apiVersion: client.authentication.k8s.io/v1, command: x}}"
TWICE = f"providers: [{_ONE}, {_ONE}]"
CLUSTER: Object = {
    "server": "https://west.example:6443",
    "certificate-authority-data": "Q0E=",
    "certificate-authority": "/etc/passwd",
    "extensions": [
        {"name": "client.authentication.k8s.io/exec", "extension": CONFIG},
        {"name": ARGS, "extension": ["--region", "west"]},
        {"name": ENVS, "extension": {"PROFILE": "west", "LEVEL": "theirs"}},
    ],
}


def profile(field: str = "accessProviders", name: str = "oidc", *, insecure: bool = False, **cluster: object) -> Object:
    return {
        "metadata": {"name": "west"},
        "spec": {"displayName": "West", "clusterManager": {"name": "ocm"}},
        "status": {
            "version": {"kubernetes": "v1.36.3"},
            "conditions": [{"type": "ControlPlaneHealthy", "status": "True"}],
            field: [{"name": name, "cluster": {**CLUSTER, **cluster, "insecure-skip-tls-verify": insecure}}],
        },
    }


def providers(folder: Path, *given: Object) -> Providers:
    file = folder / "providers.json"
    file.write_text(json.dumps({"providers": list(given)}))
    return Providers.read(file)


def program(name: str = "oidc", **more: object) -> Object:
    exec_config = {"apiVersion": "client.authentication.k8s.io/v1", "command": "true", "args": ["--oidc"],
                   "env": [{"name": "LEVEL", "value": "ours"}], "provideClusterInfo": False}  # fmt: skip
    policies = {key: more.pop(key) for key in list(more) if key.startswith("profileSourced")}
    return {"name": name, "execConfig": {**exec_config, **more}, **policies}


def test_a_profile_is_told_in_a_row() -> None:
    row = listed(profile())
    assert (row.name, row.display_name, row.manager, row.version) == ("west", "West", "ocm", "v1.36.3")
    assert (row.healthy, row.server, row.provider) == ("True", "https://west.example:6443", "oidc")


@pytest.mark.parametrize("odd", [{}, {"status": None}, {"status": {"accessProviders": "no"}}, {"spec": []}])
def test_a_profile_of_any_shape_is_told(odd: Object) -> None:
    assert listed({"metadata": {"name": "west"}, **odd}).healthy == "Unknown"


@pytest.mark.parametrize("field", ["accessProviders", "credentialProviders"])
def test_the_kubeconfig_has_the_server_and_the_program_of_the_file(tmp_path: Path, field: str) -> None:
    name, cluster, user = entries(profile(field), providers(tmp_path, program()))
    assert name == "oidc"
    assert cluster == {"server": "https://west.example:6443", "certificate-authority-data": "Q0E="}
    assert (user["exec"]["command"], user["exec"]["args"]) == (shutil.which("true"), ["--oidc"])
    assert user["exec"]["env"] == [{"name": "LEVEL", "value": "ours"}]


def test_the_first_provider_of_the_file_that_is_offered_is_taken(tmp_path: Path) -> None:
    several = profile()
    several["status"]["accessProviders"].append({"name": "secret", "cluster": CLUSTER})
    assert entries(several, providers(tmp_path, program("gone"), program("secret"), program()))[0] == "secret"


def test_a_program_that_wants_to_know_its_cluster_is_told_of_it(tmp_path: Path) -> None:
    _, _, user = entries(profile(), providers(tmp_path, program(provideClusterInfo=True)))
    assert user["exec"]["command"] == shutil.which("env"), "no PATH of a profile chooses another one"
    variable, *rest = user["exec"]["args"]
    assert rest == [shutil.which("true"), "--oidc"]
    name, _, value = variable.partition("=")
    told = json.loads(value)
    assert (name, told["kind"]) == ("KUBERNETES_EXEC_INFO", "ExecCredential")
    assert told["spec"]["cluster"]["server"] == "https://west.example:6443"
    assert told["spec"]["cluster"]["config"] == CONFIG


@pytest.mark.parametrize(
    ("policy", "args"), [("", ["--oidc"]), ("Ignore", ["--oidc"]), ("Append", ["--oidc", "--region", "west"])]
)
def test_a_profile_adds_arguments_only_where_the_file_says_so(tmp_path: Path, policy: str, args: list[str]) -> None:
    _, _, user = entries(profile(), providers(tmp_path, program(profileSourcedCLIArgsPolicy=policy)))
    assert user["exec"]["args"] == args


@pytest.mark.parametrize(
    ("policy", "env"),
    [
        ("", {"LEVEL": "ours"}),
        ("Ignore", {"LEVEL": "ours"}),
        ("AppendIfNotExists", {"LEVEL": "ours", "PROFILE": "west"}),
        ("Replace", {"LEVEL": "theirs", "PROFILE": "west"}),
    ],
)
def test_a_profile_sets_variables_only_where_the_file_says_so(tmp_path: Path, policy: str, env: dict[str, str]) -> None:
    _, _, user = entries(profile(), providers(tmp_path, program(profileSourcedEnvVarsPolicy=policy)))
    assert {one["name"]: one["value"] for one in user["exec"]["env"]} == env


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (profile(name="ldap"), "its access providers (ldap) are none of the providers file (oidc)"),
        ({"metadata": {"name": "west"}}, "its access providers (none)"),
        (profile(server="http://west.example"), "no https:// address"),
        (profile(extensions=[{"name": ARGS, "extension": "--all"}]), "no list of strings"),
        (profile(extensions=[{"name": ENVS, "extension": {"A": 1}}]), "no map of strings"),
        (profile(extensions=[{"name": ENVS, "extension": {"PATH": "/theirs"}}]), "may not set PATH"),
        (
            profile(extensions=[{"name": ENVS, "extension": {"LD_PRELOAD": "x", "A=B": "y"}}]),
            "may not set A=B, LD_PRELOAD",
        ),
        *[
            (profile(extensions=[{"name": ENVS, "extension": {name: "x"}}]), f"may not set {name}")
            for name in (
                *("HOME", "KUBECONFIG", "AWS_CONFIG_FILE", "CLOUDSDK_CONFIG", "OPENSSL_CONF"),
                *("HTTPS_PROXY", "http_proxy", "ALL_PROXY", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"),
                *("CLOUDSDK_PROXY_ADDRESS", "CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER", "AWS_ENDPOINT_URL_STS"),
                *("AZURE_AUTHORITY_HOST", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GCONV_PATH", "DOTNET_STARTUP_HOOKS"),
                "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
            )
        ],
        (profile(server="https://[x"), "no https:// address"),
        (profile(server="https://west:99999"), "no https:// address"),
        (profile(server=" https://west"), "no https:// address"),
        (profile(insecure=True), "would get the token"),
    ],
)
def test_why_a_cluster_cannot_be_reached_is_said(tmp_path: Path, given: Object, said: str) -> None:
    taking = program(profileSourcedCLIArgsPolicy="Append", profileSourcedEnvVarsPolicy="Replace")
    with pytest.raises(CommandError) as told:
        entries(given, providers(tmp_path, taking))
    assert said in str(told.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("providers: [", "neither JSON nor YAML"),
        ("[]", "the file: "),
        ("providers: [{name: a}]", "providers.0.execConfig: "),
        ("providers: [{name: a, execConfig: {apiVersion: v7, command: x}}]", "providers.0.execConfig.apiVersion: "),
        ("providers: [{name: a, colour: red}]", "providers.0."),
        ("providers: []", "providers: "),
        (
            "providers: [{name: a, execConfig: {apiVersion: client.authentication.k8s.io/v1, command: x, comand: y}}]",
            "comand",
        ),
        (TWICE, "more than one of a"),
    ],
)
def test_a_wrong_providers_file_is_named_with_its_key(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "providers.json"
    file.write_text(text)
    with pytest.raises(CommandError) as told:
        Providers.read(file)
    assert str(file) in str(told.value)
    assert said in str(told.value)


def test_a_program_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="there is no program get-tokne"):
        entries(profile(), providers(tmp_path, program(command="get-tokne")))


def test_a_command_with_a_slash_is_a_file_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "get-token"
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    _, _, user = entries(profile(), providers(tmp_path, program(command="./get-token")))
    assert user["exec"]["command"] == str(file)
    assert yaml.safe_load(yaml.safe_dump(user)) == user


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fleet", "--providers", "p.json"], "--kubeconfig-out FILE"),
        (["fleet", "--kubeconfig-out", "k"], "--providers FILE"),
        (["Fleet"], "'Fleet' is no name of a namespace"),
        (["fleet", "--kubeconfig", "HERE/config", "--context", "wset"], "did you mean 'west'?"),
        (["fleet", "--kubeconfig", "HERE/none"], "cannot be read"),
    ],
)
def test_wrong_usage_says_what_is_missing(tmp_path: Path, words: list[str], said: str) -> None:
    contexts = {"contexts": [{"name": "west", "context": {"cluster": "west"}}]}
    (tmp_path / "config").write_text(yaml.safe_dump(contexts))
    result = CliRunner().invoke(app, ["inventory", *(word.replace("HERE", str(tmp_path)) for word in words)])
    assert isinstance(result.exception, CommandError) or result.exit_code == ExitCode.USAGE
    assert said in f"{result.output}{result.exception}"
