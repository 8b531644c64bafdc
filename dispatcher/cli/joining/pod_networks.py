"""Whether clusters that are declared to be one pod network can be: no address of a pod may be of
two clusters, or of a Service of another one.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network
from typing import NamedTuple

import msgspec

from dispatcher.cli.diagnosis import NOTE, PROBLEM, Finding
from dispatcher.cli.joining.agents import AGAIN, not_known
from dispatcher.cli.joining.opt_in import uncertain
from dispatcher.cli.operate.members import Member, MemberError, Members, Object
from dispatcher.config import DispatcherConfig
from dispatcher.config.sections import ClusterSection
from shared.model import names

ABOUT = "pod network"
_PODS = "pods"
_SERVICES = "Services"
MOST_PODS = 2_000  # whose addresses are looked at where nodes have no podCIDRs
_SERVICE_CIDRS = "/apis/networking.k8s.io/v1/servicecidrs"  # from Kubernetes 1.33 on
_FIX = (
    f"take `network` out of the entries of both ({names.OWN_NETWORK}): IPs of remote pods are "
    "then not shown at home, "
    "and no Service leads to whoever has them there"
)

Network = IPv4Network | IPv6Network


class Ranges(NamedTuple):
    """Of one cluster, none within another and in the order of their addresses."""

    pods: tuple[Network, ...] = ()
    services: tuple[Network, ...] = ()


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
    for network in sorted(set(networks.values())):
        within = {name: one for name, one in ranges.items() if networks[name] == network}
        for (here, what, there), (mine, others) in sorted(_shared(within).items()):
            text = (
                f"`network: {network}` says that pods of {there} are reached by their IPs, but "
                f"{what} of {here} have addresses in {mine}, and those pods in {others}"
            )
            found.append(Finding(here, ABOUT, PROBLEM, text, _FIX))
    return sorted(found, key=lambda one: one.cluster)


def _shared(
    ranges: Mapping[str, Ranges],
) -> dict[tuple[str, str, str], tuple[Network, Network]]:
    """By cluster, what of it, and the other cluster: a range of it and one of the other's pods that
    overlap. One pass over all by their first addresses, with those at hand that reach so far.
    """
    every = [
        (one.version, int(one.network_address), name, what, one)
        for name, of in ranges.items()
        for what, many in ((_PODS, of.pods), (_SERVICES, of.services))
        for one in many
    ]
    found: dict[tuple[str, str, str], tuple[Network, Network]] = {}
    reaching: list[tuple[str, str, Network]] = []
    for version, first, name, what, one in sorted(every, key=lambda row: row[:4]):
        reaching = [
            row
            for row in reaching
            if row[2].version == version and int(row[2].broadcast_address) >= first
        ]
        for other, kind, earlier in reaching:
            if other != name and kind == _PODS:
                found.setdefault((name, what, other), (one, earlier))
            if other != name and what == _PODS:
                found.setdefault((other, kind, name), (earlier, one))
        reaching.append((name, what, one))
    return found


def pod_ranges(nodes: Iterable[Object]) -> tuple[Network, ...]:
    """spec.podCIDRs of the nodes; what is no range is left out."""
    return _merged(text for one in nodes for text in one.get("spec", {}).get("podCIDRs") or ())


def pod_addresses(pods: Iterable[Object], proxies: Iterable[str]) -> tuple[Network, ...]:
    """Those that pods have, without the ones that have their node's, or run in another cluster
    behind one of the proxy nodes.
    """
    away = frozenset(proxies)
    own = (
        one.get("status", {})
        for one in pods
        if not one["spec"].get("hostNetwork") and one["spec"].get("nodeName") not in away
    )
    return _merged(row.get("ip", "") for status in own for row in status.get("podIPs") or ())


def service_ranges(found: Iterable[Object]) -> tuple[Network, ...]:
    """spec.cidrs of ServiceCIDRs."""
    return _merged(text for one in found for text in one.get("spec", {}).get("cidrs") or ())


def _merged(texts: Iterable[str]) -> tuple[Network, ...]:
    v4, v6 = [], []
    for text in texts:
        try:
            one = ip_network(text, strict=False)
        except ValueError:
            continue
        if isinstance(one, IPv4Network):
            v4.append(one)
        else:
            v6.append(one)
    return (*collapse_addresses(v4), *collapse_addresses(v6))


async def _ranges(section: ClusterSection, member: Member) -> Ranges | Finding:
    try:
        if await uncertain(section, member):
            return Ranges()
        nodes = await member.items("/api/v1/nodes")
        pods = pod_ranges(nodes)
        if not pods:  # a network plug-in hands out addresses by itself
            proxies = _proxies(nodes)
            running = {"fieldSelector": "status.phase=Running"}
            pods = pod_addresses(await member.first("/api/v1/pods", MOST_PODS, **running), proxies)
        return Ranges(pods, await _services(member))
    except MemberError as error:
        return not_known(member.name, ABOUT, error, "list nodes and pods")
    except (LookupError, TypeError, AttributeError, ValueError, msgspec.MsgspecError) as error:
        text = (
            f"not known: its API server answers in another form than Kubernetes' ({error!r:.200})"
        )
        return Finding(member.name, ABOUT, NOTE, text, AGAIN)


async def _services(member: Member) -> tuple[Network, ...]:
    try:
        return service_ranges(await member.items(_SERVICE_CIDRS))
    except MemberError:  # an older API server, or no right: then they are not compared
        return ()


def _proxies(nodes: Iterable[Object]) -> Iterator[str]:
    for one in nodes:
        if names.PROXY_LABEL in (one["metadata"].get("labels") or {}):
            yield one["metadata"]["name"]
