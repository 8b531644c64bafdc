"""Whether clusters that are declared to be one pod network can be: no pod address may be of two
clusters.
"""

import asyncio
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from itertools import combinations

from dispatcher.cli.diagnosis import PROBLEM, Finding
from dispatcher.cli.joining.agents import not_known
from dispatcher.cli.joining.opt_in import uncertain
from dispatcher.cli.operate.members import Member, MemberError, Members, Object
from dispatcher.config import DispatcherConfig
from dispatcher.config.sections import ClusterSection
from shared.model import names

ABOUT = "pod network"
_FIX = (
    f"take `network` out of the entries of both ({names.OWN_NETWORK}): IPs of remote pods are "
    "then not shown at home, "
    "and no Service leads to whoever has them there"
)

Ranges = frozenset[IPv4Network | IPv6Network]


async def all_overlaps(config: DispatcherConfig, members: Members, only: str = "") -> list[Finding]:
    """What speaks against each `network` of a configuration; of clusters that cannot be reached
    nothing is known.
    """
    sections = {one.name: one for one in config.clusters if one.network != names.OWN_NETWORK}
    asked = [_ranges(section, members[name]) for name, section in sections.items()]
    answers = dict(zip(sections, await asyncio.gather(*asked), strict=True))
    known = {name: found for name, found in answers.items() if not isinstance(found, Finding)}
    silent = [found for found in answers.values() if isinstance(found, Finding)]
    networks = {name: section.network for name, section in sections.items()}
    return [one for one in (*silent, *overlaps(networks, known)) if only in ("", one.cluster)]


def overlaps(networks: Mapping[str, str], ranges: Mapping[str, Ranges]) -> list[Finding]:
    """Clusters of one network that have an address both; each is told of the other."""
    found = []
    for one, other in combinations(sorted(ranges), 2):
        both = _both(ranges[one], ranges[other]) if networks[one] == networks[other] else ""
        if not both:
            continue
        for here, there in ((one, other), (other, one)):
            text = (
                f"`network: {networks[one]}` says that pods of {there} are reached by their IPs, "
                f"but {both}"
            )
            found.append(Finding(here, ABOUT, PROBLEM, text, _FIX))
    return found


def pod_ranges(nodes: Iterable[Object]) -> Ranges:
    """spec.podCIDRs of the nodes; what is no range is left out."""
    found: set[IPv4Network | IPv6Network] = set()
    for node in nodes:
        for text in node.get("spec", {}).get("podCIDRs") or ():
            try:
                found.add(ip_network(text, strict=False))
            except ValueError:
                continue
    return frozenset(found)


async def _ranges(section: ClusterSection, member: Member) -> Ranges | Finding:
    try:
        if await uncertain(section, member):
            return frozenset()
        return pod_ranges(await member.items("/api/v1/nodes"))
    except MemberError as error:
        return not_known(member.name, ABOUT, error, "list nodes")


def _both(mine: Ranges, others: Ranges) -> str:
    """A range of each that overlap, as words; '' if none do. One pass over all by their first
    addresses.
    """
    every = [
        (one.version, int(one.network_address), at, one)
        for at, many in enumerate((mine, others))
        for one in many
    ]
    widest: list[IPv4Network | IPv6Network | None] = [
        None,
        None,
    ]  # of each side, that which ends last so far
    for version, first, side, one in sorted(every, key=lambda row: row[:3]):
        earlier = widest[1 - side]
        if (
            earlier is not None
            and earlier.version == version
            and int(earlier.broadcast_address) >= first
        ):
            return f"nodes have podCIDRs {earlier} and {one}, which overlap"
        last = widest[side]
        if (
            last is None
            or last.version != version
            or int(last.broadcast_address) < int(one.broadcast_address)
        ):
            widest[side] = one
    return ""
