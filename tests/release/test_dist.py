"""`make dist`: what it makes can be installed, holds together; the plugin runs by itself."""

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
LOCKED = re.compile(r"^([a-z0-9._-]+)==([^ ;\\]+)", re.MULTILINE)
HERE = f"{platform.system().lower()}-{'arm64' if platform.machine() in ('arm64', 'aarch64') else 'amd64'}"


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([ROOT / ".ci" / "dist", folder], check=True, stdout=subprocess.DEVNULL)
    return folder


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    done = subprocess.run([ROOT / ".ci" / "dist", tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, "name an empty folder" in done.stderr) == (2, True)
    assert (tmp_path / "mine").exists()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_every_file_is_in_the_checksums_and_they_are_right(dist: Path) -> None:
    lines = [line.split("  ") for line in (dist / "SHA256SUMS").read_text().splitlines()]
    listed = {name: told for told, name in lines}
    files = {str(path.relative_to(dist)) for path in dist.rglob("*") if path.is_file()} - {"SHA256SUMS"}
    assert set(listed) == files
    assert all(digest(dist / name) == told for name, told in listed.items())


def test_the_wheel_holds_the_commands_and_nothing_of_tests(dist: Path) -> None:
    with zipfile.ZipFile(dist / f"global_dispatcher-{VERSION}-py3-none-any.whl") as wheel:
        names = wheel.namelist()
        entries = wheel.read(f"global_dispatcher-{VERSION}.dist-info/entry_points.txt").decode()
    assert {"dispatcher", "agents", "shared", "localfleet"} <= {name.split("/")[0] for name in names}
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/"))]
    assert "kubectl-dispatch = dispatcher.cli.main:kubectl_plugin" in entries


@pytest.fixture(scope="module")
def plugin(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which kubectl finds the plugin as krew installs it, by a link; no package of ours is near."""
    folder = tmp_path_factory.mktemp("plugin")
    with tarfile.open(dist / f"kubectl-dispatch-{VERSION}-{HERE}.tar.gz") as archive:
        archive.extractall(folder / "store", filter="data")
    (folder / "bin").mkdir()
    (folder / "bin" / "python3").symlink_to(Path(sys.executable).resolve())
    (folder / "bin" / "kubectl-dispatch").symlink_to(folder / "store" / "kubectl-dispatch")
    return {"PATH": f"{folder / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin", "HOME": str(folder)}


def run_plugin(plugin: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    program = next(Path(folder) for folder in plugin["PATH"].split(os.pathsep)) / "kubectl-dispatch"
    return subprocess.run([program, *words], env=plugin, capture_output=True, text=True, check=False)


def test_the_plugin_runs_from_its_archive_alone(plugin: dict[str, str]) -> None:
    assert run_plugin(plugin, "version").stdout == f"global-dispatcher {VERSION}\n"
    shown = run_plugin(plugin, "--help").stdout
    assert "Usage: kubectl dispatch" in shown
    _, _, listed = shown.partition("Commands:\n")
    asking = {
        "explain",
        "clusters",
        "nodes",
        "pods",
        "queue",
        "rebalance",
        "tenants",
        "doctor",
        "top",
        "support-bundle",
        "version",
    }
    listed, _, after = listed.partition("\n\n")
    assert {line.split()[0] for line in listed.splitlines()} == asking
    assert "--context" in after


@pytest.mark.parametrize(
    "words", [("clusters",), ("top", "nodes"), ("explain", "shop/web-0"), ("doctor",), ("tenants", "explain", "a")]
)
def test_what_asks_a_dispatcher_is_in_the_plugin_whole(plugin: dict[str, str], words: tuple[str, ...]) -> None:
    done = run_plugin(plugin, *words, "--server", "http://127.0.0.1:1")
    assert (done.returncode, done.stderr.split(" (")[0]) == (3, "error: no dispatcher answers at http://127.0.0.1:1")


def test_what_needs_the_whole_package_says_so(plugin: dict[str, str]) -> None:
    done = run_plugin(plugin, "demo", "--once")
    assert done.returncode == 1
    assert "is not in the plugin" in done.stderr


def test_krew_finds_each_archive_by_its_checksum(dist: Path) -> None:
    manifest = yaml.safe_load((dist / "krew" / "dispatch.yaml").read_text())
    assert manifest["spec"]["version"] == f"v{VERSION}"
    told = {Path(each["uri"]).name: each["sha256"] for each in manifest["spec"]["platforms"]}
    assert told == {path.name: digest(path) for path in dist.glob("kubectl-dispatch-*.tar.gz")}
    assert len(told) == 4


def test_compiled_parts_are_there_for_every_python_of_every_platform(dist: Path) -> None:
    for path in dist.glob("kubectl-dispatch-*.tar.gz"):
        with tarfile.open(path) as archive:
            compiled = [name for name in archive.getnames() if name.endswith(".so") and "pydantic_core" in name]
        assert sorted(re.findall(r"cpython-(\d+)", " ".join(compiled))) == ["311", "312", "313", "314"], path.name
        assert all(("darwin" if "darwin" in path.name else "linux-gnu") in name for name in compiled), path.name


def test_the_bill_of_materials_names_every_locked_package_with_its_hash(dist: Path) -> None:
    told = json.loads((dist / f"global-dispatcher-{VERSION}.cdx.json").read_text())
    locked = set(
        re.findall(r"^([a-z0-9._-]+)==([^ ;\\]+)", (ROOT / "requirements-image.lock").read_text(), re.MULTILINE)
    )
    assert {(each["name"], each["version"]) for each in told["components"]} == locked
    assert all(each.get("externalReferences") or each.get("hashes") for each in told["components"])


def test_what_makes_the_wheel_in_the_image_is_locked_and_traces_can_be_sent_from_it(dist: Path) -> None:
    with tarfile.open(dist / f"global-dispatcher-image-{VERSION}.tar.gz") as archive:
        read = {
            name: archive.extractfile(f"./{name}") for name in ("requirements-image.lock", "requirements-build.lock")
        }
        locked = {name: set(LOCKED.findall(file.read().decode())) for name, file in read.items() if file}
    names = {name: {package for package, _ in packages} for name, packages in locked.items()}
    assert "hatchling" in names["requirements-build.lock"]
    assert {"ray", "opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"} <= names["requirements-image.lock"]
    assert set(LOCKED.findall((ROOT / "requirements.lock").read_text())) <= locked["requirements-image.lock"]


def test_charts_are_packaged_with_their_version(dist: Path) -> None:
    for chart in ("agent", "dispatcher"):
        with tarfile.open(dist / f"{chart}-{VERSION}.tgz") as archive:
            assert f"{chart}/values.schema.json" in archive.getnames()


def test_the_image_context_holds_what_the_dockerfile_copies(dist: Path) -> None:
    with tarfile.open(dist / f"global-dispatcher-image-{VERSION}.tar.gz") as archive:
        names = {name.removeprefix("./").split("/")[0] for name in archive.getnames()}
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert {word for line in copied for word in line.split()} <= names
    assert "localfleet" not in names


def test_the_base_of_the_image_is_named_by_digest() -> None:
    (base,) = re.findall(r"^ARG BASE=(.+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert re.fullmatch(r"python:3\.11-slim@sha256:[0-9a-f]{64}", base)
