"""Makes the namespace of a pod of another cluster that is lacking here, where the policy says so.

Who may come, and what closes a namespace, is asked by the policy as of one that is there. Labels
are the policy's alone; the source has no say in them. The first, `MADE_FOR`, marks the namespace as
made here, and `MADE_OF` tells what of: a namespace that somebody has written to since is his
(`empty_namespaces`).
"""

import hashlib
from collections.abc import Mapping
from urllib.parse import quote

import msgspec

from agents.executor.context.local import KNOWN_S, Local, Made, Moment
from agents.executor.objects.reads import Metadata
from shared.kube.http import FORBIDDEN, Procedure, Request, Response
from shared.kube.verdicts import CONFLICT, NOT_FOUND, POSTPONED, TRIES, Answer, error_text
from shared.messages import OF_CLUSTER, REFUSED, UNKNOWN
from shared.model.names import ACCEPT, MADE_FOR, MADE_OF, OPEN
from shared.model.objects import Namespace
from shared.model.pod import SourceRef

PATH = "/api/v1/namespaces"
_OF_ONE_CLUSTER = 2  # at most the half of all that may be made
_NAME_LABEL = "kubernetes.io/metadata.name"  # the API server writes it on each


class LiveNamespace(msgspec.Struct):
    """What of a Namespace decides whether pods may come, and whether it is ours to remove."""

    metadata: Metadata

    @property
    def terminating(self) -> bool:
        """Whether its deletion has begun."""
        return self.metadata.deletion_timestamp is not None

    @property
    def untouched(self) -> bool:
        """Whether it was made here, and nobody has written a label or annotation since."""
        labels = dict(self.metadata.labels or {})
        labels.pop(_NAME_LABEL, None)
        made_of = {MADE_OF: _digest(labels)}
        return MADE_FOR in labels and self.metadata.annotations == made_of

    def as_seen(self, name: str) -> Namespace:
        """As the observer shows it: label or annotation may close it."""
        said = (self.metadata.labels or {}, self.metadata.annotations or {})
        marks = [one[ACCEPT] for one in said if one.get(ACCEPT, OPEN) != OPEN]
        return Namespace(name, {ACCEPT: marks[0]} if marks else {})


_decode = msgspec.json.Decoder(LiveNamespace).decode


def read(response: Response) -> LiveNamespace | None:
    """The Namespace in an answer; None if there is none that can be read."""
    try:
        return _decode(response.body) if response.ok else None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def path(name: str) -> str:
    """Of one Namespace."""
    return f"{PATH}/{quote(name, safe='')}"


def leaves(source: SourceRef, local: Local) -> Answer | None:
    """That the namespace is being removed right now; None if it is not."""
    if source.namespace not in local.leaving:
        return None
    why = f'namespace "{source.namespace}" is being removed from cluster "{local.cluster}"'
    return Answer(REFUSED, why, OF_CLUSTER, passing=True)


def make(source: SourceRef, local: Local, now: Moment) -> Procedure[Answer | None]:
    """Have the namespace of the source there, where the view shows none and the policy makes it.

    None once it is there and open; else the answer to give. What a 409 tells is believed only once
    the Namespace was read: the watch may be behind.
    """
    name = source.namespace
    if local.view.namespace(name) is not None or not local.policy.makes(name):
        return None
    known = local.made.get(name)
    if known is not None and now.mono - known.at < KNOWN_S:
        return None
    if full := _too_many(source, local, now):
        return Answer(REFUSED, full, OF_CLUSTER)
    request = Request("POST", PATH, _body(source, local))
    problem = ""
    for _ in range(TRIES):
        response = yield request
        if response.ok:
            local.made.put(name, Made(source.cluster, now.mono))
            return None
        problem = error_text(response)
        if response.status == CONFLICT:
            there = yield from _there(source, local)
            if there is None:
                local.made.put(name, Made("", now.mono))
            return there
        if response.status in POSTPONED or response.unknown:
            continue
        return Answer(REFUSED, _unmade(name, response, local), OF_CLUSTER, response.passing)
    return Answer(UNKNOWN, problem)


def _there(source: SourceRef, local: Local) -> Procedure[Answer | None]:
    """Why pods of this source may not come into a namespace that is there after all; None if they
    may.
    """
    name = source.namespace
    response = yield Request("GET", path(name))
    found = read(response)
    if found is None:
        return Answer(UNKNOWN, f'namespace "{name}" cannot be read: {error_text(response)}')
    if found.terminating:
        why = f'namespace "{name}" of cluster "{local.cluster}" is being deleted'
        return Answer(REFUSED, why, OF_CLUSTER, passing=True)
    no = local.policy.refusal(source, local.cluster, found.as_seen(name))
    return Answer(REFUSED, no, OF_CLUSTER) if no else None


def _body(source: SourceRef, local: Local) -> bytes:
    labels = {**local.policy.namespaces.labels, MADE_FOR: source.cluster}
    metadata = {
        "name": source.namespace,
        "labels": labels,
        "annotations": {MADE_OF: _digest(labels)},
    }
    return msgspec.json.encode({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


def _digest(labels: Mapping[str, str]) -> str:
    return hashlib.sha256(msgspec.json.encode(sorted(labels.items()))).hexdigest()[:32]


def _too_many(source: SourceRef, local: Local, now: Moment) -> str:
    """Why no more are made here for that cluster; '' if one more may be."""
    standing = {one.name: one.labels.get(MADE_FOR, "") for one in local.view.namespaces()}
    for name, one in local.made.items():
        if now.mono - one.at < KNOWN_S:
            standing.setdefault(name, one.cluster)  # the view does not show it yet
    clusters = [cluster for cluster in standing.values() if cluster]
    most = local.policy.namespaces.most
    of_one = max(1, most // _OF_ONE_CLUSTER)
    own = clusters.count(source.cluster)
    if len(clusters) < most and own < of_one:
        return ""
    for_whom = f' for cluster "{source.cluster}"' if own >= of_one else ""
    count = own if own >= of_one else len(clusters)
    return (
        f'namespace "{source.namespace}" is not made in cluster "{local.cluster}": {count} were '
        f"made there{for_whom} already; raise its `executor.namespaces.most`, or create it there"
    )


def _unmade(name: str, response: Response, local: Local) -> str:
    what = f'namespace "{name}" cannot be made in cluster "{local.cluster}": {error_text(response)}'
    if response.status not in (FORBIDDEN, NOT_FOUND):
        return what
    return f"{what}; let its agent do so (`config.executor.namespaces` of the chart), or create it"
