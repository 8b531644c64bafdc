"""Which nodes a pod itself asks for: nodeSelector, required node affinity, the clusters it allows;
as row masks.

Shared by the filters that enforce this and by fault-domain spread, which counts only the domains a
pod may go to.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatcher.scheduling.framework import Bools, FleetView, PodInfo, Rows, SmallInts
from dispatcher.scheduling.framework.coded_values import ByCode, CodedValues
from dispatcher.scheduling.framework.lifecycle import RowList
from shared.messages.pod_cache import PodCache
from shared.model import names
from shared.model.crossing import kept_abroad, opened_to
from shared.model.labels import (
    EXISTS,
    GT,
    IN,
    LT,
    NOT_EXISTS,
    NOT_IN,
    NodeSelectorTerm,
    Requirement,
    integer,
)
from shared.model.node import NO_EXECUTE, NO_SCHEDULE, Taint
from shared.model.pod import Pod, Toleration
from shared.model.topology import level_of, within_cluster

Taints = tuple[Taint, ...]
Kinds = tuple[tuple[Toleration, ...], ...]  # of tolerance

NAME_FIELD = "metadata.name"  # the only node field that Kubernetes matches
_MOST_KEYS = 256  # of labels whose values are kept as numbers
_FEW = 8  # up to one row in so many, to gather those costs less than to go through all
# what annotation domain-scope may say
_ONE_CLUSTER = "cluster"
_WHOLE_FLEET = "fleet"


class LabelMasks:
    """Row masks for label clauses. Listed values are looked up, so that one costs the same however
    many nodes have: a user may write clauses without end, also on names of hosts.
    """

    def __init__(self) -> None:
        self._numbers: dict[
            str, ByCode[str]
        ] = {}  # by label key, its values as numbers, and 1 for those which are

    def clause(self, clause: Requirement, fleet: FleetView, rows: Rows) -> Bools:
        """[rows] whether the node's label satisfies the clause."""
        codes = fleet.nodes.label(clause.key)[rows]
        values = fleet.nodes.label_values(clause.key)
        operator = clause.operator
        if operator in (EXISTS, NOT_EXISTS):
            present: Bools = codes >= 0
            return present if operator == EXISTS else ~present
        if operator in (IN, NOT_IN):
            listed = _is_one_of(codes, clause.values, values)
            return listed if operator == IN else ~listed
        return self._compared(codes, clause, values)

    def _compared(self, codes: SmallInts, clause: Requirement, values: CodedValues[str]) -> Bools:
        bound = integer(clause.values[0]) if len(clause.values) == 1 else None
        if clause.operator not in (GT, LT) or bound is None or not len(values):
            return np.zeros(len(codes), dtype=np.bool_)
        if (
            clause.key not in self._numbers
        ):  # of keys that nodes have: of others there are no values
            if len(self._numbers) >= _MOST_KEYS:
                self._numbers.clear()
            self._numbers[clause.key] = ByCode(_number_of, np.int64, 0, (2,))
        # code -1 (absent) reads the last entry
        number, known = self._numbers[clause.key].of(values)[codes].T
        mask: Bools = (known == 1) & (number > bound if clause.operator == GT else number < bound)
        return mask

    def term(self, term: NodeSelectorTerm, fleet: FleetView, rows: Rows) -> Bools:
        """[rows] whether the node satisfies all clauses; an empty term matches no node."""
        mask = np.full(
            len(fleet.nodes.live[rows]), bool(term.match_expressions or term.match_fields)
        )
        for clause in term.match_expressions:
            mask &= clause.readable and self.clause(clause, fleet, rows)
        for clause in term.match_fields:
            mask &= _name_mask(clause, fleet)[rows]
        return mask

    def selected(self, pod: Pod, fleet: FleetView, rows: Rows) -> Bools:
        """[rows] whether the node satisfies nodeSelector and, if there are any, one of the required
        terms.
        """
        masks = [
            self.clause(Requirement(key, IN, (value,)), fleet, rows)
            for key, value in pod.node_selector.items()
        ]
        required = pod.affinity.required if pod.affinity else None
        if required is not None:
            masks.append(self.any_term(required, fleet, rows))
        if not masks:
            return np.ones(len(fleet.nodes.live[rows]), dtype=np.bool_)
        return reduce(np.logical_and, masks)

    def rows(self, pod: Pod, fleet: FleetView) -> RowList:
        """The live rows that satisfy the same, ascending."""
        few = self.few_rows(pod, fleet)
        return (
            np.flatnonzero(fleet.nodes.live & self.selected(pod, fleet, slice(0, fleet.n)))
            if few is None
            else few
        )

    def few_rows(self, pod: Pod, fleet: FleetView) -> RowList | None:
        """The same; None unless its selector says that they are few."""
        found = [fleet.nodes.label_rows(*one) for one in pod.node_selector.items()]
        fewest = min(found, key=len, default=None)
        if fewest is None or _FEW * len(fewest) > fleet.n:
            return None
        alone = len(found) == 1 and (pod.affinity is None or pod.affinity.required is None)
        return fewest if alone else fewest[self.selected(pod, fleet, fewest)]

    def any_term(self, terms: tuple[NodeSelectorTerm, ...], fleet: FleetView, rows: Rows) -> Bools:
        """[rows] whether the node satisfies at least one term."""
        mask = np.zeros(len(fleet.nodes.live[rows]), dtype=np.bool_)
        for term in terms:
            mask |= self.term(term, fleet, rows)
        return mask


def _number_of(value: str) -> tuple[int, bool]:
    found = integer(value)
    return found or 0, found is not None


def _is_one_of(codes: SmallInts, texts: Sequence[str], values: CodedValues[str]) -> Bools:
    """[codes] whether the value behind a code is one of `texts`."""
    found = [code for code in map(values.find, dict.fromkeys(texts)) if code is not None]
    if len(found) <= 1:
        mask: Bools = codes == (
            found[0] if found else len(values)
        )  # one value, as nodeSelector asks for
        return mask
    table = np.zeros(len(values) + 1, dtype=np.bool_)
    table[found] = True
    return table[codes]  # code -1 (absent) reads the last entry


def _name_mask(clause: Requirement, fleet: FleetView) -> Bools:
    """[n] node names against a metadata.name clause; Kubernetes allows In and NotIn there, the rest
    matches nothing.
    """
    if clause.key != NAME_FIELD or clause.operator not in (IN, NOT_IN):
        return np.zeros(fleet.n, dtype=np.bool_)
    named = np.zeros(fleet.n, dtype=np.bool_)
    for info in fleet.clusters:
        for name in clause.values:
            row = fleet.nodes.row_of(info.name, name)
            if row is not None:
                named[row] = True
    return named if clause.operator == IN else ~named


def selection_key(pod: Pod) -> Hashable:
    """Everything of a pod that `LabelMasks.selected` looks at; None for a pod that asks for
    nothing.
    """
    required = pod.affinity.required if pod.affinity else None
    if required is None and not pod.node_selector:
        return None
    return frozenset(pod.node_selector.items()), required


def tolerations_key(pod_info: PodInfo) -> Hashable:
    """Everything of a pod that decides which taints it tolerates, and where: in another cluster it
    may have fewer tolerations, by its home and its namespace. How long an eviction waits has no
    part in it.
    """
    own = pod_info.pod.tolerations
    if not own:
        return own
    key = frozenset((one.key, one.operator, one.value, one.effect) for one in own)
    return (
        key
        if len(kept_abroad(own, ())) == len(own)
        else (key, pod_info.home, pod_info.pod.namespace)
    )


class Tolerance(NamedTuple):
    """The tolerations of a pod by cluster: `kinds` of them, the pod's own first; `of` [clusters]
    says which it is.
    """

    kinds: Kinds
    of: SmallInts

    @classmethod
    def read(cls, pod_info: PodInfo, fleet: FleetView) -> "Tolerance":
        """Those that its delegate would have; at home, and where a cluster's policy is not known,
        its own.
        """
        own = pod_info.pod.tolerations
        kinds = {pod_info.pod.tolerations: 0}
        of = np.zeros(len(fleet.clusters), dtype=np.int32)
        if len(kept_abroad(own, ())) < len(own):
            for at, info in enumerate(fleet.clusters):
                if info.opens is not None and info.name != pod_info.home:
                    kept = kept_abroad(
                        own, opened_to(pod_info.home, pod_info.pod.namespace, info.opens)
                    )
                    of[at] = kinds.setdefault(kept, len(kinds))
        return cls(tuple(kinds), of)

    def at(self, table: ByCode[Taints], fleet: FleetView, rows: Rows) -> NDArray[Any]:
        """[rows] what a table of `TaintTables` has for the node's taints, by the cluster's kind."""
        nodes = fleet.nodes
        kinds = 0 if len(self.kinds) == 1 else self.of[nodes.cluster[rows]]
        found: NDArray[Any] = table.of(nodes.taint_sets)[nodes.taint_set[rows], kinds]
        return found


def tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """Whether any of these tolerates it."""
    return any(taint.tolerated_by(one) for one in tolerations)


def untolerated(tolerations: Sequence[Toleration], taints: Sequence[Taint]) -> Taint | None:
    """The first taint that keeps new pods away and that none of these tolerates."""
    hard = (taint for taint in taints if taint.effect in (NO_SCHEDULE, NO_EXECUTE))
    return next((one for one in hard if not tolerates(tolerations, one)), None)


class TaintTables:
    """What `ask` makes of each set of taints, for each kind of tolerance: asked once for all pods
    that have the same kinds.
    """

    def __init__(
        self, ask: Callable[[Kinds, Taints], Any], dtype: type[np.generic], absent: Any
    ) -> None:
        self._ask = ask
        self._dtype = dtype
        self._absent = absent
        self._known: PodCache[Kinds, ByCode[Taints]] = PodCache()  # they outlast a change of a node

    def of(self, kinds: Kinds) -> ByCode[Taints]:
        """The table of pods that have these (see `Tolerance.at`)."""
        known = self._known.get(kinds)
        if known is None:
            ask = partial(self._ask, kinds)
            known = ByCode(ask, self._dtype, self._absent, (len(kinds),))
            self._known.put(kinds, known)
        return known


class TaintMasks:
    """Row masks for tolerations."""

    def __init__(self) -> None:
        self._tables = TaintTables(_tolerating, np.bool_, True)

    def tolerated(self, tolerance: Tolerance, fleet: FleetView) -> Bools:
        """[n] whether it tolerates all taints of the node that keep new pods away."""
        return tolerance.at(self._tables.of(tolerance.kinds), fleet, slice(None))


def _tolerating(kinds: Kinds, taints: Taints) -> list[bool]:
    return [untolerated(kind, taints) is None for kind in kinds]


def clusters_key(pod_info: PodInfo) -> Hashable:
    """Everything that `allowed_clusters` looks at; None for a pod that may go anywhere."""
    annotations = pod_info.pod.annotations
    stay = annotations.get(names.STAY)
    scope = annotations.get(names.DOMAIN_SCOPE)
    tied = has_volumes(pod_info.pod)
    if stay is None and names.CLUSTERS not in annotations and scope is None and not tied:
        return None
    home = pod_info.home if stay == "true" or tied else ""
    return annotations.get(names.CLUSTERS), stay, tied, home, scope


def has_volumes(pod: Pod) -> bool:
    """Whether the pod has claims or inline disks: they are the home cluster's, and so the pod can
    run only there.
    """
    return bool(pod.volumes)


def topology_key(key: str, pod: Pod) -> str:
    """The key of the fault domains that a spread or affinity rule of `pod` means: its domains may
    span clusters or not.

    The annotation `global-dispatcher.io/domain-scope: cluster` keeps every domain within one
    cluster.
    """
    return (
        within_cluster(key)
        if pod.annotations.get(names.DOMAIN_SCOPE) == _ONE_CLUSTER
        else level_of(key)
    )


class ClusterChoiceError(ValueError):
    """An annotation about clusters that cannot be followed; the text names it and the fix."""


def allowed_clusters(pod_info: PodInfo, fleet: FleetView) -> Bools | None:
    """[clusters] which ones the pod's annotations and volumes allow, None for all.

    ClusterChoiceError for an annotation that cannot be read or that names no cluster of this fleet.
    """
    annotations = pod_info.pod.annotations
    _check_scope(annotations)
    wanted = _wanted(annotations)
    stays = _stays(annotations)
    if stays or has_volumes(pod_info.pod):
        wanted = {pod_info.home} if wanted is None else wanted & {pod_info.home}
        if not wanted:
            keeps = f"{names.STAY} keeps" if stays else "its volumes keep"
            raise ClusterChoiceError(
                f"{keeps} it in cluster {pod_info.home}, which {names.CLUSTERS} does not allow; "
                "remove one"
            )
    if wanted is None:
        return None
    known = [info.name for info in fleet.clusters]
    if wanted.isdisjoint(known):
        raise ClusterChoiceError(
            f"annotation {names.CLUSTERS} names no cluster of this fleet: "
            f"{_listed(wanted)}{_meant(wanted, known)}; "
            f"known: {_listed(known)}"
        )
    return np.fromiter((name in wanted for name in known), dtype=np.bool_, count=len(known))


def _wanted(annotations: Mapping[str, str]) -> set[str] | None:
    text = annotations.get(names.CLUSTERS)
    if text is None:
        return None
    wanted = {name for name in (part.strip() for part in text.split(",")) if name}
    if not wanted:
        raise ClusterChoiceError(
            f"annotation {names.CLUSTERS} is empty: name clusters as 'a,b' or remove it"
        )
    return wanted


def _check_scope(annotations: Mapping[str, str]) -> None:
    text = annotations.get(names.DOMAIN_SCOPE, _WHOLE_FLEET)
    if text not in (_ONE_CLUSTER, _WHOLE_FLEET):
        raise ClusterChoiceError(
            f"annotation {names.DOMAIN_SCOPE} must be '{_ONE_CLUSTER}' or '{_WHOLE_FLEET}', not "
            f"{text[:40]!r}"
        )


def _stays(annotations: Mapping[str, str]) -> bool:
    text = annotations.get(names.STAY, "false")
    if text not in ("true", "false"):
        raise ClusterChoiceError(
            f"annotation {names.STAY} must be 'true' or 'false', not {text[:40]!r}"
        )
    return text == "true"


def _meant(wanted: set[str], known: list[str]) -> str:
    close = (
        match
        for name in sorted(wanted)[:10]
        for match in get_close_matches(name[:63], known[:1000], 1)
    )
    return next((f"; did you mean {one}?" for one in close), "")


def _listed(clusters: set[str] | list[str], limit: int = 10) -> str:
    ordered = sorted(clusters)
    text = ", ".join(name[:63] for name in ordered[:limit])
    return text + (f" and {len(ordered) - limit} more" if len(ordered) > limit else "")
