"""`kubectl dispatch ... --context X`: kubectl passes its own flags on to plugins, and means the cluster by them."""

import sys

import pytest

from dispatcher.cli.kubectl_flags import taken_over
from dispatcher.cli.main import kubectl_plugin
from dispatcher.service.errors import CommandError, ExitCode
from tests.cli.test_kubectl_forward import Kubectl, kubectl, port, service

__all__ = ["kubectl", "port"]
ASKING = ("clusters", "explain", "pods", "top")


def asked(line: str, server: str = "") -> str:
    """The command line that is run in its place, with this GLOBAL_DISPATCHER_SERVER."""
    words, changed = taken_over(line.split(), ASKING, {"GLOBAL_DISPATCHER_SERVER": server} if server else {})
    return " ".join([*(f"{name}={value}" for name, value in changed.items()), *words])


@pytest.mark.parametrize(
    ("line", "server", "run"),
    [
        pytest.param("clusters -o json", "", "clusters -o json", id="without"),
        pytest.param("clusters --context prod", "", "clusters --server kubectl:prod", id="after"),
        pytest.param("clusters --context=prod -o json", "", "clusters -o json --server kubectl:prod", id="as-one-word"),
        pytest.param("--context prod top nodes", "", "top nodes --server kubectl:prod", id="before"),
        pytest.param("-n shop --context=prod pods", "", "pods -n shop --server kubectl:prod", id="two-before"),
        pytest.param("-n shop explain web-0", "", "explain web-0 -n shop", id="namespace-before"),
        pytest.param("-nshop explain web-0", "", "explain web-0 -n shop", id="namespace-in-one-word"),
        pytest.param("-n=shop explain web-0", "", "explain web-0 -n shop", id="namespace-with-a-sign"),
        pytest.param("explain web-0 -n=shop", "", "explain web-0 -n shop", id="namespace-with-a-sign-after"),
        pytest.param("explain -- -n=shop", "", "explain -- -n=shop", id="no-flag-any-more"),
        pytest.param("clusters -o=json", "", "clusters -o json", id="output-with-a-sign"),
        pytest.param("-o json clusters", "", "clusters -o json", id="output-before"),
        pytest.param(
            "--server kubectl:#gd/api clusters --context a",
            "",
            "clusters --server kubectl:a#gd/api",
            id="server-before",
        ),
        pytest.param(
            "clusters --kubeconfig /f --context a", "", "KUBECONFIG=/f clusters --server kubectl:a", id="file"
        ),
        pytest.param("clusters --kubeconfig=/f", "", "KUBECONFIG=/f clusters --server kubectl:", id="file-alone"),
        pytest.param("explain --context a -- web-0", "", "explain --server kubectl:a -- web-0", id="end-of-options"),
        pytest.param(
            "clusters --server kubectl:#gd/api --context a", "", "clusters --server kubectl:a#gd/api", id="service"
        ),
        pytest.param("clusters --context a", "kubectl:b#gd/api", "clusters --server kubectl:a#gd/api", id="variable"),
        pytest.param("join --context a", "", "join --context a", id="its-own-option"),
        pytest.param("--context a join", "", "join --context a", id="its-own-option-before"),
        pytest.param("--context a", "", "", id="no-command"),
    ],
)
def test_the_cluster_that_flags_of_kubectl_name_is_asked(line: str, server: str, run: str) -> None:
    assert asked(line, server) == run


@pytest.mark.parametrize(
    ("line", "server", "words"),
    [
        pytest.param("clusters --context", "", "--context: give a value", id="no-value"),
        pytest.param("clusters --context=", "", "--context: give a value", id="empty"),
        pytest.param(
            "clusters --server kubectl:b --context a", "", "names another context than --context a", id="two-contexts"
        ),
        pytest.param(
            "clusters --context a --server http://x:1", "", "--server http://x:1 is asked without kubectl", id="address"
        ),
        pytest.param("clusters --kubeconfig f", "http://x:1", "SERVER=http://x:1 is asked without", id="variable"),
    ],
)
def test_flags_that_mean_nothing_or_two_things_are_refused_with_the_fix(line: str, server: str, words: str) -> None:
    with pytest.raises(CommandError, match=words) as raised:
        asked(line, server)
    assert raised.value.code == ExitCode.USAGE


def run(line: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit code of the plugin, as kubectl runs it."""
    monkeypatch.setattr(sys, "argv", ["kubectl-dispatch", *line.split()])
    monkeypatch.setenv("GLOBAL_DISPATCHER_SERVER", "kubectl:")
    monkeypatch.setenv("KUBECONFIG", "")
    with pytest.raises(SystemExit) as ended:
        kubectl_plugin()
    return int(ended.value.code or 0)


def test_kubectl_is_asked_for_the_dispatcher_of_that_context(
    kubectl: Kubectl, port: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl.tells([service("gd", "dispatcher", "http")], port)
    assert run("clusters -o json --context prod", monkeypatch) == 0
    assert "alpha" in capsys.readouterr().out
    assert all("--context=prod" in line for line in kubectl.asked())


def test_a_mistake_is_one_line_and_wrong_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("clusters --context", monkeypatch) == ExitCode.USAGE
    assert capsys.readouterr().err == "error: --context: give a value\n"
