"""Where the programs come from: given, cached, built, or a clear line why not. Go itself is played by a script."""

import os
import re
import sys
import threading
from pathlib import Path

import pytest

from localfleet.controlplane import binaries

FAKE_GO = """#!/bin/sh
if [ "$1" = env ]; then echo {version}; exit 0; fi
echo "$PWD $*" >> {log}
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\necho built' > "$2"
chmod +x "$2"
exit {code}
"""


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No programs, no Go: a PATH with a folder of our own and the shell's."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    monkeypatch.setenv("GLOBAL_DISPATCHER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path


def program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def fake_go(folder: Path, version: str = "go1.99.0", code: int = 0) -> Path:
    log = folder / "go.log"
    program(folder / "bin" / "go", FAKE_GO.format(version=version, log=log, code=code))
    return log


def test_without_go_and_programs_one_line_says_what_to_do(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(empty / "bin"))

    reason = binaries.unavailable(["etcd", "kwok"])

    assert "\n" not in reason
    assert reason.startswith("no real control plane: etcd, kwok not in KUBEBUILDER_ASSETS")
    assert "there is no Go on PATH" in reason
    assert "set KUBEBUILDER_ASSETS" in reason
    with pytest.raises(binaries.BinariesUnavailableError, match=re.escape(reason)):
        binaries.ensure(["etcd", "kwok"])


def test_a_go_that_is_too_old_is_named(empty: Path) -> None:
    fake_go(empty, version="go1.19.8")

    assert "Go 1.19 is too old" in binaries.unavailable(["etcd"])


def test_an_older_kubectl_is_built_out_of_its_libraries_where_it_is_asked_for(empty: Path) -> None:
    log = fake_go(empty)

    found = binaries.ensure(["kubectl-1.32"], progress=lambda _: None)

    (command,) = log.read_text().splitlines()
    assert os.access(found["kubectl-1.32"], os.X_OK)
    assert "gitVersion=v1.32." in command
    assert "gitMinor=32" in command
    assert "kubectl-1.32" not in binaries.TOOLS  # what is built where nothing is asked for


def test_specs_of_conformance_are_built_where_they_are_asked_for_with_the_programs_beside_them(empty: Path) -> None:
    log = fake_go(empty)

    found = binaries.ensure(["conformance", "agnhost"], progress=lambda _: None)

    specs, images, *network = log.read_text().splitlines()
    assert specs.endswith("/conformance .")
    assert images.endswith("/agnhost k8s.io/kubernetes/test/images/agnhost")
    assert [line.rpartition("/")[2] for line in network] == ["kube-proxy", "coredns"]
    assert found["conformance"].parent == found["agnhost"].parent
    assert binaries.module("conformance").version == binaries.module("kubelet").version
    assert "conformance" not in binaries.TOOLS


def test_programs_are_built_once_with_a_line_before_and_after(empty: Path) -> None:
    log = fake_go(empty)
    lines: list[str] = []

    first = binaries.ensure(["kubectl", "kube-apiserver", "kwok"], progress=lines.append)
    again = binaries.ensure(["kubectl", "kube-apiserver", "kwok"], progress=lines.append)

    assert first == again
    assert [line.split()[:2] for line in lines] == [
        ["building", "kubernetes"],
        ["built", "kubernetes"],
        ["building", "kwok"],
        ["built", "kwok"],
    ]
    assert all(os.access(path, os.X_OK) for path in first.values())
    assert first["kubectl"].resolve() == first["kube-apiserver"].resolve()
    assert len(log.read_text().splitlines()) == 2


def test_two_builders_at_once_build_once(empty: Path) -> None:
    log = fake_go(empty)
    lines: list[str] = []
    builders = [threading.Thread(target=binaries.ensure, args=(["etcd"], "1.36", lines.append)) for _ in range(4)]

    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join()

    assert len(log.read_text().splitlines()) == 1
    assert len(lines) == 2


def test_a_failed_build_leaves_nothing_in_the_cache(empty: Path) -> None:
    fake_go(empty, code=1)

    with pytest.raises(binaries.BuildFailedError, match=r"go build .* failed"):
        binaries.ensure(["etcd"], progress=lambda _: None)

    assert [path.suffix for path in binaries.cache_directory().iterdir()] == [".lock"]
    assert binaries.find("etcd") is None


@pytest.mark.parametrize(
    ("tool", "prints", "minor", "taken"),
    [
        ("kube-apiserver", "Kubernetes v1.36.9", "1.36", True),
        ("kube-apiserver", "Kubernetes v1.35.1", "1.36", False),
        ("kubectl", "Client Version: v1.35.0", "1.35", True),
        ("etcd", "etcd Version: 3.5.0", "1.36", True),
    ],
    ids=["same minor", "other minor", "kubectl of the minor", "any etcd"],
)
def test_a_given_program_is_taken_if_it_is_of_the_minor(
    empty: Path, monkeypatch: pytest.MonkeyPatch, tool: str, prints: str, minor: str, taken: bool
) -> None:
    given = empty / "assets" / tool
    program(given, f"#!/bin/sh\necho {prints}\n")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(given.parent))

    assert binaries.find(tool, minor) == (given if taken else None)


@pytest.mark.parametrize("minor", binaries.MINORS)
@pytest.mark.parametrize("tool", binaries.TOOLS)
def test_a_modules_key_names_program_and_pinned_version(tool: str, minor: str) -> None:
    module = binaries.module(tool, minor)

    assert tool in module.tools
    assert re.fullmatch(rf"{module.folder}-v\d+\.\d+\.\d+-\w+-[0-9a-f]{{12}}", module.key)
    if module.requirement == "k8s.io/kubernetes":
        assert module.version.startswith(f"v{minor}.")


def test_the_key_changes_with_the_modules_it_is_built_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = binaries.module("etcd")
    for name in ("go.mod", "go.sum"):
        (tmp_path / "etcd").mkdir(exist_ok=True)
        (tmp_path / "etcd" / name).write_bytes(before.mod_path.with_name(name).read_bytes())
    key = before.key
    monkeypatch.setattr(binaries, "_MODULES", tmp_path)
    assert before.key == key

    (tmp_path / "etcd" / "go.sum").write_text("")

    assert before.key != key


@pytest.mark.parametrize(("tool", "minor"), [("kube-dns", "1.36"), ("kubectl", "1.7")], ids=["tool", "minor"])
def test_an_unknown_name_is_told_with_the_known_ones(tool: str, minor: str) -> None:
    with pytest.raises(ValueError, match="there are"):
        binaries.module(tool, minor)


def test_who_wants_nothing_built_is_told_what_is_not_there(
    empty: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["binaries", "--no-build", "--minor", "1.36", "etcd", "kubectl"])
    assert binaries.main() == 3
    assert capsys.readouterr().err == "no real control plane: etcd, kubectl of Kubernetes 1.36 not built yet\n"
