"""Whether the API servers that were reached are those of the clusters that the configuration means."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import msgspec

from agents.executor.state import CLUSTER, PATH, VALUES
from dispatcher.cli.operate.members import Member, MemberError, access_to
from dispatcher.cli.operate.words import behind, node_of
from dispatcher.config import DispatcherConfig, agent_settings
from dispatcher.service.errors import CommandError
from shared.model import names

_VALUES = msgspec.json.Decoder(dict[str, str])
_SOMEBODY = "another cluster"


async def check_contexts(file: Path, config: DispatcherConfig, members: Mapping[str, Member]) -> None:
    """Refuse where a context reaches another cluster than the one it is given for; CommandError names the contexts."""
    clusters = {cluster.name: cluster for cluster in config.clusters}
    seen = await asyncio.gather(*map(_seems, members.values()))
    wrong = []
    for name, called in zip(members, seen, strict=True):
        if called in ("", name, agent_settings(clusters[name]).rename_from):
            continue
        theirs = f" ({access_to(clusters[called]).describe()})" if called in clusters else ""
        wrong.append(
            f"cluster {name} is given {access_to(clusters[name]).describe()}, which is that of {called}{theirs}"
        )
    if wrong:
        raise CommandError(f"{'; '.join(wrong)}: mend `context`, or `kubeconfig`, of these in {file}; nothing was done")


async def _seems(member: Member) -> str:
    """The name of the cluster whose API server this seems to be, as far as its own marks tell; '' if they do not."""
    name = await called(member)
    return name or (_SOMEBODY if await _has_proxy_of_itself(member) else "")


async def called(member: Member) -> str:
    """The name under which its executor serves it; '' where none is told."""
    try:
        lease = await member.call("GET", PATH)
        return _VALUES.decode((lease["metadata"].get("annotations") or {}).get(VALUES, "{}")).get(CLUSTER, "")
    except (MemberError, msgspec.MsgspecError):
        return ""


async def _has_proxy_of_itself(member: Member) -> bool:
    """No cluster has a proxy node of itself."""
    try:
        node = await node_of(member, names.proxy_node_name(member.name))
    except MemberError:
        return False
    return node is not None and bool(behind(node))
