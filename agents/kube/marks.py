"""Our own annotations on a pod: what the user asks for, and what the protocol has written. Bounded
and checked.
"""

import re
from collections.abc import Mapping

from shared.model import names
from shared.model.leases import LEASE
from shared.model.pod import Claim, SourceRef, SpreadConstraint
from shared.model.topology import level_of
from shared.security import signatures

MAX_VALUE = 4096
MAX_SPREADS = 16
_SPREAD = re.compile(
    r"\s*([A-Za-z0-9][-A-Za-z0-9_./]{0,316})\s*=\s*([1-9][0-9]{0,5})\s*(?::\s*(hard|soft))?\s*"
)
FAILOVER_MODES = ("strict", LEASE, "asap")


def own_annotations(annotations: Mapping[str, str], problems: list[str]) -> dict[str, str]:
    """The annotations of our prefix; one longer than 4096 characters is a problem and left out.

    Those that hold what files show are not told: they are as long as users' labels and annotations.
    Nor is that of what follows, of which a digest is.
    """
    found: dict[str, str] = {}
    for key, value in annotations.items():
        if not key.startswith(names.PREFIX) or key.startswith((names.DOWNWARD, names.CARRIES)):
            continue
        if len(key) > 317 or len(value) > MAX_VALUE:
            problems.append(f"metadata.annotations[{key[:80]}]: longer than {MAX_VALUE} characters")
        else:
            found[key] = value
    return found


def spread_of(annotations: Mapping[str, str], problems: list[str]) -> tuple[SpreadConstraint, ...]:
    """The spread annotation, 'zone=1,cluster=2:soft': level or node label, max skew, hard unless it
    says soft.
    """
    text = annotations.get(names.SPREAD)
    if text is None:
        return ()
    entries = [entry for entry in text.split(",") if entry.strip()]
    where = f"metadata.annotations[{names.SPREAD}]"
    if not entries:
        problems.append(f"{where}: is empty; write LEVEL=SKEW such as zone=1, or remove it")
    if len(entries) > MAX_SPREADS:
        problems.append(f"{where}: more than {MAX_SPREADS} entries")
        return ()
    found: list[SpreadConstraint] = []
    for entry in entries:
        match = _SPREAD.fullmatch(entry)
        if match is None:
            problems.append(
                f"{where}: {entry.strip()[:60]!r} is not LEVEL=SKEW or LEVEL=SKEW:soft, such as "
                "zone=1"
            )
        else:
            key, skew, mode = match.groups()
            found.append(SpreadConstraint(level_of(key), int(skew), mode != "soft"))
    return tuple(found)


def failover_of(annotations: Mapping[str, str], *, delegate: bool) -> str:
    """When a copy in a lost cluster may be replaced, '' for the default and for what is none of the
    modes.

    `lease` is what the claim says: what is written onto a pod afterwards changes nothing in the
    other cluster.
    """
    text = annotations.get(names.FAILOVER, "")
    signed = (
        signatures.read_claim(annotations.get(names.CLAIM, ""))
        if delegate or text == LEASE
        else None
    )
    leased = signed is not None and signed.failover == LEASE
    if delegate:
        return LEASE if leased else ""
    return text if text in FAILOVER_MODES and (text != LEASE or leased) else ""


def claim_of(annotations: Mapping[str, str], uid: str) -> Claim | None:
    """Where the pod was claimed for, None if it is not. Whether our cluster signed it is judged by
    the observer.

    A claim that names another pod is none of this one's.
    """
    signed = signatures.read_claim(annotations.get(names.CLAIM, ""))
    return signed.claim if signed is not None and signed.source.uid == uid else None


def source_of(annotations: Mapping[str, str]) -> SourceRef | None:
    """Whose delegate a pod says it is, None if it does not say. Whether that is true is judged by
    the observer.
    """
    signed = signatures.read_claim(annotations.get(names.CLAIM, ""))
    return signed.source if signed is not None and annotations.get(names.DELEGATE_PROOF) else None
