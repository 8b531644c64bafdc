"""Whether the API servers that were reached are those of the clusters that the configuration means."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import msgspec

from agents.executor.trust.state import CLUSTER, PATH, VALUES
from dispatcher.cli.diagnosis import PROBLEM, Finding
from dispatcher.cli.operate.members import (
    Member,
    MemberError,
    Members,
    access_to,
    chosen,
    has_context,
)
from dispatcher.cli.operate.words import behind, node_of
from dispatcher.config import DispatcherConfig, agent_settings
from dispatcher.service.errors import CommandError
from shared.model import names

_VALUES = msgspec.json.Decoder(dict[str, str])
_SOMEBODY = "another cluster"
FIX = "mend `context`, or `kubeconfig`, of these"


async def check_contexts(
    file: Path, config: DispatcherConfig, members: Mapping[str, Member]
) -> None:
    """Refuse where a context reaches another cluster than the one it is given for; CommandError
    names the contexts.
    """
    wrong = (await mixed_up(config, members)).values()
    if wrong:
        raise CommandError(f"{'; '.join(wrong)}: {FIX} in {file}; nothing was done")


async def mixed_up(config: DispatcherConfig, members: Mapping[str, Member]) -> dict[str, str]:
    """By cluster, that its context reaches another one."""
    clusters = {cluster.name: cluster for cluster in config.clusters}
    seen = await asyncio.gather(*map(_seems, members.values()))
    wrong = {}
    for name, called in zip(members, seen, strict=True):
        if called in ("", name, agent_settings(clusters[name]).rename_from):
            continue
        theirs = f" ({access_to(clusters[called]).describe()})" if called in clusters else ""
        given = access_to(clusters[name]).describe()
        wrong[name] = f"cluster {name} is given {given}, which is that of {called}{theirs}"
    return wrong


async def wrong_contexts(
    file: Path, config: DispatcherConfig, members: Members, only: str = ""
) -> list[Finding]:
    """What is wrong with the contexts of the clusters, or of one, that have any."""
    asked = {one.name: member for one, member in chosen(config, members, only) if has_context(one)}
    strange = await mixed_up(config, asked)
    said = {name: member.wrong or strange.get(name, "") for name, member in asked.items()}
    return [
        Finding(name, "context", PROBLEM, text, f"{FIX} in {file}")
        for name, text in said.items()
        if text
    ]


async def _seems(member: Member) -> str:
    """The name of the cluster whose API server this seems to be, as far as its own marks tell; ''
    if they do not.
    """
    name = await called(member)
    return name or (_SOMEBODY if await _has_proxy_of_itself(member) else "")


async def called(member: Member) -> str:
    """The name under which its executor serves it; '' where none is told."""
    try:
        lease = await member.call("GET", PATH)
        return _VALUES.decode((lease["metadata"].get("annotations") or {}).get(VALUES, "{}")).get(
            CLUSTER, ""
        )
    except (MemberError, msgspec.MsgspecError):
        return ""


async def _has_proxy_of_itself(member: Member) -> bool:
    """No cluster has a proxy node of itself."""
    try:
        node = await node_of(member, names.proxy_node_name(member.name))
    except MemberError:
        return False
    return node is not None and bool(behind(node))
