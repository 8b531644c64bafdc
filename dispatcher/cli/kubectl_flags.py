"""Flags as kubectl takes them, for `kubectl dispatch`: those that say which cluster is asked become
`--server`.
"""

import os
from collections.abc import Collection, Mapping, Sequence

from dispatcher.cli.kubectl_forward import SCHEME, parts
from dispatcher.service.errors import CommandError, ExitCode

SERVER_VARIABLE = "GLOBAL_DISPATCHER_SERVER"
_CLUSTER = ("--context", "--kubeconfig")
_SHORT = ("-n", "-o")
_FIRST = (
    *_CLUSTER,
    "--server",
    *_SHORT,
    "--namespace",
    "--output",
)  # may stand before the command, too


def taken_over(
    words: Sequence[str], asking: Collection[str], environment: Mapping[str, str] = os.environ
) -> tuple[list[str], dict[str, str]]:
    """A command line in the options of the commands that ask a dispatcher, and what changes in the
    environment.

    Other commands read `--context` and `--kubeconfig` themselves, or have no such option and say
    so. CommandError.
    """
    words = _command_first(_split_namespace_flags(words))
    if not words or words[0] not in asking:
        return words, {}
    left, flags = _without(words, (*_CLUSTER, "--server"))
    if not any(flags.get(name) for name in _CLUSTER):
        return words, {}
    place = flags.get("--server", "")
    name = f"--server {flags.get('--server', '')}"
    if not place:
        place = environment.get(SERVER_VARIABLE, "") or SCHEME
        name = f"{SERVER_VARIABLE}={place}"
    kubeconfig = flags.get("--kubeconfig", "")
    server = _server(place, name, flags.get("--context", ""), strict="--server" in flags)
    end = left.index("--") if "--" in left else len(left)
    return [*left[:end], "--server", server, *left[end:]], {
        "KUBECONFIG": kubeconfig
    } if kubeconfig else {}


def _split_namespace_flags(words: Sequence[str]) -> list[str]:
    """`-nshop` and `-n=shop`, which are the same to kubectl, in two words."""
    end = words.index("--") if "--" in words else len(words)
    found = list[str]()
    for word in words[:end]:
        joined = word.startswith(_SHORT) and len(word) > len("-n")
        found += [word[:2], word[2:].removeprefix("=")] if joined else [word]
    return [*found, *words[end:]]


def _command_first(words: Sequence[str]) -> list[str]:
    at = 0
    while at < len(words) and words[at].partition("=")[0] in _FIRST:
        at += 1 if "=" in words[at] else 2
    flags = words[:at]
    rest = list(words[at:])
    end = rest.index("--") if "--" in rest else len(rest)
    return [*rest[:end], *flags, *rest[end:]] if rest else []


def _without(words: Sequence[str], names: Collection[str]) -> tuple[list[str], dict[str, str]]:
    """The other words, and the value of each of these flags, the last one if it is given twice."""
    left = list[str]()
    found = dict[str, str]()
    at = 0
    while at < len(words) and words[at] != "--":
        name, given, value = words[at].partition("=")
        at += 1
        if name not in names:
            left.append(words[at - 1])
            continue
        if not given:
            value = words[at] if at < len(words) else ""
            at += 1
        if not value:
            raise CommandError(f"{name}: give a value", ExitCode.USAGE)
        found[name] = value
    return [*left, *words[at:]], found


def _server(place: str, name: str, context: str, *, strict: bool) -> str:
    """What `--server` is with this context. `strict`: it was given beside, so it must not name
    another one.
    """
    if not place.startswith(SCHEME):
        raise CommandError(
            f"{name} is asked without kubectl: leave it out, or --context and --kubeconfig",
            ExitCode.USAGE,
        )
    known, namespace, service = parts(place)
    if strict and context and known not in ("", context):
        raise CommandError(
            f"{name} names another context than --context {context}: leave one out", ExitCode.USAGE
        )
    return f"{SCHEME}{context or known}{f'#{namespace}/{service}' if service else ''}"
