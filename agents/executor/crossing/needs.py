"""What a pod will need in another cluster, told with it while it has no place, so that no cluster
is asked in vain.
"""

import msgspec

from agents.executor.crossing.fields import Object
from agents.executor.crossing.manifest import ManifestError, readable, sanitise
from agents.executor.crossing.restrict import class_needed, needed, runtime_needed
from shared.model.bounds import MAX_NEEDS, MAX_WORD
from shared.model.pod import Need, Needs


def needs_of(pod: bytes) -> Needs | None:
    """Of a pod given as JSON; None for one that needs nothing that other clusters do not let in
    anyway.
    """
    try:
        clean = msgspec.json.decode(sanitise(pod))
    except ManifestError as error:
        return refused(error)
    return needs_in(clean)


def needs_in(manifest: Object) -> Needs | None:
    """The same, of a manifest (sanitised)."""
    try:
        with readable():
            found = {
                (one.key, one.word): _cut(one)
                for one in (
                    *needed(manifest),
                    *class_needed(manifest),
                    *runtime_needed(manifest),
                )
            }
            if len(found) > MAX_NEEDS:
                raise ManifestError(
                    "spec", f"needs more than {MAX_NEEDS} things that a cluster must let in"
                )
    except ManifestError as error:
        return refused(error)
    return Needs(of_policy=tuple(found.values())) if found else None


def refused(error: ManifestError) -> Needs:
    """Of a pod that no cluster lets in."""
    return Needs(str(error)[:MAX_WORD])


def _cut(need: Need) -> Need:
    """A word that is longer is no name of anything: it will be let in nowhere, cut or not."""
    return Need(need.key, need.word[:MAX_WORD], need.field[:MAX_WORD], need.why[:MAX_WORD])
