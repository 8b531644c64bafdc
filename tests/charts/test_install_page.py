"""docs/install.md: its commands, as they stand there, on three real control planes, from the first to the last."""

import os
import re
import shlex
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from localfleet.controlplane import opt_in
from localfleet.controlplane.binaries import selected_minor
from localfleet.controlplane.components import PlaneSpec
from localfleet.controlplane.plane import ControlPlane
from tests.charts.nodes import Kubelet
from tests.charts.rendering import Helm
from tests.charts.split_install import ACCOUNTS
from tests.charts.test_release_life import OF_THE_CLUSTER
from tests.controlplane.fixtures import ControlPlanes
from tests.system.cluster_api import eventually
from tests.system.ray_fleet import environment, free_ports

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "install.md"
FOUND = ("kubelet", "no source tells", "not listed yet")
CLUSTERS = CENTRAL, *MEMBERS = ("central", "east", "west")
READING = {"get", "list", "watch"}
PROCESSES = ("central/dispatcher", *(f"{name}/agent-{role}" for name in MEMBERS for role in ACCOUNTS))
_LOOK_S = 0.1
_BLOCK = re.compile(r"^## ([^\n]+)$|^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str]]:
    """(heading, commands) of each block of the page."""
    heading, found = "", []
    for match in _BLOCK.finditer(PAGE.read_text()):
        heading = match[1] or heading
        if match[2]:
            found.append((heading, match[2]))
    return found


class Desk:
    """The platform engineer's machine: one shell after the other in a folder, with the programs of this checkout."""

    def __init__(self, folder: Path, planes: dict[str, ControlPlane], helm: Helm, kubelet: Kubelet) -> None:
        self._folder, self._kubelet = folder, kubelet
        (plane, *_) = planes.values()
        programs = folder / "programs"
        programs.mkdir()
        kubectl = shlex.quote(str(plane.programs["kubectl"]))
        # Forwarding a port is the kubelet's part, which KWOK has not: the process listens on this machine.
        told = f'echo "Forwarding from 127.0.0.1:{kubelet.http} -> 7480"; exec sleep 600'
        _script(programs / "kubectl", f'case " $* " in *" port-forward "*) {told};; esac\nexec {kubectl} "$@"')
        _script(programs / "helm", f'exec {shlex.quote(helm.program)} "$@"')
        # KWOK's nodes tell no live load, so doctor finds that, and ends with 1; the test reads what it finds.
        ours = f'{shlex.quote(sys.executable)} -m dispatcher.cli.main "$@" || [ "$1$?" = doctor1 ]'
        _script(programs / "global-dispatcher", ours)
        (folder / "helm").symlink_to(ROOT / "helm")
        homes = {f"HELM_{kind}_HOME": str(folder / kind) for kind in ("CACHE", "CONFIG", "DATA")}
        config = folder / "kubeconfig"
        both = environment(KUBECONFIG=":".join(str(one.kubeconfig) for one in planes.values()))
        config.write_text(_run([kubectl, "config", "view", "--flatten"], both, folder))
        self.env = environment(
            **homes,
            KUBECONFIG=str(config),
            PYTHONPATH=str(ROOT),
            HOME=str(folder),
            PATH=f"{programs}:{os.environ['PATH']}",
        )

    def run(self, commands: str) -> str:
        """A block in bash, which ends at the first command that fails; what it printed. Its exports stay."""
        after = self._folder / "exported"
        words = ["bash", "-euo", "pipefail", "-c", f"{commands}\nenv -0 > {shlex.quote(str(after))}"]
        shell = subprocess.Popen(
            words, env=self.env, cwd=self._folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        with shell, ThreadPoolExecutor(1) as pool:
            printing = pool.submit(shell.communicate)
            while shell.poll() is None:
                if gone := self._kubelet.ended():
                    shell.kill()
                    raise AssertionError(f"{commands}\n{gone}\n{self._kubelet.tails()}")
                time.sleep(_LOOK_S)
            printed = printing.result()[0]
        assert shell.returncode == 0, f"{commands}\nended with {shell.returncode}\n{printed}\n{self._kubelet.tails()}"
        self.env = dict(line.split("=", 1) for line in after.read_text().split("\0") if line)
        return printed


def _run(words: list[str], env: dict[str, str], folder: Path) -> str:
    done = subprocess.run(words, env=env, cwd=folder, capture_output=True, text=True, check=False, timeout=400)
    assert done.returncode == 0, f"{words[-1]}\nended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture(scope="module")
def planes(control_plane: ControlPlanes) -> dict[str, ControlPlane]:
    if opt_in.version(selected_minor()) != "v1":
        pytest.skip(f"`join` has Kubernetes {selected_minor()} use the webhook, whose Service no server reaches here")
    specs = [PlaneSpec(name, nodes=2, scheduler=True, minor=selected_minor()) for name in CLUSTERS]
    return {plane.name: plane for plane in control_plane.together(*specs)}


@pytest.fixture
def gateway() -> int:
    return free_ports(1)[0]


@pytest.fixture
def kubelet(planes: dict[str, ControlPlane], tmp_path: Path, gateway: int) -> Iterator[Kubelet]:
    with Kubelet(planes, tmp_path / "pods", gateway) as one:
        yield one


def objects(plane: ControlPlane) -> set[str]:
    """Kind, namespace and name of all that is in a cluster, but for what it makes and ends in its own time."""
    names = plane.kubectl("api-resources", "--verbs=list", "-o", "name").split()
    kinds = ",".join(name for name in names if name.partition(".")[0] not in OF_THE_CLUSTER)
    form = '{range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name}{"\\n"}{end}'
    return set(plane.kubectl("get", kinds, "-A", "-o", f"jsonpath={form}").splitlines())


@dataclass
class Site:
    """The planes, and what was there before the page began."""

    planes: dict[str, ControlPlane]
    before: dict[str, set[str]]
    kubelet: Kubelet

    def left(self) -> dict[str, list[str]]:
        """What is there that was not."""
        found = {name: sorted(objects(plane) - self.before[name]) for name, plane in self.planes.items()}
        return {name: names for name, names in found.items() if names}

    def all_ready(self) -> bool:
        """Whether the dispatcher hears both members: KWOK calls a pod Ready before its process is."""
        url = f"http://127.0.0.1:{self.kubelet.http}/v1/clusters"
        rows = httpx.get(url, timeout=5, trust_env=False).json().get("clusters", ())
        return [row["ready"] for row in rows] == [True, True]

    def check(self, heading: str, told: str) -> None:
        """What is true once the last block below a heading has run."""
        if checked := CHECKS.get(heading):
            checked(self, told)


def _well(site: Site, told: str) -> None:
    """All doctor finds: KWOK's nodes tell no load, and agents that have just begun have not listed all yet."""
    found = re.findall(r"^problem: (.*)$", told, re.MULTILINE)
    assert all(any(words in one for words in FOUND) for one in found), told
    assert len(re.findall(r"^(?:east|west) +Ready ", told, re.MULTILINE)) in (0, 2), told


def _runs_in_west(site: Site, told: str) -> None:
    """The pods of east run in west, and each process has used the rights of its own account alone."""
    assert len(re.findall(r"^hello-\S+ +1/1 +Running .* global-dispatcher-west ", told, re.MULTILINE)) == 2, told
    assert len(re.findall(r"^hello-\S+ +1/1 +Running .* west-000\d ", told, re.MULTILINE)) == 2, told
    for name in MEMBERS:
        done = {
            role: [one for one in site.planes[name].audit.events() if one.user.username.endswith(f":{account}")]
            for role, account in ACCOUNTS.items()
        }
        refused = {
            (role, one.action) for role, events in done.items() for one in events if one.denied or one.code == 403
        }
        assert not refused, name
        writes = {one.action for one in done["observer"] if one.verb not in READING}
        assert writes == {("create", "", "serviceaccounts/token")}  # of the account as which kubelets are asked
        assert {one.verb for one in done["executor"]} > READING
        watched = {one.object_ref.resource for one in done["executor"] if one.verb == "watch"}
        checked = {"nodes", "pods", "namespaces", "poddisruptionbudgets", "priorityclasses"}
        assert watched == checked | {"replicasets", "replicationcontrollers", "daemonsets"}


def _each_ran_again(times: int) -> Callable[[Site, str], None]:
    """Every pod has been replaced so often, and what it ran before goes on."""

    def check(site: Site, told: str) -> None:
        wanted = dict.fromkeys(PROCESSES, times + 1)
        eventually(lambda: Counter(site.kubelet.started) == wanted, 30, lambda: str(site.kubelet.started))
        eventually(site.all_ready, 60, site.kubelet.tails)
        pods = site.planes["west"].admin.get("/api/v1/namespaces/default/pods")["items"]
        assert [one["status"]["containerStatuses"][0]["restartCount"] for one in pods] == [0, 0]

    return check


def _nothing_is_left(site: Site, told: str) -> None:
    eventually(lambda: not site.left(), 60, lambda: str(site.left()))
    for name in MEMBERS:  # else an agent that is installed again, with another key, would be refused
        leases = site.planes[name].kubectl("get", "leases", "-n", "kube-node-lease", "-o", "name")
        assert "global-dispatcher-agent.state" not in leases, name


CHECKS: dict[str, Callable[[Site, str], None]] = {
    "See that all is well": _well,
    "The first remote pod": _runs_in_west,
    "Upgrade": _each_ran_again(1),
    "Back out": _each_ran_again(2),
    "Uninstall": _nothing_is_left,
}


def test_the_commands_of_the_page_install_run_upgrade_back_out_and_leave_nothing(
    planes: dict[str, ControlPlane], helm: Helm, kubelet: Kubelet, gateway: int, tmp_path: Path
) -> None:
    site = Site(planes, {name: objects(plane) for name, plane in planes.items()}, kubelet)
    desk = Desk(tmp_path, planes, helm, kubelet)
    (_, yours), *rest = blocks()
    mine = {"IMAGE": "registry.example/global-dispatcher", "GATEWAY": f"127.0.0.1:{gateway}"}
    assert re.findall(r"^export (\w+)=", yours, re.MULTILINE) == list(mine)
    desk.env |= mine
    assert set(CHECKS) <= {heading for heading, _ in rest}
    for (heading, commands), (following, _) in zip(rest, [*rest[1:], ("", "")], strict=True):
        if heading == "See that all is well":
            eventually(site.all_ready, 60, site.kubelet.tails)
        told = desk.run(commands)
        if heading != following:
            site.check(heading, told)
