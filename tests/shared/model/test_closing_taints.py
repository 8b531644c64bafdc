"""Which taints of a proxy node keep new pods away from its cluster."""

import pytest

from shared.model.names import PROXY_TAINT
from shared.model.node import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint, closing_taints


@pytest.mark.parametrize(
    ("taint", "closes"),
    [
        pytest.param(Taint("team", "out", NO_SCHEDULE), True, id="somebody's"),
        pytest.param(Taint("team", "out", NO_EXECUTE), True, id="somebody's, which evicts too"),
        pytest.param(Taint("team", "out", PREFER_NO_SCHEDULE), False, id="a wish"),
        pytest.param(Taint(PROXY_TAINT, "west", NO_SCHEDULE), False, id="our own"),
        # A node has it from the moment it is made until the node controller has seen its status.
        pytest.param(Taint("node.kubernetes.io/not-ready"), False, id="of a proxy node just made"),
        pytest.param(Taint("node.kubernetes.io/unreachable", "", NO_EXECUTE), False, id="of an agent that was away"),
        pytest.param(
            Taint("node.kubernetes.io/out-of-service", "nodeshutdown", NO_EXECUTE), True, id="an operator's word"
        ),
    ],
)
def test_hard_ones_that_somebody_has_put_there(taint: Taint, closes: bool) -> None:
    assert closing_taints((taint,)) == ((taint,) if closes else ())
