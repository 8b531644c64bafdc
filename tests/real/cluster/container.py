"""A process as a container: a read-only root with the image's programs and what is mounted, a user without rights.

    python -S -m tests.real.cluster.container SPEC.json

It ends as its process ends. Killed, it takes all processes of the container with it.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

_NEWNS, _NEWUTS, _NEWPID, _NEWNET = 0x00020000, 0x04000000, 0x20000000, 0x40000000
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_LIBC = ctypes.CDLL(None, use_errno=True)
_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/sbin", "/etc/ssl", "/etc/ld.so.cache", "/etc/nsswitch.conf")
_DEVICES = ("null", "zero", "random", "urandom")


def _checked(result: int, what: str) -> None:
    if result:
        raise OSError(ctypes.get_errno(), what)


def enter(path: str, kind: int) -> None:
    """Join the namespace of this file in /proc."""
    namespace = os.open(path, os.O_RDONLY)
    _checked(_LIBC.setns(namespace, kind), f"setns {path}")
    os.close(namespace)


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def _bind(source: str, target: str, *, read_only: bool) -> None:
    there, here = Path(target), Path(source)
    if here.is_dir():
        there.mkdir(parents=True, exist_ok=True)
    else:
        there.parent.mkdir(parents=True, exist_ok=True)
        there.touch()
    _mount("--bind", source, target)
    if read_only:
        _mount("-o", "remount,bind,ro", target)


def _build_root(root: str, spec: dict[str, Any]) -> None:
    _checked(_LIBC.unshare(_NEWNS | _NEWUTS), "unshare")
    _mount("--make-rprivate", "/")
    _mount("-t", "tmpfs", "-o", "mode=755", "root", root)
    for name in _SYSTEM:
        if os.path.islink(name):
            os.symlink(os.readlink(name), root + name)
        elif os.path.exists(name):
            _bind(name, root + name, read_only=True)
    for name in _DEVICES:
        _bind(f"/dev/{name}", f"{root}/dev/{name}", read_only=False)
    os.symlink("/proc/self/fd", f"{root}/dev/fd")
    os.mkdir(f"{root}/proc")
    os.mkdir(f"{root}/tmp")
    for one in spec["mounts"]:
        _bind(one["source"], root + one["target"], read_only=one["read_only"])
    for name in spec["programs"]:  # last: a checkout in /tmp would be hidden by the pod's own
        _bind(name, root + name, read_only=True)
    _mount("-t", "proc", "proc", f"{root}/proc")
    _mount("-o", "remount,ro", root)


def _become(spec: dict[str, Any], root: str) -> None:
    """The container's process: never returns."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _build_root(root, spec)
    name = spec["hostname"].encode()
    _checked(_LIBC.sethostname(name, len(name)), "sethostname")
    os.chroot(root)
    os.chdir(spec["folder"])
    # Capabilities go with the user, and nothing gives them back: allowPrivilegeEscalation is false.
    os.setgroups([spec["group"]])
    os.setgid(spec["group"])
    os.setuid(spec["user"])
    _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # it does not outlive a change of user
    os.execvpe(spec["command"][0], spec["command"], spec["environment"])


def main(file: str) -> int:
    """The exit code of its process."""
    spec = json.loads(Path(file).read_text())
    enter(spec["network"], _NEWNET)
    _checked(_LIBC.unshare(_NEWPID), "unshare")
    child = os.fork()
    if not child:
        _become(spec, spec["root"])

    def pass_on(number: int, frame: FrameType | None) -> None:
        os.kill(child, number)

    signal.signal(signal.SIGTERM, pass_on)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    code = main(sys.argv[1])
    sys.exit(code if code >= 0 else 128 - code)
