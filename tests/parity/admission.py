"""What admission plugins of an API server write that the harness's own API server is told to leave alone.

Priorities: pods of a dump name classes that the dump may not hold, pods of tests a bare number; both get a class.
RuntimeClass: overhead, node selector and tolerations of the class. DefaultStorageClass: the class of a claim that
names none. Volumes and overhead that pods bring themselves are taken as they are.
"""

import copy

from tests.parity.case import Case, Object

_SYSTEM = ("system-node-critical", "system-cluster-critical")
_HIGHEST = 1_000_000_000  # of classes that users make
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"


def admitted(case: Case) -> Case:
    """The case with all of this done."""
    made = copy.deepcopy(case)
    pods = [*made.bound, *made.pending]
    made.objects += _priority_classes(made.objects, pods)
    runtimes = {obj["metadata"]["name"]: obj for obj in made.objects if obj["kind"] == "RuntimeClass"}
    for pod in pods:
        runtime = runtimes.get(pod["spec"].get("runtimeClassName") or "")
        if runtime is not None:
            _run_by(runtime, pod["spec"])
    _default_storage_class(made.objects)
    return made


# --- priorities ------------------------------------------------------------------------------------------------------


def _priority_classes(objects: list[Object], pods: list[Object]) -> list[Object]:
    """Classes for pods that have a priority, but no class in the file; the pods are given their names."""
    known = {obj["metadata"]["name"]: obj for obj in objects if obj["kind"] == "PriorityClass"}
    default = next((obj for obj in known.values() if obj.get("globalDefault")), None)
    made: dict[str, Object] = {}
    for pod in pods:
        spec = pod["spec"]
        name, priority, policy = (spec.get(field) for field in ("priorityClassName", "priority", "preemptionPolicy"))
        if not isinstance(priority, int) or isinstance(priority, bool) or name in known or name in _SYSTEM:
            continue
        if not name and default is None and priority == 0 and policy in {None, "PreemptLowerPriority"}:
            continue
        if priority > _HIGHEST:
            spec["priorityClassName"] = _SYSTEM[priority <= 2 * _HIGHEST]
            continue
        name = name or f"priority-{priority}{'-never' if policy == 'Never' else ''}".replace("--", "-minus-")
        spec["priorityClassName"] = name
        made[name] = _priority_class(name, priority, policy)
    return list(made.values())


def _priority_class(name: str, value: int, policy: str | None) -> Object:
    rest = {"preemptionPolicy": policy} if policy else {}
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **rest,
    }


# --- runtime classes -------------------------------------------------------------------------------------------------


def _run_by(runtime: Object, spec: Object) -> None:
    overhead = (runtime.get("overhead") or {}).get("podFixed")
    if overhead:
        spec.setdefault("overhead", overhead)
    scheduling = runtime.get("scheduling") or {}
    if scheduling.get("nodeSelector"):
        spec["nodeSelector"] = {**scheduling["nodeSelector"], **(spec.get("nodeSelector") or {})}
    there = spec.get("tolerations") or []
    more = [one for one in scheduling.get("tolerations") or () if one not in there]
    if more:
        spec["tolerations"] = [*there, *more]


# --- storage classes -------------------------------------------------------------------------------------------------


def _default_storage_class(objects: list[Object]) -> None:
    defaults = [obj for obj in objects if obj["kind"] == "StorageClass" and _note(obj, _DEFAULT_CLASS) == "true"]
    if not defaults:
        return
    newest = max(defaults, key=lambda one: str(one["metadata"].get("creationTimestamp") or ""))
    for claim in (obj for obj in objects if obj["kind"] == "PersistentVolumeClaim"):
        spec = claim.get("spec") or {}
        if spec.get("storageClassName") is None and _note(claim, _OLD_CLASS) is None:
            claim["spec"] = {**spec, "storageClassName": newest["metadata"]["name"]}


def _note(obj: Object, key: str) -> str | None:
    note: str | None = (obj["metadata"].get("annotations") or {}).get(key)
    return note
