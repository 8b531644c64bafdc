"""Pods of a group, placed together or not at all: not done here yet, and never without a word.

The API's own field holds the pod back (`in_the_spec`). The marks of other projects mean something to their schedulers
alone, so they are told (`beside_the_spec`) and the pod is placed by itself. Kueue's are left alone: its gate holds the
pods of a group until it admits all of them.
"""

from agents.kube.wire import Meta
from agents.kube.wire_pods import PodSpec

MAX_SHOWN = 63
_KAI_QUEUE = "kai.scheduler/queue"
_LABELS = (
    "scheduling.x-k8s.io/pod-group",  # scheduler-plugins, coscheduling
    "pod-group.scheduling.sigs.k8s.io",  # the same, before 0.24
    "pod-group.scheduling.sigs.k8s.io/name",
    _KAI_QUEUE,  # KAI makes the groups itself, of pods that it schedules
)
_ANNOTATIONS = (
    "scheduling.k8s.io/group-name",  # Volcano
    "scheduling.volcano.sh/group-name",
    "gang.scheduling.koordinator.sh/name",
    "yunikorn.apache.org/task-group-name",
    "pod-group-name",  # KAI
)


def _noun(key: str) -> str:
    return "queue" if key == _KAI_QUEUE else "pod group"


def in_the_spec(spec: PodSpec) -> list[str]:
    """What spec.schedulingGroup (1.36) or spec.workloadRef (1.35) asks for, as problems."""
    group, workload = spec.scheduling_group, spec.workload_ref
    given = [("schedulingGroup", group.pod_group_name or "")] if group is not None else []
    given += [("workloadRef", workload.name)] if workload is not None else []
    return [
        f"spec.{field}: the pods of group {name[:MAX_SHOWN]!r} are to be placed together or not at all, which "
        "is not done here yet; make the pod anew without this field, or with a spec.schedulerName that serves groups"
        for field, name in given
    ]


def beside_the_spec(meta: Meta) -> list[str]:
    """Which groups and queues of other projects the pod is marked as a member of."""
    given = (("labels", meta.labels, _LABELS), ("annotations", meta.annotations, _ANNOTATIONS))
    return [
        f"metadata.{where}[{key}]: {_noun(key)} {of[key][:MAX_SHOWN]!r} is not known here, so this pod is placed by "
        "itself unless a plugin of yours knows better; name the scheduler that serves the group, or remove it"
        for where, of, keys in given
        if of
        for key in keys
        if of.get(key)
    ]
