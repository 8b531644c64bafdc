"""Completion indexes: which pod of an Indexed Job stands for which of its completions."""

from collections.abc import Iterable, Sequence
from itertools import count, islice

from localfleet.embedded.meta import Object, is_finished, is_terminating

INDEX = "batch.kubernetes.io/job-completion-index"


def is_indexed(job: Object) -> bool:
    """Whether every completion has a number."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def _index(pod: Object) -> int | None:
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(text) if text.isascii() and text.isdigit() else None


def completed(job: Object, pods: Sequence[Object]) -> set[int]:
    """The indexes that have succeeded: those known before, and those of pods that are seen to have."""
    if not is_indexed(job):
        return set()
    known = set(_numbers((job.get("status") or {}).get("completedIndexes", "")))
    seen = (_index(pod) for pod in pods if (pod.get("status") or {}).get("phase") == "Succeeded")
    return known | {index for index in seen if index is not None}


def free(job: Object, pods: Sequence[Object], number: int) -> list[int]:
    """The next indexes to make pods for: the lowest that neither have succeeded nor have a pod."""
    taken = completed(job, pods)
    taken |= {_index(pod) or 0 for pod in pods if not is_finished(pod) and not is_terminating(pod)}
    return list(islice((index for index in count() if index not in taken), number))


def text(numbers: Iterable[int]) -> str:
    """As Job.status writes them: two in a row are listed, more are a range ("1,3-5,7")."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][-1] + 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    return ",".join(f"{span[0]}-{span[-1]}" if len(span) > 2 else ",".join(map(str, span)) for span in spans)


def _numbers(written: str) -> Iterable[int]:
    for part in filter(None, written.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def numbered(pod: Object, job: Object, index: int) -> Object:
    """A new pod of `job` that stands for `index`."""
    name = f"{job['metadata']['name']}-{index}"
    meta = pod["metadata"]
    marks = {INDEX: str(index)}
    meta = meta | {"generateName": f"{name}-", "annotations": (meta.get("annotations") or {}) | marks}
    meta["labels"] = meta["labels"] | marks
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}
    spec = {"hostname": name} | pod["spec"]
    spec["containers"] = [one | {"env": [*(one.get("env") or ()), variable]} for one in spec["containers"]]
    return pod | {"metadata": meta, "spec": spec}
