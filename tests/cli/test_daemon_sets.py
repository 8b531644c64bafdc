"""What doctor says of DaemonSets that have pods on proxy nodes; and that no cluster waits for these when it leaves."""

import json
import shlex
from typing import Any, cast

from dispatcher.cli.diagnosis import PROBLEM
from dispatcher.cli.joining import daemon_sets
from dispatcher.cli.joining.daemon_sets import on_proxy_nodes
from dispatcher.cli.operate.census import census
from dispatcher.cli.operate.members import Member, Object
from shared.model import names
from tests.agents.runtime.admission.proxy_node_cases import ALL, AWAY_ONLY, LINUX, affinity_of, daemon_set

WEST = names.proxy_node_name("west")
PATH = "/spec/template/spec/affinity"
REQUIRED = f"{PATH}/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution"


def pod_of(name: str, kind: str = "DaemonSet", **metadata: Any) -> Object:
    owner = {"kind": kind, "name": name, "controller": True}
    return {"metadata": {"namespace": "default", "name": f"{name}-1", "ownerReferences": [owner], **metadata}}


class Server:
    """The lists of an API server with a proxy node."""

    name = "east"

    def __init__(self, pods: list[Object], *sets: Object) -> None:
        self.pods = pods
        self.sets = list(sets)

    async def items(self, path: str, **query: str) -> list[Object]:
        if path == "/api/v1/nodes":
            assert query == {"labelSelector": names.PROXY_LABEL}
            return [{"metadata": {"name": WEST}}]
        if path == "/api/v1/pods":
            assert query["fieldSelector"] == f"spec.nodeName={WEST}"
            return self.pods
        return self.sets


async def fixes(server: Server) -> list[str]:
    found = await on_proxy_nodes(cast(Member, server))
    assert {(one.cluster, one.level) for one in found} <= {("east", PROBLEM)}
    assert all(f"has pods on {WEST}" in one.text for one in found)
    return [one.fix for one in found]


async def test_the_fix_is_a_command_with_the_exact_patch() -> None:
    several = affinity_of({"matchExpressions": [LINUX]}, {"matchFields": [LINUX]})
    sets = [daemon_set(ALL, "logs"), daemon_set({**ALL, "affinity": several}, "net")]
    patches = {}
    for fix in await fixes(Server([pod_of("logs"), pod_of("net"), pod_of("net")], *sets)):
        words = shlex.split(fix.partition(" (")[0])
        assert words[:5] == ["kubectl", "-n", "default", "patch", "daemonset"]
        assert words[6:8] == ["--type=json", "-p"]
        patches[words[5]] = {one["path"].removeprefix(REQUIRED): one["value"] for one in json.loads(words[8])}
    away = {"key": names.PROXY_LABEL, "operator": "DoesNotExist"}
    assert patches == {
        "logs": {PATH: {}, f"{PATH}/nodeAffinity": {}, "": {"nodeSelectorTerms": [{"matchExpressions": [away]}]}},
        "net": {
            "/nodeSelectorTerms/0/matchExpressions/-": away,
            "/nodeSelectorTerms/1/matchExpressions": [away],
        },
    }


async def test_one_of_another_api_group_is_told_in_words() -> None:
    (fix,) = await fixes(Server([pod_of("kruise")]))
    assert f"{{key: {names.PROXY_LABEL}, operator: DoesNotExist}}" in fix


async def test_what_is_about_to_go_or_is_of_no_daemon_set_is_not_told() -> None:
    going = pod_of("logs", deletionTimestamp="2026-01-01T00:00:00Z")
    left_out = daemon_set({**ALL, "affinity": AWAY_ONLY}, "net")
    assert (
        await fixes(Server([going, pod_of("net"), pod_of("db", "StatefulSet")], daemon_set(ALL, "logs"), left_out))
        == []
    )


async def test_very_many_are_told_in_part() -> None:
    pods = [pod_of(f"logs-{at}") for at in range(daemon_sets.MOST + 3)]
    found = await on_proxy_nodes(cast(Member, Server(pods)))
    assert (len(found), found[-1].text) == (daemon_sets.MOST + 1, "3 more have pods there")


def test_pods_of_daemon_sets_on_proxy_nodes_do_not_hold_up_a_cluster_that_leaves() -> None:
    pods = [pod_of("logs", uid="1"), pod_of("web", "ReplicaSet", uid="2")]
    for one in pods:
        one["spec"] = {"nodeName": WEST}
    for cluster in ("east", "west"):
        assert [pod.uid for pod in census(cluster, "west", pods).left] == ["2"]
