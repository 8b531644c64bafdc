"""The servers, and what a case gets of them. Cases on the real server are marked `real`: they need its programs."""

import itertools
import json
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress

import pytest
import pytest_asyncio

from localfleet.controlplane import binaries
from localfleet.controlplane.binaries import selected_minor
from tests.contract import servers
from tests.contract.client import Api, Body
from tests.contract.servers import EMBEDDED, REAL, Server
from tests.controlplane.fixtures import pytest_runtest_makereport
from tests.controlplane.programs import NO_KUBECTL

__all__ = ["pytest_runtest_makereport"]
Kubectl = Callable[..., str]
_NUMBERS = itertools.count()
_KUBECTL_S = 300


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the real server's programs before the first case, whose time limit does not count it."""
    if any(_is_real(item) for item in session.items) and not session.config.option.collectonly:
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        with suppress(binaries.BinariesUnavailableError, binaries.BuildFailedError):
            binaries.ensure(minor=selected_minor(), progress=reporter.write_line if reporter else None)


def _is_real(item: pytest.Item) -> bool:
    call = getattr(item, "callspec", None)
    return call is not None and call.params.get("server") == REAL


@pytest.fixture(scope="session", params=[EMBEDDED, pytest.param(REAL, marks=pytest.mark.real)])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One of the two servers, for all its cases."""
    if request.param == EMBEDDED:
        with servers.embedded(tmp_path_factory.mktemp("embedded")) as found:
            yield found
        return
    if reason := binaries.unavailable(minor=selected_minor()):
        pytest.skip(reason)
    with servers.real(tmp_path_factory.mktemp("real")) as found:
        yield found


@pytest.fixture(autouse=True)
def since(request: pytest.FixtureRequest) -> None:
    """Skip a case that is marked `since` a Kubernetes minor, where the server is older than that."""
    mark = request.node.get_closest_marker("since")
    if mark is not None and not request.getfixturevalue("server").since(*mark.args):
        pytest.skip(f"so since Kubernetes {mark.args[0]}")


@pytest_asyncio.fixture
async def api(server: Server) -> AsyncIterator[Api]:
    """A client with a new namespace in which pods can be made."""
    async with server.session() as session:
        client = Api(server.url, session, f"case-{next(_NUMBERS)}")
        await client.make("/api/v1/namespaces", {"metadata": {"name": client.namespace}})
        await client.until("serviceaccounts", "default", bool)
        yield client


@pytest_asyncio.fixture
async def default(server: Server) -> AsyncIterator[Api]:
    """A client in the namespace `default`, for calls that leave nothing behind."""
    async with server.session() as session:
        yield Api(server.url, session, "default")


@pytest.fixture
def kubectl(server: Server, api: Api) -> Kubectl:
    """Real kubectl in the case's namespace: answers what it prints, and fails when it does (or does not: `fails`)."""
    if not server.kubectl:
        pytest.skip(NO_KUBECTL)

    def run(*arguments: str, manifest: Body | None = None, fails: bool = False) -> str:
        command = [server.kubectl, f"--kubeconfig={server.kubeconfig}", f"--namespace={api.namespace}", *arguments]
        sent = json.dumps(manifest) if manifest else None
        done = subprocess.run(command, input=sent, capture_output=True, text=True, check=False, timeout=_KUBECTL_S)
        assert (done.returncode != 0) is fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run
