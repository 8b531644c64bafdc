"""Serving certificates that agents have asked their clusters for, and that are not there yet."""

import asyncio
from typing import NamedTuple

import msgspec

from agents.runtime.relay.signing_request import LABELS, REQUESTS, SigningRequest
from dispatcher.cli.joining.opt_in import uncertain
from dispatcher.cli.operate.members import Member, MemberError, Members, chosen
from dispatcher.config import DispatcherConfig
from shared.model.names import proxy_node_name

_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
_CHART = "app.kubernetes.io/part-of=global-dispatcher,app.kubernetes.io/component=agent"
_OURS = ",".join(f"{key}={value}" for key, value in LABELS.items())


class Lack(NamedTuple):
    """What a cluster's agent waits for, and what to do."""

    cluster: str
    text: str
    fix: str


async def all_lacks(config: DispatcherConfig, members: Members, only: str = "") -> list[Lack]:
    """Of each cluster of a configuration, or of one; of those that cannot be asked nothing is
    known.
    """
    asked = chosen(config, members, only)
    sure = [member for section, member in asked if not await uncertain(section, member)]
    return [lack for found in await asyncio.gather(*map(lacks, sure)) for lack in found]


async def lacks(member: Member) -> list[Lack]:
    """What its latest request lacks; the earlier ones are of agents that are gone. Whoever may make
    requests can give one our label: nobody is told to approve one for something else than a server,
    or of another account, where the agent's is known.
    """
    try:
        items = await member.items(REQUESTS, labelSelector=_OURS)
        found = [msgspec.convert(one, SigningRequest) for one in items]
    except MemberError as error:
        if error.status != 403:
            return []  # told by others
        return [
            Lack(
                member.name,
                f"not known: {error}",
                "give the context the right to list certificatesigningrequests",
            )
        ]
    except msgspec.ValidationError:
        return []
    accounts = await _accounts(member) if found else set()
    ours = [
        one
        for one in found
        if one.serves
        and one.metadata.name.startswith(f"{proxy_node_name(member.name)}-")
        and (not accounts or one.spec.username in accounts)
    ]
    latest = max(ours, key=lambda one: one.metadata.made_at, default=None)
    if latest is None or latest.status.certificate:
        return []
    return [Lack(member.name, *latest.lacks(latest.metadata.name))]


async def _accounts(member: Member) -> set[str]:
    """Whom the agent's chart lets ask; none where it is installed in another way, or may not be
    seen.
    """
    try:
        bindings = await member.items(_BINDINGS, labelSelector=_CHART)
    except MemberError:
        return set()
    return {
        f"system:serviceaccount:{one.get('namespace', '')}:{one['name']}"
        for binding in bindings
        if binding["metadata"]["name"].endswith("-relay")
        for one in binding.get("subjects") or ()
        if one["kind"] == "ServiceAccount"
    }
