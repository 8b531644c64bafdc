"""The variants of pods in a batch: those of one template are asked once where only the template can
matter.

Two pods are one variant if they come from one cluster, are equal in all but `model.pod.OWN_FIELDS`
(in `terminating`, too), and have no volumes: each pod with volumes is a variant of its own, since
objects tell their claims apart.

Example: a batch of three pods of a Deployment, two of another Deployment that asks for the same,
then one more of the first. The variants are its pods number 0, 3 and 5: only neighbours are
compared.
"""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter, itemgetter

from dispatcher.scheduling.framework import PodInfo
from shared.model.pod import OWN_FIELDS, Pod, PodId

_of_placed = attrgetter(*(name for name in PodInfo.__struct_fields__ if name != "pod"))
_of_pod = attrgetter(
    *(name for name in Pod.__struct_fields__ if name not in OWN_FIELDS), "terminating"
)
_by_looks = itemgetter(1)


class PodVariants:
    """Of each variant the first pod: `ats`, ascending, is its place in the batch, and `pods`
    itself.
    """

    def __init__(self, ats: Sequence[int], pods: Sequence[PodInfo]) -> None:
        self.ats = ats
        self.pods = pods

    def first(self, count: int) -> "PodVariants":
        """The variants among the first `count` pods."""
        few = sum(at < count for at in self.ats)
        return PodVariants(self.ats[:few], self.pods[:few])


def variants_of(items: Sequence[tuple[PodId, PodInfo]], *, alike: bool = False) -> PodVariants:
    """The variants of the pods of a batch; `alike`: they are known to be one, if they have no
    volumes.
    """
    if alike and not items[0][1].pod.volumes:
        return PodVariants([0], [items[0][1]])
    pods = [pod_info for _, pod_info in items]
    looks = list(zip(map(_of_pod, [one.pod for one in pods]), map(_of_placed, pods), strict=True))
    if looks and not pods[0].pod.volumes and looks.count(looks[0]) == len(looks):  # nearly always
        return PodVariants([0], pods[:1])
    ats: list[int] = []
    for _, run in groupby(enumerate(looks), _by_looks):
        at: int = next(run)[0]
        if pods[at].pod.volumes:
            ats += [at, *(more[0] for more in run)]
        else:
            ats.append(at)
    return PodVariants(ats, [pods[at] for at in ats])
