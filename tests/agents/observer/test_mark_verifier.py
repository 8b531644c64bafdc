"""Marks that this cluster's executor has not signed count for nothing, and their owner is told unless the pod goes."""

import pytest

from agents.observer.mark_verifier import MarkVerifier
from agents.observer.seen import PodSeen
from shared.model import names
from shared.model.pod import Claim
from tests.builders import pod


def claimed(*, terminating: bool) -> PodSeen:
    """A pod with a claim, without our finalizer: as a forged one, or one that our executor has just released."""
    mark = {"claim": Claim("west", "n1", 1), "terminating": terminating}
    return PodSeen("u1", 1, pod().uid("u1").annotation(names.CLAIM, "forged").set(**mark).build())


@pytest.mark.parametrize("terminating", [False, True], ids=["stays", "goes"])
def test_a_claim_that_does_not_verify_counts_for_nothing_and_is_told_to_owners_of_pods_that_stay(
    terminating: bool,
) -> None:
    seen, warning = MarkVerifier(("key",)).verify(claimed(terminating=terminating))
    assert seen.pod is not None
    assert seen.pod.claim is None
    assert bool(warning) is not terminating
