"""DaemonSets that have pods on proxy nodes, where these never run and hold up each roll-out: with
the patch that helps.

Admission keeps away those that are made, or changed, while the agent's chart or what `install`
makes is there.
"""

import asyncio
import json
import shlex
from typing import Any

import msgspec

from agents.runtime.admission.proxy_nodes import PodSpec
from dispatcher.cli.diagnosis import NOTE, PROBLEM, Finding
from dispatcher.cli.joining.agents import ODD, not_known, odd_answer
from dispatcher.cli.joining.opt_in import uncertain
from dispatcher.cli.operate.census import daemon_set_of
from dispatcher.cli.operate.members import Member, MemberError, Members, chosen
from dispatcher.config import DispatcherConfig
from dispatcher.config.sections import ClusterSection
from shared.model import names

ABOUT = "DaemonSets"
MOST = 20  # findings of a cluster
_PODS = "/api/v1/pods"
_DAEMON_SETS = "/apis/apps/v1/daemonsets"
# no label of its own tells them
_OF_DAEMON_SETS = "controller-revision-hash,!statefulset.kubernetes.io/pod-name"
_TEMPLATE = "/spec/template/spec"
_ASKING = "list nodes, pods and daemonsets"
_GENERIC = (
    "give each term of its template's "
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    f".nodeSelectorTerms the requirement {{key: {names.PROXY_LABEL}, operator: DoesNotExist}}"
)

Object = dict[str, Any]
Key = tuple[str, str]  # namespace, name


async def all_on_proxy_nodes(
    config: DispatcherConfig, members: Members, only: str = ""
) -> list[Finding]:
    """Of each cluster of a configuration, or of one; of those that cannot be reached nothing is
    known.
    """
    found = await asyncio.gather(
        *(_of(section, member) for section, member in chosen(config, members, only))
    )
    return [one for findings in found for one in findings]


async def _of(cluster: ClusterSection, member: Member) -> list[Finding]:
    try:
        return [] if await uncertain(cluster, member) else await on_proxy_nodes(member)
    except MemberError as error:
        return [not_known(member.name, ABOUT, error, _ASKING)] if error.status else []
    except ODD as error:
        return [odd_answer(member.name, ABOUT, error)]


async def on_proxy_nodes(member: Member) -> list[Finding]:
    """A finding for each that has a pod there. MemberError."""
    proxies = [
        one["metadata"]["name"]
        for one in await member.items("/api/v1/nodes", labelSelector=names.PROXY_LABEL)
    ]
    nodes_of: dict[Key, list[str]] = {}
    for node in proxies:
        there = await member.items(
            _PODS, labelSelector=_OF_DAEMON_SETS, fieldSelector=f"spec.nodeName={node}"
        )
        staying = [pod for pod in there if daemon_set_of(pod) and not _is_going(pod)]
        for key in sorted({_key(pod["metadata"], daemon_set_of(pod)) for pod in staying}):
            nodes_of.setdefault(key, []).append(node)
    if not nodes_of:
        return []
    sets = {
        _key(one["metadata"], one["metadata"]["name"]): one
        for one in await member.items(_DAEMON_SETS)
    }
    every = [
        _finding(member.name, key, nodes, sets.get(key)) for key, nodes in sorted(nodes_of.items())
    ]
    found = [one for one in every if one is not None]
    if len(found) > MOST:
        more = f"{len(found) - MOST} more have pods there"
        return [*found[:MOST], Finding(member.name, ABOUT, NOTE, more, "see to those above first")]
    return found


def _is_going(pod: Object) -> bool:
    return pod["metadata"].get("deletionTimestamp") is not None


def _key(meta: Object, name: str) -> Key:
    return meta["namespace"], name


def _finding(cluster: str, key: Key, nodes: list[str], found: Object | None) -> Finding | None:
    """None where it leaves these nodes out by now: its controller is about to delete the pods."""
    namespace, name = key
    text = (
        f"{namespace}/{name} has pods on {', '.join(nodes)}, which run none of it: a roll-out "
        "waits for them"
    )
    if found is None:  # of another API group
        return Finding(cluster, ABOUT, PROBLEM, text, _GENERIC)
    patch = patch_of(found)
    if not patch:
        return None
    said = shlex.quote(json.dumps(patch, separators=(",", ":")))
    fix = (
        f"kubectl -n {namespace} patch daemonset {name} --type=json -p {said} (replaces its pods "
        "on all nodes)"
    )
    return Finding(cluster, ABOUT, PROBLEM, text, fix)


def patch_of(daemon_set: Object) -> list[dict[str, Any]]:
    """A JSON patch that has it leave proxy nodes out; empty where it does."""
    spec = msgspec.convert(daemon_set["spec"]["template"]["spec"], PodSpec)
    return spec.away_patch(_TEMPLATE)
