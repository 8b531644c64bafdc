"""Which group a pod is a member of: pods that may have to start together, which is not done here
yet.

What the API's own field means, the group itself says (`group_of`, agents/kube/pod_groups.py). The
marks of other projects mean something to their schedulers alone, so they are told
(`beside_the_spec`) and the pod is placed by itself. Kueue's are left alone: its gate holds the pods
of a group until it admits all of them.
"""

from agents.kube.wire import Meta
from agents.kube.wire_pods import PodSpec

MAX_SHOWN = 63
_GROUP = "pod group"
_SUBGROUP = "subgroup"
_QUEUE = "queue"
_LABELS = {
    "scheduling.x-k8s.io/pod-group": _GROUP,  # scheduler-plugins, coscheduling
    "pod-group.scheduling.sigs.k8s.io": _GROUP,  # the same, before 0.24
    "pod-group.scheduling.sigs.k8s.io/name": _GROUP,
    "kai.scheduler/subgroup-name": _SUBGROUP,
    "kai.scheduler/queue": _QUEUE,  # KAI makes a group of all pods of one owner that have it
    "runai/queue": _QUEUE,  # the same, of old
}
_ANNOTATIONS = {
    "scheduling.k8s.io/group-name": _GROUP,  # Volcano
    "scheduling.volcano.sh/group-name": _GROUP,
    "gang.scheduling.koordinator.sh/name": _GROUP,
    "yunikorn.apache.org/task-group-name": _GROUP,
    "pod-group-name": _GROUP,  # KAI
}


def group_of(spec: PodSpec) -> str:
    """The PodGroup that a pod is a member of, "" if it names none."""
    group = spec.scheduling_group
    return (group.pod_group_name or "") if group is not None else ""


def in_the_spec(spec: PodSpec) -> list[str]:
    """What of spec.schedulingGroup (1.36) and spec.workloadRef (1.35) cannot be looked up, as
    problems.
    """
    problems = []
    if spec.scheduling_group is not None and not group_of(spec):
        problems.append(
            "spec.schedulingGroup names no PodGroup; make the pod anew with one, or without this "
            "field"
        )
    if spec.workload_ref is not None:
        problems.append(
            f"spec.workloadRef: Workload {spec.workload_ref.name[:MAX_SHOWN]!r} is not read here, "
            "so whether its pods "
            "are to start together is not known; make the pod anew without this field, or with a "
            "spec.schedulerName "
            "that serves Workloads"
        )
    return problems


def beside_the_spec(meta: Meta) -> list[str]:
    """Which groups and queues of other schedulers the pod is marked as a member of."""
    given = (("labels", meta.labels, _LABELS), ("annotations", meta.annotations, _ANNOTATIONS))
    return [
        f"metadata.{where}[{key}]: {what} {of[key][:MAX_SHOWN]!r} is not known here, so this pod "
        "is placed by "
        "itself unless a plugin of yours knows better; name the scheduler that serves the "
        f"{what}, or remove it"
        for where, of, keys in given
        if of
        for key, what in keys.items()
        if of.get(key)
    ]
