"""Spread constraints for pods that have none of their own, as a profile writes them or as
Kubernetes has them.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from dispatcher.scheduling.framework.plugin_args import rows_of
from shared.model import names
from shared.model.labels import LabelSelector
from shared.model.pod import SpreadConstraint

SYSTEM: Final = "System"
LIST: Final = "List"
APP: Final = "App"
# kube-scheduler's own defaults, in its order.
SYSTEM_DEFAULTS = (
    SpreadConstraint(names.HOSTNAME, 3, hard=False),
    SpreadConstraint(names.ZONE, 5, hard=False),
)
# Ours for pods of one app: so lenient that they decide between equals, and a hot node weighs more
# than a dozen pods.
APP_DEFAULTS = (
    SpreadConstraint("cluster", 50, hard=False),
    SpreadConstraint("zone", 50, hard=False),
    SpreadConstraint("host", 20, hard=False),
)


class WrittenConstraint(msgspec.Struct, forbid_unknown_fields=True):
    """A constraint in a profile."""

    key: Annotated[str, Meta(min_length=1)]
    max_skew: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    hard: bool = False


_written = rows_of(WrittenConstraint)


def constraints(raw: object) -> tuple[SpreadConstraint, ...]:
    """[{key: zone, max_skew: 1, hard: false}, ...]."""
    return tuple(SpreadConstraint(one.key, one.max_skew, one.hard) for one in _written(raw))


def system_defaults(selector: LabelSelector | None) -> tuple[SpreadConstraint, ...]:
    """kube-scheduler's defaults for a pod that Services and its owner mean by `selector`; none
    without one.
    """
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return ()
    return tuple(
        SpreadConstraint(one.key, one.max_skew, one.hard, selector) for one in SYSTEM_DEFAULTS
    )
