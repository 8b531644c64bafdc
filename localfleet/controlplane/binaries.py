"""The programs of a real control plane: taken from KUBEBUILDER_ASSETS, or built once from Go
modules into a cache.

`python -m localfleet.controlplane.binaries [--minor 1.36] [TOOL ...]` builds what is missing and
prints where it is. The variable KUBERNETES_MINOR selects the minor where none is given. The cache
is `controlplane` in GLOBAL_DISPATCHER_CACHE, by default `~/.cache/global-dispatcher`; one directory
a module and key, where the key is the hash of all that the module's build depends on.
"""

import argparse
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

DEFAULT_MINOR = "1.37"
CONTROL_PLANE = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kwok",
)
_MODULES = Path(__file__).parent / "go"
# By minor: the folder, and the go.mod in it.
_KUBERNETES = {
    DEFAULT_MINOR: ("kubernetes", "go.mod"),
    **{minor: ("kubernetes", f"{minor}.mod") for minor in ("1.36", "1.35", "1.34")},
    **{minor: ("kubernetes-1.31", f"{minor}.mod") for minor in ("1.33", "1.32")},
    "1.31": ("kubernetes-1.31", "go.mod"),
}
MINORS = tuple(_KUBERNETES)
_VERSION_VARIABLES = "k8s.io/component-base/version"
_TAIL_LINES = 15
_NOTHING_TO_BUILD_WITH = 3
UNAVAILABLE = "no real control plane"
Progress = Callable[[str], None]


class BinariesUnavailableError(RuntimeError):
    """The programs are neither here nor can be built here; one line says what is missing. A reason
    to skip.
    """


class BuildFailedError(RuntimeError):
    """Go was there and the build failed; carries the end of its output. No reason to skip."""


@dataclass(frozen=True, slots=True)
class Module:
    """A Go module that yields `tools`: several names of one multi-call binary, or one name.

    `package` is what go builds, `modfile` the go.mod in `folder`; `requirement` the module whose
    version is ours. `beside`: further packages, each a program and a tool that is called as its
    package.
    """

    folder: str
    modfile: str
    package: str
    requirement: str
    tools: tuple[str, ...]
    beside: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """As required in the modfile: "v1.37.2"."""
        found = re.search(
            rf"(?m)^(?:require)?\s+{re.escape(self.requirement)} (v\S+)", self.mod_path.read_text()
        )
        if found is None:
            raise BuildFailedError(f"{self.mod_path} does not require {self.requirement}")
        return found[1]

    @property
    def mod_path(self) -> Path:
        """The go.mod, or the file that stands for it."""
        return _MODULES / self.folder / self.modfile

    @property
    def key(self) -> str:
        """Directory in the cache: program, version, machine and a hash of modules, sums and
        sources.
        """
        sources = [
            self.mod_path,
            self.mod_path.with_suffix(".sum"),
            *sorted(self.mod_path.parent.rglob("*.go")),
        ]
        digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources))
        digest.update(" ".join([*self.go_arguments(), *self.beside]).encode())
        return f"{self.folder}-{self.version}-{platform.machine()}-{digest.hexdigest()[:12]}"

    def go_arguments(self) -> list[str]:
        """What `go build` is told, without the output's place."""
        arguments = ["-trimpath", "-buildvcs=false", "-mod=readonly", f"-modfile={self.modfile}"]
        return [*arguments, "-ldflags", " ".join(["-s -w", *self._version_flags()])]

    def _version_flags(self) -> list[str]:
        # Without gitVersion kubectl cannot parse the server's version and API version checks
        # misbehave.
        if self.requirement not in ("k8s.io/kubernetes", "k8s.io/kubectl"):
            return []
        version = self.version.replace("v0.", "v1.", 1)  # libraries of Kubernetes 1.N.P are v0.N.P
        major, minor, _ = version.removeprefix("v").split(".")
        values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
        return [f"-X {_VERSION_VARIABLES}.{name}={value}" for name, value in values.items()]


_COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet")
_OTHERS = {
    "etcd": Module(
        "etcd", "go.mod", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", ("etcd",)
    ),
    "kwok": Module("kwok", "go.mod", "sigs.k8s.io/kwok/cmd/kwok", "sigs.k8s.io/kwok", ("kwok",)),
    "helm": Module("helm", "go.mod", "helm.sh/helm/v4/cmd/helm", "helm.sh/helm/v4", ("helm",)),
    # With the very libraries of kubernetes/1.36.mod (`exclude` names newer ones), so that Go's
    # cache has most of it.
    "metrics-server": Module(
        "metrics-server",
        "go.mod",
        "sigs.k8s.io/metrics-server/cmd/metrics-server",
        "sigs.k8s.io/metrics-server",
        ("metrics-server",),
    ),
}
TOOLS = (*_COMPONENTS, *_OTHERS)
# Specs of Kubernetes' own end-to-end tests, the program that their containers run, and what makes
# Services of a real node.
_CONFORMANCE = Module(
    "conformance",
    "go.mod",
    ".",
    "k8s.io/kubernetes",
    ("conformance", "agnhost", "kube-proxy", "coredns"),
    ("k8s.io/kubernetes/test/images/agnhost", "k8s.io/kubernetes/cmd/kube-proxy", "./coredns"),
)
# Built only where they are asked for by name.
_ON_DEMAND = {
    "kubectl-1.32": Module("kubectl-1.32", "go.mod", ".", "k8s.io/kubectl", ("kubectl-1.32",)),
    **dict.fromkeys(_CONFORMANCE.tools, _CONFORMANCE),
}


def selected_minor() -> str:
    """The Kubernetes minor that KUBERNETES_MINOR asks for, else the default."""
    return os.environ.get("KUBERNETES_MINOR") or DEFAULT_MINOR


def release(minor: str) -> tuple[int, ...]:
    """A minor as numbers, which compare: "1.37" as (1, 37)."""
    return tuple(int(part) for part in minor.split("."))


def module(tool: str, minor: str = DEFAULT_MINOR) -> Module:
    """The Go module that yields a tool; ValueError names the tools or minors there are."""
    if tool in _ON_DEMAND:
        return _ON_DEMAND[tool]
    if tool not in TOOLS:
        raise ValueError(f"no tool {tool!r}: there are {', '.join((*TOOLS, *_ON_DEMAND))}")
    if minor not in _KUBERNETES:
        raise ValueError(f"no Kubernetes minor {minor!r}: there are {', '.join(_KUBERNETES)}")
    if tool in _OTHERS:
        return _OTHERS[tool]
    return Module(*_KUBERNETES[minor], ".", "k8s.io/kubernetes", _COMPONENTS)


def find(tool: str, minor: str = DEFAULT_MINOR) -> Path | None:
    """Where a tool is, if it is ready: in KUBEBUILDER_ASSETS (Kubernetes' own only of this minor),
    or in the cache.
    """
    given = _assets()
    if (
        given is not None
        and os.access(given / tool, os.X_OK)
        and _serves(given / tool, tool, minor)
    ):
        return given / tool
    built = cache_directory() / module(tool, minor).key / tool
    return built if built.exists() else None


def ensure(
    tools: Iterable[str] = CONTROL_PLANE,
    minor: str = DEFAULT_MINOR,
    progress: Progress | None = None,
) -> dict[str, Path]:
    """Where each tool is; what is missing is built first (minutes), with a line before and after
    each build.

    BinariesUnavailableError when something is missing and cannot be built here, BuildFailedError
    when the build fails.
    """
    wanted = tuple(tools)
    missing = [tool for tool in wanted if find(tool, minor) is None]
    if missing:
        _check_go({module(tool, minor) for tool in missing}, missing)
    for tool in missing:
        _build(module(tool, minor), progress or _print_line)
    return {tool: path for tool in wanted if (path := find(tool, minor)) is not None}


def unavailable(tools: Iterable[str] = CONTROL_PLANE, minor: str = DEFAULT_MINOR) -> str:
    """One line that says why these tools can neither be found nor built here; empty when they can."""
    missing = [tool for tool in tools if find(tool, minor) is None]
    try:
        _check_go({module(tool, minor) for tool in missing}, missing)
    except BinariesUnavailableError as reason:
        return str(reason)
    return ""


def cache_directory() -> Path:
    """Outside the clone, so that a fresh clone does not build again."""
    root = os.environ.get("GLOBAL_DISPATCHER_CACHE")
    return (Path(root) if root else Path.home() / ".cache" / "global-dispatcher") / "controlplane"


def _assets() -> Path | None:
    given = os.environ.get("KUBEBUILDER_ASSETS")
    return Path(given) if given else None


def _serves(path: Path, tool: str, minor: str) -> bool:
    return tool in _OTHERS or f" v{minor}." in _version_line(path, tool)


@cache
def _version_line(path: Path, tool: str) -> str:
    command = [str(path), *(("version", "--client") if tool == "kubectl" else ("--version",))]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)  # noqa: S603 - ours
    return answer.stdout


def _check_go(modules: Iterable[Module], missing: list[str]) -> None:
    needed = max((_go_directive(one) for one in modules), default=())
    found = _go_version()
    if found >= needed:
        return
    wanted = ".".join(map(str, needed))
    have = f"Go {'.'.join(map(str, found))} is too old" if found else "there is no Go on PATH"
    raise BinariesUnavailableError(
        f"{UNAVAILABLE}: {', '.join(missing)} not in KUBEBUILDER_ASSETS or {cache_directory()}, "
        f"and {have}"
        f" to build them: install Go {wanted} or set KUBEBUILDER_ASSETS"
    )


def _go_directive(one: Module) -> tuple[int, ...]:
    found = re.search(r"(?m)^go (\d+)\.(\d+)", one.mod_path.read_text())
    return tuple(int(part) for part in found.groups()) if found else ()


def _go_version() -> tuple[int, ...]:
    """(major, minor) of the Go that would build; empty without one."""
    if shutil.which("go") is None:
        return ()
    # Outside any module, so that no go.mod's toolchain line is followed.
    command = ["go", "env", "GOVERSION"]
    answer = subprocess.run(  # noqa: S603 - a fixed command
        command, capture_output=True, text=True, check=False, timeout=30, cwd="/"
    )
    found = re.match(r"go(\d+)\.(\d+)", answer.stdout)
    return tuple(int(part) for part in found.groups()) if found else ()


def _build(one: Module, progress: Progress) -> None:
    """Build a module into the cache: one builder at a time, and whole or not at all."""
    root = cache_directory()
    root.mkdir(parents=True, exist_ok=True)
    with _locked(root / f"{one.key}.lock"):
        if (root / one.key).exists():
            return
        progress(
            f"building {one.folder} {one.version} once into {root} (minutes when Go's cache is "
            "cold) ..."
        )
        started = time.monotonic()
        draft = Path(tempfile.mkdtemp(prefix=f".{one.folder}-", dir=root))
        try:
            _compile(one, draft)
            draft.chmod(0o755)
            draft.rename(root / one.key)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        progress(f"built {one.folder} {one.version} in {time.monotonic() - started:.0f} s")


def _compile(one: Module, draft: Path) -> None:
    program = draft / one.folder
    _go_build(one, program, one.package)
    for package in one.beside:
        _go_build(one, draft / package.rpartition("/")[2], package)
    for tool in one.tools:
        if not (draft / tool).exists():
            (draft / tool).symlink_to(program.name)


def _go_build(one: Module, output: Path, package: str) -> None:
    command = ["go", "build", *one.go_arguments(), "-o", str(output), package]
    polite = ["nice", "-n", "19"] if shutil.which("nice") else []
    done = subprocess.run(  # noqa: S603 - a command of ours
        [*polite, *command],
        cwd=one.mod_path.parent,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        tail = "\n".join(done.stderr.splitlines()[-_TAIL_LINES:])
        raise BuildFailedError(f"{' '.join(command)} in {one.mod_path.parent} failed:\n{tail}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _print_line(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> int:
    """Build what is missing, a line a tool; else say why not: 1 if a build failed, 3 if there is no
    Go for it, or if it is not to be built.
    """
    parser = argparse.ArgumentParser(
        prog="python -m localfleet.controlplane.binaries", description=main.__doc__
    )
    parser.add_argument(
        "tools",
        nargs="*",
        metavar="TOOL",
        help=f"of {', '.join(TOOLS)} (default: all), {', '.join(_ON_DEMAND)}",
    )
    parser.add_argument(
        "--minor",
        default=selected_minor(),
        choices=MINORS,
        help="of Kubernetes (default %(default)s)",
    )
    parser.add_argument("--no-build", action="store_true", help="build nothing")
    given = parser.parse_args()
    tools = given.tools or TOOLS
    try:
        if given.no_build and (
            missing := [tool for tool in tools if find(tool, given.minor) is None]
        ):
            _print_line(
                f"{UNAVAILABLE}: {', '.join(missing)} of Kubernetes {given.minor} not built yet"
            )
            return _NOTHING_TO_BUILD_WITH
        found = ensure(tools, given.minor)
    except (BinariesUnavailableError, BuildFailedError, ValueError) as reason:
        _print_line(str(reason))
        return _NOTHING_TO_BUILD_WITH if isinstance(reason, BinariesUnavailableError) else 1
    for tool, path in found.items():
        print(f"{tool}\t{path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
