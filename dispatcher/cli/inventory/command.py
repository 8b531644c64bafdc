"""The command: lists the profiles of a namespace, and writes the kubeconfig that was asked for."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from dispatcher.cli.inventory.profiles import entries, listed
from dispatcher.cli.inventory.providers import Providers
from dispatcher.cli.joining.target import Place, access_to, code_of
from dispatcher.cli.operate.members import Member, MemberError
from dispatcher.cli.output import Column, Output, print_rows
from dispatcher.config.sections import CLUSTER_NAME, TENANT_NAME
from dispatcher.service.errors import CommandError, ExitCode
from dispatcher.service.files.cluster_profiles import folder_of
from dispatcher.service.gateway.folder import write_whole
from shared.kube.client import KubeClient, Patience

Object = dict[str, Any]
Config = dict[str, list[Object]]
_KINDS = ("clusters", "users", "contexts")
_OURS = (
    "# Written by `global-dispatcher inventory`, and again by the next one: put what is yours "
    "into another file.\n"
)
_COLUMNS = (
    Column("NAME", lambda row: row["name"]),
    Column("MANAGER", lambda row: row["manager"] or "-"),
    Column("VERSION", lambda row: row["version"] or "-"),
    Column(
        "HEALTHY",
        lambda row: row["healthy"],
        lambda row: "green" if row["healthy"] == "True" else "yellow",
    ),
    Column("PROVIDER", lambda row: row["provider"] or "-"),
    Column("SERVER", lambda row: row["server"] or "-"),
    Column("KUBECONFIG", lambda row: row["problem"] or row["context"] or "-", wraps=True),
)


@dataclass(frozen=True)
class Asked:
    """What the command was told; None: not given. `hub`: the cluster that has the ClusterProfiles."""

    namespace: str
    hub: Place
    providers: Path | None
    kubeconfig_out: Path | None
    output: Output


def inventory(asked: Asked) -> int:
    """Carry it out; the exit code: 1 where a kubeconfig was asked for and a profile is not in it.
    CommandError.
    """
    if (asked.providers is None) != (asked.kubeconfig_out is None):
        lacks = (
            "--kubeconfig-out FILE (where to write it)"
            if asked.providers
            else "--providers FILE (see --help)"
        )
        raise CommandError(f"{lacks} is missing: a kubeconfig needs both", ExitCode.USAGE)
    if not re.fullmatch(TENANT_NAME, asked.namespace):
        raise CommandError(
            f"{asked.namespace!r} is no name of a namespace (a-z, 0-9 and '-')", ExitCode.USAGE
        )
    out = asked.kubeconfig_out
    before = _written_before(out)
    providers = Providers.read(asked.providers) if asked.providers else None
    found = asyncio.run(_profiles(asked))
    config: Config = {kind: [] for kind in _KINDS}
    rows = [_row(one, providers, config, before) for one in found]
    if out is not None and not config["contexts"] and before["contexts"]:
        nobody = f"namespace {asked.namespace} has no ClusterProfile that can be entered"
        raise CommandError(f"{nobody}: {out} stays as it is; remove it if that is right")
    if out is not None:
        text = _OURS + yaml.safe_dump(
            {"apiVersion": "v1", "kind": "Config", **config}, sort_keys=False
        )
        try:
            write_whole(out, text.encode(), 0o600)
        except OSError as error:
            raise CommandError(f"{out} cannot be written: {error.strerror}") from None
    print_rows(_COLUMNS, rows, asked.output, f"no ClusterProfile in namespace {asked.namespace}")
    return int(ExitCode.FAILED if any(row["problem"] for row in rows) else ExitCode.OK)


async def _profiles(asked: Asked) -> Sequence[Object]:
    access = access_to(asked.hub)
    client = KubeClient(access, Patience())
    try:
        member = Member(asked.hub.context, client)
        found = await member.items(folder_of(asked.namespace))
    except MemberError as error:
        fix = {
            403: "; use a context that may list clusterprofiles there",
            404: "; it has no ClusterProfiles: install the API of multicluster.x-k8s.io, or name "
            "the manager's cluster",
        }.get(error.status, "")
        raise CommandError(f"{access.describe()}: {error}{fix}", code_of(error)) from None
    finally:
        await client.close()
    return sorted(found, key=lambda one: str(one["metadata"]["name"]))


def _row(profile: Object, providers: Providers | None, config: Config, before: Config) -> Object:
    """A row of the table; with providers the profile is entered in the kubeconfig, or the row says
    why it is not: what an earlier kubeconfig says of it is kept.
    """
    name = str(profile["metadata"]["name"])
    provider = ""
    problem = ""
    try:
        if providers is not None:
            provider = _enter(name, profile, providers, config)
    except CommandError as error:
        problem = str(error)
        for kind, kept in before.items():
            config[kind] += [one for one in kept if one.get("name") == name]
    return {**asdict(listed(profile, provider, problem)), "context": name if provider else ""}


def _enter(name: str, profile: Object, providers: Providers, config: Config) -> str:
    """Enter a profile in the kubeconfig; its provider. CommandError says why it cannot be."""
    if not re.fullmatch(CLUSTER_NAME, name):
        raise CommandError(
            "its name is none of a cluster here (a-z, 0-9, '-', at most 42 characters)"
        )
    provider, cluster, user = entries(profile, providers)
    config["clusters"].append({"name": name, "cluster": cluster})
    config["users"].append({"name": name, "user": user})
    config["contexts"].append({"name": name, "context": {"cluster": name, "user": name}})
    return provider


def _written_before(file: Path | None) -> Config:
    """What an earlier run has written; empty lists where there is no such file. CommandError: it is
    somebody else's.
    """
    try:
        if file is None or not file.exists():
            return {kind: [] for kind in _KINDS}
        text = file.read_text()
        if not text.startswith(_OURS):
            said = f"{file} was not written by `global-dispatcher inventory`: name another file"
            raise CommandError(said, ExitCode.USAGE)
        written = yaml.safe_load(text)
        return {kind: list(written[kind]) for kind in _KINDS}
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError) as error:
        raise CommandError(f"{file} cannot be read: {error}; remove it") from None
