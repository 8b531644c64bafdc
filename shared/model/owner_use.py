"""What pods of one owner use: what agents learn and tell, and who the owner of a pod is, the same
for both sides.

The owner is the controller that makes pods anew under other names: the Deployment of a ReplicaSet,
the CronJob of a Job, else the controller itself. Numbers that end the name of a Job are left out:
pods of an Indexed Job have their index there, Jobs of a JobSet theirs. A delegate has no controller
in its cluster, so its owner is read from the name of its source, which controllers make by fixed
rules.
"""

import re
from collections.abc import Hashable, Iterator

from shared.model.pod import Pod, Record

OwnerName = tuple[str, str]  # namespace, Kind/name
MAX_NAME = 253  # characters, as Kubernetes allows

_HASH = "pod-template-hash"
_SUFFIX = "[bcdfghjklmnpqrstvwxz2456789]"  # apimachinery's util/rand: no vowels, no 0, 1, 3
_OF_CRON_JOB = re.compile(r"(.+)-\d{8,11}")  # its Jobs are named by the scheduled minute since 1970
_OF_NUMBERED_JOB = re.compile(r"(.+?)(?:-\d+)*")
# Names of pods, the most particular first: of a CronJob's Job, a Deployment's ReplicaSet, a
# StatefulSet, any other.
_BY_NAME = (
    ("CronJob", re.compile(rf"(.+)-\d{{8,11}}(?:-\d+)?-{_SUFFIX}{{5}}")),
    ("Deployment", re.compile(rf"(.+)-{_SUFFIX}{{6,10}}-{_SUFFIX}{{5}}")),
    ("StatefulSet", re.compile(r"(.+)-\d+")),
    ("Job", re.compile(rf"(.+?)(?:-\d+)*-{_SUFFIX}{{5}}")),
)


class OwnerUse(Record, frozen=True):
    """What pods of one owner use in one cluster, each: milli-CPU and bytes, by `minutes` of running
    pods that were looked at (decayed: the older, the less they count). Agents are not trusted: see
    `fleet.owner_uses`.
    """

    namespace: str
    owner: str  # Kind/name
    cpu: float
    memory: float
    minutes: float

    @property
    def name(self) -> OwnerName:
        """Whose it is."""
        return self.namespace, self.owner


def owner_key(pod: Pod) -> Hashable:
    """All that `owner_of` looks at: pods of equal keys have one owner."""
    return pod.namespace, pod.owner, pod.labels.get(_HASH, ""), pod.source


def owner_of(pod: Pod) -> OwnerName | None:
    """Whose pod it is; None for a bare pod, and one that runs for its node."""
    if pod.source is not None:
        return _by_name(pod.source.namespace, pod.source.name)
    kind, _, rest = pod.owner.partition("/")
    name = rest.partition("/")[0]
    if not (kind and name) or kind == "Node":
        return None
    template = pod.labels.get(_HASH, "")
    if kind == "ReplicaSet" and template and name.endswith(f"-{template}"):
        return pod.namespace, f"Deployment/{name[: -len(template) - 1]}"
    if kind == "Job" and (found := _OF_CRON_JOB.fullmatch(name)) is not None:
        return pod.namespace, f"CronJob/{found[1]}"
    if kind == "Job" and (found := _OF_NUMBERED_JOB.fullmatch(name)) is not None:
        return pod.namespace, f"Job/{found[1]}"
    return pod.namespace, f"{kind}/{name}"


def _by_name(namespace: str, name: str) -> OwnerName | None:
    return next(_matches(namespace, name[:MAX_NAME]), None)


def _matches(namespace: str, name: str) -> Iterator[OwnerName]:
    for kind, pattern in _BY_NAME:
        if (found := pattern.fullmatch(name)) is not None:
            yield namespace, f"{kind}/{found[1]}"
