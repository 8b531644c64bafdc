"""Our own annotations on a pod: what the user asks for, and what the protocol has written. Bounded and checked."""

import re
from collections.abc import Mapping

from dispatcher.model import names
from dispatcher.model.pod import Claim, SourceRef, SpreadConstraint
from dispatcher.model.topology import level_of

MAX_VALUE = 4096
MAX_SPREADS = 16
_SPREAD = re.compile(r"\s*([A-Za-z0-9][-A-Za-z0-9_./]{0,316})\s*=\s*([1-9][0-9]{0,5})\s*(?::\s*(hard|soft))?\s*")
_EPOCH = re.compile(r"[0-9]{1,18}")


def own_annotations(annotations: Mapping[str, str], problems: list[str]) -> dict[str, str]:
    """The annotations of our prefix; one longer than 4096 characters is a problem and left out."""
    found: dict[str, str] = {}
    for key, value in annotations.items():
        if not key.startswith(names.PREFIX):
            continue
        if len(key) > 317 or len(value) > MAX_VALUE:
            problems.append(f"metadata.annotations[{key[:80]}]: longer than {MAX_VALUE} characters")
        else:
            found[key] = value
    return found


def spread_of(annotations: Mapping[str, str], problems: list[str]) -> tuple[SpreadConstraint, ...]:
    """The spread annotation, 'zone=1,cluster=2:soft': level or node label, max skew, hard unless it says soft."""
    text = annotations.get(names.SPREAD, "")
    if not text:
        return ()
    entries = [entry for entry in text.split(",") if entry.strip()]
    where = f"metadata.annotations[{names.SPREAD}]"
    if len(entries) > MAX_SPREADS:
        problems.append(f"{where}: more than {MAX_SPREADS} entries")
        return ()
    found: list[SpreadConstraint] = []
    for entry in entries:
        match = _SPREAD.fullmatch(entry)
        if match is None:
            problems.append(f"{where}: {entry.strip()[:60]!r} is not LEVEL=SKEW or LEVEL=SKEW:soft, such as zone=1")
        else:
            key, skew, mode = match.groups()
            found.append(SpreadConstraint(level_of(key), int(skew), mode != "soft"))
    return tuple(found)


def claim_of(annotations: Mapping[str, str], problems: list[str]) -> Claim | None:
    """Where the pod was claimed for, None if it is not; a claim without a readable epoch is a problem."""
    cluster, node = annotations.get(names.CLAIM_CLUSTER, ""), annotations.get(names.CLAIM_NODE, "")
    if not cluster:
        return None
    epoch = _epoch(annotations, problems)
    return Claim(cluster, node, epoch) if epoch is not None else None


def source_of(annotations: Mapping[str, str], problems: list[str]) -> SourceRef | None:
    """Whose delegate this is; a delegate without all of its source annotations is a problem."""
    keys = (
        names.SOURCE_CLUSTER,
        names.SOURCE_CLUSTER_UID,
        names.SOURCE_NAMESPACE,
        names.SOURCE_NAME,
        names.SOURCE_UID,
    )
    missing = [key for key in keys if not annotations.get(key)]
    if missing:
        problems.append(f"metadata.annotations[{missing[0]}]: missing on a pod that is labelled a delegate")
        return None
    epoch = _epoch(annotations, problems)
    if epoch is None:
        return None
    cluster, cluster_uid, namespace, name, uid = (annotations[key] for key in keys)
    return SourceRef(cluster, cluster_uid, namespace, name, uid, epoch)


def _epoch(annotations: Mapping[str, str], problems: list[str]) -> int | None:
    text = annotations.get(names.EPOCH, "")
    if _EPOCH.fullmatch(text) is None:
        problems.append(f"metadata.annotations[{names.EPOCH}]: {text[:40]!r} is not a whole number")
        return None
    return int(text)
