"""The page of a pod's fields: what becomes of each in another cluster."""

from collections import defaultdict
from collections.abc import Iterator

from agents.executor.crossing.pod_fields import FIELD_PATHS, NEWEST, OLDEST, SAME, TYPES, walk_types
from docs.generate.markdown import code, page, table


def render() -> str:
    """The page."""
    told: dict[tuple[str, str], list[str]] = defaultdict(list)
    for field, decision in walk_types():
        if decision.how != SAME or decision.why:
            name = field.replace("spec.initContainers", "spec.containers")
            if name not in told[decision.how, decision.why]:
                told[decision.how, decision.why].append(name)
    rows = ((_names(names), how, why) for (how, why), names in told.items())
    paths = ((code(path), decision.how, decision.why) for path, decision in FIELD_PATHS.items())
    return page(
        "Fields of a pod",
        "What becomes of each field of a pod that runs in another cluster ([what "
        "crosses](../crossing.md)), as of Kubernetes "
        f"{OLDEST} to {NEWEST}. A refused field keeps the pod where it is, unless it is not used "
        "(absent, false or empty); so does a "
        "field that is not in this table: it is of a newer Kubernetes. Init containers are as "
        "containers.",
        table(("field", "what becomes of it", "more"), rows),
        "The same, as they are, are "
        + "; ".join(_same())
        + ", and all fields within these but those above.",
        "## What a container reads of its pod",
        "`fieldRef.fieldPath` of environment variables and of files (`downwardAPI`, `projected`). "
        "In the environment the value is written "
        "out, as it was when the pod went to the other cluster. Files follow the source's labels "
        "and annotations, through annotations "
        "`global-dispatcher.io/downward-*` of the delegate. `resourceFieldRef` is of the running "
        "side: a container without a limit reads "
        "what its real node has.",
        table(("path", "what becomes of it", "more"), paths),
    )


def _names(names: list[str]) -> str:
    """Names with commas between; what stands before the last dot once, if several share it."""
    parents: dict[str, list[str]] = defaultdict(list)
    for name in names:
        parent, dot, last = name.rpartition(".")
        parents[parent + dot].append(last)
    return ", ".join(
        f"{code(parent)}: {' '.join(map(code, last))}"
        if len(last) > 3
        else ", ".join(code(parent + one) for one in last)
        for parent, last in parents.items()
    )


def _same() -> Iterator[str]:
    """Of each of the large types, the fields that are the same without more to say."""
    for kind, prefix in (
        ("PodSpec", "spec."),
        ("Container", "spec.containers[]."),
        ("Volume", "spec.volumes[]."),
    ):
        names = [name for name, one in TYPES[kind].items() if one.how == SAME and not one.why]
        yield f"of `{prefix}` " + ", ".join(map(code, names))
