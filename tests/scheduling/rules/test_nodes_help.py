"""Whether new nodes of its own cluster would help a pod that waits."""

import pytest

from dispatcher.scheduling.rules.eligibility import nodes_help
from shared.model.names import CLUSTERS
from shared.model.reasons import Reason
from tests.builders import pod


@pytest.mark.parametrize(
    ("clusters", "reasons", "helps"),
    [
        ("", {Reason.INSUFFICIENT}, True),
        ("east,west", {Reason.INSUFFICIENT, Reason.CLUSTER_NOT_ALLOWED}, True),
        ("west", {Reason.INSUFFICIENT, Reason.CLUSTER_NOT_ALLOWED}, False),
        ("", {Reason.QUOTA}, False),
        ("", {Reason.QUOTA_UNKNOWN}, False),
        ("", {Reason.INVALID}, False),
        ("", {Reason.DEVICES}, False),
        ("", {Reason.TOO_MANY_TERMS}, False),
        ("", {Reason.LABELS_CUT}, False),
    ],
)
def test_new_nodes_at_home_help_a_pod_that_may_go_there_and_is_not_refused_as_a_whole(
    clusters: str, reasons: set[Reason], helps: bool
) -> None:
    annotations = {CLUSTERS: clusters} if clusters else {}
    placed = pod().set(annotations=annotations).placed("east")
    assert nodes_help(placed, frozenset(reasons)) is helps
