"""Specs of Kubernetes' own end-to-end tests, run by name against a cluster, and what came of each."""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.controlplane.realnode_image import Image, write_images
from tests.system.cluster_api import PATIENCE
from tests.system.ray_fleet import Process

_IT = "[It] "
_PROXY = "global-dispatcher.io/proxy"
# Of a share, whose specs take some 30 s when nothing fails; one that fails may wait for 5 minutes.
_TIMEOUT_S = 60
_END_S = 20
# The stand-ins for the images of the specs, by the name of a repository.
_CONFIGURATIONS = {
    "agnhost": {"Entrypoint": ["/agnhost"], "Cmd": ["pause"], "Env": ["PATH=/bin:/"]},
    "busybox": {"Cmd": ["sh"]},
    "pause": {"Entrypoint": ["/agnhost"], "Cmd": ["pause"]},
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one spec: nothing in `failure` if it passed."""

    name: str
    seconds: float
    failure: str


def specs() -> tuple[str, ...]:
    """The names of the chosen ones."""
    return tuple(Path(__file__).with_name("conformance_specs.txt").read_text().splitlines())


def write_stand_ins(archive: Path, programs: Mapping[str, Path], certificate: Path) -> Path:
    """A docker archive of the images that the specs name: their own agnhost, with a certificate in it, and busybox."""
    listed = subprocess.run(
        [programs["conformance"], "--list-images"], capture_output=True, text=True, check=True
    ).stdout.split()
    names = {kind: [one for one in listed if f"/{kind}:" in one] for kind in _CONFIGURATIONS}
    images = [Image(names[kind], config) for kind, config in _CONFIGURATIONS.items()]
    # The shell of Debian's busybox passes no variable on whose name has a dash.
    files = {"/agnhost": programs["agnhost"], "/localhost.crt": certificate, "/bin/sh": Path("/bin/bash")}
    return write_images(archive, images, files)


def run(program: Path, kubeconfig: Path, names: Sequence[str], folder: Path, at_once: int) -> list[Outcome]:
    """Run them, in that many processes side by side; one outcome a spec that ran, whatever its name is."""
    shares = [share for number in range(at_once) if (share := names[number::at_once])]
    reports = [folder / str(number) for number in range(len(shares))]
    with ExitStack() as stack:
        running = []
        for report, share in zip(reports, shares, strict=True):
            report.mkdir(parents=True)
            command = _command(program, kubeconfig, share, report)
            # Flags alone tell it of the cluster; it keeps what servers say of themselves in its home.
            environment = {"PATH": os.environ["PATH"], "HOME": str(report)}
            running.append(stack.enter_context(Process(command, report / "log", environment)))
        for process in running:
            process.wait(_TIMEOUT_S + _END_S)
    for report, process in zip(reports, running, strict=True):
        assert list(report.glob("junit*.xml")), f"no report:\n{process.tail()}"
    return [outcome for report in reports for file in report.glob("junit*.xml") for outcome in _read(file)]


def _command(program: Path, kubeconfig: Path, names: Sequence[str], report: Path) -> list[str]:
    return [
        str(program),
        f"--kubeconfig={kubeconfig}",
        "--provider=skeleton",
        f"--ginkgo.focus={'|'.join(map(re.escape, names))}",
        f"--ginkgo.timeout={PATIENCE * _TIMEOUT_S:.0f}s",
        "--ginkgo.no-color",
        f"--report-dir={report}",
        f"--non-blocking-taints={_PROXY}",
        "--disable-log-dump",
        "--node-schedulable-timeout=30s",
    ]


def _read(report: Path) -> list[Outcome]:
    """The specs that ran, by a report; AssertionError when a step of the suite itself failed."""
    found = []
    for case in ET.parse(report).iter("testcase"):
        if case.get("status") == "skipped":
            continue
        said = "\n".join(f"{part.get('message', '')}\n{part.text or ''}" for part in case)
        failure = "" if case.get("status") == "passed" else f"{case.get('status')}: {said}"
        name = case.get("name", "")
        assert not failure or name.startswith(_IT), f"{name}: {failure}"
        if name.startswith(_IT):
            found.append(Outcome(name.removeprefix(_IT), float(case.get("time", 0)), failure))
    return found
