"""Who may read the HTTP API: tokens and proxies as values of the chart, and the warnings without them."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dispatcher.cli.api_client import TOKEN_VARIABLE
from dispatcher.cli.main import app
from tests.charts.dispatcher_values import LOGIN_VARIABLE, ON_RAY, TOKENS
from tests.charts.rendering import Helm, HelmError, only, write_mounted


def test_tokens_of_a_secret_are_asked_for_and_shown_by_what_the_chart_makes(helm: Helm) -> None:
    objects = helm.template("dispatcher", {**TOKENS, "serviceMonitor": {"enabled": True}})
    spec = only(objects, "Deployment")["spec"]["template"]["spec"]
    (dispatcher,) = spec["containers"]
    env = {one["name"]: one.get("value") for one in dispatcher["env"]}
    (mount,) = [one for one in dispatcher["volumeMounts"] if one["name"] == "http-tokens"]
    (volume,) = [one["secret"] for one in spec["volumes"] if one["name"] == "http-tokens"]
    (item,) = volume["items"]
    assert (volume["secretName"], item["key"]) == ("readers", "all")
    assert env[LOGIN_VARIABLE] == f"{mount['mountPath']}/{item['path']}"
    own = {"name": "readers", "key": "prometheus"}
    (test,) = only(objects, "Pod")["spec"]["containers"]
    assert test["env"] == [{"name": TOKEN_VARIABLE, "valueFrom": {"secretKeyRef": own}}]
    (endpoint,) = only(objects, "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["authorization"]["credentials"] == own


def test_without_a_secret_of_tokens_none_is_mounted(helm: Helm) -> None:
    (dispatcher,) = only(helm.template("dispatcher"), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert LOGIN_VARIABLE not in {one["name"] for one in dispatcher["env"]}


@pytest.mark.parametrize(
    ("values", "opened"),
    [({}, True), (TOKENS, False), ({"networkPolicy": {"enabled": True}}, False)],
    ids=["as it comes", "tokens", "network policy"],
)
def test_the_notes_warn_of_an_http_api_that_any_pod_may_read_with_the_commands_that_close_it(
    helm: Helm, values: dict[str, Any], opened: bool
) -> None:
    notes = helm.notes("dispatcher", values)
    assert ("WARNING: the HTTP API asks nobody who he is" in notes) is opened
    assert ("--set httpTokens.existingSecret=dispatcher-http" in notes) is opened


@pytest.mark.parametrize("closed", [False, True], ids=["as it comes", "network policy"])
def test_config_check_notes_an_http_api_that_asks_nobody_who_he_is_and_claims_nothing_of_policies(
    helm: Helm, tmp_path: Path, closed: bool
) -> None:
    values = {"networkPolicy": {"enabled": closed}}
    file = write_mounted(helm.template("dispatcher", {**values, **ON_RAY}), tmp_path) / "dispatcher.yaml"
    told = CliRunner().invoke(app, ["config", "check", str(file)])
    (note, _) = told.stdout.splitlines()
    assert "http.host: is '0.0.0.0' and http.login asks nobody who he is: whoever reaches port 7480" in note
    assert "unless a NetworkPolicy, which is not seen from here, lets only those reach it who may read" in note


@pytest.mark.parametrize(
    ("http", "words"),
    [
        ({"host": "127.0.0.1"}, r"config\.http\.host: 127\.0\.0\.1 is loopback"),
        ({"host": "localhost"}, r"config\.http\.host: localhost is loopback"),
        ({"host": "::1"}, r"config\.http\.host: ::1 is loopback"),
        ({"login": {"token_file": "/x/tokens"}}, r"login\.token_file: .* httpTokens\.existingSecret"),
        (
            {"login": {"user_header": "X-User", "proxies": ["10.0.0.1"]}},
            r"login\.user_header: .* httpTokens\.existingSecret, too",
        ),
    ],
    ids=["loopback", "localhost", "IPv6", "a file of tokens", "a proxy alone"],
)
def test_settings_that_lock_out_the_charts_own_readers_are_refused(
    helm: Helm, http: dict[str, Any], words: str
) -> None:
    with pytest.raises(HelmError, match=words):
        helm.template("dispatcher", {"config": {"http": http}})


def test_a_proxys_header_is_taken_beside_tokens(helm: Helm) -> None:
    login = {"user_header": "X-User", "proxies": ["10.0.0.1"]}
    assert helm.template("dispatcher", {**TOKENS, "config": {"http": {"login": login}}})
