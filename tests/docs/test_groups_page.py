"""The page about groups: each manifest makes the group that it is said to make, of the pods as their controllers make
them.
"""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from agents.kube import groups
from agents.kube.convert import pod_seen
from agents.kube.pod_groups import FOREIGN, KUBERNETES
from shared.model.group_kinds import COSCHEDULING, OBJECTS, OURS, POD_GROUPS
from shared.model.names import GROUP, GROUP_MIN, GROUP_WITHIN
from shared.model.pod import Group

PAGE = (Path(__file__).parents[2] / "docs/groups.md").read_text()
DOCUMENTS = [one for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) for one in yaml.safe_load_all(block)]
Object = dict[str, Any]
LWS = "leaderworkerset.sigs.k8s.io/"
# What controllers put on the pods of a template: labels, annotations.
ADDED: dict[str, tuple[Object, Object]] = {
    "Job": ({"batch.kubernetes.io/job-name": "train"}, {}),
    "JobSet": ({"jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/job-key": "a1"}, {}),
    "LeaderWorkerSet": ({LWS + "group-key": "k1", LWS + "template-revision-hash": "h1"}, {LWS + "size": "4"}),
    "RayCluster": ({"ray.io/cluster": "tune"}, {}),
    "ClusterTrainingRuntime": ({"scheduling.x-k8s.io/pod-group": "mine"}, {}),
    "Pod": ({}, {}),
}
MADE = {
    "Job": Group(OURS, "train", "", 4, "zone"),
    "JobSet": Group(OURS, "train", "", 8),
    "LeaderWorkerSet": Group(OURS, "k1-h1", "", 4, "rack"),
    "RayCluster": Group(OURS, "tune", "", 5),
    "ClusterTrainingRuntime": Group(COSCHEDULING, "mine"),
    "Pod": Group(POD_GROUPS, "train"),
}


def templates(thing: Any) -> list[Object]:
    """All that looks like a pod in a manifest."""
    if isinstance(thing, list):
        return [found for one in thing for found in templates(one)]
    if not isinstance(thing, dict):
        return []
    if "containers" in (thing.get("spec") or {}):
        return [thing]
    return [found for one in thing.values() for found in templates(one)]


@pytest.mark.parametrize("kind", MADE)
def test_the_pods_of_a_manifest_are_of_the_group_that_it_means(kind: str) -> None:
    (manifest,) = [one for one in DOCUMENTS if one["kind"] == kind]
    labels, annotations = ADDED[kind]
    pods = templates(manifest)
    assert pods
    for number, template in enumerate(pods):
        metadata = template.get("metadata") or {}
        made = {
            "name": f"p{number}",
            "namespace": "default",
            "uid": f"u{number}",
            "labels": {**(metadata.get("labels") or {}), **labels},
            "annotations": {**(metadata.get("annotations") or {}), **annotations},
        }
        seen = pod_seen(msgspec.json.encode({"metadata": made, "spec": template["spec"]}))
        assert seen is not None
        assert seen.pod is not None
        assert (seen.pod.group, seen.pod.problems) == (MADE[kind], ())


def test_the_pod_group_of_the_page_is_one() -> None:
    (manifest,) = [one for one in DOCUMENTS if one["kind"] == "PodGroup"]
    seen = KUBERNETES.seen(msgspec.json.encode(manifest))
    assert seen is not None
    assert seen.group == Group(POD_GROUPS, "train", "", 4, "rack")


def test_the_page_names_each_mark_and_each_api() -> None:
    keys = {*groups._KEYS, *(GROUP, GROUP_MIN, GROUP_WITHIN)}
    assert [key for key in keys if f"`{key}`" not in PAGE] == []
    versions = {api.paths[0].split("/")[2]: api.paths[0].split("/")[3] for api in FOREIGN}
    assert {kind.partition(".")[2] for kind in OBJECTS} == {*versions, "scheduling.k8s.io"}
    assert [f"{api}/{version}" for api, version in versions.items() if f"`{api}/{version}`" not in PAGE] == []
    assert f"1 to {groups.MAX_COUNT:,}" in PAGE
