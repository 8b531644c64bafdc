"""A delegate is whose its claim says, in the cluster for which it was signed: an observer cannot give it to another."""

from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.events import ClusterChanged, OperatorWarning
from shared.messages import Changes
from shared.model.names import CLAIM
from shared.model.pod import Pod, SourceRef
from shared.security.signatures import SignedClaim, public_key, sign_claim
from tests.laws.cores import make_core

KEY = Ed25519PrivateKey.generate()
SOURCE = SourceRef("east", "east-uid", "default", "web", "uid-web", 5)
SIGNED = SignedClaim(SOURCE, "west", "west-uid", "w1", b"x" * 32)


def shown(signed: SignedClaim = SIGNED, source: SourceRef = SOURCE, namespace: str = "default") -> Pod:
    """As the agent of west shows it."""
    marks = {CLAIM: sign_claim(KEY, signed)}
    return Pod("d-web", namespace, "web-d", node="w1", phase="Running", source=source, annotations=marks)


def told(*pods: Pod, uid: str = "west-uid") -> tuple[SchedulerCore, list[str]]:
    """What a core makes of it that knows the keys of east, and what it tells operators."""
    core = make_core(("east", "west"))
    core.handle(ClusterChanged(Changes("east", "east-uid", "life", 0, 1, full=True, keys=(public_key(KEY),))), 1.0)
    effects = core.handle(ClusterChanged(Changes("west", uid, "life", 0, 1, full=True, pods=pods)), 1.0)
    return core, [one.text for one in effects if isinstance(one, OperatorWarning)]


def changed(record: Any, **fields: Any) -> Any:
    return msgspec.structs.replace(record, **fields)


OF_ANOTHER = {
    "another pod": shown(source=changed(SOURCE, uid="uid-other")),
    "another name": shown(source=changed(SOURCE, name="other")),
    "another attempt": shown(source=changed(SOURCE, epoch=6)),
    "another namespace than its own": shown(namespace="other"),
    "a claim for a cluster with another UID": shown(changed(SIGNED, target_uid="south-uid")),
    "a claim for another cluster, whose UID its home did not know": shown(
        changed(SIGNED, target="south", target_uid="")
    ),
}


@pytest.mark.parametrize("what", OF_ANOTHER)
def test_what_does_not_fit_its_claim_is_nobodys_delegate_and_operators_are_told(what: str) -> None:
    core, troubles = told(OF_ANOTHER[what])
    assert not core.tracked
    (trouble,) = troubles
    assert trouble.startswith('cluster "west": its agent shows pod ')
    assert "the claim on it is for another pod or cluster" in trouble


FITS: dict[str, tuple[Pod, str]] = {
    "its cluster is the one that is named": (shown(), "west-uid"),
    "its cluster has another name now": (shown(changed(SIGNED, target="west-1")), "west-uid"),
    "its home did not know the UID": (shown(changed(SIGNED, target_uid="")), "west-uid"),
    "its cluster has not told its UID yet": (shown(), ""),
}


@pytest.mark.parametrize("how", FITS)
def test_what_fits_its_claim_is_its_sources_delegate(how: str) -> None:
    pod, uid = FITS[how]
    core, troubles = told(pod, uid=uid)
    assert set(core.tracked) == {("east", "uid-web")}
    assert troubles == []
